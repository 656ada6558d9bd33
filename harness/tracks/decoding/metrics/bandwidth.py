"""How fast the cache is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values
from harness.tracks.decoding.metrics.rounds import median_of, work


class Bandwidth(Metric):
    """Bytes of cache over the time of a step, median over rounds."""

    name: ClassVar[str] = "bandwidth"
    of: ClassVar[tuple[str, ...]] = ("decoding.latency",)
    direction: ClassVar[Literal["max", "min"] | None] = None
    unit: ClassVar[str] = "GB/s"
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "median"
    scale: ClassVar[Literal["linear", "log"]] = "log"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        return median_of(work(seen, "bytes") / seen.arrays["seconds"] / 1e9)
