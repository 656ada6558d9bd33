"""How fast devices that are not at hand would decode by a cost model: arithmetic, not a measurement."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np

from harness.contract import Context, Evaluation, Needs, Observations
from harness.tracks.decoding.amounts import layer
from harness.tracks.decoding.decoder import Positive
from harness.tracks.decoding.device import DTYPES, Precision
from harness.tracks.decoding.protocol import Attention, Shape
from harness.tracks.decoding.throughput import fullest, replicas_of

Rate = Annotated[float, {"exclusiveMinimum": 0}]
Seconds = Annotated[float, {"minimum": 0}]


class ModelledThroughput(Evaluation[Attention]):
    """Modelled, not measured: one decoding step of one attention layer on ``devices`` accelerators.

    The sum of: projections, max(weight bytes / bandwidth, FLOP / peak); attention, max(cache bytes / bandwidth,
    FLOP / peak); with n = ``tensor_parallel`` > 1 the all-reduce, latency + 2 (n - 1) / n x bytes of outputs / link;
    a fixed overhead. Weights, caches and FLOP are counted on the method's own layer for the fullest device; nothing is
    fitted.

    ``reduced``: "outputs", every device projects the heads that it has summed and the projections are added up, as on
    measured ranks; "heads", sums over branches are added up first, by a reduce-scatter more, and the output projection
    is split evenly, which spares devices that share heads its whole weight.

    Constants are of an H100 SXM (dense bfloat16, HBM3, NVLink 4 in one direction); latency and overhead are round
    numbers of the usual size. ``peak_flops``: FLOP/s; ``memory_bandwidth``, ``link_bandwidth``: bytes/s;
    ``all_reduce_latency``, ``overhead``: seconds.
    """

    name: ClassVar[str] = "modelled_throughput"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))
    deterministic: ClassVar[bool] = True
    items: ClassVar[bool] = False

    devices: Positive = 8
    tensor_parallel: Positive = 1
    batch: Positive = 128
    context: Positive = 16_384
    heads: Positive = 128
    head_dim: Positive = 128
    model: Positive | None = 7168
    dtype: Precision = "bfloat16"
    reduced: Literal["outputs", "heads"] = "outputs"
    peak_flops: Rate = 989e12
    memory_bandwidth: Rate = 3.35e12
    link_bandwidth: Rate = 450e9
    all_reduce_latency: Seconds = 10e-6
    overhead: Seconds = 20e-6

    def observe(self, method: Attention, context: Context) -> Observations:
        """Arrays of one number each, modelled seconds of a step: ``projections``, ``attention``, ``all_reduce``,
        ``overhead``. Values: ``tokens`` of a step, ``weights`` of a device, ``modelled``.
        """
        shape = Shape(self.model or self.heads * self.head_dim, self.heads, self.head_dim)
        sequences = self.batch // replicas_of(self.devices, self.tensor_parallel, self.batch)
        module = layer(method, shape, "meta")
        one = fullest(module, self.tensor_parallel, sequences, self.context, self.dtype)
        size = DTYPES[self.dtype].itemsize
        weights, reducing = float(one.weights), self.reducing(sequences * shape.model * size)
        if self.reduced == "heads":
            whole = module.output.weight.numel() * (1 if module.gate is None else 2)
            weights += whole / self.tensor_parallel - one.output_weights
            reducing += self.scattering(sequences * module.output.in_features * size)
        seconds = {
            "projections": self.roof(weights * size, 2 * weights * sequences),
            "attention": self.roof(one.cache_bytes, one.attention_flops),
            "all_reduce": reducing,
            "overhead": self.overhead,
        }
        arrays = {name: np.array([value]) for name, value in seconds.items()}
        return Observations(arrays, {"tokens": self.batch, "weights": weights, "modelled": True})

    def roof(self, size: float, operations: float) -> float:
        """Seconds to read ``size`` bytes or to do so many operations, whichever takes longer."""
        return max(size / self.memory_bandwidth, operations / self.peak_flops)

    def reducing(self, size: float) -> float:
        """Seconds of a ring all-reduce of ``size`` bytes inside one tensor-parallel group."""
        n = self.tensor_parallel
        if n == 1:
            return 0.0
        return self.all_reduce_latency + 2 * (n - 1) / n * size / self.link_bandwidth

    def scattering(self, size: float) -> float:
        """Seconds of a ring reduce-scatter: half of an all-reduce's way, and its latency."""
        n = self.tensor_parallel
        return 0.0 if n == 1 else self.all_reduce_latency + (n - 1) / n * size / self.link_bandwidth
