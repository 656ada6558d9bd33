"""The rules by which a claim is judged from an interval.

Every claim states a *region* for one number: a value of a metric, a ratio, a difference. The number is measured with
an interval; an exact number's interval has width zero. A region may have a *direction*: the side of "no effect" (ratio
1, difference 0) on which it lies, where it does not itself contain "no effect".

==============  ====================================  ==============================================
expectation     region                                direction
==============  ====================================  ==============================================
equals v        [v - tolerance, v + tolerance]        none
ratio >= v      [v, infinity)                         above 1 if v > 1; none if v <= 1
ratio <= v      (-infinity, v]                        below 1 if v < 1; none if v >= 1
ratio == v      [v - tolerance, v + tolerance]        the side of 1 on which it lies
difference      as ratio, with 0 for 1                as ratio, with 0 for 1
order           each method against the next:         the same
                strictly better
equivalence     within the margin: [1 - m, 1 + m]     none
                of the ratio where the margin is
                relative, else [-m, m] of the
                difference
==============  ====================================  ==============================================

- **reproduced**: the interval lies inside the region.
- **weaker**: the region has a direction, and the interval lies wholly between no effect and the region: it excludes
  both no effect and the claimed size.
- **not reproduced**: the interval lies wholly outside the claimed direction; where there is no direction, or the number
  overshoots a claimed ``==``, wholly outside the region.
- **inconclusive**: anything else (too wide), and whenever there is no interval, as with one seed and no items.
- **invalid**: a gate that the measurement rests on is closed, or the negative control passes: the same expectation,
  judged for the control in the method's place, is *reproduced*; for an equivalence, is anything but wholly outside.
- **not evaluated**: a cell it needs, or a seed of one, failed, was skipped, or is missing.
- **not tested at this scale**: it is declared for the paper's scale, and this is another profile.

Several parts (``every`` value of an axis; each pair of an order) must all hold. The worst one wins, in the order
invalid, not reproduced, not evaluated, inconclusive, weaker, reproduced. Since one of many parts falls outside by
chance more easily than one alone, *weaker* and *not reproduced* count there only if the part's interval at level
1 - (1 - level) / parts (Bonferroni) says so too; else that part is inconclusive. Confirming needs
no correction, as all parts have to hold.

Values are compared as computed, never as displayed; differences of rounding (1e-12 of the bound) do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from harness.leaderboard.intervals import Interval
from harness.spec.study import Expectation

ROUNDING = 1e-12


class Verdict(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    WEAKER = "weaker"
    NOT_REPRODUCED = "not reproduced"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    NOT_EVALUATED = "not evaluated"
    NOT_TESTED = "not tested at this scale"


WORST_FIRST = (
    Verdict.INVALID,
    Verdict.NOT_REPRODUCED,
    Verdict.NOT_EVALUATED,
    Verdict.INCONCLUSIVE,
    Verdict.WEAKER,
    Verdict.REPRODUCED,
)


@dataclass(frozen=True)
class Region:
    """The numbers from ``low`` to ``high``; ``open`` leaves finite ends out. ``none``: the number of "no effect"."""

    low: float
    high: float
    open: bool = False
    none: float | None = None

    def contains(self, interval: Interval) -> bool:
        return self._above(interval.low) and self._below(interval.high)

    def excludes(self, interval: Interval) -> bool:
        """No number of the interval is in the region."""
        return not self._above(interval.high) or not self._below(interval.low)

    def _above(self, value: float) -> bool:
        slack = _slack(self.low)
        return value > self.low + slack if self.open else value >= self.low - slack

    def _below(self, value: float) -> bool:
        slack = _slack(self.high)
        return value < self.high - slack if self.open else value <= self.high + slack

    @property
    def direction(self) -> Region | None:
        """The open half-line of "no effect" in which this region lies; None where there is no such side."""
        if self.none is None:
            return None
        if self.excludes(Interval(self.none, self.none)):
            up = self.low >= self.none
            return Region(self.none, math.inf, True) if up else Region(-math.inf, self.none, True)
        return None


def _slack(bound: float) -> float:
    return ROUNDING * max(1.0, abs(bound)) if math.isfinite(bound) else 0.0


Op = Literal["==", ">=", ">", "<=", "<"]


def half_line(op: Op, value: float, none: float | None = None, tolerance: float = 0.0) -> Region:
    """The region of ``op value``."""
    if op == "==":
        return Region(value - tolerance, value + tolerance, none=none)
    if op in (">=", ">"):
        return Region(value, math.inf, op == ">", none)
    return Region(-math.inf, value, op == "<", none)


def region(expect: Expectation) -> Region:
    """The region of an expectation other than an order (see the table above). Raises ValueError if it is incomplete."""
    if expect.kind == "equivalence":
        if expect.margin is None:
            raise ValueError("an equivalence needs a margin")
        middle = 1.0 if expect.relative else 0.0
        return Region(middle - expect.margin, middle + expect.margin)
    if expect.value is None:
        raise ValueError(f"{expect.kind} needs a value")
    if expect.kind == "equals":
        return half_line("==", expect.value, None, expect.tolerance)
    none = 1.0 if expect.kind == "ratio" else 0.0
    return half_line(expect.op, expect.value, none, expect.tolerance)


def decide(claimed: Region, interval: Interval | None) -> Verdict:
    """One number's verdict."""
    if interval is None or math.isnan(interval.low) or math.isnan(interval.high):
        return Verdict.INCONCLUSIVE
    if claimed.contains(interval):
        return Verdict.REPRODUCED
    direction = claimed.direction
    if direction is None:
        return Verdict.NOT_REPRODUCED if claimed.excludes(interval) else Verdict.INCONCLUSIVE
    if direction.excludes(interval):
        return Verdict.NOT_REPRODUCED
    if claimed.excludes(interval) and direction.contains(interval):
        short = interval.high <= claimed.low if math.isfinite(direction.low) else interval.low >= claimed.high
        return Verdict.WEAKER if short else Verdict.NOT_REPRODUCED
    return Verdict.INCONCLUSIVE


def guarded(verdict: Verdict, simultaneous: Verdict) -> Verdict:
    """A part's verdict among several, given the one from its wider, simultaneous interval (see above)."""
    refuting = verdict in (Verdict.NOT_REPRODUCED, Verdict.WEAKER)
    return Verdict.INCONCLUSIVE if refuting and simultaneous is not verdict else verdict


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several parts that must all hold."""
    return min(verdicts, key=WORST_FIRST.index)
