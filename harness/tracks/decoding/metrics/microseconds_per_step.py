"""Decoding time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values
from harness.tracks.decoding.metrics.rounds import median_of


class MicrosecondsPerStep(Metric):
    """Time of one decoding step, or of the part of it that the evaluation times, median over rounds."""

    name: ClassVar[str] = "microseconds_per_step"
    of: ClassVar[tuple[str, ...]] = ("decoding.latency", "decoding.throughput")
    direction: ClassVar[Literal["max", "min"] | None] = "min"
    unit: ClassVar[str] = "us"
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "median"
    scale: ClassVar[Literal["linear", "log"]] = "log"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        return median_of(seen.arrays["seconds"] * 1e6)
