"""Cache elements per token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values


class ElementsPerToken(Metric):
    """Numbers that the fullest device caches per token and layer, in head dimensions."""

    name: ClassVar[str] = "elements_per_token"
    of: ClassVar[tuple[str, ...]] = ("decoding.cache_size",)
    direction: ClassVar[Literal["max", "min"] | None] = "min"
    unit: ClassVar[str] = "d_h"
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "exact"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        head_dim = seen.values["head_dim"]
        assert isinstance(head_dim, int)
        return Values(float(seen.arrays["elements"].max()) / head_dim)
