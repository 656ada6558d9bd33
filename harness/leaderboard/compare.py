"""Contrasts of two samples: ratio or difference with its interval, paired wherever the data pair.

=============================================  ==============================================================
what the two have in common                    contrast
=============================================  ==============================================================
both exact                                     exact, an interval of width zero
two or more seeds                              Student's t over per-seed differences (of logarithms for ratios)
rounds of one run (a metric of kind median)    median of per-round ratios or differences, order statistics
one seed each, items                           bootstrap in which both draw the same items
one seed each, replicates                      percentiles of replicate by replicate contrasts
nothing, two or more seeds each                Welch's t
nothing, rounds of two runs                    bootstrap of both medians, unpaired
nothing else                                   the estimate alone
=============================================  ==============================================================

A ratio wants positive values, unless both are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.leaderboard.intervals import (
    LEVEL,
    MIN_UNITS,
    Interval,
    mean_draws,
    median_interval,
    percentile,
    student_t,
    units_of,
)
from harness.leaderboard.resample import bootstrap_medians
from harness.leaderboard.samples import Sample

Array = np.ndarray
Kind = Literal["ratio", "difference"]


@dataclass(frozen=True)
class Contrast:
    """``estimate`` of first over, or minus, second; ``basis`` says what was paired; ``note`` why something lacks."""

    estimate: float | None
    interval: Interval | None
    basis: str
    note: str = ""


def contrast(a: Sample, b: Sample, kind: Kind, level: float = LEVEL) -> Contrast:
    """``a`` over ``b`` (ratio) or ``a`` minus ``b`` (difference), on the shown scale."""
    if not len(a.shown) or not len(b.shown):
        return Contrast(None, None, "", "no values")
    if kind == "ratio" and (np.any(a.shown <= 0) or np.any(b.shown <= 0)):
        return _signed_ratio(a, b)
    if a.exact and b.exact:
        value = _plain(a, b, kind)
        return Contrast(value, Interval(value, value, level, "exact"), "exact")
    x, y, paired = by_seed(a, b)
    if len(x) > 1 and len(y) > 1:
        return _over_seeds(x, y, kind, level, paired=paired)
    return _one_seed(a, b, kind, level)


def _plain(a: Sample, b: Sample, kind: Kind) -> float:
    x, y = a.estimate, b.estimate
    assert x is not None
    assert y is not None
    return x / y if kind == "ratio" else x - y


def _signed_ratio(a: Sample, b: Sample) -> Contrast:
    """Exact values may have any sign; noisy ones at or below zero have no ratio to speak of."""
    if a.exact and b.exact and a.estimate is not None and b.estimate:
        value = a.estimate / b.estimate
        return Contrast(value, Interval(value, value, kind="exact"), "exact")
    return Contrast(None, None, "", "no ratio: a value is zero or negative")


def by_seed(a: Sample, b: Sample) -> tuple[Array, Array, bool]:
    """Shown values by common seed; by each one's own seeds (unpaired) where fewer than two are common."""
    if a.exact != b.exact:  # an exact one is the same at every seed
        n = len(a.shown) if b.exact else len(b.shown)
        return (
            np.full(n, a.estimate) if a.exact else a.shown,
            np.full(n, b.estimate) if b.exact else b.shown,
            True,
        )
    common = [s for s in a.seeds if s in b.seeds]
    if len(common) < 2 and len(a.seeds) > 1 and len(b.seeds) > 1:
        return a.shown, b.shown, False
    return (
        a.shown[[a.seeds.index(s) for s in common]],
        b.shown[[b.seeds.index(s) for s in common]],
        True,
    )


def _over_seeds(x: Array, y: Array, kind: Kind, level: float, *, paired: bool) -> Contrast:
    if kind == "ratio":
        x, y = np.log(x), np.log(y)
    estimate = float(np.mean(x) - np.mean(y))
    if paired:
        made, basis = student_t(x - y, level, "t over paired seeds"), f"{len(x)} paired seeds"
    else:
        made, basis = _welch(x, y, level), f"{len(x)} and {len(y)} seeds, not paired"
    if kind == "ratio":
        return Contrast(math.exp(estimate), made.exponentiated() if made else None, basis)
    return Contrast(estimate, made, basis)


def _welch(x: Array, y: Array, level: float) -> Interval:
    """Welch's t interval for the difference of two means."""
    from scipy import stats

    u, v = float(np.var(x, ddof=1)) / len(x), float(np.var(y, ddof=1)) / len(y)
    mean = float(np.mean(x) - np.mean(y))
    if u + v == 0:
        return Interval(mean, mean, level, "Welch's t over seeds")
    freedom = (u + v) ** 2 / (u**2 / (len(x) - 1) + v**2 / (len(y) - 1))
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * math.sqrt(u + v)
    return Interval(mean - half, mean + half, level, "Welch's t over seeds")


def _one_seed(a: Sample, b: Sample, kind: Kind, level: float) -> Contrast:
    plain = _plain(a, b, kind)
    few = Contrast(plain, None, "one seed", "one seed, and no items to resample: no interval")
    if len(a.shown) != 1 or len(b.shown) != 1 or a.exact != b.exact:
        return few
    if a.kind == "median":
        return _rounds(a, b, kind, level) or few
    x, y = both_draws(a, b)
    if x is None or y is None or len(x) != len(y):
        return few
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = x / y if kind == "ratio" else x - y
    if not np.isfinite(draws).all():
        return Contrast(plain, None, "one seed", "the contrast is not finite in some resamples: no interval")
    paired = items_pair(a, b)
    basis = "replicates" if a.kind == "replicates" else f"{'paired ' if paired else ''}items of one seed"
    counted = None if a.kind == "replicates" else min(units_of(a), units_of(b))
    return Contrast(plain, percentile(draws, level, units=counted, kind=f"bootstrap over {basis}"), basis)


def items_pair(a: Sample, b: Sample) -> bool:
    """Whether the items of two one-seed samples are the same things in the same order, as far as can be seen."""
    x, y, u, v = a.stored("items"), b.stored("items"), a.stored("units"), b.stored("units")
    if x is None or y is None or (u is None) != (v is None) or len(x[0]) != len(y[0]):
        return False
    same = all(len(p) == len(q) for p, q in zip(x[0], y[0], strict=True))
    return same and (u is None or v is None or all(np.array_equal(p, q) for p, q in zip(u[0], v[0], strict=True)))


def both_draws(a: Sample, b: Sample) -> tuple[Array | None, Array | None]:
    """Bootstrap draws of both on the shown scale: over the same resamples where they are paired."""
    if a.kind == "replicates":
        both = [s.stored("replicates") for s in (a, b)]
        if both[0] is None or both[1] is None or len(both[0][0]) != 1 or len(both[1][0]) != 1:
            return None, None
        return both[0][0][0].astype(float), both[1][0][0].astype(float)
    if a.stored("items") is None or b.stored("items") is None or min(units_of(a), units_of(b)) < MIN_UNITS:
        return None, None
    return mean_draws(a, 0), mean_draws(b, 0 if items_pair(a, b) else 1)


def _rounds(a: Sample, b: Sample, kind: Kind, level: float) -> Contrast | None:
    """Medians: round by round where both come from the same runs, else each resampled alone."""
    x, y = _shown_items(a), _shown_items(b)
    if x is None or y is None:
        return None
    if kind == "ratio" and (min(map(np.min, x)) <= 0 or min(map(np.min, y)) <= 0):
        return None
    if a.runs == b.runs and all(a.runs[0]) and len({len(r) for r in (*x, *y)}) == 1:
        each = np.mean([_per_round(p, q, kind) for p, q in zip(x, y, strict=True)], axis=0)
        made, estimate = median_interval(each, level), float(np.median(each))
        basis = f"{len(each)} paired rounds of one run"
        note = "" if made else f"{len(each)} rounds are too few for an interval at this level"
        if kind == "ratio":
            return Contrast(math.exp(estimate), made.exponentiated() if made else None, basis, note)
        return Contrast(estimate, made, basis, note)
    if len(x) != 1 or len(y) != 1 or min(len(x[0]), len(y[0])) < MIN_UNITS:
        return None
    u, v = bootstrap_medians(x[0]), bootstrap_medians(y[0], stream=1)
    basis = "rounds of two runs, not paired"
    made = percentile(u / v if kind == "ratio" else u - v, level, units=min(len(x[0]), len(y[0])), kind="bootstrap")
    p, q = float(np.median(x[0])), float(np.median(y[0]))
    return Contrast(p / q if kind == "ratio" else p - q, made, basis)


def _per_round(x: Array, y: Array, kind: Kind) -> Array:
    return np.asarray(np.log(x) - np.log(y) if kind == "ratio" else x - y)


def _shown_items(sample: Sample) -> list[Array] | None:
    """Items of a one-seed sample on the shown scale, per stratum."""
    items = sample.stored("items")
    if items is None or any(not len(x) for x in items[0]):
        return None
    return [np.exp(x.astype(float)) if sample.log else x.astype(float) for x in items[0]]
