"""Generated sequences, what is scored, and trainings small enough to show that the probe measures recall."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import harness.tracks.decoding.training as training
from harness.contract import Observations
from harness.tracks.decoding.decoder import Size
from harness.tracks.decoding.metrics.recall_accuracy import RecallAccuracy
from harness.tracks.decoding.recall import Recall, RecallDecoder, RecallTask
from harness.tracks.decoding.recall_trained import RecallTrained
from methods.decoding.mha import MHA
from methods.decoding.mlra import MLRA
from methods.decoding.no_attention import NoAttention

pytestmark = pytest.mark.track_decoding

TASK = RecallTask(keys=16, values=16, pairs=4)
SIZE = Size(model=32, layers=1, heads=4, head_dim=8, ffn=64)
TINY = Size(model=16, layers=1, heads=4, head_dim=4, ffn=32)
NO_CONTEXT: Any = None


class Interrupted(Exception):
    pass


@pytest.fixture
def probe(make_context: Callable[..., Any]) -> Callable[..., Observations]:
    """Train a method and test it."""

    def run(method: Any, name: str, steps: int = 250, seed: int = 0, limit: int | None = None) -> Observations:
        build = RecallTrained(method=method, task=TASK, size=SIZE, steps=steps, warmup=20, learning_rate=0.01)
        context = make_context(name, seed=seed, limit=limit)
        build.make(context)
        evaluation = Recall(task=TASK, size=SIZE, pairs=4, decoder=build.load(context.directory))
        return evaluation.observe(method, context)

    return run


@given(st.integers(1, 12), st.integers(0, 20), st.integers(0, 2**32), st.data())
def test_every_key_is_asked_once_and_has_the_value_shown(pairs: int, spare: int, seed: int, data: Any) -> None:
    task = RecallTask(keys=pairs + spare, values=data.draw(st.integers(1, 9)), pairs=pairs)
    sequences = task.sequences(np.random.default_rng(seed), 3, pairs)
    assert sequences.shape == (3, 4 * pairs)
    for row in sequences:
        shown, asked = row.reshape(2, pairs, 2)
        assert len(set(shown[:, 0])) == pairs
        assert set(shown[:, 0]) <= set(range(task.keys))
        assert set(shown[:, 1]) <= set(range(task.keys, task.vocabulary))
        assert sorted(map(tuple, shown)) == sorted(map(tuple, asked))


def test_keys_values_and_order_are_uniform() -> None:
    sequences = TASK.sequences(np.random.default_rng(0), 8000, 4)
    shown, asked = sequences[:, :8].reshape(-1, 4, 2), sequences[:, 8:].reshape(-1, 4, 2)
    for ids in (shown[..., 0], shown[..., 1] - TASK.keys):
        np.testing.assert_allclose(np.bincount(ids.flatten(), minlength=16) / ids.size, 1 / 16, atol=0.006)
    places = (asked[:, :1, 0] == shown[..., 0]).mean(axis=0)  # where the key asked first was shown
    np.testing.assert_allclose(places, 0.25, atol=0.025)


def test_more_pairs_than_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="17 pairs need as many distinct keys: the task has 16"):
        TASK.sequences(np.random.default_rng(0), 1, 17)


def test_training_batches_have_one_to_all_pairs_and_depend_on_seed_and_step() -> None:
    batches = [TASK.batch(3, step, 2) for step in range(60)]
    assert {b.shape for b in batches} == {(2, 4 * n) for n in (1, 2, 3, 4)}
    np.testing.assert_array_equal(TASK.batch(3, 7, 2), batches[7])
    assert any(a.shape != b.shape or (a != b).any() for a, b in pairwise(batches))
    assert any(TASK.batch(4, s, 2).tolist() != batches[s].tolist() for s in range(3))


def test_answers_are_read_at_the_questions_alone() -> None:
    """A changed answer moves the truth at its own place, and no logits at or before it."""
    decoder = RecallDecoder(MHA(), TINY, TASK.vocabulary)
    for parameter in decoder.parameters():  # the zeros of the start would hide the attention
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    decoder.requires_grad_(False)
    sequences = torch.from_numpy(TASK.sequences(np.random.default_rng(0), 2, 4))
    logits, true = decoder.answers(sequences)
    assert torch.equal(true, sequences[:, 9::2])
    changed = sequences.clone()
    changed[:, 11] = TASK.keys + (changed[:, 11] - TASK.keys + 1) % TASK.values
    other, moved = decoder.answers(changed)
    assert (moved != true).any(0).tolist() == [False, True, False, False]
    torch.testing.assert_close(other[:, :2], logits[:, :2])
    assert not torch.allclose(other[:, 2], logits[:, 2])
    nats = -torch.log_softmax(logits, -1).gather(-1, true[..., None])[..., 0]
    torch.testing.assert_close(decoder.losses(sequences), nats)


def test_attention_solves_it_and_without_attention_it_stays_at_chance(probe: Callable[..., Observations]) -> None:
    solved, guessed = probe(MHA(), "mha"), probe(NoAttention(), "none")
    assert solved.arrays["correct"].mean() > 0.9
    # 2,048 answers: four standard errors above 1/16
    assert guessed.arrays["correct"].mean() < 1 / 16 + 4 * (1 / 16 * 15 / 16 / 2048) ** 0.5
    assert guessed.values["chance"] == 1 / 16
    assert guessed.arrays["nats"].mean() > 0.98 * np.log(16)
    assert solved.arrays["nats"].mean() < 0.5


def test_rivals_are_tested_on_the_same_sequences_and_limit_takes_the_first(
    make_context: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    answers = RecallDecoder.answers

    def spy(self: RecallDecoder, sequences: Any) -> Any:
        seen.append(sequences)
        return answers(self, sequences)

    monkeypatch.setattr(RecallDecoder, "answers", spy)
    for index, (method, seed, limit) in enumerate([(MHA(), 0, None), (MLRA(), 0, 3), (MHA(), 1, None)]):
        decoder = RecallDecoder(method, TINY, TASK.vocabulary)
        decoder.initialise(0, 0.1)
        context = make_context(str(index), seed=seed, limit=limit)
        found = Recall(task=TASK, size=TINY, pairs=4, sequences=5, decoder=decoder).observe(method, context)
        assert len(found.arrays["correct"]) == len(context.samples) == (limit or 5)
    assert torch.equal(seen[0][:3], seen[1])
    assert not torch.equal(seen[0], seen[2])


def test_an_interrupted_training_ends_as_an_uninterrupted_one(
    make_context: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    build = RecallTrained(method=MLRA(), task=TASK, size=TINY, steps=6, batch=4, warmup=1)

    def stop(done: float, total: float) -> None:
        if done == 4:
            raise Interrupted

    whole, cut = make_context("whole"), make_context("cut", on_progress=stop)
    measured = build.make(whole)
    with pytest.raises(Interrupted):
        build.make(cut)
    cut.on_progress = lambda done, total: None
    assert build.make(cut) == measured
    files = [c.directory / "model.safetensors" for c in (whole, cut)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_accuracy_is_the_mean_over_sequences() -> None:
    found = RecallAccuracy().score(Observations({"correct": np.array([1.0, 0.5, 0.0, 0.25])}), {}, NO_CONTEXT)
    assert found.value == 0.4375
    assert found.items is not None
    assert found.items.tolist() == [1.0, 0.5, 0.0, 0.25]
