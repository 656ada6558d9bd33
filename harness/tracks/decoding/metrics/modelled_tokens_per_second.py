"""Decoding speed by a cost model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values

PARTS = ("projections", "attention", "all_reduce", "overhead")


class ModelledTokensPerSecond(Metric):
    """Tokens per second of all devices together by the cost model: modelled, not measured."""

    name: ClassVar[str] = "modelled_tokens_per_second"
    of: ClassVar[tuple[str, ...]] = ("decoding.modelled_throughput",)
    direction: ClassVar[Literal["max", "min"] | None] = "max"
    unit: ClassVar[str] = "1/s, modelled"
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "exact"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """See :class:`Metric`."""
        tokens = seen.values["tokens"]
        assert isinstance(tokens, int)
        return Values(tokens / sum(float(seen.arrays[part][0]) for part in PARTS))
