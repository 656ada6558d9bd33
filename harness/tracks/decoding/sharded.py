"""A rank's part of one attention layer: its share of weights and cache, and the step that is timed."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.tracks.decoding.amounts import layer
from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.device import DTYPES, Precision
from harness.tracks.decoding.devices import device_of
from harness.tracks.decoding.layout import Share
from harness.tracks.decoding.parts import RMSNorm
from harness.tracks.decoding.protocol import Attention, AttentionModule, Shape
from harness.tracks.decoding.rank import Rank

PATTERN = 4093  # tokens of random cache that are repeated: a prime, so that no chunk sees the same ones
CHECKED = 24
"""Tokens that the check decodes."""


@dataclass(frozen=True)
class Job:
    """What is shared out: replica r has the ranks from r * ``tensor_parallel`` on, and an equal part of ``batch``."""

    method: Attention
    shape: Shape
    replicas: int
    tensor_parallel: int
    batch: int
    context: int
    dtype: Precision
    weights_seed: int
    cache_seed: int
    inputs_seed: int

    @property
    def sequences(self) -> int:
        """Of one replica."""
        return self.batch // self.replicas

    def module(self, device: str) -> AttentionModule:
        """The whole layer with its random weights: the same on every rank."""
        module = layer(self.method, self.shape, device)
        generator = torch.Generator(device).manual_seed(self.weights_seed)
        for part in module.modules():
            for parameter in part.parameters(recurse=False):
                if isinstance(part, RMSNorm):
                    parameter.fill_(1)
                else:  # the output projection too: its zeros of the start would hide errors
                    parameter.normal_(std=self.shape.model**-0.5, generator=generator)
        return module.to(DTYPES[self.dtype])

    def tokens(self, count: int, device: str) -> Tensor:
        """Inputs of all sequences, [count, batch, 1, d]: the same on every rank."""
        generator = torch.Generator(device).manual_seed(self.inputs_seed)
        found = torch.randn(count, self.batch, 1, self.shape.model, generator=generator, device=device)
        return found.to(DTYPES[self.dtype])


class Part:
    """One rank's decoder, cache and inputs."""

    def __init__(self, rank: Rank, job: Job, module: AttentionModule, capacity: int) -> None:
        self.rank, self.job = rank, job
        replica, position = divmod(rank.number, job.tensor_parallel)
        first = replica * job.sequences
        self.sequences = slice(first, first + job.sequences)
        self.share = module.layout.shares(job.shape.heads, job.tensor_parallel)[position]
        self.decoder = device_of(module, self.share)
        self.cache = DeviceCache(
            module.layout,
            self.share,
            job.shape.head_dim,
            job.sequences,
            capacity,
            DTYPES[job.dtype],
            device=rank.device,
        )

    def step(self, x: Tensor) -> Tensor:
        """One token of this replica's sequences: [sequences, 1, d] -> the layer's output, summed over its ranks."""
        out = self.decoder.step(x, self.cache)
        self.rank.all_reduce(out, self.job.tensor_parallel)
        return out


@dataclass
class Loaded:
    """What a rank holds between :func:`load` and :func:`unload`."""

    part: Part
    x: Tensor


def load(rank: Rank, job: Job) -> None:
    """Make this rank's share of the layer, its cache filled with ``job.context`` random tokens."""
    module = job.module(rank.device)
    part = Part(rank, job, module, job.context + 1)
    fill(part.cache, part.share, job, range(part.sequences.start, part.sequences.stop), rank.device)
    rank.held = Loaded(part, job.tokens(1, rank.device)[0, part.sequences])


def fill(cache: DeviceCache, share: Share, job: Job, sequences: range, device: str) -> None:
    """Random numbers of a state, from its tensor, piece and sequence alone: shares are parts of one whole cache."""
    for spec in cache.layout.tensors:
        tensor = cache.tensors[spec.name][:, :, : job.context]
        for index, piece in enumerate((0,) if spec.shared else share.pieces):
            for row, sequence in enumerate(sequences):
                stream = random.Random(f"{job.cache_seed} {spec.name} {piece} {sequence}").getrandbits(63)
                generator = torch.Generator(device).manual_seed(stream)
                size = (min(PATTERN, job.context), tensor.shape[3])
                pattern = torch.randn(size, generator=generator, device=device).to(tensor.dtype)
                for start in range(0, job.context, PATTERN):
                    target = tensor[row, index, start : start + PATTERN]
                    target.copy_(pattern[: len(target)])
    cache.length = job.context


def unload(rank: Rank) -> None:
    """Let go of it."""
    rank.held = None
    if rank.device != "cpu":
        torch.cuda.empty_cache()


def step(rank: Rank) -> float:
    """Seconds of one step, from when all ranks stand ready; the cache is as long as before."""
    part, x = rank.held.part, rank.held.x
    rank.barrier()
    start = time.perf_counter()
    part.step(x)
    rank.synchronize()
    seconds = time.perf_counter() - start
    part.cache.length = part.job.context
    return seconds


def shard(rank: Rank) -> float:
    """Seconds of this rank's part of a step, without all-reduce."""
    part, x = rank.held.part, rank.held.x
    rank.synchronize()
    start = time.perf_counter()
    part.decoder.step(x, part.cache)
    rank.synchronize()
    seconds = time.perf_counter() - start
    part.cache.length = part.job.context
    return seconds


def load_outputs(rank: Rank, job: Job) -> None:
    """Make a tensor of the size of a step's output alone. Zeros: they can be summed again and again."""
    rank.held = torch.zeros(job.sequences, 1, job.shape.model, dtype=DTYPES[job.dtype], device=rank.device)


def all_reduce(rank: Rank, job: Job) -> float:
    """Seconds of the all-reduce alone, from when all ranks stand ready."""
    rank.barrier()
    start = time.perf_counter()
    rank.all_reduce(rank.held, job.tensor_parallel)
    rank.synchronize()
    return time.perf_counter() - start


def check(rank: Rank, job: Job) -> float:
    """Largest error of any rank's reduced output against the undivided layer, relative to the largest output.

    ``CHECKED`` tokens from an empty cache, the last output compared; computed by the first rank, 0 elsewhere.
    """
    module = job.module(rank.device)
    part, x = Part(rank, job, module, CHECKED), job.tokens(CHECKED, rank.device)
    for token in x:
        out = part.step(token[part.sequences])
    outputs = rank.gather(out)
    if rank.number:
        return 0.0
    (whole,) = module.layout.shares(job.shape.heads, 1)
    decoder = device_of(module, whole)
    cache = DeviceCache(
        module.layout, whole, job.shape.head_dim, job.batch, CHECKED, DTYPES[job.dtype], device=rank.device
    )
    for token in x:
        expected = decoder.step(token, cache)
    exact = expected.float()
    replicas = torch.split(exact, job.sequences)
    errors = [(o.float() - replicas[r // job.tensor_parallel]).abs().max() for r, o in enumerate(outputs)]
    return float(torch.stack(errors).max() / exact.abs().max())


def check_all_reduce(rank: Rank, job: Job) -> float:
    """Largest error of a sum of random tensors over the ranks of a replica, relative to the largest sum."""
    shape = (rank.size, job.sequences, 1, job.shape.model)
    generator = torch.Generator(rank.device).manual_seed(job.inputs_seed)
    tensors = torch.randn(shape, generator=generator, device=rank.device).to(DTYPES[job.dtype])
    first = rank.number - rank.number % job.tensor_parallel
    expected = tensors[first : first + job.tensor_parallel].float().sum(0)
    reduced = tensors[rank.number].clone()
    rank.all_reduce(reduced, job.tensor_parallel)
    return float((reduced.float() - expected).abs().max() / expected.abs().max())
