"""The accuracy that averages over tasks are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values
from harness.tracks.language.metrics.shared import proportion, usual


class Accuracy(Metric):
    """acc_norm where the task has it, else acc: what published zero-shot averages take."""

    name: ClassVar[str] = "accuracy"
    of: ClassVar[tuple[str, ...]] = ("language.downstream", "decoding.downstream")
    direction: ClassVar[Literal["max", "min"] | None] = "max"
    unit: ClassVar[str] = ""
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "proportion"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        return proportion(seen, usual(seen))
