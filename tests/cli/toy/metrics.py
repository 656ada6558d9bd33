"""A metric in a file of its own, so that it can change alone."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.contract import Context, Json, Mapping, Metric, Observations, Values


class Worst(Metric):
    """Largest absolute error."""

    of: ClassVar[tuple[str, ...]] = ("./toy.py:Quality",)
    direction: ClassVar[Any] = "min"
    kind: ClassVar[Any] = "exact"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        return Values(float(seen.arrays["errors"].max()))
