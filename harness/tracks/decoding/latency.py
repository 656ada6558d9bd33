"""How long one decoding step takes on one device of a tensor-parallel group."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import torch

from harness.contract import Context, Needs, NotApplicable, Task, TimedEvaluation
from harness.tracks.decoding.decoder import Positive
from harness.tracks.decoding.device import Precision, claim
from harness.tracks.decoding.protocol import Attention, Shape
from harness.tracks.decoding.steps import STEPS

Kernel: TypeAlias = Literal["fused", "products", "sdpa", "read"]


class Latency(TimedEvaluation[Attention]):
    """The attention kernel of one step, one sequence, over ``context`` cached tokens: no projections, no all-reduce.

    A device is timed as a lone share. All shares of a group have the same shape, so the first stands for the slowest.
    ``heads`` and ``head_dim`` say what is cached. ``heads_per_state``: query heads of a device that read each state
    it keeps (key/value head or latent); 1 keeps decoding bound by memory, as it is on the accelerators that papers
    measure. ``null`` takes all that the method has there: on a processor that is bound by arithmetic.

    ``kernel``: ``fused`` is ours; ``products`` are torch's two matrix products with a softmax between them; ``sdpa``
    is torch's own attention, by the faster of its ways; ``read`` reads the same tensors and no more: the machine's
    limit.
    """

    name: ClassVar[str] = "latency"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch", "numba"))
    joint: ClassVar[tuple[str, ...]] = ("tensor_parallel", "kernel")
    items: ClassVar[bool] = False

    tensor_parallel: Positive = 1
    context: Positive = 131_072
    heads: Positive = 64
    heads_per_state: Positive | None = 1
    head_dim: Positive = 128
    dtype: Precision = "float32"
    kernel: Kernel = "fused"

    def prepare(self, method: Attention, context: Context) -> Task:
        """The step of the group's first device. Raises NotApplicable where no kernel reads the method's cache."""
        device = claim(context)
        layout = method.layout(Shape(self.heads * self.head_dim, self.heads, self.head_dim))
        if layout.factored:
            raise NotApplicable(
                "its keys and values are products of cached factors, which the decode kernels do not read"
            )
        share = layout.shares(self.heads, self.tensor_parallel)[0]
        step = STEPS[self.kernel](
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
