from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import harness.tracks.decoding.training as training
from harness.tracks.decoding.decoder import Decoder, Size
from harness.tracks.decoding.perplexity import Perplexity
from harness.tracks.decoding.trained import Trained
from harness.tracks.decoding.training import Recipe
from harness.tracks.text.bpe import BPE
from harness.tracks.text.corpus import Corpus
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.no_attention import NoAttention

pytestmark = pytest.mark.track_decoding

SIZE = Size(model=16, layers=1, heads=2, head_dim=8, ffn=32, window=16)
WIDE = replace(SIZE, heads=4, head_dim=4)
RECIPE = Recipe(steps=8, batch=4, micro_batch=4, learning_rate=0.01, warmup=2, weight_decay=0.1)
SENTENCES = tuple(f"sentence {i} says that {i * 7919 % 1000} comes before {i * 104729 % 1000}" for i in range(120))


class Interrupted(Exception):
    pass


@pytest.fixture
def decoder() -> Decoder:
    decoder = Decoder(MLRA(), SIZE, 50)
    decoder.initialise(0, 0.1)
    return decoder


@pytest.fixture
def stream() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 50, 500).astype(np.int32)


@pytest.fixture
def study(make_context: Callable[..., Any]) -> SimpleNamespace:
    """A corpus, its tokenizer, and a training of a few steps."""
    text = Corpus(SENTENCES[:100], SENTENCES[100:])
    build = BPE(text=text, vocabulary=280)
    context = make_context("bpe")
    build.make(context)
    tokenizer = build.load(context.directory)

    def train(method: Any, name: str, seed: int = 0, steps: int = 6, size: Size = SIZE) -> tuple[Trained, Any]:
        build = Trained(
            method=method, text=text, tokenizer=tokenizer, size=size, steps=steps, batch=4, warmup=1, learning_rate=0.01
        )
        context = make_context(name, seed=seed)
        context.measured = build.make(context)
        return build, context

    return SimpleNamespace(text=text, tokenizer=tokenizer, train=train)


def weights(decoder: Decoder) -> Any:
    return torch.cat([p.detach().flatten() for p in decoder.parameters()])


def test_an_interrupted_training_ends_as_an_uninterrupted_one(
    decoder: Decoder, stream: np.ndarray, make_context: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    start = {k: v.clone() for k, v in decoder.state_dict().items()}
    expected_loss = training.train(decoder, stream, RECIPE, make_context("whole"), "cpu")
    expected = weights(decoder)

    def stop(done: float, total: float) -> None:
        if done == 5:
            raise Interrupted

    decoder.load_state_dict(start)
    context = make_context("cut", on_progress=stop)
    with pytest.raises(Interrupted):
        training.train(decoder, stream, RECIPE, context, "cpu")
    decoder.load_state_dict(start)
    seen: list[float] = []
    context.on_progress = lambda done, total: seen.append(done)
    assert training.train(decoder, stream, RECIPE, context, "cpu") == expected_loss
    assert torch.equal(weights(decoder), expected)
    assert seen == [6, 7, 8]


def test_micro_batches_give_the_same_step(
    decoder: Decoder, stream: np.ndarray, make_context: Callable[..., Any]
) -> None:
    start = {k: v.clone() for k, v in decoder.state_dict().items()}
    training.train(decoder, stream, RECIPE, make_context("one"), "cpu")
    whole = weights(decoder)
    decoder.load_state_dict(start)
    training.train(decoder, stream, replace(RECIPE, micro_batch=3), make_context("two"), "cpu")
    torch.testing.assert_close(weights(decoder), whole, rtol=1e-3, atol=1e-4)


def test_learning_rate_rises_and_falls_to_a_tenth() -> None:
    recipe = replace(RECIPE, steps=100, warmup=10)
    rates = [recipe.rate(step) for step in range(101)]
    assert rates[:2] == pytest.approx([0.001, 0.002])
    assert max(rates) == rates[9] == rates[10] == pytest.approx(0.01)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == pytest.approx(0.001)


def test_too_little_text_is_an_error(decoder: Decoder, make_context: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="needs more than 16"):
        training.train(decoder, np.zeros(16, np.int32), RECIPE, make_context(), "cpu")


def test_rivals_of_one_seed_see_the_same_batches(
    study: SimpleNamespace, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one go: every method learns something, from the same text and the same first loss."""
    seen: list[Any] = []
    found: list[Any] = []
    losses = Decoder.losses

    def record(self: Decoder, windows: Any) -> Any:
        seen.append(windows)
        found.append(losses(self, windows))
        return found[-1]

    monkeypatch.setattr(Decoder, "losses", record)
    rivals = {**kit.methods, "gated": MLRA(gated=True), "none": NoAttention()}
    for name, method in rivals.items():
        study.train(method, name, steps=3, size=WIDE)
    study.train(MLA(), "other seed", 1, steps=3, size=WIDE)
    *same, other = (torch.stack(seen[i : i + 3]) for i in range(0, len(seen), 3))
    assert len(same) == len(rivals) == 13
    assert all(torch.equal(batches, same[0]) for batches in same)
    assert not torch.equal(same[0], other)
    assert all(torch.equal(found[3 * i], found[0]) for i in range(len(rivals)))
    assert all(found[3 * i + 2].mean() < found[3 * i].mean() for i in range(len(rivals)))


def test_training_twice_gives_the_same_decoder(study: SimpleNamespace) -> None:
    files = [context.directory / "model.safetensors" for _, context in (study.train(MLA(), n) for n in "ab")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_perplexity_of_a_trained_decoder(study: SimpleNamespace, make_context: Callable[..., Any]) -> None:
    build, context = study.train(MLRA(), "long", steps=60)
    decoder = build.load(context.directory)
    evaluation = Perplexity(text=study.text, tokenizer=study.tokenizer, size=SIZE, decoder=decoder)
    reading = make_context("reading")
    seen = evaluation.observe(MLRA(), reading)
    stream = study.tokenizer.stream(study.text.held_out)
    windows = (len(stream) - 1) // SIZE.window
    assert seen.arrays["nats"].shape == seen.arrays["bytes"].shape == (windows,)
    second = torch.from_numpy(stream[SIZE.window : 2 * SIZE.window + 1].astype(np.int64))[None]
    assert seen.arrays["nats"][1] == pytest.approx(float(decoder.losses(second).mean().detach()), rel=1e-5)
    assert seen.arrays["bytes"][1] == len(study.tokenizer.decode(second[0, 1:]).encode())
    assert seen.arrays["nats"].mean() < 0.9 * np.log(study.tokenizer.vocabulary)  # it has learnt something
    assert seen.values["parameters"] == context.measured["parameters"]
    assert reading.samples["window-1"]["nats"] == seen.arrays["nats"][1]


def test_limit_takes_the_first_windows(study: SimpleNamespace, make_context: Callable[..., Any]) -> None:
    build, context = study.train(MLA(), "short", steps=1)
    decoder = build.load(context.directory)
    evaluation = Perplexity(text=study.text, tokenizer=study.tokenizer, size=SIZE, decoder=decoder)
    all_windows = evaluation.observe(MLA(), make_context("all")).arrays["nats"]
    some = evaluation.observe(MLA(), make_context("some", limit=3)).arrays["nats"]
    np.testing.assert_allclose(some, all_windows[:3], rtol=1e-6)
