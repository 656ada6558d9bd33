"""Footnotes and legend: what a reader must know that the cells have no room for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, product
from string import ascii_lowercase

from harness.leaderboard import format
from harness.leaderboard.cells import Cell, Column
from harness.leaderboard.samples import CellState

PLAIN_MISSING = ("not run yet", "running")
"""Said in the cell itself."""


def texts(cell: Cell) -> tuple[str, ...]:
    """The footnotes of a cell: why it has no (or not the whole) value, and what sets it apart from its column."""
    if cell.state is CellState.OK or (cell.state is CellState.MISSING and cell.reason in PLAIN_MISSING):
        return cell.notes
    reason = cell.reason if cell.state is CellState.PARTIAL else f"{cell.state.value}: {cell.reason}"
    return (reason, *cell.notes)


def footnotes(columns: Sequence[Column]) -> tuple[tuple[str, str], ...]:
    """Mark and text of each different footnote, in the order in which they appear: a, b, ..., z, aa, ..."""
    found = dict.fromkeys(text for c in columns for cell in c.cells for text in texts(cell))
    return tuple(zip(_marks(), found, strict=False))


def _marks() -> Iterable[str]:
    return ("".join(letters) for n in count(1) for letters in product(ascii_lowercase, repeat=n))


def legend(columns: Sequence[Column], limit: int | None, level: float) -> tuple[str, ...]:
    """How to read the marks that occur."""
    cells = [cell for c in columns for cell in c.cells]
    lines = []
    if any(cell.best for cell in cells):
        alpha = format.percent(1 - level)
        lines.append(f"*: the best of its column, or not told apart from the best (tests at {alpha}, Holm-corrected)")
    kinds = dict.fromkeys(cell.interval.kind for cell in cells if cell.interval is not None)
    if kinds:
        lines.append(f"[low, high]: {format.percent(level)} interval ({'; '.join(kinds)})")
    if any(lacks_interval(cell) for cell in cells):
        lines.append("[n/a]: too few measurements for an interval")
    if any(cell.state is CellState.PARTIAL for cell in cells):
        lines.append("n/m seeds: only n of m have a value; not ranked, and no claim is judged on it")
    for note in dict.fromkeys(c.note for c in columns if c.note):
        names = dict.fromkeys(f"{c.evaluation}.{c.metric}" for c in columns if c.note == note)
        lines.append(f"{note}: {', '.join(names)}")
    if limit is not None:
        lines.append(f"limited to {limit} items: not comparable with runs on all of them")
    return tuple(lines)


def lacks_interval(cell: Cell) -> bool:
    """A noisy estimate without an interval."""
    return cell.estimate is not None and cell.interval is None and not cell.exact
