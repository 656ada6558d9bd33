"""A tiny task and tiny models for lm-evaluation-harness. Its import takes seconds and is made once."""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["*"]
elif importlib.util.find_spec("lm_eval") is None:
    collect_ignore_glob = ["test_downstream.py"]

WORDS = ["red", "green", "blue", "cat", "dog", "sat"]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("lm_eval")


@pytest.fixture(scope="module")
def items():
    return [
        {"question": f"{a} {b} {a}", "choices": [b, c, f"{c} {b}"], "gold": (i + j) % 3}
        for i, (a, b) in enumerate(itertools.pairwise(WORDS))
        for j, c in enumerate(WORDS[3:])
    ]


@pytest.fixture(scope="module")
def task_folder(items, tmp_path_factory) -> Path:
    """Tasks colours (acc, acc_norm) and plain (acc), and one that generates text."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "colours.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    common = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "colours.jsonl"}},
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "metadata": {"version": 2.0},
    }
    choice = {"output_type": "multiple_choice", "doc_to_target": "gold", "doc_to_choice": "choices"}
    acc = [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in ("acc", "acc_norm")]
    words = {"output_type": "generate_until", "doc_to_target": "{{choices[gold]}}"}
    exact = [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]
    tasks = {
        "colours": {**choice, "metric_list": acc},
        "plain": {**choice, "metric_list": acc[:1]},
        "words": {**words, "metric_list": exact},
    }
    for name, config in tasks.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"task": name, **common, **config}))
    return folder


@pytest.fixture(scope="module")
def llama(library, tmp_path_factory) -> Path:
    """A Llama of two layers with random weights and a byte-level tokenizer, saved as transformers does."""
    import tokenizers
    import torch
    import transformers
    from tokenizers import decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("llama")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = tokenizers.Tokenizer(models.BPE({"<|endoftext|>": 0, **{c: i + 1 for i, c in enumerate(alphabet)}}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    inner.add_special_tokens(["<|endoftext|>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>").save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlamaConfig(
        vocab_size=len(alphabet) + 1, max_position_embeddings=64, initializer_range=0.5, eos_token_id=0, **sizes
    )
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder
