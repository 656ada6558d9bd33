"""The kernel for processors: one pass over the cache, compiled, its tokens split over the granted threads.

Every thread takes a stretch of the tokens with an online softmax of its own (Milakov and Gimelshein,
arXiv 1805.02867); the parts are merged by their largest logits and sums of weights. A latent, which is key and value
in one, comes from memory once. Sums are float32.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

DTYPES = (torch.float32, torch.bfloat16)
STEP = 16
LEAST = 1 << 18
"""Bytes of cache that are worth a thread."""


def fits(query: Tensor, keys: Tensor, values: Tensor, rope_keys: Tensor | None = None) -> bool:
    """Whether :func:`attend` takes them: on the processor, float32 or bfloat16, rows of whole vectors."""
    cached = [keys, values] if rope_keys is None else [keys, values, rope_keys]
    return all(
        t.device.type == "cpu"
        and t.dtype == query.dtype
        and t.dtype in DTYPES
        and t.shape[3] % STEP == 0
        and t.stride(3) == 1
        for t in (query, *cached)
    )


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    rope_query: Tensor | None = None,
    rope_keys: Tensor | None = None,
) -> Tensor:
    """As :func:`harness.tracks.decoding.kernels.attend`, for what :func:`fits`."""
    from harness.tracks.decoding.kernels.sweep import sweep

    half = query.dtype == torch.bfloat16
    packed = query.float() * scale
    if rope_query is not None:
        packed = torch.cat((packed, rope_query.float() * scale), dim=-1)
    if half:
        packed = _apart(packed)
    numbers = packed.contiguous().numpy()
    time = keys.shape[2]
    row_bytes = (keys.shape[1] * (keys.shape[3] + values.shape[3])) * keys.element_size() * keys.shape[0]
    parts = max(1, min(torch.get_num_threads(), time * row_bytes // LEAST))
    sums = np.zeros((parts, *query.shape[:3], values.shape[3]), np.float32)
    largest, totals = np.empty((2, parts, *query.shape[:3]), np.float32)
    tensors = (_described(keys), (0, 0, 0, 0, 0) if rope_keys is None else _described(rope_keys), _described(values))

    def work(part: int) -> None:
        start, stop = time * part // parts, time * (part + 1) // parts
        sweep(int(half), start, stop, *tensors, numbers, sums[part], largest[part], totals[part])

    in_threads(work, parts)
    with np.errstate(invalid="ignore"):  # infinite logits give NaN, as in any softmax
        shares = np.exp(largest - largest.max(axis=0))
    mixed = (sums * shares[..., None]).sum(axis=0) / (totals * shares).sum(axis=0)[..., None]
    result = torch.from_numpy(mixed)
    return (_together(result) if half else result).to(query.dtype)


def _described(tensor: Tensor) -> tuple[int, ...]:
    """Address, strides of batch, piece and token in bytes, width."""
    size = tensor.element_size()
    return (tensor.data_ptr(), *(tensor.stride(d) * size for d in range(3)), tensor.shape[3])


def _apart(numbers: Tensor) -> Tensor:
    """Of every 16 numbers the even places, then the odd ones: the order in which bfloat16 is widened."""
    return torch.unflatten(numbers, -1, (-1, STEP // 2, 2)).transpose(-1, -2).flatten(-3)


def _together(numbers: Tensor) -> Tensor:
    """Undo :func:`_apart`."""
    return torch.unflatten(numbers, -1, (-1, 2, STEP // 2)).transpose(-1, -2).flatten(-3)


def read(tensors: Sequence[Tensor]) -> int:
    """Read every byte once, split over the threads: the sum of all 8-byte words, modulo 2^64.

    Contiguous tensors on the processor whose bytes come in eights.
    """
    from harness.tracks.decoding.kernels.sweep import total

    words = [t.view(torch.uint8).flatten().view(torch.int64).numpy() for t in tensors]
    parts = torch.get_num_threads()
    sums = [0] * parts

    def work(part: int) -> None:
        sums[part] = sum(int(total(w[len(w) * part // parts : len(w) * (part + 1) // parts])) for w in words)

    in_threads(work, parts)
    return sum(sums) % 2**64


def in_threads(work: Callable[[int], None], parts: int) -> None:
    """work(0) here and work(1), ... in threads of their own; raises what they raise."""
    others = [_threads().submit(work, part) for part in range(1, parts)]
    work(0)
    for other in others:
        other.result()


@functools.cache
def _threads() -> Any:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="attend")


os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not come along
