"""Multi-query associative recall (the idea: arXiv 2312.04927): how well a decoder finds what it was shown.

A sequence shows pairs of a key and a value, then asks for every key again, in random order, each followed by its
value: k1 v1 k2 v2 ... k7 v7 k3 v3 .... A decoder whose tokens do not see one another can only guess a value.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.contract import Component, Context, Evaluation, Needs, Observations, built
from harness.tracks.decoding.decoder import Decoder, Positive, Size, count_parameters
from harness.tracks.decoding.device import claim
from harness.tracks.decoding.protocol import Attention

BATCH = 64


class RecallTask(Component):
    """Ids 0 to ``keys`` - 1 are keys, the next ``values`` ids values; ``pairs``: how many one training sequence shows
    at most.
    """

    name: ClassVar[str] = "recall_task"
    needs: ClassVar[Needs] = Needs(extras=("decoding",))

    keys: Positive = 64
    values: Positive = 64
    pairs: Positive = 16

    @property
    def vocabulary(self) -> int:
        return self.keys + self.values

    def sequences(self, generator: np.random.Generator, count: int, pairs: int) -> np.ndarray:
        """``count`` sequences of ``pairs`` pairs and as many questions: int64 ids [count, 4 pairs].

        The keys of a sequence are distinct, its values independent. Raises ValueError where the keys do not suffice.
        """
        if pairs > self.keys:
            raise ValueError(f"{pairs} pairs need as many distinct keys: the task has {self.keys}")
        keys = generator.random((count, self.keys)).argsort(axis=1)[:, :pairs]
        values = generator.integers(self.keys, self.vocabulary, size=(count, pairs))
        shown = np.stack((keys, values), axis=2)
        order = generator.random((count, pairs)).argsort(axis=1)
        asked = np.take_along_axis(shown, order[:, :, None], axis=1)
        return np.concatenate((shown, asked), axis=1).reshape(count, 4 * pairs)

    def batch(self, seed: int, step: int, count: int) -> np.ndarray:
        """Training batch of a step, from ``seed`` and ``step`` alone: sequences of 1 to ``pairs`` pairs, one number
        of pairs for the batch.
        """
        generator = np.random.default_rng((seed, step))
        return self.sequences(generator, count, int(generator.integers(1, self.pairs + 1)))


class RecallDecoder(Decoder):
    """A decoder that is trained and tested on the answers alone.

    A value enters with the key before it (a second embedding), so that what is left to learn is the retrieval. Keys do
    not: the first question would otherwise show the last value.
    """

    def __init__(self, method: Attention, size: Size, vocabulary: int) -> None:
        super().__init__(method, size, vocabulary)
        self.bound_key = nn.Embedding(vocabulary, size.model)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, time] ids -> logits [batch, time, vocabulary]."""
        before = functional.pad(self.bound_key(tokens[:, :-1]), (0, 0, 1, 0))
        is_value = torch.arange(tokens.shape[1], device=tokens.device) % 2
        x = self.embedding(tokens) + before * is_value[:, None]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.embedding.weight)

    def answers(self, sequences: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, 4 pairs] ids -> logits [batch, pairs, vocabulary] after the questions, true ids [batch, pairs]."""
        asked = slice(sequences.shape[1] // 2, None, 2)
        return self(sequences[:, :-1])[:, asked], sequences[:, 1:][:, asked]

    def losses(self, windows: Tensor) -> Tensor:
        """[batch, 4 pairs] ids -> negative log-likelihood in nats of each answer, [batch, pairs]."""
        logits, true = self.answers(windows)
        return functional.cross_entropy(logits.flatten(0, 1).float(), true.flatten(), reduction="none").view(true.shape)


class Recall(Evaluation[Attention]):
    """Answers to the questions of ``sequences`` new sequences that show ``pairs`` pairs each.

    An exploration of attention that adds the outputs of several softmaxes: no direction is expected. ``--limit`` takes
    the first so many sequences.
    """

    name: ClassVar[str] = "recall"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    task: RecallTask
    size: Size
    pairs: Positive = 16
    sequences: Annotated[int, {"minimum": 1}] = 512
    decoder: RecallDecoder = built("decoding.recall_trained")

    def observe(self, method: Attention, context: Context) -> Observations:
        """Arrays ``correct`` (share of a sequence's questions answered right) and ``nats`` (mean over its answers)."""
        device = claim(context)
        sequences = self.task.sequences(context.rng(f"recall-test-{self.pairs}"), self.sequences, self.pairs)
        sequences = sequences[: context.limit]
        decoder = self.decoder.to(device)
        correct, nats = [], []
        with torch.inference_mode():
            for start in range(0, len(sequences), BATCH):
                batch = torch.from_numpy(sequences[start : start + BATCH]).to(device)
                logits, true = decoder.answers(batch)
                correct.append((logits.argmax(-1) == true).double().mean(dim=1).cpu().numpy())
                true_nats = functional.cross_entropy(logits.transpose(1, 2).float(), true, reduction="none")
                nats.append(true_nats.mean(dim=1).cpu().double().numpy())
                context.progress(min(start + BATCH, len(sequences)), len(sequences), "sequences")
        arrays = {"correct": np.concatenate(correct), "nats": np.concatenate(nats)}
        for index, share in enumerate(arrays["correct"]):
            context.sample(f"sequence-{index}", correct=float(share), nats=float(arrays["nats"][index]))
        values = {"chance": 1 / self.task.values, "parameters": count_parameters(decoder)}
        return Observations(arrays=arrays, values=values)
