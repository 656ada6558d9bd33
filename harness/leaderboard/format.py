"""Numbers as text: as many digits as the interval supports, and never a rounded zero or one that is neither."""

from __future__ import annotations

import math

from harness.leaderboard.intervals import Interval

NOT_AVAILABLE = "n/a"
PLAIN_FROM, PLAIN_TO = 1e-5, 1e9
"""Sizes written without an exponent (whole numbers up to 1e15)."""


def significant(value: float | None, digits: int = 4) -> str:
    """``digits`` significant digits without trailing zeros; no digit before the point is dropped; n/a if not finite."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if value == 0:
        return "0"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    size = math.floor(math.log10(abs(value)))
    if not PLAIN_FROM <= abs(value) < PLAIN_TO:
        return _exponent(value, digits)
    text = _fixed(value, max(0, digits - 1 - size))
    return text.rstrip("0").rstrip(".") if "." in text else text


def exact(value: float | None) -> str:
    """A value without noise: six significant digits, more only where fewer would hide that it is not zero or one."""
    return significant(value, 6)


def decimals(interval: Interval) -> int | None:
    """Digits after the point that show two digits of the half width; None where the interval has no finite width."""
    half = (interval.high - interval.low) / 2
    if not math.isfinite(half) or half <= 0:
        return None
    return max(0, 1 - math.floor(math.log10(half)))


def estimate(value: float | None, interval: Interval | None) -> str:
    """A value with the digits that its interval supports, else four."""
    places = None if interval is None else decimals(interval)
    return significant(value) if places is None else _places(value, places)


def bounds(interval: Interval | None, value: float | None = None) -> str:
    """ "[low, high]", to the same digit as the estimate beside it; "[n/a]" where there is none."""
    if interval is None:
        return f"[{NOT_AVAILABLE}]"
    places = decimals(interval)
    low, high = (significant(x) if places is None else _places(x, places) for x in (interval.low, interval.high))
    return f"[{low}, {high}]"


def with_interval(value: float | None, interval: Interval | None) -> str:
    """ "2.91 [2.85, 2.97]"; an interval without width is left out."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if interval is not None and interval.low == interval.high:
        return exact(value)
    return f"{estimate(value, interval)} {bounds(interval)}"


def percent(fraction: float) -> str:
    """ "3.9 %": two significant digits from 1 % on, one below; "0 %" only for zero."""
    return f"{significant(100 * fraction, 2)} %"


def _places(value: float | None, places: int) -> str:
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    if places > 4 and value == 0:
        return "0"
    if 0 < abs(value) < PLAIN_FROM:
        return _exponent(value, max(1, places + math.floor(math.log10(abs(value))) + 1))
    if places > 9 or abs(value) >= 1e15 or (abs(value) >= PLAIN_TO and value != int(value)):
        return _exponent(value, 4)
    return _fixed(value, places)


def _fixed(value: float, places: int) -> str:
    """Fixed notation with at least ``places`` decimals, more where it would read zero or (minus) one wrongly."""
    while True:
        text = f"{value:.{places}f}"
        shown = float(text)
        if (shown == 0 and value != 0) or (abs(shown) == 1 and abs(value) != 1):
            if places >= 17:
                return repr(value)
            places += 1
            continue
        return text.removeprefix("-") if shown == 0 else text


def _exponent(value: float, digits: int) -> str:
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(power)}"
