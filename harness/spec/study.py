"""A study as the rest of the harness sees it: matrices expanded, values typed, nothing left to look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.contract import Json
from harness.spec.adapter import Adapter

Scale = Literal["here", "paper"]


@dataclass(frozen=True)
class Resources:
    """What a node asks for. ``memory`` in bytes, ``timeout`` in seconds, ``gpus`` may be a fraction."""

    cpus: int = 1
    gpus: float = 0
    memory: int = 2 * 2**30
    timeout: float = 600.0

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def at_least(self, other: Resources) -> Resources:
        """The larger of each."""
        return Resources(
            max(self.cpus, other.cpus),
            max(self.gpus, other.gpus),
            max(self.memory, other.memory),
            max(self.timeout, other.timeout),
        )


@dataclass(frozen=True)
class Use:
    """A component by name. ``params`` are typed plain values, with further ``Use`` objects where components stand.

    Defaults are filled in, except that parameters marked given, and fields made by their default build and not
    named in the spec, are absent. ``gate`` replaces a build's thresholds; ``resources`` are None if not stated.
    """

    use: str
    params: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Json] | None = None
    gate: Mapping[str, str] | None = None


@dataclass(frozen=True)
class MethodRow:
    """One row of the table: a method at one point of its matrix. ``label``: "gqa[kv_heads=2]"."""

    label: str
    name: str
    cell: Mapping[str, Json]
    use: Use
    role: Literal["proposed", "baseline", "rival", "control"] = "rival"
    resources: Resources = Resources()


@dataclass(frozen=True)
class EvaluationCell:
    """An evaluation at one point of its matrix, joint axes included. ``label``: "latency[context=8|tensor_parallel=4]".

    ``cell`` holds the axis values (they are in ``use.params`` too); ``metrics`` are what it is scored with;
    ``methods``: names of the methods that it is done with, None for all.
    """

    label: str
    name: str
    cell: Mapping[str, Json]
    use: Use
    metrics: tuple[Use, ...]
    resources: Resources = Resources()
    methods: tuple[str, ...] | None = None

    def takes(self, row: MethodRow) -> bool:
        """Whether it is done with a method (a declared skip aside)."""
        return self.methods is None or row.name in self.methods


@dataclass(frozen=True)
class Skip:
    """Declared: rows and cells that match every entry of ``where`` are not run, for ``reason``.

    Keys of ``where``: "method" and "evaluation" (names or labels) and axis names of either.
    """

    where: Mapping[str, Json]
    reason: str


@dataclass(frozen=True)
class Expectation:
    """What a claim expects.

    ``kind``: equals | ratio | difference | order | equivalence. ``op`` and ``value``: for
    ratio and difference, as in ">= 2.8". ``margin``: equivalence, relative ("2%" is 0.02) where ``relative``.
    ``order``: method labels, best first. ``text``: as it stood in the spec.
    """

    kind: Literal["equals", "ratio", "difference", "order", "equivalence"]
    op: Literal["==", ">=", ">", "<=", "<"] = "=="
    value: float | None = None
    margin: float | None = None
    relative: bool = False
    order: tuple[str, ...] = ()
    tolerance: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and how it is judged.

    ``metric``: "evaluation.metric". ``where`` and ``against``: "method" plus values of every axis of that
    evaluation; an axis in ``every`` must hold at each value, one in ``mean`` is averaged over. ``control``: a
    method that must fail the same expectation, else the claim is invalid. ``paper``: the paper's figure, shown
    beside ours. ``scale``: "paper" means it is judged only in the profile "paper".
    """

    id: str
    says: str
    metric: str
    where: Mapping[str, Json]
    expect: Expectation
    against: Mapping[str, Json] | None = None
    every: tuple[str, ...] = ()
    mean: tuple[str, ...] = ()
    control: str | None = None
    paper: float | str | None = None
    scale: Scale = "here"
    note: str = ""


@dataclass(frozen=True)
class Study:
    """A validated study in one profile."""

    name: str
    title: str
    path: Path
    profile: str | None
    track: str
    methods: tuple[MethodRow, ...]
    evaluations: tuple[EvaluationCell, ...]
    seeds: tuple[int, ...]
    claims: tuple[Claim, ...] = ()
    skips: tuple[Skip, ...] = ()
    resources: Resources = Resources()
    limit: int | None = None
    paper: Mapping[str, Json] = field(default_factory=dict)
    adapters: Mapping[str, Adapter] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)

    def metric(self, evaluation: str, short: str) -> Use:
        """The metric that claims and tables call ``evaluation.short``."""
        for cell in self.evaluations:
            if cell.name == evaluation:
                for use in cell.metrics:
                    if self.adapters[use.use].short == short:
                        return use
        raise KeyError(f"{evaluation}.{short}")
