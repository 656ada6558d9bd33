"""Which methods can be told apart: two-sided tests, one per shape of data, and rank groups.

===========================================  ============================================================
what two methods have in common              test
===========================================  ============================================================
both exact                                   none: equal or not
three or more seeds                          paired t over per-seed differences (of logarithms on log scales)
three or more seeds each, none in common     Welch's t
one seed each, items; rounds of one run      sign flips of the paired differences, by whole units where given
one seed each, replicates                    share of replicates on either side of no difference
rounds of two runs                           Mann-Whitney
anything less                                none: too few to tell
===========================================  ============================================================

All pairs of a column are tested and corrected together (Holm): comparing with the best alone would not do, as the best
is picked by the same data. Few rounds have few sign patterns (9 rounds: p >= 1/256), and 10,000 random ones end at
p = 1/10,001; where even the smallest p-value could not survive the correction, paired t over the rounds or units (of
logarithms on log scales) takes the place of sign flips.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from harness.leaderboard.compare import both_draws, by_seed, items_pair
from harness.leaderboard.intervals import LEVEL, MIN_UNITS
from harness.leaderboard.resample import by_unit, flip_p, sign_flips, smallest_p
from harness.leaderboard.samples import Sample

Array = np.ndarray

MIN_SEEDS = 3
"""Fewer seeds than this are too few to tell methods apart, unless there are items."""


@dataclass(frozen=True)
class _Paired:
    """Sums per unit (units, members) of samples whose items pair, and their totals under flipped signs.

    ``flipped`` is None where even its smallest p-value could not survive the correction.
    """

    members: tuple[int, ...]
    sums: Array
    flipped: Array | None
    complete: bool

    def p(self, i: int, j: int) -> float:
        a, b = self.members.index(i), self.members.index(j)
        if self.flipped is None:
            return _t_test(self.sums[:, a], self.sums[:, b], True)
        observed = float(self.sums[:, a].sum() - self.sums[:, b].sum())
        return flip_p(self.flipped[:, a] - self.flipped[:, b], observed, complete=self.complete)


class Tests:
    """Two-sided p-values between samples of one column of a table; resamples are made once and shared."""

    __test__ = False  # not a test class

    def __init__(self, samples: Sequence[Sample], level: float = LEVEL) -> None:
        self.samples = samples
        self._needed = (1 - level) / max(1, len(samples) * (len(samples) - 1) // 2)
        self._paired: dict[int, _Paired] = {}
        waiting = [i for i, s in enumerate(samples) if _has_items(s)]
        while waiting:
            first = waiting[0]
            group = tuple(i for i in waiting if i == first or _flippable(samples[first], samples[i]))
            waiting = [i for i in waiting if i not in group]
            self._paired.update(dict.fromkeys(group, self._make(group)))

    def _make(self, group: tuple[int, ...]) -> _Paired:
        columns = np.stack([_items(self.samples[i]) for i in group], axis=1)
        centred = columns - columns.mean(axis=1, keepdims=True)  # differences stay, rounding errors shrink
        units = self.samples[group[0]].stored("units")
        sums, _ = by_unit(centred, units[0][0] if units else None)
        if smallest_p(len(sums)) > self._needed:
            return _Paired(group, sums, None, False)
        return _Paired(group, sums, *sign_flips(sums))

    def p(self, i: int, j: int) -> float | None:
        """Of "there is no difference"; None where there are too few data to tell."""
        paired = self._paired.get(i)
        if paired is not None and j in paired.members:
            return paired.p(i, j)
        return _p_value(self.samples[i], self.samples[j])


def _has_items(sample: Sample) -> bool:
    """One seed with plain items, enough of them to tell anything."""
    if sample.exact or len(sample.shown) != 1 or sample.kind == "replicates":
        return False
    items = sample.stored("items")
    return items is not None and len(items[0]) == 1 and len(items[0][0]) >= MIN_UNITS


def _items(sample: Sample) -> Array:
    stored = sample.stored("items")
    assert stored is not None
    return stored[0][0].astype(float)


def _flippable(a: Sample, b: Sample) -> bool:
    """Items that pair one to one, under the same seed; rounds only of one run."""
    return items_pair(a, b) and a.seeds == b.seeds and (a.kind != "median" or (a.runs == b.runs and all(a.runs[0])))


def _p_value(a: Sample, b: Sample) -> float | None:
    if not len(a.shown) or not len(b.shown):
        return None
    if a.exact and b.exact:
        return 1.0 if a.estimate == b.estimate else 0.0
    x, y, paired = by_seed(a, b)
    if min(len(x), len(y)) >= MIN_SEEDS:
        return _t_test(np.log(x), np.log(y), paired) if a.log and b.log else _t_test(x, y, paired)
    if len(a.shown) == len(b.shown) == 1 and not a.exact and not b.exact:
        return _one_seed(a, b)
    return None


def _t_test(x: Array, y: Array, paired: bool) -> float:
    """Two-sided p-value of the paired or of Welch's t test; 0 or 1 where there is no noise."""
    from scipy.special import stdtr  # much faster than scipy.stats.t for single numbers

    difference = float(np.mean(x) - np.mean(y))
    if paired:
        squares, freedom = float(np.var(x - y, ddof=1)) / len(x), float(len(x) - 1)
    else:
        u, v = float(np.var(x, ddof=1)) / len(x), float(np.var(y, ddof=1)) / len(y)
        squares = u + v
        freedom = squares**2 / (u**2 / (len(x) - 1) + v**2 / (len(y) - 1)) if squares else 1.0
    if squares == 0:
        return 1.0 if difference == 0 else 0.0
    return 2 * float(stdtr(freedom, -abs(difference) / math.sqrt(squares)))


def _one_seed(a: Sample, b: Sample) -> float | None:
    """Two runs whose items do not pair."""
    from scipy import stats

    if a.kind == "replicates":
        u, v = both_draws(a, b)
        if u is None or v is None or len(u) != len(v):
            return None
        below, above = int(np.sum(u <= v)), int(np.sum(u >= v))
        return min(1.0, 2 * (min(below, above) + 1) / (len(u) + 1))
    if not _has_items(a) or not _has_items(b):
        return None
    if a.kind == "median":
        return float(stats.mannwhitneyu(_items(a), _items(b)).pvalue)
    return None if a.stored("units") or b.stored("units") else _t_test(_items(a), _items(b), False)


def holm(p: Sequence[float]) -> list[float]:
    """p-values adjusted for all being tested at once (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    adjusted, running = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        running = max(running, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = running
    return adjusted


TOO_FEW = "too few seeds to tell methods apart"


def ranks(
    samples: Sequence[Sample], direction: Literal["max", "min"] | None, level: float = LEVEL
) -> tuple[list[int | None], str]:
    """Rank of each sample, and a note where some have none.

    The best and those that cannot be told apart from it share rank 1; of the rest, the best and those that cannot be
    told apart from *it* come next, and so on: the rank is one more than the number of methods in groups before. All
    are None without a direction, or when fewer than two are to be ranked; None where there are too few data to tell.
    """
    found: list[int | None] = [None] * len(samples)
    if direction is None or len(samples) < 2:
        return found, ""
    sign = -1.0 if direction == "max" else 1.0
    adjusted = _adjusted(samples, level)
    left = sorted(range(len(samples)), key=lambda i: sign * _estimate(samples[i]))
    while left:
        p = {i: adjusted.get(frozenset((left[0], i))) for i in left[1:]}
        if None in p.values():
            return found, TOO_FEW
        same = {left[0]} | {i for i, value in p.items() if value is not None and value > 1 - level}
        for i in same:
            found[i] = 1 + len(samples) - len(left)
        left = [i for i in left if i not in same]
    return found, ""


def _adjusted(samples: Sequence[Sample], level: float) -> Mapping[frozenset[int], float]:
    """Holm-adjusted p-values of all pairs that can be tested."""
    tests = Tests(samples, level)
    found = {frozenset(pair): tests.p(*pair) for pair in combinations(range(len(samples)), 2)}
    tested = {pair: p for pair, p in found.items() if p is not None}
    return dict(zip(tested, holm(list(tested.values())), strict=True))


def _estimate(sample: Sample) -> float:
    assert sample.estimate is not None
    return sample.estimate
