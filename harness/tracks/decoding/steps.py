"""The steps that ``latency`` times: one device's cache and queries, and what each kernel does with them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.device import DTYPES, Precision
from harness.tracks.decoding.kernels import attend, compiled, plain, products
from harness.tracks.decoding.layout import Layout, Share

PATTERN = 4093  # tokens of random cache that are repeated: a prime, so that no chunk sees the same ones
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}


class Memory:
    """One stretch of the processor's memory, as large as the largest cache so far, that caches have by turns.

    The system takes seconds to hand out gigabytes: far longer than it takes to fill them again.
    """

    ALIGNMENT = 64

    def __init__(self) -> None:
        self._whole = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def clear(self, bytes: int) -> None:
        """Room for so many bytes, of which nothing is taken: earlier tensors are void."""
        self._used = 0
        if bytes > len(self._whole):
            self._whole = torch.empty(0, dtype=torch.uint8)  # not both at once
            self._whole = torch.empty(bytes, dtype=torch.uint8)

    def empty(self, *shape: int, dtype: torch.dtype, device: str) -> Tensor:
        """As ``torch.empty``. Accelerators have allocators that do this."""
        bytes = math.prod(shape) * dtype.itemsize
        start = self._used
        self._used = -(-(start + bytes) // self.ALIGNMENT) * self.ALIGNMENT
        if device != "cpu" or start + bytes > len(self._whole):
            return torch.empty(shape, dtype=dtype, device=device)
        return self._whole[start : start + bytes].view(dtype).view(shape)


_MEMORY = Memory()


class Held(NamedTuple):
    """What a step works on. ``tensors``: the memory that these are views of, each number once."""

    query: Tensor
    keys: Tensor
    values: Tensor
    rope_query: Tensor | None
    rope_keys: Tensor | None
    tensors: tuple[Tensor, ...]


class Step:
    """Our kernel. The cache is in memory between :meth:`enter` and :meth:`leave` alone."""

    def __init__(
        self,
        layout: Layout,
        share: Share,
        *,
        heads: int,
        head_dim: int,
        context: int,
        dtype: Precision,
        device: str,
        seed: int,
    ) -> None:
        self.layout, self.share, self.heads, self.head_dim = layout, share, heads, head_dim
        self.context, self.dtype, self.device, self.seed = context, dtype, device, seed
        self.widths = layout.widths(head_dim)
        self.scale = (head_dim + self.widths.rope) ** -0.5
        self._held: Held | None = None

    def enter(self) -> None:
        """Allocate and fill the cache; draw the queries."""
        generator = torch.Generator().manual_seed(self.seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(self.device, DTYPES[self.dtype])

        cache = self.allocated()
        for tensor in cache.tensors.values():
            pattern = random(*tensor.shape[:2], min(PATTERN, self.context), tensor.shape[3])
            for start in range(0, self.context, PATTERN):
                part = tensor[:, :, start : start + PATTERN]
                part.copy_(pattern[:, :, : part.shape[2]])
        cache.length = self.context
        pieces = len(self.share.pieces)
        query = random(1, pieces, self.heads, self.widths.key)
        rope_query = random(1, pieces, self.heads, self.widths.rope) if self.widths.rope else None
        tensors = tuple(cache.tensors.values())
        self._held = Held(query, cache.keys, cache.values, rope_query, cache.rope_keys, tensors)

    def allocated(self) -> DeviceCache:
        """An empty cache of the whole context. One at a time: the memory is that of the step before."""
        if self.device == "cpu":
            _MEMORY.clear(int(self.work()["bytes"]) + Memory.ALIGNMENT * len(self.layout.tensors))
        arguments = self.layout, self.share, self.head_dim, 1, self.context, DTYPES[self.dtype], self.device
        return DeviceCache(*arguments, empty=_MEMORY.empty)

    def leave(self) -> None:
        self._held = None

    @property
    def held(self) -> Held:
        """Raises RuntimeError before enter and after leave."""
        if self._held is None:
            raise RuntimeError("the caches are not in memory: enter() comes first")
        return self._held

    def call(self) -> None:
        """One step. Only between enter and leave."""
        self.attended()

    def attended(self) -> Tensor:
        """What the timed kernel makes of the cache."""
        query, keys, values, rope_query, rope_keys, _ = self.held
        return attend(query, keys, values, self.scale, rope_query, rope_keys)

    def check(self) -> float:
        """Largest error of the timed kernel against plain softmax attention, relative to the largest output.

        Raises ArithmeticError where it is too large for the precision.
        """
        before = self._held
        if before is None:
            self.enter()
        query, keys, values, rope_query, rope_keys, _ = self.held
        exact = plain.attend(query, keys, values, self.scale, rope_query, rope_keys).float()
        error = float((self.attended().float() - exact).abs().max() / exact.abs().max())
        self._held = before
        if not error <= TOLERANCE[self.dtype]:
            raise ArithmeticError(f"the kernel is off by {error:.1e} of the largest output in {self.dtype}")
        return error

    def work(self) -> dict[str, float]:
        """Amounts of one step: tokens, bytes of cache that must be read, floating-point operations."""
        held = len(self.share.pieces)
        per_token = sum(t.elements(self.head_dim) * (1 if t.shared else held) for t in self.layout.tensors)
        operations = 2 * held * self.heads * (self.widths.key + self.widths.rope + self.widths.value)
        return {
            "tokens": 1.0,
            "bytes": float(per_token * DTYPES[self.dtype].itemsize * self.context),
            "flops": float(operations * self.context),
        }


class Products(Step):
    """torch's matrix products."""

    def attended(self) -> Tensor:
        """See :class:`Step`."""
        query, keys, values, rope_query, rope_keys, _ = self.held
        return products.attend(query, keys, values, self.scale, rope_query, rope_keys)


class Sdpa(Step):
    """torch's scaled_dot_product_attention, by the faster of its ways.

    Rotary keys are joined to the keys' rows before the clock runs. Values are left as they are, or padded to the
    keys' width (a latent's rows are that wide already), which lets torch take its one-pass kernel.
    While they are joined, a cache with rotary keys is in memory twice.
    """

    padded: bool | None = None

    def enter(self) -> None:
        """See :class:`Step`."""
        super().enter()
        query, keys, values, rope_query, rope_keys, tensors = self.held
        latent = self.layout.key == self.layout.value and keys.shape[3] == values.shape[3]
        if rope_query is not None and rope_keys is not None:
            query = torch.cat((query, rope_query), dim=-1)
            keys = torch.cat((keys, rope_keys.expand(-1, keys.shape[1], -1, -1)), dim=-1)
            tensors = (keys,) if latent else (keys, values)
        if latent:
            values = keys[..., : values.shape[3]]
        missing = max(0, keys.shape[3] - values.shape[3])
        self._wide = keys if latent else functional.pad(values, (0, missing)) if missing else values
        self._held = Held(query, keys, values, None, None, tensors)
        if self.padded is None:
            self.padded = self._seconds(True) <= self._seconds(False)

    def leave(self) -> None:
        """See :class:`Step`."""
        super().leave()
        self._wide = torch.empty(0)

    def attended(self) -> Tensor:
        """See :class:`Step`."""
        return self._by(bool(self.padded))

    def _by(self, padded: bool) -> Tensor:
        query, keys, values, *_ = self.held
        mixed = functional.scaled_dot_product_attention(query, keys, self._wide if padded else values, scale=self.scale)
        return mixed[..., : self.widths.value]

    def _seconds(self, padded: bool) -> float:
        """Of the second call."""
        start = 0.0
        for _ in range(2):
            start = time.perf_counter()
            self._by(padded)
            if self.device == "cuda":
                torch.cuda.synchronize()
        return time.perf_counter() - start


class Read(Step):
    """Nothing but a plain read of the cache: the least that any step can take."""

    def call(self) -> None:
        """See :class:`Step`."""
        self.total()

    def total(self) -> int:
        """The sum of all 8-byte words, modulo 2^64."""
        tensors = self.held.tensors
        if self.device == "cpu":
            return compiled.read(tensors)
        return sum(int(t.view(torch.int64).sum()) for t in tensors)

    def check(self) -> float:
        """0. Raises ArithmeticError unless all of the cache was read."""
        before = self._held
        if before is None:
            self.enter()
        expected = sum(int(t.view(torch.int64).sum()) for t in self.held.tensors)
        found = self.total()
        self._held = before
        if (found - expected) % 2**64:
            raise ArithmeticError("the plain read missed a part of the cache")
        return 0.0


STEPS: Mapping[str, type[Step]] = {"fused": Step, "products": Products, "sdpa": Sdpa, "read": Read}
