from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.leaderboard.compare import contrast
from harness.leaderboard.samples import Sample, average

RNG = np.random.default_rng(0)


def test_paired_seeds_take_t_of_log_ratios(lab):
    x, y = np.array([3.0, 3.3, 3.1]), np.array([1.0, 1.2, 1.05])
    found = contrast(lab.sample(x), lab.sample(y), "ratio")
    d = np.log(x / y)
    low, high = stats.t.interval(0.95, 2, d.mean(), stats.sem(d))
    assert found.estimate == pytest.approx(np.exp(d.mean()))
    assert (found.interval.low, found.interval.high) == pytest.approx((np.exp(low), np.exp(high)))
    assert found.basis == "3 paired seeds"


def test_pairing_takes_common_seeds_only(lab):
    a = lab.sample([1.0, 2.0, 9.0], seeds=(0, 1, 2))
    b = lab.sample([0.5, 1.4, 100.0], seeds=(0, 1, 7))
    assert contrast(a, b, "difference").estimate == pytest.approx(0.55)


def test_welch_where_no_seeds_are_common(lab):
    x, y = RNG.normal(2, 1, 6), RNG.normal(0, 3, 9)
    found = contrast(lab.sample(x, seeds=range(6)), lab.sample(y, seeds=range(10, 19)), "difference")
    theirs = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx((theirs.low, theirs.high))
    assert "not paired" in found.basis


def test_exact_values_have_an_interval_without_width(lab):
    found = contrast(lab.sample([4.5], exact=True), lab.sample([1.5], exact=True), "ratio")
    assert (found.estimate, found.interval.low, found.interval.high) == (3.0, 3.0, 3.0)
    found = contrast(lab.sample([-4.0], exact=True), lab.sample([2.0], exact=True), "ratio")
    assert found.estimate == -2.0
    assert contrast(lab.sample([1.0], exact=True), lab.sample([0.0], exact=True), "ratio").estimate is None


def test_an_exact_rival_is_the_same_at_every_seed(lab):
    x = np.array([1.0, 1.1, 1.3])
    found = contrast(lab.sample(x), lab.sample([1.0], exact=True, seeds=(None,)), "difference")
    low, high = stats.t.interval(0.95, 2, (x - 1).mean(), stats.sem(x))
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


def test_rounds_of_one_run_are_paired(lab):
    drift = RNG.normal(0, 0.5, 9)  # common to both: cancels only when paired
    x, y = np.log(3.0) + drift + RNG.normal(0, 0.01, 9), drift
    a = lab.sample([np.exp(np.median(x))], kind="median", log=True, items=[x], run="one")
    b = lab.sample([np.exp(np.median(y))], kind="median", log=True, items=[y], run="one")
    found = contrast(a, b, "ratio")
    assert found.estimate == pytest.approx(np.exp(np.median(x - y)))
    assert 2.9 < found.interval.low < 3.0 < found.interval.high < 3.1
    other = lab.sample([np.exp(np.median(y))], kind="median", log=True, items=[y], run="two")
    apart = contrast(a, other, "ratio")
    assert "not paired" in apart.basis
    assert apart.interval.high - apart.interval.low > 10 * (found.interval.high - found.interval.low)


def test_seven_rounds_have_no_interval(lab):
    x = RNG.normal(size=7)
    a = lab.sample([1.0], kind="median", log=True, items=[x])
    found = contrast(a, a, "ratio")
    assert found.interval is None
    assert "7 rounds are too few" in found.note


def test_items_of_one_seed_are_paired(lab):
    common = RNG.normal(0, 5, 400)
    x, y = common + 0.5 + RNG.normal(0, 0.1, 400), common
    a, b = lab.sample([x.mean()], items=[x]), lab.sample([y.mean()], items=[y])
    found = contrast(a, b, "difference")
    assert 0.48 < found.interval.low < x.mean() - y.mean() < found.interval.high < 0.52
    assert "paired items" in found.basis
    shorter = lab.sample([y[:-1].mean()], items=[y[:-1]])
    apart = contrast(a, shorter, "difference")
    assert "paired" not in apart.basis
    assert apart.interval.high - apart.interval.low > 1


def test_one_seed_without_items_has_an_estimate_and_no_interval(lab):
    found = contrast(lab.sample([2.0]), lab.sample([1.0]), "ratio")
    assert (found.estimate, found.interval) == (2.0, None)
    assert "one seed" in found.note


def test_replicates_are_paired(lab):
    common = RNG.normal(0, 0.2, 1000)
    a = lab.sample([0.8], kind="replicates", replicates=[0.8 + common])
    b = lab.sample([0.7], kind="replicates", replicates=[0.7 + common])
    found = contrast(a, b, "difference")
    assert (found.interval.low, found.interval.high) == pytest.approx((0.1, 0.1))


def test_noise_at_or_below_zero_has_no_ratio(lab):
    found = contrast(lab.sample([1.0, -1.0]), lab.sample([1.0, 2.0]), "ratio")
    assert found.estimate is None
    assert "zero or negative" in found.note


def test_macro_average_weighs_cells_equally(lab):
    small, large = RNG.normal(1, 1, 10), RNG.normal(3, 1, 1000)
    both = average([lab.sample([small.mean()], items=[small]), lab.sample([large.mean()], items=[large])])
    assert both.estimate == pytest.approx((small.mean() + large.mean()) / 2)
    found = contrast(both, lab.sample([0.0], exact=True), "difference")
    assert found.estimate == pytest.approx(both.estimate)
    same = contrast(both, both, "difference")
    assert (same.interval.low, same.interval.high) == (0.0, 0.0)


def test_macro_average_on_a_log_scale_is_geometric(lab):
    both = average([lab.sample([1.0, 4.0], log=True), lab.sample([4.0, 1.0], log=True)])
    assert list(both.shown) == pytest.approx([2.0, 2.0])


values = st.lists(st.floats(0.1, 10), min_size=3, max_size=6)


@settings(max_examples=50)
@given(values, st.randoms(use_true_random=False))
def test_swapping_sides_mirrors_and_order_of_seeds_says_nothing(x, random):
    y = [random.uniform(0.1, 10) for _ in x]
    make = lambda v, at: Sample("mean", False, False, tuple(at), np.array([v[i] for i in at]))  # noqa: E731
    at = list(range(len(x)))
    plain = contrast(make(x, at), make(y, at), "ratio")
    swapped = contrast(make(y, at), make(x, at), "ratio")
    assert swapped.estimate == pytest.approx(1 / plain.estimate)
    assert swapped.interval.low == pytest.approx(1 / plain.interval.high, rel=1e-6)
    shuffled = at[:]
    random.shuffle(shuffled)
    again = contrast(make(x, shuffled), make(y, at), "ratio")
    assert again.interval.low == pytest.approx(plain.interval.low, rel=1e-6)
