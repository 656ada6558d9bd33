"""Accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values
from harness.tracks.language.metrics.shared import proportion


class Acc(Metric):
    """Share of the items whose right answer is the likeliest."""

    name: ClassVar[str] = "acc"
    of: ClassVar[tuple[str, ...]] = ("language.downstream", "decoding.downstream")
    direction: ClassVar[Literal["max", "min"] | None] = "max"
    unit: ClassVar[str] = ""
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "proportion"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        return proportion(seen, "acc")
