"""The cells of a table: estimates with intervals, states with reasons, ranks; nothing missing is averaged away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.contract import Json
from harness.leaderboard.intervals import LEVEL, Interval, intervals
from harness.leaderboard.ranks import ranks
from harness.leaderboard.samples import CellState, Group, Results
from harness.spec.adapter import Adapter
from harness.spec.study import EvaluationCell, MethodRow


@dataclass(frozen=True)
class Cell:
    """One method at one evaluation cell for one metric.

    ``estimate`` and ``interval`` are on the shown scale, None where there is none; ``exact``: no interval is wanted.
    ``n`` of ``planned`` seeds have a value (1 of 1 where an evaluation runs once); ``items`` per seed, if known.
    ``values``: per seed of ``seeds``, None where it has none. ``best``: the best, or not told apart from it.
    ``notes``: remarks that belong to this cell alone.
    """

    method: str
    evaluation: str
    cell: Mapping[str, Json]
    metric: str
    state: CellState
    reason: str
    estimate: float | None
    interval: Interval | None
    exact: bool
    n: int
    planned: int
    items: int | None
    seeds: tuple[int | None, ...]
    values: tuple[float | None, ...]
    runs: tuple[str, ...]
    rank: int | None = None
    best: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One metric at one evaluation cell, for all methods that it is done with, in the order of the study's rows.

    ``note``: why methods of this column are not ranked, if they are not although they have a direction.
    """

    evaluation: str
    cell: Mapping[str, Json]
    metric: str
    adapter: Adapter
    cells: tuple[Cell, ...]
    note: str = ""


def column(results: Results, evaluation: EvaluationCell, metric: str, level: float = LEVEL) -> Column:
    """The cells of all methods. Only complete ones (state OK) are ranked, so a failure moves nobody else's figures."""
    rows = results.rows(evaluation.name)
    groups = [results.group(row, evaluation, metric) for row in rows]
    made = intervals([g.sample for g in groups], level)
    adapter = results.study.adapters[results.study.metric(evaluation.name, metric).use]
    cells = [
        _cell(row, evaluation, metric, group, interval) for row, group, interval in zip(rows, groups, made, strict=True)
    ]
    complete = [i for i, g in enumerate(groups) if g.state is CellState.OK]
    found, note = ranks([groups[i].sample for i in complete], adapter.direction, level)
    for i, rank in zip(complete, found, strict=True):
        cells[i] = replace(cells[i], rank=rank, best=rank == 1)
    for i, notes in _remarks(groups).items():
        cells[i] = replace(cells[i], notes=notes)
    return Column(evaluation.name, evaluation.cell, metric, adapter, tuple(cells), note)


def _cell(row: MethodRow, evaluation: EvaluationCell, metric: str, group: Group, interval: Interval | None) -> Cell:
    sample = group.sample
    by_seed = dict(zip(sample.seeds, (float(v) for v in sample.shown), strict=True))
    seeds = tuple(s.seed for s in group.scores)
    return Cell(
        method=row.label,
        evaluation=evaluation.name,
        cell=evaluation.cell,
        metric=metric,
        state=group.state,
        reason=group.reason,
        estimate=sample.estimate,
        interval=interval,
        exact=sample.exact,
        n=len(sample.shown),
        planned=group.planned,
        items=group.items,
        seeds=seeds,
        values=tuple(by_seed.get(s) for s in seeds),
        runs=tuple(dict.fromkeys(s.run for s in group.scores if s.run)),
    )


def _remarks(groups: Sequence[Group]) -> dict[int, tuple[str, ...]]:
    """What makes a cell differ from most of its column: hardware, libraries, items. (Seeds show in its state.)"""
    remarks: dict[int, list[str]] = {}
    kinds = (
        ("measured on", [", ".join(g.hardware) for g in groups]),
        ("made with", _libraries(groups)),
        ("items per seed:", [str(g.items or "") for g in groups]),
    )
    for words, values in kinds:
        present = [v for v in values if v]
        if len(set(present)) < 2:
            continue
        usual, _ = max(Counter(present).items(), key=lambda pair: (pair[1], pair[0]))
        for i, value in enumerate(values):
            if value and value != usual:
                remarks.setdefault(i, []).append(f"{words} {value}, the others: {usual}")
    return {i: tuple(texts) for i, texts in remarks.items()}


def _libraries(groups: Sequence[Group]) -> list[str]:
    """Per group the libraries whose version is not the same everywhere: "torch 2.12"."""
    versions = [group.versions for group in groups]
    names = sorted({name for found in versions for name in found})
    differ = [name for name in names if len({v for found in versions for v in found.get(name, ())}) > 1]
    return [", ".join(f"{name} {'/'.join(found[name])}" for name in differ if name in found) for found in versions]
