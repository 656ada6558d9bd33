from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.leaderboard.claims import judge
from harness.leaderboard.verdicts import Verdict
from harness.results.record import State
from harness.spec.study import Expectation, MethodRow, Use

AT_LEAST_2 = Expectation("ratio", ">=", 2.0)
WITHIN_2_PERCENT = Expectation("equivalence", margin=0.02, relative=True)
BETTER = Expectation("difference", ">", 0.0)


def one(lab, claim, scores, **study):
    return judge(lab.one_metric(claims=[claim], **study), scores)[0]


def seeds(lab, method, values, **more):
    return [lab.score(method, "task.accuracy", v, seed=i, **more) for i, v in enumerate(values)]


def test_ratio_over_paired_seeds(lab):
    scores = seeds(lab, "ours", [3.0, 3.1, 3.2]) + seeds(lab, "theirs", [1.0, 1.02, 1.05])
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2, paper=2.8)
    found = one(lab, claim, scores)
    assert found.verdict is Verdict.REPRODUCED
    assert found.measured == pytest.approx(np.exp(np.mean(np.log([3.0, 3.1 / 1.02, 3.2 / 1.05]))))
    assert "of ours over theirs: 3.0" in found.text
    assert "% above the paper's 2.8" in found.text
    assert "claimed ratio >= 2" in found.text
    assert [(e.role, e.method, e.n) for e in found.evidence] == [("where", "ours", 3), ("against", "theirs", 3)]
    assert found.evidence[0].runs == ("task-ours-0", "task-ours-1", "task-ours-2")


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([3.0, 3.1, 3.2], Verdict.REPRODUCED),
        ([1.5, 1.52, 1.49], Verdict.WEAKER),
        ([0.5, 0.52, 0.49], Verdict.NOT_REPRODUCED),
        ([1.0, 3.1, 0.4], Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts_from_seeds(lab, ours, verdict):
    scores = seeds(lab, "ours", ours) + seeds(lab, "theirs", [1.0, 1.0, 1.01])
    found = one(lab, lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2), scores)
    assert found.verdict is verdict


def test_one_seed_is_inconclusive_and_says_so(lab):
    scores = [lab.score("ours", "task.accuracy", 3.0), lab.score("theirs", "task.accuracy", 1.0)]
    found = one(lab, lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2), scores, seeds=(0,))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.measured == 3.0
    assert "one seed" in found.text
    equals = one(lab, lab.claim(expect=Expectation("equals", value=3.0, tolerance=1)), scores, seeds=(0,))
    assert equals.verdict is Verdict.INCONCLUSIVE
    assert "one seed" in equals.text


def test_a_noisy_shift_is_shown_as_inconclusive_with_its_interval(lab):
    rng = np.random.default_rng(1)
    scores = seeds(lab, "ours", 110 * (1 + rng.normal(0, 0.3, 5))) + seeds(
        lab, "theirs", 100 * (1 + rng.normal(0, 0.3, 5))
    )
    found = one(
        lab, lab.claim(against={"method": "theirs"}, expect=Expectation("ratio", ">", 1.0)), scores, seeds=range(5)
    )
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.interval.low < 1 < found.interval.high
    assert "too wide to tell" in found.text
    assert "1.07 [0.68, 1.69]" in found.text


def test_exact_values(lab):
    scores = [lab.score("ours", "task.accuracy", 1.5, seed=None), lab.score("theirs", "task.accuracy", 4.5, seed=None)]
    for expect, against, verdict in (
        (Expectation("equals", value=1.5), None, Verdict.REPRODUCED),
        (Expectation("equals", value=1.6), None, Verdict.NOT_REPRODUCED),
        (Expectation("ratio", "<=", 1 / 3), {"method": "theirs"}, Verdict.REPRODUCED),
        (Expectation("ratio", "<=", 0.25), {"method": "theirs"}, Verdict.WEAKER),
    ):
        found = one(lab, lab.claim(against=against, expect=expect), scores, deterministic=True, kind="exact")
        assert found.verdict is verdict


def test_failed_and_missing_cells_are_not_evaluated(lab):
    good = seeds(lab, "ours", [3.0, 3.1, 3.2])
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2)
    absent = one(lab, claim, good)
    assert absent.verdict is Verdict.NOT_EVALUATED
    assert "theirs: not run yet" in absent.text
    bad = [lab.score("theirs", "task.accuracy", seed=2, state=State.FAILED, reason="RuntimeError: boom")]
    partial = one(lab, claim, good + seeds(lab, "theirs", [1.0, 1.02]) + bad)
    assert partial.verdict is Verdict.NOT_EVALUATED
    assert "seed 2 failed: RuntimeError: boom" in partial.text
    assert partial.measured is not None  # shown all the same


def test_closed_gate_is_invalid(lab):
    closed = [
        lab.score("theirs", "task.accuracy", seed=s, state=State.SKIPPED, reason="gate: 0.84 < 0.9", gate_closed=True)
        for s in range(3)
    ]
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2)
    found = one(lab, claim, seeds(lab, "ours", [3.0, 3.1, 3.2]) + closed)
    assert found.verdict is Verdict.INVALID
    assert "0.84 < 0.9" in found.text


@pytest.mark.parametrize(
    ("control", "verdict"),
    [
        ([1.3, 1.31, 1.3], Verdict.REPRODUCED),  # lies outside the margin: the measurement can tell
        ([1.0, 1.001, 0.999], Verdict.INVALID),  # so does what must fail
        ([1.0, 1.1, 0.95], Verdict.INVALID),  # cannot be told
    ],
)
def test_control_of_an_equivalence_must_lie_outside(lab, control, verdict):
    scores = seeds(lab, "ours", [1.0, 1.001, 1.002]) + seeds(lab, "theirs", [1.0, 1.002, 1.001])
    scores += seeds(lab, "none", control)
    claim = lab.claim(against={"method": "theirs"}, expect=WITHIN_2_PERCENT, control="none")
    found = one(lab, claim, scores, methods=("ours", "theirs", "none"))
    assert found.verdict is verdict
    assert "control none: " in found.text
    assert [e.method for e in found.evidence if e.role == "control"] == ["none"]


def test_control_of_a_ratio_must_not_be_reproduced(lab):
    scores = seeds(lab, "ours", [3.0, 3.1, 3.2]) + seeds(lab, "theirs", [1.0, 1.02, 1.0])
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2, control="none")
    methods = ("ours", "theirs", "none")
    fine = one(lab, claim, scores + seeds(lab, "none", [1.0, 1.3, 0.9]), methods=methods)
    assert fine.verdict is Verdict.REPRODUCED
    bad = one(lab, claim, scores + seeds(lab, "none", [4.0, 4.1, 4.0]), methods=methods)
    assert bad.verdict is Verdict.INVALID
    assert "control none meets the same expectation" in bad.reason
    absent = one(lab, claim, scores, methods=methods)
    assert absent.verdict is Verdict.NOT_EVALUATED
    assert "control none" in absent.reason


def axis_scores(lab, ours, theirs=1.0, seed=None):
    made = [
        lab.score("ours", "task.accuracy", v, cell={"size": s}, seed=seed) for s, v in zip((1, 2, 4), ours, strict=True)
    ]
    return made + [lab.score("theirs", "task.accuracy", theirs, cell={"size": s}, seed=seed) for s in (1, 2, 4)]


SIZES = ({"size": 1}, {"size": 2}, {"size": 4})


def test_every_value_must_hold_and_the_worst_wins(lab):
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2, every=("size",))
    more = {"axes": SIZES, "deterministic": True, "kind": "exact"}
    assert one(lab, claim, axis_scores(lab, (2, 3, 4)), **more).verdict is Verdict.REPRODUCED
    found = one(lab, claim, axis_scores(lab, (2, 1.5, 4)), **more)
    assert found.verdict is Verdict.WEAKER
    assert found.measured == 1.5
    assert [p.label for p in found.parts] == ["size=1", "size=2", "size=4"]
    assert [p.verdict.value for p in found.parts] == ["reproduced", "weaker", "reproduced"]
    assert one(lab, claim, axis_scores(lab, (2, 1.5, 0.5)), **more).verdict is Verdict.NOT_REPRODUCED


def test_mean_is_a_macro_average(lab):
    claim = lab.claim(expect=Expectation("equals", value=3.0), mean=("size",))
    more = {"axes": SIZES, "deterministic": True, "kind": "exact"}
    found = one(lab, claim, axis_scores(lab, (2, 3, 4)), **more)
    assert (found.verdict, found.measured) == (Verdict.REPRODUCED, 3.0)
    assert "macro mean over 3 values of size" in found.text
    against = lab.claim(against={"method": "theirs", "size": 1}, expect=AT_LEAST_2, mean=("size",))
    assert one(lab, against, axis_scores(lab, (2, 3, 4)), **more).measured == 3.0


def test_an_open_axis_is_not_evaluated(lab):
    found = one(lab, lab.claim(expect=Expectation("equals", value=2)), axis_scores(lab, (2, 2, 2)), axes=SIZES)
    assert found.verdict is Verdict.NOT_EVALUATED
    assert "give every axis a value" in found.text


def test_refuting_one_of_many_parts_needs_the_simultaneous_interval(lab):
    axes = tuple({"size": s} for s in range(20))
    rng = np.random.default_rng(0)
    claim = lab.claim(expect=Expectation("equals", value=0.0, tolerance=0.0), every=("size",))
    refuted = 0
    for _ in range(40):
        scores = [
            lab.score("ours", "task.accuracy", float(v), cell=cell, seed=i)
            for cell in axes
            for i, v in enumerate(rng.normal(0, 1, 5))
        ]
        refuted += one(lab, claim, scores, axes=axes, seeds=range(5)).verdict is Verdict.NOT_REPRODUCED
    assert refuted <= 6  # uncorrected, about 26 of 40


def test_order(lab):
    methods = ("ours", "theirs", "third")
    claim = lab.claim(where={}, expect=Expectation("order", order=methods))
    scores = seeds(lab, "ours", [3.0, 3.1, 3.2]) + seeds(lab, "theirs", [2.0, 2.1, 2.2])
    found = one(lab, claim, scores + seeds(lab, "third", [1.0, 1.01, 1.05]), methods=methods)
    assert found.verdict is Verdict.REPRODUCED
    assert [p.label for p in found.parts] == ["ours before theirs", "theirs before third"]
    low = one(lab, claim, scores + seeds(lab, "third", [1.0, 1.01, 1.05]), methods=methods, direction="min")
    assert low.verdict is Verdict.NOT_REPRODUCED
    tied = one(lab, claim, scores + seeds(lab, "third", [2.0, 2.2, 2.1]), methods=methods)
    assert tied.verdict is Verdict.INCONCLUSIVE
    none = one(lab, claim, scores, methods=methods, direction=None)
    assert none.verdict is Verdict.NOT_EVALUATED
    assert "no direction" in none.text


def test_scale_of_the_paper_is_judged_in_its_profile_alone(lab):
    scores = seeds(lab, "ours", [3.0, 3.1, 3.2]) + seeds(lab, "theirs", [1.0, 1.02, 1.05])
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2, scale="paper")
    here = one(lab, claim, scores)
    assert here.verdict is Verdict.NOT_TESTED
    assert here.measured == pytest.approx(3.05, abs=0.1)
    assert one(lab, claim, scores, profile="paper").verdict is Verdict.REPRODUCED


def test_methods_are_found_by_name_and_their_own_axes(lab):
    rows = [MethodRow(f"gqa[heads={h}]", "gqa", {"heads": h}, Use("toy.gqa")) for h in (2, 8)]
    scores = [lab.score(f"gqa[heads={h}]", "task.accuracy", float(h), seed=None) for h in (2, 8)]
    more = {"methods": rows, "deterministic": True, "kind": "exact"}
    for where in ({"method": "gqa", "heads": 8}, {"method": "gqa[heads=8]"}):
        found = one(lab, lab.claim(where=where, expect=Expectation("equals", value=8)), scores, **more)
        assert found.verdict is Verdict.REPRODUCED
    ratio = lab.claim(where={"method": "gqa", "heads": 8}, against={"heads": 2}, expect=Expectation("ratio", ">=", 4))
    assert one(lab, ratio, scores, **more).verdict is Verdict.REPRODUCED
    gone = lab.claim(where={"method": "mla"}, expect=Expectation("equals", value=8))
    assert "no method mla in this profile" in one(lab, gone, scores, **more).text


def test_timed_claims_use_rounds_of_one_run(lab):
    drift = np.random.default_rng(3).normal(0, 0.4, 9)
    scores = [
        lab.score(m, "task.accuracy", float(np.exp(np.median(x))), seed=None, items=x, run="joint")
        for m, x in (("ours", drift + np.log(3)), ("theirs", drift))
    ]
    found = one(lab, lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2), scores, kind="median", scale="log")
    assert found.verdict is Verdict.REPRODUCED
    assert found.measured == pytest.approx(3.0)
    assert "9 paired rounds of one run" in found.text


def test_order_of_scores_says_nothing(lab):
    scores = seeds(lab, "ours", [3.0, 3.1, 3.2]) + seeds(lab, "theirs", [1.0, 1.02, 1.05])
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2)
    assert one(lab, claim, scores) == one(lab, claim, scores[::-1])


def test_two_scores_for_one_place_are_an_error(lab):
    score = lab.score("ours", "task.accuracy", 1.0)
    with pytest.raises(ValueError, match=r"two scores for ours, task\.accuracy"):
        one(lab, lab.claim(expect=BETTER, against={"method": "theirs"}), [score, replace(score, value=2.0)])


@pytest.mark.parametrize(
    ("truth", "right"), [(3.0, Verdict.REPRODUCED), (1.5, Verdict.WEAKER), (0.8, Verdict.NOT_REPRODUCED)]
)
def test_planted_truths_are_judged_right(lab, truth, right):
    rng = np.random.default_rng(5)
    claim = lab.claim(against={"method": "theirs"}, expect=AT_LEAST_2)
    study, found = lab.one_metric(claims=[claim], seeds=range(5)), []
    for _ in range(100):
        theirs = np.exp(rng.normal(0, 0.1, 5))
        ours = truth * theirs * np.exp(rng.normal(0, 0.1, 5))
        found.append(judge(study, seeds(lab, "ours", ours) + seeds(lab, "theirs", theirs))[0].verdict)
    decided = [v for v in found if v is not Verdict.INCONCLUSIVE]
    assert len(decided) >= 50
    assert sum(v is right for v in decided) / len(decided) >= 0.95


@pytest.mark.parametrize("bound", [2.0])
def test_a_claim_at_the_very_edge_is_seldom_decided_wrongly(lab, bound):
    rng = np.random.default_rng(6)
    claim = lab.claim(against={"method": "theirs"}, expect=Expectation("ratio", ">", bound))
    study = lab.one_metric(claims=[claim], seeds=range(5))
    found = []
    for _ in range(300):
        theirs = np.exp(rng.normal(0, 0.1, 5))
        ours = bound * theirs * np.exp(rng.normal(0, 0.1, 5))
        found.append(judge(study, seeds(lab, "ours", ours) + seeds(lab, "theirs", theirs))[0].verdict)
    assert sum(v is Verdict.REPRODUCED for v in found) / 300 <= 0.05
    assert sum(v is Verdict.WEAKER for v in found) / 300 <= 0.05
