"""The leaderboard as strict JSON: numbers unrounded, non-finite ones null.

::

    {"schema_version": 1, "study", "title", "profile", "paper": {...}, "limit": null, "level": 0.95,
     "counts": {"planned", "finished", "failed", "skipped", "missing"},
     "methods": [{"label", "name", "cell": {...}, "role", "coverage": {"complete", "cells"}}],
     "evaluations": [{"evaluation", "columns": [
        {"metric", "cell": {axis: value}, "unit", "direction": "max" | "min" | null, "kind", "scale", "note",
         "cells": [{"method", "state": "ok" | "partial" | "failed" | "undefined" | "skipped" | "missing",
                    "reason", "estimate", "interval": {"low", "high", "level", "kind"} | null, "exact",
                    "n", "planned", "items", "seeds": [...], "values": [...], "rank", "best", "runs": [...],
                    "footnotes": ["a", ...]}]}]}],
     "claims": [{"id", "says", "metric", "verdict", "measured", "interval", "expected", "paper", "text", "reason",
        "parts": [{"label", "what", "verdict", "measured", "interval", "basis", "reason"}], "control": [as parts],
        "evidence": [{"role", "method", "evaluation", "cell", "metric", "estimate", "interval", "n", "planned",
                      "state", "reason", "runs"}]}],
     "footnotes": {mark: text}, "legend": [...],
     "provenance": {"started": [first, last], "machines": [...], "commits": [...], "libraries": {name: [versions]}}}

``values`` stand beside ``seeds``. Rows and columns are in the spec's order.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from harness.leaderboard.cells import Cell, Column
from harness.leaderboard.claims import Evidence, Judgement, Measured
from harness.leaderboard.intervals import Interval
from harness.leaderboard.table import Leaderboard
from harness.results.files import finite

SCHEMA_VERSION = 1


def render(board: Leaderboard) -> str:
    """The document as text with a newline at the end; characters outside ASCII stand as they are."""
    return json.dumps(document(board), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def document(board: Leaderboard) -> dict[str, Any]:
    """The document, ready for a strict JSON writer."""
    made: dict[str, Any] = finite(
        {
            "schema_version": SCHEMA_VERSION,
            "study": board.study,
            "title": board.title,
            "profile": board.profile,
            "paper": board.paper,
            "limit": board.limit,
            "level": board.level,
            "counts": asdict(board.counts),
            "methods": _methods(board),
            "evaluations": [
                {"evaluation": t.evaluation, "columns": [_column(board, c) for c in t.columns]} for t in board.tables
            ],
            "claims": [_claim(j) for j in board.judgements],
            "footnotes": dict(board.footnotes),
            "legend": board.legend,
            "provenance": {**asdict(board.provenance), "libraries": dict(board.provenance.libraries)},
        }
    )
    return made


def _methods(board: Leaderboard) -> list[dict[str, Any]]:
    found = []
    for m in board.methods:
        complete, cells = board.coverage(m.label)
        coverage = {"complete": complete, "cells": cells}
        found.append({"label": m.label, "name": m.name, "cell": m.cell, "role": m.role, "coverage": coverage})
    return found


def _column(board: Leaderboard, column: Column) -> dict[str, Any]:
    return {
        "metric": column.metric,
        "cell": column.cell,
        "unit": column.adapter.unit,
        "direction": column.adapter.direction,
        "kind": column.adapter.kind,
        "scale": column.adapter.scale,
        "note": column.note,
        "cells": [_cell(board, cell) for cell in column.cells],
    }


def _cell(board: Leaderboard, cell: Cell) -> dict[str, Any]:
    return {
        "method": cell.method,
        "state": cell.state.value,
        "reason": cell.reason,
        "estimate": cell.estimate,
        "interval": _interval(cell.interval),
        "exact": cell.exact,
        "n": cell.n,
        "planned": cell.planned,
        "items": cell.items,
        "seeds": cell.seeds,
        "values": cell.values,
        "rank": cell.rank,
        "best": cell.best,
        "runs": cell.runs,
        "footnotes": board.marks(cell),
    }


def _interval(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else asdict(interval)


def _claim(j: Judgement) -> dict[str, Any]:
    return {
        "id": j.claim,
        "says": j.says,
        "metric": j.metric,
        "verdict": j.verdict.value,
        "measured": j.measured,
        "interval": _interval(j.interval),
        "expected": j.expected,
        "paper": j.paper,
        "text": j.text,
        "reason": j.reason,
        "parts": [_part(m) for m in j.parts],
        "control": [_part(m) for m in j.control],
        "evidence": [_evidence(e) for e in j.evidence],
    }


def _part(m: Measured) -> dict[str, Any]:
    return {
        "label": m.label,
        "what": m.what,
        "verdict": m.verdict.value,
        "measured": m.estimate,
        "interval": _interval(m.interval),
        "basis": m.basis,
        "reason": m.reason,
    }


def _evidence(e: Evidence) -> dict[str, Any]:
    names = ("role", "method", "evaluation", "cell", "metric", "estimate", "n", "planned", "reason", "runs")
    return {**{n: getattr(e, n) for n in names}, "state": e.state.value, "interval": _interval(e.interval)}
