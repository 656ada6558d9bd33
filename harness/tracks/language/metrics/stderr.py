"""The standard error that lm-evaluation-harness gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values
from harness.tracks.language.metrics.shared import own_figure, usual


class Stderr(Metric):
    """lm-eval's own standard error over items, of acc_norm where the task has it, else of acc."""

    name: ClassVar[str] = "stderr"
    of: ClassVar[tuple[str, ...]] = ("language.downstream", "decoding.downstream")
    direction: ClassVar[Literal["max", "min"] | None] = None
    unit: ClassVar[str] = ""
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "exact"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        error = own_figure(seen, usual(seen), "stderr")
        return Values(error, note="" if error is not None else "lm-eval gives none for a single item")
