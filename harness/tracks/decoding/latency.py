"""How long one decoding step takes on one device of a tensor-parallel group."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from harness.contract import Context, Needs, Task, TimedEvaluation
from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.decoder import Positive
from harness.tracks.decoding.device import DTYPES, Precision, claim
from harness.tracks.decoding.kernel import CHUNK, attend, attend_plainly
from harness.tracks.decoding.layout import Layout, Share
from harness.tracks.decoding.protocol import Attention, Shape

PATTERN = 4093  # tokens of random cache that are repeated: a prime, so that no chunk sees the same ones
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}


class Latency(TimedEvaluation[Attention]):
    """The attention kernel of one step, one sequence, over ``context`` cached tokens: no projections, no all-reduce.

    A device is timed as a lone share. All shares of a group have the same shape, so the first stands for the slowest.
    ``heads`` and ``head_dim`` say what is cached. ``heads_per_state``: query heads of a device that read each state
    it keeps (key/value head or latent); 1 keeps decoding bound by memory, as it is on the accelerators that papers
    measure. ``null`` takes all that the method has there: on a processor that is bound by arithmetic.
    """

    name: ClassVar[str] = "latency"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))
    joint: ClassVar[tuple[str, ...]] = ("tensor_parallel",)
    items: ClassVar[bool] = False

    tensor_parallel: Positive = 1
    context: Positive = 131_072
    heads: Positive = 64
    heads_per_state: Positive | None = 1
    head_dim: Positive = 128
    dtype: Precision = "float32"

    def prepare(self, method: Attention, context: Context) -> Task:
        """The step of the group's first device."""
        device = claim(context)
        layout = method.layout(Shape(self.heads * self.head_dim, self.heads, self.head_dim))
        share = layout.shares(self.heads, self.tensor_parallel)[0]
        step = Step(
            layout,
            share,
            heads=self.heads_per_state or len(share.heads[0]),
            head_dim=self.head_dim,
            context=self.context,
            dtype=self.dtype,
            device=device,
            seed=context.seed_for("cache"),
        )
        return Task(
            call=step.call,
            work=step.work(),
            sync=torch.cuda.synchronize if device == "cuda" else None,
            enter=step.enter,
            leave=step.leave,
            check=step.check,
        )


class Step:
    """One device's cache and queries, in memory between :meth:`enter` and :meth:`leave` alone."""

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
        self.key = layout.tensor(layout.key).elements(head_dim)
        self.value = layout.tensor(layout.value).elements(head_dim)
        self.rope = 0 if layout.rope is None else layout.tensor(layout.rope).elements(head_dim)
        self.scale = (head_dim + self.rope) ** -0.5
        self._held: tuple[DeviceCache, Tensor, Tensor | None] | None = None

    def enter(self) -> None:
        """Allocate and fill the cache; draw the queries."""
        generator = torch.Generator().manual_seed(self.seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(self.device, DTYPES[self.dtype])

        cache = DeviceCache(
            self.layout, self.share, self.head_dim, 1, self.context, DTYPES[self.dtype], device=self.device
        )
        for tensor in cache.tensors.values():
            pattern = random(*tensor.shape[:-1], min(PATTERN, self.context))
            for start in range(0, self.context, PATTERN):
                part = tensor[..., start : start + PATTERN]
                part.copy_(pattern[..., : part.shape[-1]])
        cache.length = self.context
        pieces = len(self.share.pieces)
        query = random(1, pieces, self.heads, self.key)
        self._held = cache, query, random(1, pieces, self.heads, self.rope) if self.rope else None

    def leave(self) -> None:
        self._held = None

    def call(self) -> None:
        """One step. Only between enter and leave."""
        self._attend()

    def _attend(self, plainly: bool = False) -> Tensor:
        if self._held is None:
            raise RuntimeError("the caches are not in memory: enter() comes first")
        cache, query, rope_query = self._held
        arguments = (query, cache.keys, cache.values, self.scale, rope_query, cache.rope_keys)
        if plainly:
            return attend_plainly(*arguments)
        # an accelerator's caches are too small for a chunk, and its calls too dear for many
        return attend(*arguments, chunk=CHUNK if self.device == "cpu" else self.context)

    def check(self) -> float:
        """Largest error of the timed kernel against plain softmax attention, relative to the largest output.

        Raises ArithmeticError where it is too large for the precision.
        """
        held = self._held
        if held is None:
            self.enter()
        exact, found = self._attend(plainly=True).float(), self._attend().float()
        self._held = held
        error = float((found - exact).abs().max() / exact.abs().max())
        if not error <= TOLERANCE[self.dtype]:
            raise ArithmeticError(f"the kernel is off by {error:.1e} of the largest output in {self.dtype}")
        return error

    def work(self) -> dict[str, float]:
        """Amounts of one step: tokens, bytes of cache that must be read, floating-point operations."""
        held = len(self.share.pieces)
        per_token = sum(t.elements(self.head_dim) * (1 if t.shared else held) for t in self.layout.tensors)
        operations = 2 * held * self.heads * (self.key + self.rope + self.value)
        return {
            "tokens": 1.0,
            "bytes": float(per_token * DTYPES[self.dtype].itemsize * self.context),
            "flops": float(operations * self.context),
        }
