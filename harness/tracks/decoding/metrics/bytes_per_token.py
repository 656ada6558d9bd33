"""Cache bytes per token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values


class BytesPerToken(Metric):
    """Bytes that the fullest device caches per token and layer."""

    name: ClassVar[str] = "bytes_per_token"
    of: ClassVar[tuple[str, ...]] = ("decoding.cache_size",)
    direction: ClassVar[Literal["max", "min"] | None] = "min"
    unit: ClassVar[str] = "B"
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "exact"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        return Values(float(seen.arrays["bytes"].max()))
