"""What the leaderboard reads: one score per method, evaluation cell, metric and seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.contract import Json
from harness.results.record import State

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Score:
    """One method x evaluation cell x metric x seed, whether it came to a value or not.

    ``value`` is on the shown scale; ``arrays()`` reads per-item values when asked: "items" (natural logarithms
    where the metric's scale is "log"), "units", "replicates", each only if stored. Scores of one timed or joint
    run share ``run``: their items are paired round by round. State OK with value None means undefined, for the
    reason given. ``evaluation`` is its name and ``cell`` its axis values; ``method`` is a row's label. ``versions``:
    of Python and of the libraries that were loaded. ``commit``: of the harness; ``started``: ISO 8601, UTC.
    """

    method: str
    evaluation: str
    cell: Mapping[str, Json]
    metric: str
    seed: int | None
    state: State
    value: float | None = None
    n: int | None = None
    reason: str | None = None
    run: str = ""
    arrays: Callable[[], Mapping[str, np.ndarray]] = field(default=dict, compare=False)
    hardware: str = ""
    versions: Mapping[str, str] = field(default_factory=dict, compare=False)
    gate_closed: bool = False
    commit: str = ""
    started: str = field(default="", compare=False)
