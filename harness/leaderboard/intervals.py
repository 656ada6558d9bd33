"""Intervals, one kind per shape of data.

=========================================  ==============================================================
data                                       interval
=========================================  ==============================================================
deterministic without items, or exact      none: there is no noise
2 to 4 seeds, or seeds without items       Student's t over the seeds' values
5 or more seeds with items                 bootstrap of seeds and items (hierarchical)
one seed, items that are all 0 or 1        Clopper-Pearson
one seed, items                            bootstrap of the items, by whole units where units are given
one seed, a median of rounds or items      order statistics, from 8 on
one seed, replicates stored                their percentiles
one seed, nothing else                     none: one number says nothing about its own noise
=========================================  ==============================================================

Where the metric's scale is logarithmic, the interval is that of the logarithms, put back. Bootstrap percentiles are
widened for few units as in Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69
(2015), section 4.3 (expanded percentile interval): without that, 20 units give 92 to 93 % instead of 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.leaderboard.resample import bootstrap_means, hierarchical_means
from harness.leaderboard.samples import Sample

Array = np.ndarray

LEVEL = 0.95
MIN_ROUNDS = 8
MIN_UNITS = 5
"""Fewer units (items, clusters, seeds) than this are not resampled."""


@dataclass(frozen=True)
class Interval:
    """``low`` and ``high`` on the shown scale, at confidence ``level`` (nominal), made as ``kind`` says."""

    low: float
    high: float
    level: float = LEVEL
    kind: str = ""

    def exponentiated(self) -> Interval:
        return Interval(_exp(self.low), _exp(self.high), self.level, self.kind)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def student_t(values: Array, level: float = LEVEL, kind: str = "t over seeds") -> Interval | None:
    """Student's t interval for the mean of ``values`` (n,). None for n < 2."""
    n = len(values)
    if n < 2:
        return None
    from scipy import stats

    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(values))
    return Interval(mean - half, mean + half, level, kind)


def clopper_pearson(successes: int, n: int, level: float = LEVEL) -> Interval | None:
    """The exact interval for a proportion (Clopper and Pearson, 1934). None for n = 0."""
    if n < 1:
        return None
    from scipy import stats

    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(stats.beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(stats.beta.isf(tail, successes + 1, n - successes))
    return Interval(low, high, level, "Clopper-Pearson")


def median_interval(values: Array, level: float = LEVEL) -> Interval | None:
    """Distribution-free interval for a median between two order statistics.

    It covers at least ``level``. None for fewer than MIN_ROUNDS values, or where the extremes do not reach the level.
    """
    n = len(values)
    if n < MIN_ROUNDS:
        return None
    from scipy import stats

    outside = int(stats.binom.ppf((1 - level) / 2, n, 0.5))
    if stats.binom.cdf(outside, n, 0.5) > (1 - level) / 2:
        outside -= 1
    if outside < 0:
        return None
    ordered = np.sort(values)
    return Interval(float(ordered[outside]), float(ordered[n - 1 - outside]), level, "order statistics")


def percentile(draws: Array, level: float = LEVEL, *, units: int | None = None, kind: str = "bootstrap") -> Interval:
    """Percentiles of ``draws`` (resamples,), widened for few ``units`` if their number is given."""
    tail = (1 - level) / 2
    if units is not None and units > 1:
        from scipy import stats

        reach = math.sqrt(units / (units - 1)) * float(stats.t.ppf(1 - tail, units - 1))
        tail = float(stats.norm.sf(reach))
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high), level, kind)


def unit_count(items: Array, units: Array | None) -> int:
    """How many things are drawn when these items are resampled."""
    return len(items) if units is None else len(np.unique(units))


def units_of(sample: Sample) -> int:
    """How many things are drawn in the smallest stratum of a one-seed sample with items."""
    items, units = sample.stored("items"), sample.stored("units")
    assert items is not None
    return min(unit_count(x, units[0][i] if units else None) for i, x in enumerate(items[0]))


def mean_draws(sample: Sample, stream: int = 0) -> Array:
    """(resamples,) macro means over the strata of a one-seed sample, on the shown scale.

    Strata of equal shape share resamples, which is right whether or not they share items.
    """
    items, units = sample.stored("items"), sample.stored("units")
    assert items is not None
    draws = [
        bootstrap_means(x.astype(float)[:, None], units[0][i] if units else None, stream=stream)[:, 0]
        for i, x in enumerate(items[0])
    ]
    mean = np.mean(draws, axis=0)
    return np.exp(mean) if sample.log else np.asarray(mean)


def intervals(samples: Sequence[Sample], level: float = LEVEL) -> list[Interval | None]:
    """The interval of each sample, on its shown scale. Samples over the same items share their resamples."""
    new = [s for s in samples if level not in s.intervals]
    for sample, made in zip(new, _intervals(new, level), strict=True):
        sample.intervals[level] = made
    return [s.intervals[level] for s in samples]


def _intervals(samples: Sequence[Sample], level: float) -> list[Interval | None]:
    found: list[Interval | None] = [None] * len(samples)
    resampled: dict[object, list[int]] = {}
    for i, sample in enumerate(samples):
        if _by_items(sample):
            items, units = _items(sample), _units(sample)
            resampled.setdefault((len(items), units.tobytes() if units is not None else None), []).append(i)
        else:
            found[i] = _direct(sample, level)
    for places in resampled.values():
        columns = [_items(samples[i]) for i in places]
        units = _units(samples[places[0]])
        count = unit_count(columns[0], units)
        if count < MIN_UNITS:
            continue
        draws = bootstrap_means(np.stack(columns, axis=1), units)
        kind = "bootstrap over items" if units is None else "bootstrap over units"
        for column, i in enumerate(places):
            made = percentile(draws[:, column], level, units=count, kind=kind)
            found[i] = made.exponentiated() if samples[i].log else made
    return found


def interval(sample: Sample, level: float = LEVEL) -> Interval | None:
    """The interval of one sample; see the table above."""
    return intervals([sample], level)[0]


def _items(sample: Sample) -> Array:
    stored = sample.stored("items")
    return np.empty(0) if stored is None else stored[0][0].astype(float)


def _units(sample: Sample) -> Array | None:
    stored = sample.stored("units")
    return None if stored is None else stored[0][0]


def _by_items(sample: Sample) -> bool:
    """One seed whose items are bootstrapped: neither a median, nor replicates, nor zeros and ones."""
    if sample.exact or len(sample.shown) != 1 or sample.kind in ("median", "replicates"):
        return False
    items = _items(sample)
    one = len(items) > 0 and len(sample.arrays[0]) == 1
    return one and (sample.log or not _exact_proportion(items, _units(sample)))


def _exact_proportion(items: Array, units: Array | None) -> bool:
    """Zeros and ones that are independent, or all the same (where a bootstrap would show no noise at all)."""
    return bool(np.isin(items, (0, 1)).all()) and (units is None or bool(np.all(items == items[0])))


def _direct(sample: Sample, level: float) -> Interval | None:
    if sample.exact or not len(sample.shown):
        return None
    if len(sample.shown) > 1:
        made = _over_seeds(sample, level)
    else:
        made = _one_seed(sample, level)
        if made is not None and (sample.kind == "replicates" or len(sample.arrays[0]) > 1):
            return made  # on the shown scale already
    return made.exponentiated() if made is not None and sample.log else made


def _over_seeds(sample: Sample, level: float) -> Interval | None:
    n = len(sample.shown)
    items = sample.stored("items") if n >= MIN_UNITS and sample.kind in ("mean", "proportion") else None
    if items is None or any(len(strata) != 1 or len(strata[0]) < MIN_UNITS for strata in items):
        return student_t(sample.analysed, level)
    stored = sample.stored("units")
    units = None if stored is None else [strata[0] for strata in stored]
    draws = hierarchical_means([strata[0].astype(float) for strata in items], units)
    return percentile(draws, level, units=n, kind="bootstrap over seeds and items")


def _one_seed(sample: Sample, level: float) -> Interval | None:
    if len(sample.arrays) == 1 and len(sample.arrays[0]) > 1:
        return _average(sample, level)
    if len(sample.arrays) != 1 or not sample.arrays[0]:
        return None
    arrays: Mapping[str, Array] = sample.arrays[0][0]
    if sample.kind == "replicates":
        replicates = np.asarray(arrays.get("replicates", ()), dtype=float)
        replicates = replicates[np.isfinite(replicates)]
        return percentile(replicates, level, kind="replicates") if len(replicates) > 1 else None
    items = _items(sample)
    if not len(items):
        return None
    if sample.kind == "median":
        return median_interval(items, level)
    units = _units(sample)
    count = unit_count(items, units)  # units that all agree count once each
    return clopper_pearson(round(float(np.mean(items)) * count), count, level)


def _average(sample: Sample, level: float) -> Interval | None:
    """One seed of an average over cells."""
    if sample.kind not in ("mean", "proportion") or sample.stored("items") is None or units_of(sample) < MIN_UNITS:
        return None
    return percentile(mean_draws(sample), level, units=units_of(sample), kind="bootstrap over items of several cells")
