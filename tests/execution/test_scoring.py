"""Scores: their own commit, failures that cost no observation, and additions."""

from __future__ import annotations

from typing import Any

from harness.execution import worker
from harness.execution.worker import main
from harness.planning.digest import code_parts
from harness.planning.parts import code_of
from harness.results.record import State
from harness.results.values import read_arrays

# scores

SCORES = """
class Mean(Metric):
    of = ("seen",)
    def score(self, seen, parameters, context):
        called("mean")
        x = seen.arrays["x"].astype(float)
        return Values(x.mean() * parameters["scale"], items=x, units=np.array([0, 0, 1]), note="n")
class Other(Metric):
    of = ("seen",)
    def score(self, seen, parameters, context):
        called("other")
        import a_package_that_is_not_there
class Undefined(Metric):
    of = ("seen",)
    def score(self, seen, parameters, context):
        return Values(float("nan"), replicates=context.rng("bootstrap").random(5))
class Wrong(Metric):
    of = ("seen",)
    def score(self, seen, parameters, context):
        return Values(1.0, items=np.zeros((2, 2)))
"""


def metric(bench: Any, name: str, key: str, entry: str = "e1") -> dict[str, Any]:
    return {"score_key": key * 32, "entry": entry, "metric": bench.reference(name), "parameters": {"scale": 2}}


def test_scores_and_their_items(bench: Any) -> None:
    bench.adapters(bench.plain + SCORES)
    directory = bench.single(
        metrics=[metric(bench, n, k) for n, k in [("Mean", "a1"), ("Undefined", "b2"), ("Wrong", "c3")]]
    )
    assert bench.work(directory).state is State.OK
    mean, undefined, wrong = (bench.scores(directory)[key * 32] for key in ("a1", "b2", "c3"))
    assert (mean.value, mean.n, mean.note, mean.entry, mean.state) == (2.0, 3, "n", "e1", State.OK)
    arrays = read_arrays(directory, "a1" * 32)
    assert arrays["items"].tolist() == [0.0, 1.0, 2.0]
    assert arrays["units"].tolist() == [0, 0, 1]
    assert (undefined.state, undefined.value, undefined.note) == (State.OK, None, "value was nan")
    assert read_arrays(directory, "b2" * 32)["replicates"].shape == (5,)
    assert wrong.state is State.FAILED
    assert "(2, 2)" in str(wrong.reason)
    assert read_arrays(directory, "c3" * 32) == {}


def test_a_scoring_failure_costs_no_observation_and_is_made_good_later(bench: Any) -> None:
    bench.adapters(bench.plain + SCORES)
    directory = bench.single(metrics=[metric(bench, "Mean", "a1"), metric(bench, "Other", "b2")])
    record = bench.work(directory)
    assert record.state is State.OK
    failed = bench.scores(directory)["b2" * 32]
    assert failed.state is State.FAILED
    assert str(failed.reason).startswith("ModuleNotFoundError: No module named 'a_package_that_is_not_there'")
    committed = (directory / "run.json").read_bytes()
    bench.adapters(bench.plain + SCORES.replace("import a_package_that_is_not_there", "return Values(5.0)"))
    again = bench.work(directory, 2, mode="score")
    assert again == record
    assert (directory / "run.json").read_bytes() == committed
    scores = bench.scores(directory)
    assert (scores["b2" * 32].value, scores["a1" * 32].value) == (5.0, 2.0)
    assert bench.calls() == ["observe-3", "mean", "other", "other"]


def test_a_new_metric_is_added_and_others_are_kept(bench: Any) -> None:
    bench.adapters(bench.plain + SCORES)
    directory = bench.single(metrics=[metric(bench, "Mean", "a1")], key="ef" * 32)
    bench.work(directory)
    bench.single(metrics=[metric(bench, "Undefined", "b2")], key="ef" * 32)
    bench.work(directory, 2, mode="score")
    assert set(bench.scores(directory)) == {"a1" * 32, "b2" * 32}
    assert bench.calls() == ["observe-3", "mean"]


def test_entries_that_failed_are_not_scored_and_a_new_attempt_drops_old_scores(bench: Any) -> None:
    bench.adapters(
        (bench.plain + SCORES).replace("called(f", "CALLS.with_name('stop').exists() and [].pop(); called(f")
    )
    directory = bench.single(metrics=[metric(bench, "Mean", "a1")])
    bench.work(directory)
    (bench.root / "stop").touch()
    assert bench.work(directory, 2).state is State.FAILED
    assert bench.scores(directory) == {}
    assert not (directory / "scores").exists()
    assert not (directory / "observations.npz").exists()


def test_scoring_what_was_never_observed_is_an_error(bench: Any) -> None:
    bench.adapters(bench.plain + SCORES)
    assert main(bench.single(), bench.results, 1, "score") == worker.INTERNAL


def test_a_metric_whose_code_changed_since_the_plan_gives_no_score(bench: Any) -> None:
    bench.adapters(bench.plain + SCORES)
    wanted = metric(bench, "Mean", "a1")
    wanted["metric"]["code"] = "other"
    directory = bench.single(metrics=[wanted], key="ef" * 32)
    assert bench.work(directory).state is State.OK
    score = bench.scores(directory)["a1" * 32]
    assert (score.state, score.value) == (State.INFRASTRUCTURE, None)
    assert "its code changed since the plan was made" in str(score.reason)
    assert bench.calls() == ["observe-3"]
    wanted["metric"]["code"] = code_of(code_parts(wanted["metric"]["module"]))
    bench.single(metrics=[wanted], key="ef" * 32)
    bench.work(directory, 2, mode="score")
    assert bench.scores(directory)["a1" * 32].value == 2.0
