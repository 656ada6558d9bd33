from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.leaderboard.ranks import TOO_FEW, Tests, holm, ranks


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_agrees_with_its_definition(p):
    adjusted = holm(p)
    order = sorted(range(len(p)), key=lambda i: p[i])
    for place, i in enumerate(order):
        steps = [min(1.0, (len(p) - k) * p[j]) for k, j in enumerate(order[: place + 1])]
        assert adjusted[i] == max(steps)


def test_p_values_agree_with_scipy(lab):
    rng = np.random.default_rng(0)
    x, y = rng.normal(0, 1, 5), rng.normal(1, 1, 5)
    assert Tests([lab.sample(x), lab.sample(y)]).p(0, 1) == pytest.approx(stats.ttest_rel(x, y).pvalue)
    apart = Tests([lab.sample(x), lab.sample(y, seeds=range(5, 10))]).p(0, 1)
    assert apart == pytest.approx(stats.ttest_ind(x, y, equal_var=False).pvalue)
    u, v = rng.normal(0, 1, 12), rng.normal(0.5, 1, 12)
    a = lab.sample([u.mean()], items=[u])
    b = lab.sample([v.mean()], items=[v])
    exact = stats.permutation_test((u - v,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert Tests([a, b]).p(0, 1) == pytest.approx(exact)
    assert Tests([b, a]).p(0, 1) == pytest.approx(exact)
    s = lab.sample([np.median(u)], kind="median", items=[u], run="one")
    t = lab.sample([np.median(v)], kind="median", items=[v], run="two")
    assert Tests([s, t]).p(0, 1) == pytest.approx(stats.mannwhitneyu(u, v).pvalue)


def test_groups_share_a_rank(lab):
    noise = np.random.default_rng(1).normal(0, 0.01, (4, 10))
    samples = [lab.sample(m + n) for m, n in zip((5.0, 5.001, 7.0, 3.0), noise, strict=True)]
    assert ranks(samples, "max")[0] == [2, 2, 1, 4]
    assert ranks(samples, "min")[0] == [2, 2, 4, 1]
    assert ranks(samples, None)[0] == [None] * 4


def test_exact_values_tie_only_if_equal(lab):
    samples = [lab.sample([v], exact=True) for v in (1.5, 1.5, 1.5000001)]
    assert ranks(samples, "min")[0] == [1, 1, 3]


def test_too_few_seeds_are_no_tie(lab):
    for values in ([[1.0], [9.0]], [[1.0, 1.01], [9.0, 9.01]]):
        found, note = ranks([lab.sample(v) for v in values], "max")
        assert found == [None, None]
        assert note == TOO_FEW


def test_nine_rounds_tell_many_methods_apart(lab):
    rng = np.random.default_rng(2)
    rounds = [np.log(2.0) * i + rng.normal(0, 0.01, 9) for i in range(12)]
    samples = [lab.sample([np.exp(np.median(r))], kind="median", log=True, items=[r]) for r in rounds]
    assert ranks(samples, "min")[0] == list(range(1, 13))


def test_identical_items_are_a_tie(lab):
    x = np.random.default_rng(3).normal(size=50)
    assert ranks([lab.sample([x.mean()], items=[x]), lab.sample([x.mean()], items=[x])], "max")[0] == [1, 1]


def test_equal_methods_are_seldom_told_apart(lab):
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(200):
        found, _ = ranks([lab.sample(rng.normal(size=5)) for _ in range(5)], "max")
        wrong += any(r != 1 for r in found)
    assert wrong / 200 <= 0.08
