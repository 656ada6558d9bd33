from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.leaderboard.format import bounds, decimals, estimate, exact, significant, with_interval
from harness.leaderboard.intervals import Interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (56.72375, "56.72"),
        (0.00004, "0.00004"),
        (0.99996, "0.99996"),
        (-0.99996, "-0.99996"),
        (1234567.8, "1234568"),
        (1e-7, "1e-7"),
        (1.25e-7, "1.25e-7"),
        (1.5, "1.5"),
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (7, "7"),
        (2310000000.0, "2310000000"),
        (1.23456e20, "1.235e20"),
        (2.5e9 + 0.5, "2.5e9"),
        (None, "n/a"),
        (math.nan, "n/a"),
        (math.inf, "n/a"),
        (-math.inf, "n/a"),
    ],
)
def test_significant(value, text):
    assert significant(value) == text


def test_exact_values_keep_more_digits():
    assert exact(56.72375) == "56.7238"
    assert exact(4.5) == "4.5"


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (56.72375, 55.5, 58.0, "56.7 [55.5, 58.0]"),
        (56.72375, 56.70, 56.75, "56.724 [56.700, 56.750]"),
        (1234567.8, 1200000, 1300000, "1234568 [1200000, 1300000]"),
        (0.99996, 0.98, 1.0, "0.99996 [0.980, 1.000]"),
        (0.0004, -0.5, 0.5, "0.0004 [-0.50, 0.50]"),
        (3.0, 3.0, 3.0, "3"),
        (1e-7, 5e-8, 2e-7, "1e-7 [5e-8, 2e-7]"),
        (2.9, -math.inf, 3.0, "2.9 [n/a, 3]"),
    ],
)
def test_digits_follow_the_interval(value, low, high, text):
    assert with_interval(value, Interval(low, high)) == text


def test_no_interval_is_said():
    assert with_interval(13.654321, None) == "13.65 [n/a]"
    assert with_interval(None, None) == "n/a"
    assert bounds(None) == "[n/a]"


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(min_value=0, max_value=1e300))
def test_never_a_false_zero_or_one(value, half):
    interval = Interval(value - half, value + half)
    for text in (significant(value), exact(value), estimate(value, interval)):
        if value != 0:
            assert float(text) != 0
        if abs(value) != 1:
            assert abs(float(text)) != 1
        assert not text.startswith("-0.0") or value < 0


@given(st.floats(min_value=1e-4, max_value=1e6), st.floats(min_value=1e-6, max_value=1e5))
def test_shown_estimate_is_within_a_tenth_of_the_half_width(value, half):
    interval = Interval(value - half, value + half)
    assert decimals(interval) is not None
    assert abs(float(estimate(value, interval)) - value) <= max(half / 10, 0.5) + 1e-3 * value * (half < 1e-5)
