"""How fast several devices decode together, run truly: one process for each, data and tensor parallel."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from harness.contract import Context, Needs, NotApplicable, Task, TimedEvaluation
from harness.tracks.decoding import sharded
from harness.tracks.decoding.amounts import Amounts, amounts, layer
from harness.tracks.decoding.decoder import Positive
from harness.tracks.decoding.device import DTYPES, Precision
from harness.tracks.decoding.protocol import Attention, AttentionModule, Shape
from harness.tracks.decoding.ranks import RankGroup, shared_group
from harness.tracks.decoding.sharded import Job

TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}

TimedPart: TypeAlias = Literal["step", "shard", "all_reduce"]


class Throughput(TimedEvaluation[Attention]):
    """One decoding step of one attention layer with its projections, on ``devices`` ranks at once.

    Ranks are processes; ``devices / tensor_parallel`` replicas of ``tensor_parallel`` ranks share ``batch`` sequences
    of ``context`` cached tokens. ``part``: "step" times all ranks, each its share, and the all-reduce of the outputs
    [sequences, 1, d] inside each replica, the slowest rank counted; "shard" the first rank's share alone, without
    all-reduce and with nobody beside it; "all_reduce" the all-reduce alone. ``model``: width, by default
    heads x head_dim.
    """

    name: ClassVar[str] = "throughput"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))
    joint: ClassVar[tuple[str, ...]] = ("devices", "tensor_parallel", "part")
    items: ClassVar[bool] = False

    devices: Positive = 1
    tensor_parallel: Positive = 1
    batch: Positive = 1
    context: Positive = 131_072
    heads: Positive = 64
    head_dim: Positive = 128
    model: Positive | None = None
    dtype: Precision = "float32"
    part: TimedPart = "step"

    def prepare(self, method: Attention, context: Context) -> Task:
        """The ranks, started. Raises NotApplicable for a layout that does not come out even or has too few devices."""
        shape = Shape(self.model or self.heads * self.head_dim, self.heads, self.head_dim)
        replicas = replicas_of(self.devices, self.tensor_parallel, self.batch)
        self._fits(context)
        module = layer(method, shape, "meta")
        work = self._work(fullest(module, self.tensor_parallel, self.batch // replicas, self.context, self.dtype))
        job = Job(
            method=method,
            shape=shape,
            replicas=replicas,
            tensor_parallel=self.tensor_parallel,
            batch=self.batch,
            context=self.context,
            dtype=self.dtype,
            weights_seed=context.seed_for("weights"),
            cache_seed=context.seed_for("cache"),
            inputs_seed=context.seed_for("inputs"),
        )
        steps = Steps(job, self.part, self.devices, context)
        return Task(
            call=steps.call,
            work=work,
            sync=steps.sync if context.devices else None,
            enter=steps.enter,
            leave=steps.leave,
            check=None if self.part == "shard" else steps.check,
        )

    def _fits(self, context: Context) -> None:
        if self.part == "all_reduce" and self.tensor_parallel == 1:
            raise NotApplicable("one device for each replica has nothing to reduce")
        if self.part == "shard":
            return  # the other ranks would be idle
        granted, what = (len(context.devices), "device") if context.devices else (context.cpus, "CPU")
        if granted < self.devices:
            raise NotApplicable(f"{self.devices} ranks at once need a {what} each, and the run has {granted}")

    def _work(self, one: Amounts) -> dict[str, float]:
        """Of one call; bytes and operations are the fullest rank's."""
        if self.part != "all_reduce":
            return {"tokens": float(self.batch), "bytes": float(one.bytes), "flops": float(one.flops)}
        width = self.model or self.heads * self.head_dim
        numbers = self.batch * self.tensor_parallel // self.devices * width
        size = numbers * DTYPES[self.dtype].itemsize
        return {"tokens": float(self.batch), "bytes": float(size), "flops": float(numbers * (self.tensor_parallel - 1))}


def replicas_of(devices: int, tensor_parallel: int, batch: int) -> int:
    """Data-parallel replicas. Raises NotApplicable where devices or sequences do not divide evenly."""
    if devices % tensor_parallel:
        raise NotApplicable(f"{devices} devices cannot form tensor-parallel groups of {tensor_parallel}")
    replicas = devices // tensor_parallel
    if batch % replicas:
        raise NotApplicable(f"{batch} sequences cannot be spread evenly over {replicas} replicas")
    return replicas


def fullest(module: AttentionModule, tensor_parallel: int, sequences: int, context: int, dtype: Precision) -> Amounts:
    """Amounts of the device that reads most. ``module`` on the meta device. Raises NotApplicable like ``shares``."""
    shares = module.layout.shares(module.shape.heads, tensor_parallel)
    return max((amounts(module, s, sequences, context, DTYPES[dtype]) for s in shares), key=lambda a: a.bytes)


class Steps:
    """The entry's part of what the run's ranks do. Weights and caches are theirs from enter to leave."""

    def __init__(self, job: Job, part: TimedPart, devices: int, context: Context) -> None:
        self.job, self.part, self.context = job, part, context
        self.devices = devices
        self.group = self._started()

    def _started(self) -> RankGroup:
        return shared_group(1 if self.part == "shard" else self.devices, self.devices, self.context)

    def enter(self) -> None:
        """Weights and caches into the ranks' memory. Ranks that another entry has lost are started again."""
        if not self.group.alive:
            self.group = self._started()
        self.group.ask(sharded.load_outputs if self.part == "all_reduce" else sharded.load, self.job)

    def leave(self) -> None:
        if self.group.alive:  # else the reason has been told
            self.group.ask(sharded.unload)

    def call(self) -> float:
        """Seconds of the slowest rank. Raises RankError where one dies."""
        if self.part == "all_reduce":
            seconds = self.group.ask(sharded.all_reduce, self.job)
        else:
            seconds = self.group.ask(sharded.shard if self.part == "shard" else sharded.step)
        return float(max(seconds))

    def sync(self) -> None:
        """Nothing: every rank waits for its device before it tells its time."""

    def check(self) -> float:
        """Error of the ranks' outputs against the undivided layer (of the sums, for the all-reduce alone), relative.

        Raises ArithmeticError where it is too large for the precision.
        """
        function = sharded.check_all_reduce if self.part == "all_reduce" else sharded.check
        error = max(self.group.ask(function, self.job))
        if not error <= TOLERANCE[self.job.dtype]:
            raise ArithmeticError(
                f"{self.devices} ranks are off by {error:.1e} of the largest output in {self.job.dtype}"
            )
        return float(error)
