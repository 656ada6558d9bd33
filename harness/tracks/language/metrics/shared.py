"""What metrics of tasks have in common."""

from __future__ import annotations

from collections.abc import Mapping

from harness.contract import Json, Observations, Values


def proportion(seen: Observations, metric: str) -> Values:
    """The mean over items of a metric of the task; undefined where the task does not have it."""
    if metric not in seen.arrays:
        return Values(None, note=f"the task {seen.values['task']} has no {metric}")
    items = seen.arrays[metric]
    return Values(float(items.mean()), items=items)


def usual(seen: Observations) -> str:
    """The metric by which averages over tasks are usually given: acc_norm where the task has it, else acc."""
    return "acc_norm" if "acc_norm" in seen.arrays else "acc"


def own_figure(seen: Observations, metric: str, figure: str) -> float | None:
    """lm-eval's own value or standard error of a metric."""
    harness = seen.values["harness"]
    assert isinstance(harness, Mapping)
    figures: Json = harness[metric]
    assert isinstance(figures, Mapping)
    value = figures[figure]
    return float(value) if isinstance(value, (int, float)) else None
