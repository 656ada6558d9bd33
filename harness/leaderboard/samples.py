"""The scores of a study, grouped: what stands behind one cell of a table, and in which state it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from harness.contract import Json
from harness.results.record import State
from harness.results.score import Score
from harness.spec.skips import covers
from harness.spec.study import EvaluationCell, MethodRow, Skip, Study

Array = np.ndarray
Arrays = Mapping[str, Array]


class CellState(StrEnum):
    """How a cell stands. ``partial``: some seeds have a value, others not. ``undefined``: run, but no finite value."""

    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"
    UNDEFINED = "undefined"
    SKIPPED = "skipped"
    MISSING = "missing"


@dataclass(frozen=True)
class Sample:
    """The numbers of one method at one evaluation cell for one metric; only finite ones.

    ``shown``: (seeds,) values on the shown scale, positive where ``log``. ``exact``: measured without noise, no
    interval. ``load``: per seed and per stratum the stored arrays; a plain sample has one stratum, an average
    over cells (:func:`average`) one per cell. ``runs``: the run of each seed and stratum. ``intervals``: those made
    already, by level.
    """

    kind: str
    log: bool
    exact: bool
    seeds: tuple[int | None, ...]
    shown: Array
    runs: tuple[tuple[str, ...], ...] = ()
    load: Callable[[], tuple[tuple[Arrays, ...], ...]] = tuple
    intervals: dict[float, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def arrays(self) -> tuple[tuple[Arrays, ...], ...]:
        return self.load()

    @property
    def estimate(self) -> float | None:
        """Mean over seeds on the shown scale; the geometric one where the metric's scale is logarithmic."""
        if not len(self.shown):
            return None
        return float(self.shown[0]) if len(self.shown) == 1 else self.to_shown(float(np.mean(self.analysed)))

    @property
    def analysed(self) -> Array:
        """(seeds,) values on the scale in which they are averaged."""
        return np.log(self.shown) if self.log else self.shown

    def to_shown(self, value: float) -> float:
        """From the analysed to the shown scale."""
        return math.exp(value) if self.log else value

    def stored(self, name: str) -> tuple[tuple[Array, ...], ...] | None:
        """(seeds)(strata) arrays called ``name`` ("items", "units", "replicates"); None unless all have it."""
        if not self.arrays or not all(name in a for strata in self.arrays for a in strata):
            return None
        return tuple(tuple(np.asarray(a[name]) for a in strata) for strata in self.arrays)


def average(samples: Sequence[Sample]) -> Sample:
    """Macro average over cells: each cell has the same weight, per common seed, on the analysed scale."""
    first = samples[0]
    if len(samples) == 1:
        return first
    seeds = tuple(s for s in first.seeds if all(s in other.seeds for other in samples))
    places = [[sample.seeds.index(s) for s in seeds] for sample in samples]
    analysed = np.mean([sample.analysed[at] for sample, at in zip(samples, places, strict=True)], axis=0)
    pairs = list(zip(samples, places, strict=True))
    return Sample(
        kind="mean" if first.kind == "proportion" else first.kind,
        log=first.log,
        exact=all(s.exact for s in samples),
        seeds=seeds,
        shown=np.exp(analysed) if first.log else analysed,
        runs=tuple(tuple(r for s, at in pairs for r in s.runs[at[i]]) for i in range(len(seeds))),
        load=lambda: tuple(tuple(a for s, at in pairs for a in s.arrays[at[i]]) for i in range(len(seeds))),
    )


@dataclass(frozen=True)
class Group:
    """Everything known of one method x evaluation cell x metric: its sample, and what is wrong with the rest.

    ``reason`` says in words why ``state`` is not OK. ``scores`` are those of the planned seeds, by seed;
    ``statuses``: the state of each planned seed.
    """

    sample: Sample
    state: CellState
    reason: str
    scores: tuple[Score, ...]
    statuses: Mapping[int | None, CellState]

    @property
    def planned(self) -> int:
        """Number of planned seeds; 1 where an evaluation runs once."""
        return len(self.statuses)

    @property
    def hardware(self) -> tuple[str, ...]:
        return tuple(sorted({s.hardware for s in self.scores if s.hardware and _finite(s)}))

    @property
    def versions(self) -> dict[str, tuple[str, ...]]:
        """Library -> its versions in the runs behind this cell."""
        found: dict[str, set[str]] = {}
        for score in self.scores:
            for name, version in score.versions.items() if _finite(score) else ():
                found.setdefault(name, set()).add(version)
        return {name: tuple(sorted(versions)) for name, versions in found.items()}

    @property
    def gate_closed(self) -> bool:
        return any(s.gate_closed for s in self.scores)

    @property
    def items(self) -> int | None:
        """Items per seed; None where unknown or different between seeds."""
        counts = {s.n for s in self.scores if _finite(s)}
        return counts.pop() if len(counts) == 1 else None


class Results:
    """Scores of a study, looked up by method row, evaluation cell and metric (its short name).

    Scores of rows, cells or seeds that the study does not have are left aside. Raises ValueError when two scores
    stand for the same method, cell, metric and seed.
    """

    def __init__(self, study: Study, scores: Iterable[Score]) -> None:
        self.study = study
        self._scores: dict[object, dict[int | None, Score]] = {}
        self._groups: dict[object, Group] = {}
        self._seeds: dict[str, set[int | None]] = {}
        for score in scores:
            place = (score.method, score.evaluation, freeze(score.cell), score.metric)
            seeds = self._scores.setdefault(place, {})
            if score.seed in seeds:
                where = f"{score.method}, {score.evaluation}.{score.metric} {dict(score.cell)}, seed {score.seed}"
                raise ValueError(f"two scores for {where}: expected one")
            seeds[score.seed] = score
            self._seeds.setdefault(score.evaluation, set()).add(score.seed)

    def seeds(self, cell: EvaluationCell) -> tuple[int | None, ...]:
        """The seeds planned for an evaluation: ``(None,)`` where it runs once, unless a build that it reads has some.

        A declared skip has no seed, and says nothing of its rivals'.
        """
        adapter = self.study.adapters[cell.use.use]
        seen = self._seeds.get(cell.name, set())
        seeded = tuple(seed for seed in self.study.seeds if seed in seen)
        if adapter.deterministic or adapter.shape == "timed":
            return seeded or (None,)
        return (None,) if seen == {None} else self.study.seeds

    def rows(self, evaluation: str) -> tuple[MethodRow, ...]:
        """The methods with which an evaluation is done, in the study's order."""
        cells = [c for c in self.study.evaluations if c.name == evaluation]
        return tuple(row for row in self.study.methods if any(cell.takes(row) for cell in cells))

    def group(self, row: MethodRow, cell: EvaluationCell, metric: str) -> Group:
        """Never fails for a row, cell and metric of the study: what is absent is a group in the state missing."""
        place = (row.label, cell.name, freeze(cell.cell), metric)
        if place not in self._groups:
            self._groups[place] = self._make(row, cell, metric, self._scores.get(place, {}))
        return self._groups[place]

    def _make(self, row: MethodRow, cell: EvaluationCell, metric: str, found: Mapping[int | None, Score]) -> Group:
        planned = self.seeds(cell)
        scores = tuple(found[s] for s in planned if s in found)
        adapter = self.study.adapters[self.study.metric(cell.name, metric).use]
        log = adapter.scale == "log"
        usable = tuple(s for s in scores if _finite(s) and not (log and _value(s) <= 0))
        shown = np.array([_value(s) for s in usable], dtype=float)
        deterministic = self.study.adapters[cell.use.use].deterministic
        same = adapter.kind == "exact" and len(shown) > 0 and bool(np.all(shown == shown[0]))
        sampled = adapter.kind != "exact" and any((s.n or 0) > 1 for s in usable)  # items stand for more of their kind
        sample = Sample(
            kind=adapter.kind,
            log=log,
            exact=same or (deterministic and not sampled),
            seeds=tuple(s.seed for s in usable),
            shown=shown,
            runs=tuple((s.run,) for s in usable),
            load=lambda: tuple((s.arrays(),) for s in usable),
        )
        skip = next((s.reason for s in self.study.skips if skipped(s, row, cell)), None)
        statuses = {seed: _status(seed, found, set(sample.seeds), skip) for seed in planned}
        state, reason = _state(statuses)
        return Group(sample, state, reason, scores, {seed: state for seed, (state, _) in statuses.items()})


def _value(score: Score) -> float:
    return math.nan if score.value is None else float(score.value)


def _finite(score: Score) -> bool:
    return score.state is State.OK and math.isfinite(_value(score))


_NOT_YET = (State.QUEUED, State.RUNNING)


def _status(
    seed: int | None, found: Mapping[int | None, Score], usable: set[int | None], skip: str | None
) -> tuple[CellState, str]:
    """State of one seed, and why. ``skip``: the declared reason not to run this cell."""
    score = found.get(seed)
    if seed in usable:
        return CellState.OK, ""
    if skip is not None and (score is None or score.state in (*_NOT_YET, State.SKIPPED)):
        return CellState.SKIPPED, skip
    if score is None:
        return CellState.MISSING, "not run yet"
    if score.state is State.OK:
        return CellState.UNDEFINED, score.reason or f"no usable value ({score.value})"
    if score.state in _NOT_YET:
        return CellState.MISSING, "running" if score.state is State.RUNNING else score.reason or "not run yet"
    if score.state is State.SKIPPED:
        return CellState.SKIPPED, score.reason or "skipped"
    reason = score.reason or "no reason recorded"
    return CellState.FAILED, reason if score.state is State.FAILED else f"{score.state.value}: {reason}"


_WORST_FIRST = (CellState.FAILED, CellState.UNDEFINED, CellState.SKIPPED, CellState.MISSING)


def _state(statuses: Mapping[int | None, tuple[CellState, str]]) -> tuple[CellState, str]:
    """State and reason of a cell from those of its seeds."""
    bad = {seed: status for seed, status in statuses.items() if status[0] is not CellState.OK}
    if not statuses:
        return CellState.MISSING, "no seeds"
    if not bad:
        return CellState.OK, ""
    partial = len(bad) < len(statuses)
    state = CellState.PARTIAL if partial else next(w for w in _WORST_FIRST if any(s is w for s, _ in bad.values()))
    return state, _reasons(bad, len(statuses), partial=partial)


def _reasons(bad: Mapping[int | None, tuple[CellState, str]], planned: int, *, partial: bool) -> str:
    """Each different reason once, with its seeds where they are not all seeds."""
    seeds: dict[str, list[str]] = {}
    for seed, (state, reason) in bad.items():
        text = f"{state.value}: {reason}" if partial or len(bad) != planned else reason
        seeds.setdefault(text, []).append(str(seed))
    if len(seeds) == 1 and len(bad) == planned:
        return next(iter(seeds))
    return "; ".join(f"seed{'s' if len(s) > 1 else ''} {', '.join(s)} {text}" for text, s in seeds.items())


def skipped(skip: Skip, row: MethodRow, cell: EvaluationCell) -> bool:
    """Whether a declared skip covers this row and cell."""
    return covers(skip, (row.name, row.label, row.cell), (cell.name, cell.label, cell.cell))


def freeze(value: Json) -> object:
    """Hashable; 1 and 1.0 are the same value, 1 and true are not, and the order of keys says nothing."""
    if isinstance(value, Mapping):
        return ("mapping", tuple(sorted((k, freeze(v)) for k, v in value.items())))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(freeze(v) for v in value))
    return ("bool", value) if isinstance(value, bool) else value
