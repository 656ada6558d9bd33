"""How much of what was shown is found again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values


class RecallAccuracy(Metric):
    """Share of questions answered right; an item is a sequence."""

    name: ClassVar[str] = "recall_accuracy"
    of: ClassVar[tuple[str, ...]] = ("decoding.recall",)
    direction: ClassVar[Literal["max", "min"] | None] = "max"
    unit: ClassVar[str] = ""
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "mean"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """Items are the sequences' shares: all have equally many questions, so their mean is that of all questions."""
        shares = seen.arrays["correct"]
        return Values(float(shares.mean()), items=shares)
