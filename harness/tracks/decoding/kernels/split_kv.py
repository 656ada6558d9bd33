"""Attention of a few query heads to a long cache on a GPU: a split-KV kernel in Triton.

One query token alone would occupy one multiprocessor, so the cache is cut along time into splits, each with an online
softmax of its own (arXiv 1805.02867), and a second small kernel merges the splits' (maximum, sum, weighted sum), as in
Flash-Decoding. What serves as key and as value (a latent, or the first part of a tied state) is loaded once.

Compiled by Triton on CUDA. On a CPU it runs through Triton's interpreter, slowly and for checking alone, where
TRITON_INTERPRET=1 was set before triton was imported.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError("the split-KV kernel needs triton, on Linux: pip install 'methods-harness[gpu]'") from error

FEWEST = 16
"""The least extent of a matrix product on tensor cores: heads, tokens and widths are padded to it."""

MOST_HEADS = {torch.float32: 16, torch.float16: 64, torch.bfloat16: 64}
"""Query heads of one block; more are split, and each block reads the cache (mostly from the second-level cache).

Products of float32 are made of three in lower precision, which leaves registers for few heads; wide ones spill even so.
"""

TILES = ((512, 64, 3, 4), (768, 64, 2, 4), (math.inf, 32, 3, 8))
"""(bytes of one token's tile up to, tokens of a tile, tiles in flight, warps).

A fixed choice, by arithmetic on an H100 and by what the compiler makes of it, not by timing. A multiprocessor wants
some 20 kB on their way to draw its part of the bandwidth, and two blocks in its 227 kB of shared memory, so that one
computes while the other loads. Wide latents leave room for one, with eight warps to hold 64 x 512 sums in registers. In
bfloat16 none spills but the latent of 512 at 64 heads (some 200 bytes a thread). ``tile=`` tries others.
"""

HOPPER = (132, 227 * 1024)
"""Multiprocessors and bytes of shared memory assumed without a GPU: interpreted runs decide as an H100 would."""

DTYPES = tuple(MOST_HEADS)


@dataclass(frozen=True)
class Tile:
    """What one block works on at a time: ``heads`` x ``tokens``, ``stages`` of these in flight, by ``warps``."""

    heads: int
    tokens: int
    stages: int
    warps: int

    def bytes(self, row: int) -> int:
        """Shared memory of queries, tiles in flight and weights, where a token takes ``row`` bytes."""
        return row * (self.heads + self.tokens * self.stages) + 4 * self.heads * self.tokens


@triton.jit(do_not_specialize=["time"])  # type: ignore[untyped-decorator]
def _attend_to_split(
    query: tl.tensor,  # [units, heads, KEY], a unit being one piece of one sequence
    rope_query: tl.tensor,  # [units, heads, ROPE]
    keys: tl.tensor,
    values: tl.tensor,
    rope_keys: tl.tensor,
    largest: tl.tensor,  # [units, heads, splits], of logits in powers of two
    total: tl.tensor,  # [units, heads, splits]
    weighted: tl.tensor,  # [units, heads, splits, VALUE]
    scale: tl.tensor,
    time: tl.tensor,
    per_split: tl.tensor,
    pieces: tl.tensor,
    heads: tl.tensor,
    key_batch: tl.tensor,
    key_piece: tl.tensor,
    key_time: tl.tensor,
    key_column: tl.tensor,
    value_batch: tl.tensor,
    value_piece: tl.tensor,
    value_time: tl.tensor,
    value_column: tl.tensor,
    rope_batch: tl.tensor,
    rope_time: tl.tensor,
    rope_column: tl.tensor,
    KEY: tl.constexpr,  # widths, and the powers of two that they are padded to
    KEY_PAD: tl.constexpr,
    VALUE: tl.constexpr,
    REST: tl.constexpr,  # columns of the values that are not keys as well
    REST_PAD: tl.constexpr,
    ROPE: tl.constexpr,
    ROPE_PAD: tl.constexpr,
    TIED: tl.constexpr,  # the values' first columns are the keys
    HEADS: tl.constexpr,
    TOKENS: tl.constexpr,
    WIDEN: tl.constexpr,  # the interpreter multiplies the bits of bfloat16 as integers: float32 there
) -> None:
    unit, split = tl.program_id(1).to(tl.int64), tl.program_id(2)
    batch, piece = unit // pieces, unit % pieces
    head = tl.program_id(0) * HEADS + tl.arange(0, HEADS)
    row = tl.arange(0, TOKENS).to(tl.int64)
    column = tl.arange(0, KEY_PAD)
    rows = unit * heads + head
    known = (head < heads)[:, None]
    own = tl.load(query + rows[:, None] * KEY + column[None, :], mask=known & (column < KEY)[None, :], other=0.0)
    if WIDEN:
        own = own.to(tl.float32)
    keys += batch * key_batch + piece * key_piece
    key_at = row[:, None] * key_time + column[None, :].to(tl.int64) * key_column
    if REST > 0:
        rest_column = tl.arange(0, REST_PAD)
        values += batch * value_batch + piece * value_piece
        values += (VALUE - REST) * value_column
        value_at = row[:, None] * value_time + rest_column[None, :].to(tl.int64) * value_column
        mixed_rest = tl.zeros([HEADS, REST_PAD], tl.float32)
    if TIED:
        mixed = tl.zeros([HEADS, KEY_PAD], tl.float32)
    if ROPE > 0:
        turn = tl.arange(0, ROPE_PAD)
        turned = tl.load(
            rope_query + rows[:, None] * ROPE + turn[None, :], mask=known & (turn < ROPE)[None, :], other=0.0
        )
        if WIDEN:
            turned = turned.to(tl.float32)
        rope_keys += batch * rope_batch
        rope_at = row[:, None] * rope_time + turn[None, :].to(tl.int64) * rope_column
    most = tl.full([HEADS], float("-inf"), tl.float32)
    sum = tl.zeros([HEADS], tl.float32)
    first = split * per_split
    end = tl.minimum(first + per_split, time)
    for start in range(first, end, TOKENS):
        begin = tl.cast(start, tl.int64)  # times a stride: beyond 32 bits
        inside = (begin + row < end)[:, None]
        key = tl.load(keys + begin * key_time + key_at, mask=inside & (column < KEY)[None, :], other=0.0)
        if WIDEN:
            key = key.to(tl.float32)
        logits = tl.dot(own, tl.trans(key), input_precision="tf32x3")
        if ROPE > 0:
            rope = tl.load(rope_keys + begin * rope_time + rope_at, mask=inside & (turn < ROPE)[None, :], other=0.0)
            if WIDEN:
                rope = rope.to(tl.float32)
            logits = tl.dot(turned, tl.trans(rope), logits, input_precision="tf32x3")
        logits = tl.where((begin + row < end)[None, :], logits * scale, float("-inf"))
        new = tl.maximum(most, tl.max(logits, 1))
        decay = tl.exp2(most - new)
        weights = tl.exp2(logits - new[:, None])
        sum = sum * decay + tl.sum(weights, 1)
        most = new
        weights = weights.to(keys.dtype.element_ty).to(key.dtype)
        if TIED:
            mixed = tl.dot(weights, key, mixed * decay[:, None], input_precision="tf32x3")
        if REST > 0:
            at = values + begin * value_time + value_at
            value = tl.load(at, mask=inside & (rest_column < REST)[None, :], other=0.0)
            if WIDEN:
                value = value.to(tl.float32)
            mixed_rest = tl.dot(weights, value, mixed_rest * decay[:, None], input_precision="tf32x3")
    at_split = rows * tl.num_programs(2) + split
    tl.store(largest + at_split, most, mask=head < heads)
    tl.store(total + at_split, sum, mask=head < heads)
    weighted += at_split[:, None] * VALUE
    if TIED:
        tl.store(weighted + column[None, :], mixed, mask=known & (column < KEY)[None, :])
    if REST > 0:
        tl.store(
            weighted + (VALUE - REST) + rest_column[None, :], mixed_rest, mask=known & (rest_column < REST)[None, :]
        )


@triton.jit(do_not_specialize=["splits"])  # type: ignore[untyped-decorator]
def _merge_splits(
    largest: tl.tensor,
    total: tl.tensor,
    weighted: tl.tensor,
    out: tl.tensor,  # [units * heads, VALUE]
    splits: tl.tensor,
    VALUE: tl.constexpr,
    COLUMNS: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    lane = tl.arange(0, AT_ONCE)
    highest = tl.full([AT_ONCE], float("-inf"), tl.float32)
    for start in range(0, splits, AT_ONCE):
        part = start + lane
        loaded = tl.load(largest + row * splits + part, mask=part < splits, other=float("-inf"))
        highest = tl.maximum(highest, loaded)
    most = tl.max(highest, 0)
    sums = tl.zeros([AT_ONCE], tl.float32)
    mixed = tl.zeros([COLUMNS], tl.float32)
    for start in range(0, splits, AT_ONCE):
        part = start + lane
        at = row * splits + part
        factor = tl.exp2(tl.load(largest + at, mask=part < splits, other=float("-inf")) - most)
        sums += factor * tl.load(total + at, mask=part < splits, other=0.0)
        wanted = (part < splits)[:, None] & (column < VALUE)[None, :]
        mixed += tl.sum(
            factor[:, None] * tl.load(weighted + at[:, None] * VALUE + column[None, :], mask=wanted, other=0.0), 0
        )
    tl.store(out + row * VALUE + column, mixed / tl.sum(sums, 0), mask=column < VALUE)


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    rope_query: Tensor | None = None,
    rope_keys: Tensor | None = None,
    *,
    splits: int | None = None,
    tile: Tile | None = None,
) -> Tensor:
    """softmax(scale (query keys^T + rope_query rope_keys^T)) values.

    query [batch, pieces, heads, width], keys [batch, pieces, time, width], values [batch, pieces, time, value width],
    rope_query [batch, pieces, heads, rope], rope_keys [batch, 1, time, rope] -> [batch, pieces, heads, value width].
    Any strides; one dtype of float32, float16 and bfloat16; softmax and sums in float32. Keys that lie at the start of
    the values are read once. ``splits`` (at most; default: as fill the GPU) and ``tile`` are for tuning.
    Raises ValueError for arguments that do not fit together or stand where Triton cannot run.
    """
    _check(query, keys, values, rope_query, rope_keys)
    batch, pieces, heads, width = query.shape
    time, value_width = values.shape[2:]
    tied = values.data_ptr() == keys.data_ptr() and values.stride() == keys.stride() and width <= value_width
    rest = value_width - width * tied
    rope = 0 if rope_keys is None else rope_keys.shape[3]
    padded = [_pad(w) if w else 0 for w in (width, rest, rope)]
    units = batch * pieces
    tile, per_split = _plan(query, time, sum(padded), splits, tile)
    chosen = triton.cdiv(time, per_split)  # none is empty
    largest, total = query.new_empty((2, units, heads, chosen), dtype=torch.float32)
    weighted = query.new_empty((units, heads, chosen, value_width), dtype=torch.float32)
    out = query.new_empty((batch, pieces, heads, value_width))
    own = query.contiguous()
    widen = query.dtype == torch.bfloat16 and not query.is_cuda
    turned, turns = (own, keys) if rope_query is None or rope_keys is None else (rope_query.contiguous(), rope_keys)
    with torch.cuda.device(query.device) if query.is_cuda else nullcontext():
        _attend_to_split[triton.cdiv(heads, tile.heads), units, chosen](
            *(own, turned, keys, values, turns, largest, total, weighted),
            *(scale * math.log2(math.e), time, per_split, pieces, heads),
            *(*keys.stride(), *values.stride(), turns.stride(0), turns.stride(2), turns.stride(3)),
            *(width, padded[0], value_width, rest, padded[1], rope, padded[2], tied, tile.heads, tile.tokens, widen),
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
        columns = min(128, _pad(value_width))
        grid = (units * heads, triton.cdiv(value_width, columns))
        _merge_splits[grid](largest, total, weighted, out, chosen, value_width, columns, FEWEST)
    return out


def _plan(query: Tensor, time: int, width: int, splits: int | None, tile: Tile | None) -> tuple[Tile, int]:
    """The tile, and how many tokens (whole tiles) make a split; ``width``: padded numbers of cache a token."""
    batch, pieces, heads, _ = query.shape
    processors, shared = _machine(query.device)
    tile = tile or choose_tile(heads, width, query.dtype, shared)
    tiles = triton.cdiv(time, tile.tokens)
    if splits is None:
        resident = max(1, min(2, shared // tile.bytes(width * query.element_size())))
        units = batch * pieces * triton.cdiv(heads, tile.heads)
        splits = choose_splits(tiles, units, processors * resident)
    return tile, triton.cdiv(tiles, max(1, min(splits, tiles))) * tile.tokens


def choose_tile(heads: int, width: int, dtype: torch.dtype, shared: int) -> Tile:
    """The tile for so many query heads, a padded cache of ``width`` numbers a token, and ``shared`` bytes of a block.

    From :data:`TILES`; where it does not fit, fewer tokens, then heads, then stages. Raises ValueError if none fits.
    """
    row = width * dtype.itemsize
    tokens, stages, warps = next(choice[1:] for choice in TILES if row <= choice[0])
    tile = Tile(min(MOST_HEADS[dtype], _pad(heads)), tokens, stages, warps)
    while tile.bytes(row) > shared:
        if tile.tokens > FEWEST:
            tile = Tile(tile.heads, tile.tokens // 2, stages, warps)
        elif tile.heads > FEWEST:
            tile = Tile(tile.heads // 2, tile.tokens, stages, warps)
        elif tile.stages > 1:
            tile = Tile(tile.heads, tile.tokens, tile.stages - 1, warps)
        else:
            raise ValueError(f"a cache of {row} bytes a token is too wide for {shared} bytes of shared memory")
    return tile


@lru_cache(maxsize=4096)
def choose_splits(tiles: int, units: int, slots: int) -> int:
    """Into how many parts time is cut, so that ``units`` of them fill the GPU's ``slots`` for the shortest time.

    Cost: waves of blocks, times the tiles of a split plus two for its start and its share of the merge.
    """
    most = min(tiles, 4 * -(-slots // units))
    return min(range(1, most + 1), key=lambda n: -(-units * n // slots) * (-(-tiles // n) + 2))


def _pad(width: int) -> int:
    return max(FEWEST, 1 << (width - 1).bit_length())


@lru_cache(maxsize=16)
def _machine(device: torch.device) -> tuple[int, int]:
    """Multiprocessors, and bytes of shared memory that one block may take."""
    if device.type != "cuda":
        return HOPPER
    found = torch.cuda.get_device_properties(device)
    return found.multi_processor_count, getattr(found, "shared_memory_per_block_optin", found.shared_memory_per_block)


def _check(query: Tensor, keys: Tensor, values: Tensor, rope_query: Tensor | None, rope_keys: Tensor | None) -> None:
    """Raise ValueError, in one sentence, for the first thing that does not fit."""
    given = {"query": query, "keys": keys, "values": values, "rope_query": rope_query, "rope_keys": rope_keys}
    tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
    if len(tensors) == 4:
        raise ValueError("rope_query and rope_keys come together: one of them is missing")
    if query.ndim != 4 or keys.ndim != 4:
        raise ValueError(f"query and keys have {query.ndim} and {keys.ndim} dimensions, expected 4 each")
    batch, pieces, heads, width = query.shape
    time, rope = keys.shape[2], 0 if rope_keys is None else rope_keys.shape[-1]
    expected = {
        "keys": (batch, pieces, time, width),
        "values": (batch, pieces, time, values.shape[-1]),
        "rope_query": (batch, pieces, heads, rope),
        "rope_keys": (batch, 1, time, rope),
    }
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != expected.get(name, tuple(tensor.shape)):
            raise ValueError(f"{name} is {list(tensor.shape)}, expected {list(expected[name])} beside the query")
        if not tensor.numel():
            raise ValueError(f"{name} is empty: {list(tensor.shape)}")
        if tensor.dtype not in DTYPES or tensor.dtype != query.dtype:
            raise ValueError(f"{name} is {tensor.dtype}, expected one of {DTYPES}, the same for all")
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}, the query on {query.device}: they must be together")
    if query.device.type != "cuda" and not triton.knobs.runtime.interpret:
        raise ValueError(
            f"the tensors are on {query.device}: expected a CUDA device, or Triton's interpreter (TRITON_INTERPRET=1 "
            "in the environment before triton is imported)"
        )
