"""Tasks through lm-evaluation-harness with models of both tracks."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from harness.contract import Observations
from harness.tracks.decoding.decoder import Decoder, Size
from harness.tracks.decoding.downstream import Downstream as DecoderDownstream
from harness.tracks.language.downstream import Downstream
from harness.tracks.language.evaluate import own_figures
from harness.tracks.language.lm import Scorer, harness_model
from harness.tracks.language.metrics.acc import Acc
from harness.tracks.language.metrics.acc_norm import AccNorm
from harness.tracks.language.metrics.accuracy import Accuracy
from harness.tracks.language.metrics.stderr import Stderr
from harness.tracks.language.model import Checkpoint
from harness.tracks.language.tasks import LocalTasks, TaskFolder
from harness.tracks.text.tokenizer_file import TokenizerFile
from methods.decoding.mqa import MQA

pytestmark = pytest.mark.track_decoding

SIZE = Size(model=16, layers=1, heads=2, head_dim=8, ffn=32, window=24)


@pytest.fixture
def tasks(task_folder, make_context):
    build = TaskFolder(source="file:tasks")
    context = make_context("tasks", assets={"file:tasks": task_folder})
    build.make(context)
    return build.load(context.directory)


@pytest.fixture
def stored(llama, make_context):
    build = Checkpoint(source="file:llama")
    context = make_context("llama", assets={"file:llama": llama})
    assert build.make(context)["bytes"] > 0
    return build.load(context.directory)


@pytest.fixture
def tokenizer(llama, make_context):
    build = TokenizerFile(source="file:tokenizer.json")
    context = make_context("tokenizer", assets={"file:tokenizer.json": llama / "tokenizer.json"})
    build.make(context)
    return build.load(context.directory)


def decoder(seed: int) -> Decoder:
    made = Decoder(MQA(), SIZE, 257)
    made.initialise(seed, 0.3)
    for block in made.blocks:  # projections that start at zero would leave attention without effect
        torch.nn.init.normal_(block.attention.output.weight, std=0.3, generator=torch.Generator().manual_seed(seed))
    return made.eval()


def of_decoder(tasks, tokenizer, seed=0, task="colours"):
    return DecoderDownstream(tasks=tasks, task=task, tokenizer=tokenizer, size=SIZE, decoder=decoder(seed))


def direct(model, tokenizer, text: str, answer: str) -> float:
    """log p of the answer, one token at a time; what does not fit into the window is lost at the beginning."""
    ids = [int(i) for i in tokenizer.encode_batch([f"{text} {answer}"])[0]]
    first = len(tokenizer.encode_batch([text])[0])
    start = max(0, len(ids) - 1 - SIZE.window)
    with torch.inference_mode():
        return sum(
            float(model(torch.tensor([ids[start:i]]))[0, -1].log_softmax(-1)[ids[i]]) for i in range(first, len(ids))
        )


def test_a_decoder_is_scored_as_by_hand(tasks, tokenizer, items, make_context):
    context = make_context()
    seen = of_decoder(tasks, tokenizer).observe(MQA(), context)
    likelihoods = [[direct(decoder(0), tokenizer, item["question"], c) for c in item["choices"]] for item in items]
    kept = [context.samples[f"colours-{i}"] for i in range(len(items))]
    assert [k["log_likelihoods"] for k in kept] == [pytest.approx(row, abs=1e-4) for row in likelihoods]
    gold = np.array([item["gold"] for item in items])
    lengths = np.array([[len(c) for c in item["choices"]] for item in items])
    assert seen.arrays["acc"].tolist() == (np.argmax(likelihoods, 1) == gold).tolist()
    assert seen.arrays["acc_norm"].tolist() == (np.argmax(np.array(likelihoods) / lengths, 1) == gold).tolist()
    assert 0 < seen.arrays["acc"].sum() < len(items)
    json.dumps(context.samples)
    assert not any(word in json.dumps(context.samples) for word in ("red", "green"))


def test_what_lm_eval_says_is_carried_over(tasks, tokenizer, items, make_context):
    seen = of_decoder(tasks, tokenizer).observe(MQA(), make_context())
    n = len(items)
    for name in ("acc", "acc_norm"):
        figures = seen.values["harness"][name]
        assert figures["value"] == pytest.approx(seen.arrays[name].mean())
        assert figures["stderr"] == pytest.approx(seen.arrays[name].std(ddof=1) / np.sqrt(n))
    assert seen.values["items"] == n
    assert seen.values["task_version"] == 2.0
    assert seen.values["fewshot"] == 0
    json.dumps(seen.values, allow_nan=False)


def test_every_model_is_asked(tasks, tokenizer, make_context):
    """F01: nothing answers in place of the second model."""
    kept = []
    for seed in (0, 1, 0):
        context = make_context(f"run{len(kept)}")
        of_decoder(tasks, tokenizer, seed).observe(MQA(), context)
        kept.append([s["log_likelihoods"] for s in context.samples.values()])
    assert kept[0] == kept[2] != kept[1]


def test_limit_and_a_single_item(tasks, tokenizer, make_context):
    """F55: lm-eval has no standard error for one item, and says so with a text."""
    assert len(of_decoder(tasks, tokenizer).observe(MQA(), make_context("a", limit=5)).arrays["acc"]) == 5
    one = of_decoder(tasks, tokenizer).observe(MQA(), make_context("b", limit=1))
    assert one.values["harness"]["acc_norm"]["stderr"] is None
    score = Stderr().score(one, {}, make_context())
    assert score.value is None
    assert "single item" in score.note


def test_a_pretrained_model_equals_transformers(tasks, stored, llama, items, make_context):
    import transformers

    context = make_context()
    seen = Downstream(tasks=tasks, task="colours").observe(stored, context)
    model = transformers.LlamaForCausalLM.from_pretrained(llama)
    tokenizer = transformers.AutoTokenizer.from_pretrained(llama)
    item = items[4]
    for choice, found in zip(item["choices"], context.samples["colours-4"]["log_likelihoods"], strict=True):
        ids = tokenizer(f"{item['question']} {choice}", return_tensors="pt").input_ids
        first = len(tokenizer(item["question"]).input_ids)
        with torch.inference_mode():
            scores = model(ids).logits[0].log_softmax(-1)
        assert found == pytest.approx(
            float(sum(scores[i - 1, ids[0, i]] for i in range(first, ids.shape[1]))), abs=1e-4
        )
    assert len(seen.arrays["acc"]) == len(items)


def test_a_task_without_acc_norm(tasks, tokenizer, make_context):
    seen = of_decoder(tasks, tokenizer, task="plain").observe(MQA(), make_context())
    acc, norm, usual = (m.score(seen, {}, make_context()) for m in (Acc(), AccNorm(), Accuracy()))
    assert norm.value is None
    assert norm.note == "the task plain has no acc_norm"
    assert usual.value == acc.value == seen.arrays["acc"].mean()
    assert set(Acc.of) == set(AccNorm.of) == set(Accuracy.of) == {"language.downstream", "decoding.downstream"}


def test_the_usual_accuracy_is_acc_norm():
    seen = Observations(arrays={"acc": np.array([1.0, 1.0]), "acc_norm": np.array([1.0, 0.0])})
    assert Accuracy().score(seen, {}, None).value == 0.5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("colour", r"there is no task 'colour' in this set: did you mean colours\?"),
        ("zzzz", "there are colours, plain, words"),
    ],
)
def test_an_unknown_task(tasks, tokenizer, make_context, name, message):
    with pytest.raises(ValueError, match=message):
        of_decoder(tasks, tokenizer, task=name).observe(MQA(), make_context())


def test_a_task_that_generates_is_refused(tasks, tokenizer, make_context):
    with pytest.raises(NotImplementedError, match="take tasks of multiple choice"):
        of_decoder(tasks, tokenizer, task="words").observe(MQA(), make_context())


def test_a_tokenizer_of_another_model(tasks, tokenizer, make_context):
    evaluation = dataclasses.replace(of_decoder(tasks, tokenizer), decoder=Decoder(MQA(), SIZE, 100))
    with pytest.raises(ValueError, match="the tokenizer has 257 tokens, the decoder 100"):
        evaluation.observe(MQA(), make_context())


def test_texts_without_context_start_after_the_end_of_another(tokenizer):
    from lm_eval.api.instance import Instance

    asked = []

    def logits(ids):
        asked.append(ids.tolist())
        return torch.zeros(*ids.shape, 257)

    model = harness_model(Scorer(logits, tokenizer, window=4))
    requests = [Instance("loglikelihood_rolling", {}, ("abcdef",), 0)]
    (total,) = model.loglikelihood_rolling(requests)
    assert total == pytest.approx(-6 * np.log(257), rel=1e-5)
    assert any(row[0] == 0 for batch in asked for row in batch)  # <|endoftext|>
    ((empty, greedy),) = model.loglikelihood([Instance("loglikelihood", {}, ("ab", ""), 0)])
    assert (empty, greedy) == (0.0, True)


def test_figures_without_a_number():
    assert own_figures({"acc,none": 1.0, "acc_stderr,none": "N/A", "alias": "t"}) == {
        "acc": {"value": 1.0, "stderr": None}
    }


def test_a_folder_that_is_no_model(tmp_path, make_context):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    context = make_context(assets={"file:m": tmp_path})
    with pytest.raises(ValueError, match=r"expected config\.json and \*\.safetensors, found pytorch_model\.bin"):
        Checkpoint(source="file:m").make(context)
    with pytest.raises(ValueError, match=r"expected a \.gguf file or a folder"):
        Checkpoint(source="file:m").make(make_context(assets={"file:m": tmp_path / "pytorch_model.bin"}))


@pytest.mark.slow
@pytest.mark.parametrize(("task", "expected"), [("piqa", 0.675), ("openbookqa", 0.325), ("siqa", 0.47)])
def test_a_packaged_model_scores_as_it_did(task, expected, packaged, make_context):
    """200 items, bfloat16 where the figures were made; a standard error is 0.035."""
    tasks, model = packaged
    seen = Downstream(tasks=tasks, task=task).observe(model, make_context(limit=200, seed=None))
    assert seen.arrays["acc_norm"].mean() == pytest.approx(expected, abs=0.04)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory):
    from harness.assets import AssetError, resolve

    class Context:
        cpus = 1

        def __init__(self, name):
            self.directory = tmp_path_factory.mktemp(name)

        def asset(self, reference):
            return resolve(reference)

    questions, model = LocalTasks(), Checkpoint(source="models.smollm2_135m_instruct")
    places = Context("questions"), Context("model")
    try:
        for build, context in zip((questions, model), places, strict=True):
            build.make(context)
    except AssetError as error:
        pytest.skip(str(error))
    return questions.load(places[0].directory), model.load(places[1].directory)
