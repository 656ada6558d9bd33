"""Bits per byte of text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from harness.contract import Context, Json, Metric, Observations, Values


class BitsPerByte(Metric):
    """Negative log-likelihood per UTF-8 byte of held-out text: comparable across tokenizers."""

    name: ClassVar[str] = "bits_per_byte"
    of: ClassVar[tuple[str, ...]] = ("decoding.perplexity",)
    direction: ClassVar[Literal["max", "min"] | None] = "min"
    unit: ClassVar[str] = "bit/B"
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "mean"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """Items: bits of each window over the mean bytes of a window, so that their mean is all bits over all bytes."""
        window = seen.values["window"]
        assert isinstance(window, int)
        items = seen.arrays["nats"] * window / math.log(2) / seen.arrays["bytes"].mean()
        return Values(float(items.mean()), items=items)
