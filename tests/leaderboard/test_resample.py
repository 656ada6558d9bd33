from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.leaderboard.resample import (
    bootstrap_means,
    bootstrap_medians,
    flip_p,
    hierarchical_means,
    sign_flips,
    smallest_p,
)


def test_bootstrap_spread_is_that_of_a_mean():
    x = np.random.default_rng(1).normal(size=(200, 1))
    draws = bootstrap_means(x)
    assert draws.shape == (10_000, 1)
    assert draws.mean() == pytest.approx(x.mean(), abs=0.005)
    assert draws.std() == pytest.approx(x.std() / np.sqrt(200), rel=0.03)


def test_bootstrap_is_seeded_and_pairs_columns_and_calls():
    x = np.random.default_rng(1).normal(size=(50, 2))
    both = bootstrap_means(x, resamples=100)
    alone = bootstrap_means(x[:, 1:], resamples=100)
    assert np.allclose(both[:, 1:], alone)
    assert not np.allclose(alone, bootstrap_means(x[:, 1:], resamples=100, stream=1))


def test_clusters_are_drawn_whole():
    units = np.repeat(np.arange(20), 10)
    level = np.random.default_rng(2).normal(size=20)
    x = level[units][:, None]
    clustered, plain = bootstrap_means(x, units).std(), bootstrap_means(x).std()
    assert clustered == pytest.approx(level.std() / np.sqrt(20), rel=0.05)
    assert plain < clustered / 2


def test_unequal_clusters_weigh_by_their_items():
    x, units = np.array([[1.0], [1.0], [1.0], [0.0]]), np.array([7, 7, 7, 3])
    assert set(np.round(bootstrap_means(x, units).ravel(), 6)) == {0.0, 0.75, 1.0}


def test_hierarchical_sees_seeds_and_items():
    rng = np.random.default_rng(3)
    seeds, common = rng.normal(0, 1, 8), rng.normal(0, 1, 40)
    draws = hierarchical_means([s + common for s in seeds])
    assert draws.std() == pytest.approx(np.sqrt(seeds.var() / 8 + common.var() / 40), rel=0.05)
    nested = hierarchical_means([rng.normal(s, 1, 30 + i) for i, s in enumerate(seeds)])
    assert nested.std() > seeds.std() / np.sqrt(8) * 0.9


def test_medians():
    x = np.random.default_rng(4).normal(10, 1, 101)
    draws = bootstrap_medians(x)
    assert draws.mean() == pytest.approx(np.median(x), abs=0.1)
    assert len(draws) == 10_000


def test_sign_flips_agree_with_scipy():
    d = np.array([0.3, 0.5, -0.1, 0.9, 0.4, 0.2, 0.7, 0.35, 0.15])
    flipped, complete = sign_flips(d[:, None])
    assert complete
    assert len(flipped) == 512
    ours = flip_p(flipped[:, 0], float(d.sum()), complete=True)
    theirs = stats.permutation_test((d,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert ours == pytest.approx(theirs)
    assert flip_p(flipped[:, 0], float(np.abs(d).sum()), complete=True) == smallest_p(9) == 2 / 512


def test_random_flips_are_close_to_t_and_never_zero():
    d = np.random.default_rng(5).normal(0.1, 1, 300)
    flipped, complete = sign_flips(d[:, None])
    assert not complete
    assert flip_p(flipped[:, 0], float(d.sum()), complete=False) == pytest.approx(
        stats.ttest_1samp(d, 0).pvalue, abs=0.02
    )
    far, _ = sign_flips(np.ones((300, 1)))
    assert flip_p(far[:, 0], 300.0, complete=False) == smallest_p(300) > 0


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=10))
def test_flipping_both_ways_gives_one_p(values):
    d = np.array(values)
    one, complete = sign_flips(d[:, None])
    other, _ = sign_flips(-d[:, None])
    p = flip_p(one[:, 0], float(d.sum()), complete=complete)
    assert p == flip_p(other[:, 0], float(-d.sum()), complete=complete)
    assert 0 < p <= 1


@pytest.mark.slow
def test_large_resamples_take_seconds():
    x = np.random.default_rng(6).normal(size=(10_000, 5))
    start = time.perf_counter()
    assert bootstrap_means(x).shape == (10_000, 5)
    assert time.perf_counter() - start < 30
