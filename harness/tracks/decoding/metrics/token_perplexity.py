"""Perplexity per token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from harness.contract import Context, Json, Metric, Observations, Values


class TokenPerplexity(Metric):
    """exp of the mean negative log-likelihood per token over held-out windows."""

    name: ClassVar[str] = "token_perplexity"
    of: ClassVar[tuple[str, ...]] = ("decoding.perplexity",)
    direction: ClassVar[Literal["max", "min"] | None] = "min"
    unit: ClassVar[str] = ""
    kind: ClassVar[Literal["mean", "proportion", "median", "exact", "replicates"]] = "mean"
    scale: ClassVar[Literal["linear", "log"]] = "log"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        """Items are the windows' mean log-likelihoods in nats."""
        nats = seen.arrays["nats"]
        return Values(float(np.exp(nats.mean())), items=nats)
