"""The compiled pass over a cache: blocks of tokens, and for each of them pieces and tiles of heads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

from harness.assets import cache as files
from harness.tracks.decoding.kernels.vectors import LANES, add_weighted, logits, soften

BLOCK = 32
"""Tokens whose numbers stay in the first two levels of cache between logits and weighted sum, for all their heads."""
_LOWEST = np.float32(-3e38)


def _compiled(function: Callable[..., Any]) -> Any:
    """Compiled at the first call, without the interpreter's lock; kept on disk where our cache can be written."""
    sources = b"".join((Path(__file__).parent / name).read_bytes() for name in ("sweep.py", "vectors.py"))
    folder = files.root().parent / "compiled" / hashlib.sha256(sources).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep = os.access(folder, os.W_OK)
    except OSError:
        keep = False
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        return numba.njit(nogil=True, error_model="numpy", cache=keep)(function)
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


@_compiled
def sweep(  # type: ignore[no-untyped-def]
    half, start, stop, keys, ropes, values, query, sums, largest, totals
):
    """Attention of all heads to tokens ``start`` to ``stop``, unnormalised.

    ``keys``, ``ropes``, ``values``: address, strides of batch, piece and token in bytes, width. ``query`` [batch,
    pieces, heads, key + rope], scaled; results: ``sums`` [batch, pieces, heads, value], zeros at first, ``largest``
    and ``totals`` [batch, pieces, heads], the largest logit and the sum of weights. float32. ``half``: 1 for bfloat16.
    """
    key_base, key_batch, key_piece, key_token, key_width = keys
    rope_base, rope_batch, _, rope_token, rope_width = ropes
    value_base, value_batch, value_piece, value_token, value_width = values
    batch, pieces, heads, query_width = query.shape
    together = pieces if rope_width else 1  # pieces that share a rotary key take its block in turn
    weights = np.empty(BLOCK * 4 + LANES, np.float32)
    state = np.zeros((together, heads, 3, LANES), np.float32)
    size = 2 if half else 4
    for group in range(batch * pieces // together):
        sequence, first_piece = group * together // pieces, group * together % pieces
        state[:, :, 0] = _LOWEST
        state[:, :, 1] = 0
        for first in range(start, stop, BLOCK):
            rows = min(BLOCK, stop - first)
            for inner in range(together):
                piece = first_piece + inner
                key = key_base + sequence * key_batch + piece * key_piece + first * key_token
                rope = rope_base + sequence * rope_batch + first * rope_token
                value = value_base + sequence * value_batch + piece * value_piece + first * value_token
                # the next block is fetched meanwhile: its keys' first half, and its values' second half
                key_ahead = key + rows * key_token
                value_ahead = value + rows * value_token + rows * value_width * size // 2
                head = 0
                while head < heads:
                    tile = 4 if heads - head >= 4 else (2 if heads - head >= 2 else 1)
                    place = state[inner, head].ctypes.data
                    vectors = 0
                    for row in range(0, rows, LANES // tile):
                        logits(  # type: ignore[call-arg]
                            tile, half,
                            key + row * key_token, key_token, key_width,
                            rope + row * rope_token, rope_token, rope_width,
                            query[sequence, piece, head].ctypes.data, 4 * query_width,
                            rows - row, key_ahead + row * key_width * size // 2,
                            weights.ctypes.data + 4 * LANES * vectors,
                        )  # fmt: skip
                        vectors += 1
                    weights[rows * tile : vectors * LANES] = -np.inf
                    soften(tile, half, weights.ctypes.data, vectors, place)  # type: ignore[call-arg]
                    out = sums[sequence, piece, head].ctypes.data
                    decay = place + 8 * LANES
                    add_weighted(
                        tile, half, value, value_token, value_width,
                        weights.ctypes.data, rows, decay, value_ahead, out, 4 * value_width,
                    )  # fmt: skip
                    head += tile
        for inner in range(together):
            head = 0
            while head < heads:
                tile = 4 if heads - head >= 4 else (2 if heads - head >= 2 else 1)
                for i in range(tile):
                    largest[sequence, first_piece + inner, head + i] = state[inner, head, 0, i]
                    totals[sequence, first_piece + inner, head + i] = state[inner, head, 1, i::tile].sum()
                head += tile


@_compiled
def total(numbers):  # type: ignore[no-untyped-def]
    """The sum of whole numbers, modulo 2^64: the least that reading them can take."""
    result = np.int64(0)
    for number in numbers:
        result += number
    return result
