"""What an adapter implements: Component, Build, Method, Evaluation, Metric, and the Context it is handed.

A subclass of :class:`Component` becomes a frozen, keyword-only dataclass; its annotated fields are the
parameters that a spec may set. Everything else the harness needs to know about an adapter is a class
variable, so that it can be described once and then planned without importing it.

This module needs the standard library alone. Adapters import it and nothing else of the engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)

if TYPE_CHECKING:
    import numpy as np

CONTRACT_VERSION = 1
"""Part of every key: raised when a change here changes what adapters observe."""

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

T = TypeVar("T")
M = TypeVar("M", bound="Method")

Scoring = Annotated[T, "scoring"]
"""A parameter that metrics alone read: outside the observation key, unless the method lists it in ``reads``."""

Given = Annotated[T, "given"]
"""Never in a spec: filled with the run's ``method``, or with the evaluation's parameter of the same name."""

AssetReference = Annotated[str, "asset"]
"""Text that names an asset: a catalogue name, or ``package:``, ``hub:`` or ``file:``. Its revision is in the key."""


@dataclass(frozen=True)
class Built:
    """Default of a field that a build makes; see :func:`built`."""

    name: str


def built(name: str) -> Any:
    """Declare a field that the Build registered as ``name`` makes, unless the spec names another one."""
    return field(default=Built(name), metadata={"built": name})


@dataclass(frozen=True)
class Needs:
    """What an adapter asks of the machine. Written with literals, so that it can be described.

    ``extras``: optional dependencies of the distribution; ``devices``: kinds of accelerator ("cuda");
    ``preload``: third-party modules that the worker's parent imports once; ``assets``: references used
    whatever the parameters.
    """

    extras: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(built, field))
class Component:
    """A named, parameterised part of a study: every subclass is a frozen dataclass of its parameters.

    Registered under ``TRACK.class_name`` (``decoding.cache_size`` for ``CacheSize``); abstract bases, which
    cannot be named in a spec, say so with ``abstract = True`` in their own body.
    """

    abstract: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        dataclass(frozen=True, kw_only=True)(cls)


class Build(Component, Generic[T]):
    """A component with a node of its own in the plan. Wherever ``T`` is wanted, a ``Build[T]`` may be named.

    ``seeded``: made once per seed (also so when an input is seeded). ``gate``: thresholds on what
    :meth:`make` returns, such as ``{"accuracy": ">= 0.9"}``; a spec may replace them, no key holds them.
    """

    abstract: ClassVar[bool] = True

    seeded: ClassVar[bool] = False
    gate: ClassVar[Mapping[str, str]] = {}

    def make(self, context: Context) -> Mapping[str, float]:
        """Fill ``context.directory``; return the measurements that the gate reads (may be empty)."""
        raise NotImplementedError

    def load(self, directory: Path) -> T:
        """The product, read back in the process of whoever needs it."""
        raise NotImplementedError


class Method(Component):
    """A method or one of its rivals. Tracks subclass it to say what it can do."""

    abstract: ClassVar[bool] = True

    reads: ClassVar[tuple[str, ...]] = ()
    """Scoring parameters of the evaluation that this method needs while it is observed."""


class Evaluation(Component, Generic[M]):
    """What is done with one method, for one cell of the matrix and one seed.

    ``deterministic``: run once, without seeds; an interval comes from items alone. ``items``: whether ``--limit`` makes
    sense.
    """

    abstract: ClassVar[bool] = True

    deterministic: ClassVar[bool] = False
    items: ClassVar[bool] = True

    def observe(self, method: M, context: Context) -> Observations:
        """The dear half: everything that metrics will read. Raise NotApplicable to skip with a reason."""
        raise NotImplementedError


class JointEvaluation(Evaluation[M]):
    """One run for all methods and for all values of the axes in ``joint``."""

    abstract: ClassVar[bool] = True

    joint: ClassVar[tuple[str, ...]] = ()

    def observe_all(self, entries: Sequence[Entry[M]], context: Context) -> Mapping[str, Observations | Failure]:
        """Observations or a failure for each entry id."""
        raise NotImplementedError


class TimedEvaluation(JointEvaluation[M]):
    """A joint evaluation whose rounds, rotation, reference workloads and synchronisation the engine drives.

    ``rounds``: timed rounds, each of all entries; ``warmup``: untimed rounds before them; ``min_time``:
    seconds that one timing lasts at least (the call is repeated).
    """

    abstract: ClassVar[bool] = True

    rounds: int = 9
    warmup: int = 1
    min_time: float = 0.1

    def prepare(self, method: M, context: Context) -> Task:
        """What is to be timed for one entry; called on that entry's own evaluation instance."""
        raise NotImplementedError


@dataclass(frozen=True)
class Entry(Generic[M]):
    """One method x one value of the joint axes inside a joint run. ``id`` is a digest: no labels inside runs."""

    id: str
    method: M
    evaluation: Evaluation[M]
    cell: Mapping[str, Json]


@dataclass(frozen=True)
class Task:
    """A thing to time.

    ``call``: the work, once. If it returns a float, that many seconds are taken as its duration instead of
    the clock's (several shards, the slowest counted). ``work``: amounts done by one call ("tokens", "bytes",
    "flops"). ``sync``: waits for the device. ``enter``/``leave``: memory that must not stay resident between
    rounds. ``check``: a number computed once, untimed, that goes into the record as ``check``.
    """

    call: Callable[[], object]
    work: Mapping[str, float] = field(default_factory=dict)
    sync: Callable[[], None] | None = None
    enter: Callable[[], None] | None = None
    leave: Callable[[], None] | None = None
    check: Callable[[], float] | None = None


@dataclass(frozen=True)
class Observations:
    """What a run saw: numeric arrays (stored as npz, no pickles) and plain JSON values."""

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    values: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why one entry of a joint run has no observations."""

    reason: str
    where: str | None = None
    skipped: bool = False


@dataclass(frozen=True)
class Values:
    """A metric's result for one entry.

    ``value``: on the scale that is shown; None with a ``note`` where it is undefined. ``items``: one number per
    item, on the scale in which they average (natural logarithms where the metric's ``scale`` is "log").
    ``units``: resampling unit of each item (clusters), as integers. ``replicates``: bootstrap replicates of a
    value that is no mean, drawn with ``context.rng("bootstrap")`` so that rivals share the resamples.
    """

    value: float | None
    items: np.ndarray | None = None
    units: np.ndarray | None = None
    replicates: np.ndarray | None = None
    note: str = ""


class Metric(Component):
    """A number made from observations. Stands in its own module and names the evaluations it belongs to.

    ``kind``: how an interval is made ("mean" and "proportion" of items, "median" of items, "exact": none,
    "replicates": from ``Values.replicates``). ``scale``: "log" where ratios are natural.
    """

    abstract: ClassVar[bool] = True

    of: ClassVar[tuple[str, ...]]
    direction: ClassVar[Literal["max", "min"] | None] = None
    unit: ClassVar[str] = ""
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "mean"
    scale: ClassVar[Literal["linear", "log"]] = "linear"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """``parameters``: the plain parameters of the evaluation, scoring parameters included."""
        raise NotImplementedError


class NotApplicable(Exception):
    """Raised by an adapter: this combination makes no sense, for the reason given. Anything else is a failure."""


class Context(Protocol):
    """The only thing that the engine hands to an adapter."""

    @property
    def directory(self) -> Path: ...  # where a build puts its product; scratch space of a run
    @property
    def checkpoints(self) -> Path: ...  # survives attempts
    @property
    def seed(self) -> int | None: ...
    @property
    def limit(self) -> int | None: ...  # use so many items at most
    @property
    def cpus(self) -> int: ...  # threads that may be used
    @property
    def devices(self) -> tuple[str, ...]: ...  # leases: index, GPU-UUID or MIG-UUID
    @property
    def memory(self) -> int: ...  # bytes granted

    def rng(self, stream: str) -> np.random.Generator:
        """Generator that depends on (seed, stream) alone: the same for every rival."""
        ...

    def seed_for(self, stream: str) -> int:
        """A 63-bit seed for other libraries' generators, from (seed, stream) alone."""
        ...

    def asset(self, reference: str) -> Path:
        """The local file or folder that an asset reference stands for. Raises an AssetError that says what to do."""
        ...

    def sample(self, id: str, **fields: Json) -> None:
        """Keep one item's details; they end up in ``samples.arrow``."""
        ...

    def progress(self, done: float, total: float, note: str = "") -> None:
        """Tell the driver how far the run is."""
        ...


def parameters_of(component: Component) -> Mapping[str, Any]:
    """Field names and values of a component, in order of declaration."""
    return {f.name: getattr(component, f.name) for f in dataclasses.fields(component)}  # type: ignore[arg-type]
