"""What the writers of text have in common: a cell in words, headings, verdict marks."""

from __future__ import annotations

from dataclasses import dataclass

from harness.leaderboard import format, notes, wording
from harness.leaderboard.cells import Cell, Column
from harness.leaderboard.samples import CellState
from harness.leaderboard.table import Leaderboard, Panel, Table
from harness.leaderboard.verdicts import Verdict

ARROWS = {"max": "↑", "min": "↓", None: ""}
WORDS = {"max": "(higher is better)", "min": "(lower is better)", None: ""}

VERDICT_MARKS = {
    Verdict.REPRODUCED: "✓",
    Verdict.WEAKER: "~",
    Verdict.NOT_REPRODUCED: "✗",
    Verdict.INCONCLUSIVE: "?",
    Verdict.INVALID: "!",
    Verdict.NOT_EVALUATED: "-",
    Verdict.NOT_TESTED: ".",
}


@dataclass(frozen=True)
class CellText:
    """``main``: the estimate, or the state in words; ``interval``: "[low, high]", "[n/a]" or empty."""

    main: str
    interval: str = ""
    tail: str = ""
    best: bool = False

    @property
    def line(self) -> str:
        return " ".join(part for part in (self.main, self.interval, self.tail) if part)


def cell_text(board: Leaderboard, cell: Cell) -> CellText:
    """A cell in words; numbers with the digits that the interval supports."""
    marks = "".join(f"({mark})" for mark in board.marks(cell))
    if cell.estimate is None:
        return CellText(_absent(cell), tail=marks)
    if cell.exact:
        main, interval = format.exact(cell.estimate), ""
    else:
        main = format.estimate(cell.estimate, cell.interval)
        interval = format.bounds(cell.interval)
    seeds = f"{cell.n}/{cell.planned} seeds" if cell.state is CellState.PARTIAL else ""
    return CellText(main, interval, " ".join(part for part in (seeds, marks) if part), cell.best)


def _absent(cell: Cell) -> str:
    if cell.state is CellState.FAILED:
        return "FAILED"
    if cell.state is CellState.UNDEFINED:
        return format.NOT_AVAILABLE
    if cell.state is CellState.MISSING:
        return cell.reason if cell.reason in notes.PLAIN_MISSING else "not run"
    return cell.state.value


def metric_heading(column: Column, *, arrows: bool = True) -> str:
    """ "tokens_per_second [1/s] ↑"."""
    unit = f"[{column.adapter.unit}]" if column.adapter.unit else ""
    direction = (ARROWS if arrows else WORDS)[column.adapter.direction]
    return " ".join(part for part in (column.metric, unit, direction) if part)


def panel_title(table: Table, panel: Panel, *, arrows: bool = True) -> str:
    """ "latency: tokens_per_second [1/s] ↑ (context=131072)"."""
    metric = f": {metric_heading(panel.columns[0], arrows=arrows)}" if panel.metric is not None else ""
    fixed = f" ({wording.axes(table.fixed)})" if table.fixed else ""
    return f"{table.evaluation}{metric}{fixed}"


def headings(panel: Panel, *, arrows: bool = True) -> list[str]:
    """The corner and one heading per column."""
    if panel.metric is None:
        return ["method", *(metric_heading(c, arrows=arrows) for c in panel.columns)]
    return [f"method / {panel.axis}" if panel.axis else "method", *panel.headings]


def board_title(board: Leaderboard) -> str:
    """The study's title, with name and profile."""
    profile = f", profile {board.profile}" if board.profile else ""
    return f"{board.title or board.study} ({board.study}{profile})"
