from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from harness.leaderboard.ranks import TOO_FEW
from harness.leaderboard.samples import CellState
from harness.leaderboard.table import build
from harness.results.record import State
from harness.spec.study import Skip


def by_method(board):
    return {cell.method: cell for _, cell in board.cells()}


def test_states_reasons_and_counts(lab):
    board = build(lab.full_study(), lab.full_scores())
    states = {(c.method, c.evaluation, c.metric): (c.state, c.reason) for _, c in board.cells()}
    odd = "Schrödinger ± 漢字"
    assert states["mla", "perplexity", "loss"] == (CellState.PARTIAL, "seed 1 failed: RuntimeError: loss is NaN")
    assert states[odd, "latency", "seconds"] == (CellState.FAILED, "timeout: 600 s were over")
    assert states[odd, "perplexity", "perplexity"] == (CellState.UNDEFINED, "overflow in exp")
    assert states[odd, "quiz", "share"] == (CellState.SKIPPED, "no answers in this method")
    assert states[odd, "cache", "elements_per_token"] == (CellState.MISSING, "not run yet")
    assert str(board.counts) == "31 of 40 measurements finished, 3 failed, 1 skipped, 5 not run"
    assert board.coverage("mlra-4") == (12, 12)
    assert board.coverage("mla") == (9, 12)


def test_layout_axes_are_columns_and_metrics_are_panels(lab):
    cache, latency, perplexity, quiz = build(lab.full_study(), lab.full_scores()).tables
    (panel,) = cache.panels
    assert (panel.axis, panel.headings) == ("tensor_parallel", ("1", "2", "4", "8"))
    assert [(p.metric, p.headings) for p in latency.panels] == [
        ("tokens_per_second", ("1", "4")),
        ("seconds", ("1", "4")),
    ]
    assert latency.fixed == {"context": 1024}
    assert [p.headings for p in perplexity.panels] == [("perplexity", "loss", "steps")]
    assert [p.headings for p in quiz.panels] == [("share",)]


def test_two_axes_are_named_in_the_headings(lab):
    axes = tuple({"size": s, "kind": k} for s in (1, 2) for k in ("a", "b"))
    (table,) = build(lab.one_metric(axes=axes), []).tables
    assert table.panels[0].headings == ("size=1, kind=a", "size=1, kind=b", "size=2, kind=a", "size=2, kind=b")


@pytest.mark.parametrize(("direction", "best"), [("max", "c"), ("min", "a"), (None, None)])
def test_direction_decides_who_is_best(lab, direction, best):
    study = lab.one_metric(("a", "b", "c"), direction=direction, deterministic=True, kind="exact")
    scores = [lab.score(m, "task.accuracy", v, seed=None) for m, v in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    board = build(study, scores)
    assert [m for m, c in by_method(board).items() if c.best] == ([best] if best else [])


@pytest.mark.parametrize("direction", ["max", "min", None])
def test_what_has_no_number_comes_last_whatever_the_direction(lab, direction):
    study = lab.one_metric(("nan", "b", "inf", "none", "a", "-inf"), direction=direction, deterministic=True)
    values = {"nan": np.nan, "b": 2.0, "inf": np.inf, "none": None, "a": 1.0, "-inf": -np.inf}
    board = build(study, [lab.score(m, "task.accuracy", v, seed=None) for m, v in values.items()], order="rank")
    order = [study.methods[i].label for i in board.tables[0].order]
    assert order[:2] == {"max": ["b", "a"], "min": ["a", "b"], None: ["b", "a"]}[direction]
    assert order[2:] == ["nan", "inf", "none", "-inf"]
    assert all(by_method(board)[m].rank is None for m in ("nan", "inf", "none", "-inf"))


def test_partial_cells_are_shown_but_neither_ranked_nor_best(lab):
    scores = [lab.score("ours", "task.accuracy", 9.0 + s / 100, seed=s) for s in (0, 1)]
    scores.append(lab.score("ours", "task.accuracy", seed=2, state=State.FAILED, reason="boom"))
    scores += [
        lab.score(m, "task.accuracy", v + s / 100, seed=s) for m, v in (("b", 1.0), ("c", 2.0)) for s in range(3)
    ]
    cells = by_method(build(lab.one_metric(("ours", "b", "c")), scores, order="rank"))
    ours = cells["ours"]
    assert (ours.state, ours.estimate, ours.rank, ours.best) == (CellState.PARTIAL, pytest.approx(9.005), None, False)
    assert (ours.n, ours.planned, ours.values) == (2, 3, (9.0, 9.01, None))
    assert cells["c"].best
    assert cells["c"].rank == 1


def test_one_measurement_has_no_interval_and_no_rank(lab):
    board = build(lab.one_metric(seeds=(0,)), [lab.score(m, "task.accuracy", 1.0) for m in ("ours", "theirs")])
    for _, cell in board.cells():
        assert cell.interval is None
        assert cell.rank is None
    assert any(line.startswith(TOO_FEW) for line in board.legend)
    assert board.to_frame()["low"].isna().all()


def test_what_differs_is_footnoted(lab):
    study = lab.one_metric(("a", "b", "c"), seeds=(0,), limit=50)
    scores = [
        lab.score("a", "task.accuracy", 1.0, hardware="one", n=50),
        lab.score("b", "task.accuracy", 1.0, hardware="one", n=40),
        lab.score("c", "task.accuracy", 1.0, hardware="two", n=50),
    ]
    board = build(study, scores)
    assert {m: c.notes for m, c in by_method(board).items()} == {
        "a": (),
        "b": ("items per seed: 40, the others: 50",),
        "c": ("measured on two, the others: one",),
    }
    assert [mark for mark, _ in board.footnotes] == ["a", "b"]
    assert any("limited to 50 items" in line for line in board.legend)


def test_declared_skips_cover_names_labels_and_axes(lab):
    axes = ({"size": 1}, {"size": 2})
    skips = (Skip({"method": "theirs", "size": 2}, "too large"),)
    board = build(lab.one_metric(axes=axes, skips=skips), [])
    found = {(c.method, c.cell["size"]): (c.state, c.reason) for _, c in board.cells()}
    assert found["theirs", 2] == (CellState.SKIPPED, "too large")
    assert found["theirs", 1] == found["ours", 2] == (CellState.MISSING, "not run yet")


def test_a_skipped_row_without_seed_hides_no_seeds_of_its_rivals(lab):
    scores = [lab.score("ours", "task.accuracy", 1.0 + s, seed=s) for s in range(3)]
    scores.append(lab.score("theirs", "task.accuracy", seed=None, state=State.SKIPPED))
    found = by_method(build(lab.one_metric(skips=(Skip({"method": "theirs"}, "too large"),)), scores))
    assert (found["ours"].state, found["ours"].n) == (CellState.OK, 3)
    assert (found["theirs"].state, found["theirs"].reason) == (CellState.SKIPPED, "too large")


def test_a_deterministic_evaluation_of_seeded_builds_has_their_seeds(lab):
    scores = [lab.score("ours", "task.accuracy", 1.0, seed=s) for s in range(3)]
    study = lab.one_metric()
    adapters = dict(study.adapters)
    name = study.evaluations[0].use.use
    adapters[name] = replace(adapters[name], deterministic=True)
    cell = by_method(build(replace(study, adapters=adapters), scores))["ours"]
    assert (cell.state, cell.n) == (CellState.OK, 3)


def test_seeds_that_are_not_planned_are_left_aside(lab):
    scores = [lab.score("ours", "task.accuracy", float(s), seed=s) for s in range(5)]
    cell = by_method(build(lab.one_metric(seeds=(0, 1, 2)), scores))["ours"]
    assert (cell.state, cell.estimate, cell.seeds) == (CellState.OK, 1.0, (0, 1, 2))


def test_a_running_study_says_so(lab):
    scores = [lab.score("ours", "task.accuracy", seed=s, state=State.RUNNING) for s in range(3)]
    cell = by_method(build(lab.one_metric(), scores))["ours"]
    assert (cell.state, cell.reason) == (CellState.MISSING, "running")


def test_zero_on_a_log_scale_is_undefined(lab):
    scores = [lab.score("ours", "task.accuracy", 0.0, seed=s) for s in range(3)]
    cell = by_method(build(lab.one_metric(scale="log"), scores))["ours"]
    assert cell.state is CellState.UNDEFINED


def numbers(board):
    return {(c.method, c.metric, str(c.cell)): (c.estimate, c.interval, c.rank, c.best) for _, c in board.cells()}


bad_states = st.sampled_from([State.FAILED, State.TIMEOUT, State.SKIPPED, State.LOST, State.QUEUED])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.floats(0.1, 10), min_size=3, max_size=3), min_size=2, max_size=4), bad_states, st.randoms())
def test_a_failed_method_changes_no_other_and_order_says_nothing(lab_module, values, state, random):
    lab = lab_module
    names = [f"m{i}" for i in range(len(values))]
    scores = [
        lab.score(m, "task.accuracy", v, seed=s)
        for m, row in zip(names, values, strict=True)
        for s, v in enumerate(row)
    ]
    before = numbers(build(lab.one_metric(names), scores))
    bad = [lab.score("bad", "task.accuracy", seed=s, state=state, reason="boom") for s in range(3)]
    shuffled = scores + bad
    random.shuffle(shuffled)
    after = numbers(build(lab.one_metric([*names, "bad"]), shuffled))
    assert {k: v for k, v in after.items() if k[0] != "bad"} == before
    assert all(v == (None, None, None, False) for k, v in after.items() if k[0] == "bad")


def test_frame_keeps_axis_values_of_mixed_types(lab, tmp_path):
    import pandas as pd

    values = [1, "auto", None, 0.5, [1, 2], {"a": 1}]
    axes = tuple({"size": v, "metric": i} for i, v in enumerate(values))
    frame = build(lab.one_metric(axes=axes), []).to_frame()
    assert list(frame.columns[:5]) == ["method", "role", "evaluation", "size", "metric_axis"]
    assert list(frame["size"][::2]) == ["1", '"auto"', "null", "0.5", "[1, 2]", '{"a": 1}']
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), frame)


def test_frame_of_all_states(lab):
    frame = build(lab.full_study(), lab.full_scores()).to_frame()
    assert len(frame) == 48
    assert set(frame["state"]) == {"ok", "partial", "failed", "undefined", "skipped", "missing"}
    assert frame["estimate"].dtype == float
    assert np.isfinite(frame["estimate"].dropna()).all()


def test_a_table_has_the_rows_of_the_methods_it_is_done_with(lab):
    study = lab.one_metric(("a", "b", "c"), direction="max", deterministic=True, kind="exact")
    study = replace(study, evaluations=tuple(replace(e, methods=("a", "c")) for e in study.evaluations))
    scores = [lab.score(m, "task.accuracy", v, seed=None) for m, v in (("a", 1.0), ("c", 3.0))]
    board = build(study, scores, order="rank")
    (table,) = board.tables
    assert [table.rows[i].label for i in table.order] == ["c", "a"]
    assert str(board.counts) == "2 of 2 measurements finished"
    assert board.coverage("b") == (0, 0)


def test_a_deterministic_share_of_items_has_the_interval_of_a_proportion(lab):
    study = lab.one_metric(("a", "b"), kind="proportion", direction="max", deterministic=True)
    items = [1.0] * 30 + [0.0] * 10
    scores = [
        lab.score("a", "task.accuracy", 0.75, seed=None, items=items, n=40),
        lab.score("b", "task.accuracy", 0.5, seed=None),
    ]
    found = by_method(build(study, scores))
    low, high = proportion_confint(30, 40)
    assert (found["a"].interval.low, found["a"].interval.high) == pytest.approx((low, high))
    assert not found["a"].exact
    assert found["b"].interval is None
    assert found["b"].exact


def proportion_confint(hits, n):
    """Clopper-Pearson at 95 %."""
    return beta.ppf(0.025, hits, n - hits + 1), beta.ppf(0.975, hits + 1, n - hits)
