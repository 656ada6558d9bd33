"""The leaderboard of a study: a table per evaluation, judged claims, footnotes, legend and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.contract import Json
from harness.leaderboard import notes, wording
from harness.leaderboard.cells import Cell, Column, column
from harness.leaderboard.claims import Judgement, judged
from harness.leaderboard.intervals import LEVEL
from harness.leaderboard.provenance import Provenance, provenance
from harness.leaderboard.samples import CellState, Results, freeze
from harness.results.score import Score
from harness.spec.study import EvaluationCell, MethodRow, Study

if TYPE_CHECKING:
    import pandas as pd

Order = Literal["spec", "rank"]


@dataclass(frozen=True)
class Panel:
    """Columns that are read together: one metric over the axes' values, or several metrics of a single cell.

    ``metric`` is the short name in the first case, else None. ``headings``: one per column. ``axis``: the name of
    the only axis that varies; the headings are then its bare values.
    """

    metric: str | None
    axis: str | None
    headings: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Table:
    """One evaluation. ``fixed``: axes with the same value everywhere. ``order``: indices of ``rows``."""

    evaluation: str
    fixed: Mapping[str, Json]
    panels: tuple[Panel, ...]
    rows: tuple[MethodRow, ...]
    order: tuple[int, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for panel in self.panels for c in panel.columns)


@dataclass(frozen=True)
class Counts:
    """Measurements: one method at one evaluation cell with one seed. ``finished`` includes undefined values."""

    planned: int
    finished: int
    failed: int
    skipped: int
    missing: int

    def __str__(self) -> str:
        parts = [f"{self.finished} of {self.planned} measurements finished"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.skipped} skipped"] if self.skipped else []
        parts += [f"{self.missing} not run"] if self.missing else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Leaderboard:
    """All that writers need. ``footnotes``: mark and text; ``marks`` finds the marks of a cell."""

    study: str
    title: str
    profile: str | None
    paper: Mapping[str, Json]
    limit: int | None
    level: float
    methods: tuple[MethodRow, ...]
    tables: tuple[Table, ...]
    judgements: tuple[Judgement, ...]
    footnotes: tuple[tuple[str, str], ...]
    legend: tuple[str, ...]
    counts: Counts
    provenance: Provenance

    def cells(self) -> Iterator[tuple[Column, Cell]]:
        """Every cell with its column: tables, columns, methods in the study's order."""
        return ((c, cell) for table in self.tables for c in table.columns for cell in c.cells)

    def marks(self, cell: Cell) -> tuple[str, ...]:
        """Marks of the footnotes that belong to a cell."""
        known = {text: mark for mark, text in self.footnotes}
        return tuple(known[text] for text in notes.texts(cell))

    def coverage(self, method: str) -> tuple[int, int]:
        """Complete cells of a method, and how many there are, over all columns of all tables."""
        mine = [cell for _, cell in self.cells() if cell.method == method]
        return sum(cell.state is CellState.OK for cell in mine), len(mine)

    def to_frame(self) -> pd.DataFrame:
        """Long form, one row per cell; see :func:`harness.leaderboard.frame.frame`."""
        from harness.leaderboard.frame import frame

        return frame(self)


def build(study: Study, scores: Sequence[Score], *, order: Order = "spec", level: float = LEVEL) -> Leaderboard:
    """Tables and judgements from scores. Rows in the spec's order, or in each table by its first column ("rank").

    Raises ValueError when two scores stand for the same method, cell, metric and seed.
    """
    results = Results(study, scores)
    names = dict.fromkeys(c.name for c in study.evaluations)
    tables = tuple(_table(results, name, order, level) for name in names)
    columns = [c for table in tables for c in table.columns]
    return Leaderboard(
        study=study.name,
        title=study.title,
        profile=study.profile,
        paper=study.paper,
        limit=study.limit,
        level=level,
        methods=study.methods,
        tables=tables,
        judgements=judged(results, level),
        footnotes=notes.footnotes(columns),
        legend=notes.legend(columns, study.limit, level),
        counts=_counts(results),
        provenance=provenance(scores),
    )


def _table(results: Results, evaluation: str, order: Order, level: float) -> Table:
    cells = [c for c in results.study.evaluations if c.name == evaluation]
    metrics = list(dict.fromkeys(results.study.adapters[u.use].short for c in cells for u in c.metrics))
    axes = list(dict.fromkeys(axis for c in cells for axis in c.cell))
    varying = [a for a in axes if len({freeze(c.cell.get(a)) for c in cells}) > 1]
    fixed = {a: cells[0].cell[a] for a in axes if a not in varying}
    if len(cells) > 1:
        panels = tuple(_over_axes(results, cells, metric, varying, level) for metric in metrics)
    else:
        columns = tuple(column(results, cells[0], metric, level) for metric in metrics)
        panels = (Panel(None, None, tuple(metrics), columns),) if metrics else ()
    rows = results.rows(evaluation)
    shown = tuple(range(len(rows)))
    first = next((c for p in panels for c in p.columns), None)
    if order == "rank" and first is not None:
        shown = tuple(sorted(shown, key=lambda i: _place(first, i)))
    return Table(evaluation, fixed, panels, rows, shown)


def _over_axes(
    results: Results, cells: Sequence[EvaluationCell], metric: str, varying: Sequence[str], level: float
) -> Panel:
    columns = tuple(column(results, cell, metric, level) for cell in cells)
    if len(varying) == 1:
        headings = tuple(wording.value(c.cell.get(varying[0])) for c in cells)
        return Panel(metric, varying[0], headings, columns)
    headings = tuple(wording.axes({a: c.cell[a] for a in varying if a in c.cell}) for c in cells)
    return Panel(metric, None, headings, columns)


def _place(first: Column, i: int) -> tuple[bool, bool, int, float, int]:
    """Sorting key: complete before partial, ranked by rank, then by estimate in the better direction; n/a last."""
    cell = first.cells[i]
    if cell.estimate is None:
        return (True, True, 0, 0.0, i)
    sign = {"max": -1.0, "min": 1.0, None: 0.0}[first.adapter.direction]
    return (False, cell.state is not CellState.OK, cell.rank or 0, sign * cell.estimate, i)


def _counts(results: Results) -> Counts:
    study = results.study
    found = dict.fromkeys(CellState, 0)
    for cell in study.evaluations:
        for row in results.rows(cell.name):
            metrics = [study.adapters[u.use].short for u in cell.metrics]
            groups = [results.group(row, cell, m) for m in metrics]
            for seed in results.seeds(cell) if groups else ():
                states = {g.statuses[seed] for g in groups}
                worst = (CellState.FAILED, CellState.MISSING, CellState.UNDEFINED, CellState.OK, CellState.SKIPPED)
                found[next(s for s in worst if s in states)] += 1
    finished = found[CellState.OK] + found[CellState.UNDEFINED]
    return Counts(
        sum(found.values()), finished, found[CellState.FAILED], found[CellState.SKIPPED], found[CellState.MISSING]
    )
