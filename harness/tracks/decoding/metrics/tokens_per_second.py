"""Decoding speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values
from harness.tracks.decoding.metrics.rounds import median_of, work


class TokensPerSecond(Metric):
    """Tokens decoded per second, median over rounds: all sequences that one call of the timed work decodes."""

    name: ClassVar[str] = "tokens_per_second"
    of: ClassVar[tuple[str, ...]] = ("decoding.latency", "decoding.throughput")
    direction: ClassVar[Literal["max", "min"] | None] = "max"
    unit: ClassVar[str] = "1/s"
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "median"
    scale: ClassVar[Literal["linear", "log"]] = "log"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        return median_of(work(seen, "tokens") / seen.arrays["seconds"])
