from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.leaderboard.intervals import (
    Interval,
    clopper_pearson,
    interval,
    intervals,
    median_interval,
    percentile,
    student_t,
)
from harness.leaderboard.resample import bootstrap_means


def test_student_t_agrees_with_scipy():
    x = np.array([1.0, 1.4, 0.9, 1.2])
    made = student_t(x)
    low, high = stats.t.interval(0.95, 3, x.mean(), stats.sem(x))
    assert (made.low, made.high) == pytest.approx((low, high))


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (1, 1), (499, 1000)])
def test_clopper_pearson_agrees_with_scipy(k, n):
    made, theirs = clopper_pearson(k, n), stats.binomtest(k, n).proportion_ci(0.95, "exact")
    assert (made.low, made.high) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("n", [1, 30, 300])
@pytest.mark.parametrize("p", [0.01, 0.3, 0.5])
def test_clopper_pearson_covers_by_exact_sum(n, p):
    made = [clopper_pearson(k, n) for k in range(n + 1)]
    covered = sum(stats.binom.pmf(k, n, p) for k, i in enumerate(made) if i.low <= p <= i.high)
    assert covered >= 0.95


@pytest.mark.parametrize(("n", "low", "high"), [(8, 0, 7), (9, 1, 7), (20, 5, 14)])
def test_median_interval_is_between_order_statistics(n, low, high):
    made = median_interval(np.arange(n, dtype=float))
    assert (made.low, made.high) == (low, high)
    assert 1 - 2 * stats.binom.cdf(low - 1 if low else -1, n, 0.5) >= 0.95 or low == 0


@pytest.mark.parametrize("n", range(8, 40))
def test_median_interval_covers_and_is_not_wider_than_needed(n):
    made = median_interval(np.arange(n, dtype=float))
    outside = int(made.low)  # so many order statistics are left out on each side
    assert 2 * stats.binom.cdf(outside, n, 0.5) <= 0.05
    assert 2 * stats.binom.cdf(outside + 1, n, 0.5) > 0.05


def test_too_few_have_no_interval(lab):
    assert median_interval(np.arange(7.0)) is None
    assert median_interval(np.arange(8.0), level=0.999) is None
    assert student_t(np.array([1.0])) is None
    assert interval(lab.sample([0.3])) is None
    assert interval(lab.sample([0.3], items=[[0.1, 0.5]])) is None
    assert interval(lab.sample([])) is None


def test_one_kind_per_shape_of_data(lab):
    rng = np.random.default_rng(0)
    x = rng.normal(5, 1, 40)
    bits = (rng.random(40) < 0.3).astype(float)
    seeds = rng.normal(5, 1, 6)
    cases = {
        "t over seeds": lab.sample([1.0, 2.0, 3.0], items=[x, x, x]),
        "bootstrap over seeds and items": lab.sample(seeds, items=[x - x.mean() + s for s in seeds]),
        "bootstrap over items": lab.sample([x.mean()], items=[x]),
        "bootstrap over units": lab.sample([x.mean()], items=[x], units=[np.repeat(np.arange(10), 4)]),
        "Clopper-Pearson": lab.sample([bits.mean()], kind="proportion", items=[bits]),
        "order statistics": lab.sample([np.median(x)], kind="median", items=[x]),
        "replicates": lab.sample([0.5], kind="replicates", replicates=[rng.normal(0.5, 0.1, 500)]),
    }
    for kind, sample in cases.items():
        made = interval(sample)
        assert made.kind == kind
        assert made.low < sample.estimate < made.high
    assert interval(lab.sample([4.5], exact=True)) is None


def test_zeros_and_ones_never_have_width_zero(lab):
    none = interval(lab.sample([0.0], items=[np.zeros(30)]))
    assert (none.low, none.high) == pytest.approx((0.0, 1 - 0.025 ** (1 / 30)))
    clustered = interval(lab.sample([1.0], items=[np.ones(30)], units=[np.repeat(np.arange(5), 6)]))
    assert clustered.low == pytest.approx(0.025 ** (1 / 5))  # five units, not thirty items


def test_log_scale_puts_the_logarithms_interval_back(lab):
    values = np.array([10.0, 12.0, 11.0])
    made = interval(lab.sample(values, log=True))
    plain = student_t(np.log(values))
    assert (made.low, made.high) == pytest.approx((np.exp(plain.low), np.exp(plain.high)))
    assert lab.sample(values, log=True).estimate == pytest.approx(stats.gmean(values))
    logs = np.random.default_rng(1).normal(2, 0.3, 60)
    items = interval(lab.sample([np.exp(logs.mean())], log=True, items=[logs]))
    assert items.low < np.exp(logs.mean()) < items.high
    timing = interval(lab.sample([np.exp(np.median(logs))], kind="median", log=True, items=[logs]))
    assert np.log(timing.low) in logs.round(12) or np.isclose(np.log(timing.low), logs).any()


def test_shared_resamples_give_what_each_would_get_alone(lab):
    rng = np.random.default_rng(2)
    columns = [rng.normal(i, 1, 25) for i in range(3)]
    together = intervals([lab.sample([c.mean()], items=[c]) for c in columns])
    alone = [interval(lab.sample([c.mean()], items=[c])) for c in columns]
    assert [i.low for i in together] == pytest.approx([i.low for i in alone])
    assert [i.high for i in together] == pytest.approx([i.high for i in alone])


def test_t_intervals_cover_as_stated():
    rng = np.random.default_rng(3)
    for seeds in (3, 5, 20):
        made = [student_t(x) for x in rng.normal(2, 3, (1500, seeds))]
        covered = np.mean([i.low <= 2 <= i.high for i in made])
        assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize(("n", "least"), [(10, 0.92), (30, 0.93), (200, 0.93)])
def test_bootstrap_covers_normal_items(n, least):
    studies = np.random.default_rng(4).normal(0, 1, (n, 800))
    draws = bootstrap_means(studies, resamples=4000)
    made = [percentile(draws[:, i], units=n) for i in range(800)]
    assert least <= np.mean([i.low <= 0 <= i.high for i in made]) <= 0.98


def test_bootstrap_of_skewed_items_falls_short_as_documented():
    studies = np.random.default_rng(5).lognormal(0, 1, (30, 800))
    draws, truth = bootstrap_means(studies, resamples=4000), np.exp(0.5)
    made = [percentile(draws[:, i], units=30) for i in range(800)]
    assert 0.87 <= np.mean([i.low <= truth <= i.high for i in made]) <= 0.95


def test_an_interval_of_logarithms_may_overflow():
    assert Interval(0.0, 1e9).exponentiated().high == np.inf
