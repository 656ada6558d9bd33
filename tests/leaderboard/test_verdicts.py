from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.leaderboard.intervals import Interval
from harness.leaderboard.verdicts import Verdict, decide, guarded, half_line, region, worst
from harness.spec.study import Expectation

R, W, N, I = Verdict.REPRODUCED, Verdict.WEAKER, Verdict.NOT_REPRODUCED, Verdict.INCONCLUSIVE  # noqa: E741


def ratio(op, value, **more):
    return Expectation("ratio", op, value, **more)


@pytest.mark.parametrize(
    ("expect", "low", "high", "verdict"),
    [
        (ratio(">=", 2.8), 2.8, 3.1, R),
        (ratio(">=", 2.8), 2.7, 3.1, I),
        (ratio(">=", 2.8), 1.2, 2.7, W),
        (ratio(">=", 2.8), 0.9, 2.7, I),
        (ratio(">=", 2.8), 0.9, 1.0, N),
        (ratio(">=", 2.8), 1.0, 1.0, N),
        (ratio(">", 2.8), 2.8, 2.8, W),
        (ratio("<=", 0.5), 0.3, 0.5, R),
        (ratio("<=", 0.5), 0.6, 0.9, W),
        (ratio("<=", 0.5), 1.0, 1.2, N),
        (ratio("<=", 0.5), 0.4, 1.2, I),
        (ratio(">=", 0.9), 0.92, 1.3, R),  # "no worse than": no effect is inside, so nothing is merely weaker
        (ratio(">=", 0.9), 0.5, 0.8, N),
        (ratio(">=", 0.9), 0.8, 0.95, I),
        (ratio(">", 1), 1.0, 1.0, N),
        (ratio(">", 1), 1.01, 1.02, R),
        (ratio(">=", 1), 1.0, 1.0, R),
        (ratio("==", 3, tolerance=0.1), 2.95, 3.05, R),
        (ratio("==", 3, tolerance=0.1), 1.5, 2.0, W),
        (ratio("==", 3, tolerance=0.1), 3.5, 4.0, N),
        (ratio("==", 3, tolerance=0.1), 0.5, 0.9, N),
        (ratio("==", 3), 2.9, 3.1, I),
        (Expectation("difference", ">", 0.0), 0.1, 0.2, R),
        (Expectation("difference", ">", 0.0), -0.2, -0.1, N),
        (Expectation("difference", ">", 0.0), -0.1, 0.2, I),
        (Expectation("difference", "<=", -2.0), -1.5, -0.5, W),
        (Expectation("equals", value=1.5), 1.5, 1.5, R),
        (Expectation("equals", value=1.5), 1.51, 1.51, N),
        (Expectation("equals", value=1.5, tolerance=0.1), 1.45, 1.55, R),
        (Expectation("equals", value=1.5, tolerance=0.1), 1.55, 1.65, I),
        (Expectation("equivalence", margin=0.02, relative=True), 0.985, 1.015, R),
        (Expectation("equivalence", margin=0.02, relative=True), 0.97, 1.015, I),
        (Expectation("equivalence", margin=0.02, relative=True), 1.03, 1.05, N),
        (Expectation("equivalence", margin=0.5), -0.4, 0.4, R),
    ],
)
def test_rules(expect, low, high, verdict):
    assert decide(region(expect), Interval(low, high)) is verdict


def test_rounding_errors_do_not_count():
    assert decide(region(ratio(">=", 3)), Interval(0.3 / 0.1, 0.3 / 0.1)) is R
    assert decide(region(Expectation("equals", value=0.3)), Interval(0.1 + 0.2, 0.1 + 0.2)) is R
    assert decide(region(ratio(">", 1)), Interval(1 + 1e-15, 1 + 1e-15)) is N


def test_without_an_interval_nothing_is_decided():
    assert decide(region(ratio(">=", 3)), None) is I
    assert decide(region(ratio(">=", 3)), Interval(math.nan, math.nan)) is I


def test_incomplete_expectations_are_errors():
    with pytest.raises(ValueError, match="margin"):
        region(Expectation("equivalence"))
    with pytest.raises(ValueError, match="value"):
        region(Expectation("ratio"))


def test_the_worst_wins_and_refutations_among_many_need_the_wider_interval():
    assert worst([R, W, I]) is I
    assert worst([I, N, Verdict.NOT_EVALUATED]) is N
    assert worst([Verdict.INVALID, N]) is Verdict.INVALID
    assert guarded(N, I) is I
    assert guarded(W, I) is I
    assert guarded(N, N) is N
    assert guarded(R, I) is R


finite = st.floats(-100, 100)


@given(finite, finite, st.sampled_from([">=", ">", "<=", "<"]), st.sampled_from([0.0, 1.0, None]))
def test_exact_numbers_are_always_decided(x, bound, op, none):
    verdict = decide(half_line(op, bound, none), Interval(x, x))
    assert verdict is not I
    holds = {">=": x >= bound, ">": x > bound, "<=": x <= bound, "<": x < bound}[op]
    if abs(x - bound) > 1e-9:
        assert (verdict is R) == holds


@given(finite, st.floats(0, 10), finite, st.sampled_from([">=", "<="]), st.floats(0, 1), st.floats(0, 1))
def test_a_narrower_interval_never_turns_a_verdict_round(middle, half, bound, op, a, b):
    claimed = half_line(op, bound, 0.0)
    wide = Interval(middle - half, middle + half)
    narrow = Interval(middle - half * a, middle + half * b)
    before, after = decide(claimed, wide), decide(claimed, narrow)
    assert before in (I, after)
