"""A leaderboard as a data frame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.contract import Json

if TYPE_CHECKING:
    import pandas as pd

    from harness.leaderboard.table import Leaderboard

BEFORE = ("method", "role", "evaluation")
AFTER = (
    "metric",
    "unit",
    "direction",
    "estimate",
    "low",
    "high",
    "interval",
    "n",
    "planned",
    "items",
    "state",
    "reason",
    "rank",
    "best",
)


def frame(board: Leaderboard) -> pd.DataFrame:
    """One row per cell: method, role, evaluation, one column per axis, then the columns of ``AFTER``.

    Missing numbers are NaN (``<NA>`` for whole ones). An axis whose values are of mixed types is a column of JSON
    text; one named like another column gets "_axis" appended.
    """
    import pandas as pd

    rows = []
    roles = {m.label: m.role for m in board.methods}
    for column, cell in board.cells():
        low, high = (cell.interval.low, cell.interval.high) if cell.interval else (None, None)
        rows.append(
            {
                "method": cell.method,
                "role": roles[cell.method],
                "evaluation": cell.evaluation,
                "metric": cell.metric,
                "unit": column.adapter.unit,
                "direction": column.adapter.direction,
                "estimate": cell.estimate,
                "low": low,
                "high": high,
                "interval": cell.interval.kind if cell.interval else None,
                "n": cell.n,
                "planned": cell.planned,
                "items": cell.items,
                "state": cell.state.value,
                "reason": cell.reason or None,
                "rank": cell.rank,
                "best": cell.best,
            }
        )
    cells = [cell.cell for _, cell in board.cells()]
    axes = dict.fromkeys(axis for cell in cells for axis in cell)
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in BEFORE}
    for axis in axes:
        name = f"{axis}_axis" if axis in (*BEFORE, *AFTER) else axis
        columns[name] = _axis([cell.get(axis) for cell in cells], [axis in cell for cell in cells])
    columns |= {name: [row[name] for row in rows] for name in AFTER}
    made = pd.DataFrame(columns)
    whole = dict.fromkeys(("items", "rank"), "Int64")
    return made.astype({**dict.fromkeys(("estimate", "low", "high"), "float64"), **whole})


def _axis(values: Sequence[Json], present: Sequence[bool]) -> list[Any]:
    """Values of one type as they are, of several as JSON text."""
    there = [v for v, here in zip(values, present, strict=True) if here]
    for types in ((bool,), (int,), (float, int), (str,)):
        if all(type(v) in types for v in there):
            return list(values)
    return [json.dumps(v, ensure_ascii=False) if here else None for v, here in zip(values, present, strict=True)]
