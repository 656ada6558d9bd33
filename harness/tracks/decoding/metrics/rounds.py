"""What metrics of timed runs have in common."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.contract import Observations, Values


def work(seen: Observations, what: str) -> float:
    """The amount of ``what`` that one call does. Raises KeyError where the task did not say."""
    amounts = seen.values["work"]
    assert isinstance(amounts, Mapping)
    amount = amounts[what]
    assert isinstance(amount, (int, float))
    return float(amount)


def median_of(rounds: np.ndarray) -> Values:
    """The median over rounds, from positive numbers; items are their natural logarithms."""
    items = np.log(rounds)
    return Values(float(np.exp(np.median(items))), items=items)
