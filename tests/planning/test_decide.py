"""Plans over finished records: what is run, re-scored, reused or stale, and the reason given."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.planning.compile import compile_study
from harness.planning.decide import Action, Choices, Plan, Upstream, decide
from harness.results.record import EntryState, State
from harness.spec.study import Resources, Use

WORDS = Use("toy.words", {"size": 10})


def actions(plan: Plan) -> dict[str, Action]:
    return {p.node.name: p.action for p in plan.planned}


def reason(plan: Plan, name: str) -> str:
    return next(p.reason for p in plan.planned if p.node.name == name)


@pytest.fixture
def make(study, row, cell, sources):
    """The compiled study with both methods, a seeded quality evaluation and a timed one."""

    def build(shift: int = 0, seeds: tuple[int, ...] = (0,), **more):
        return compile_study(
            study(
                [row("mean", "toy.mean", shift=shift), row("median", "toy.median")],
                [
                    cell("quality", "toy.quality", text=WORDS),
                    *[cell("speed", "toy.speed", {"parallel": p}) for p in (1, 2)],
                ],
                seeds=seeds,
                **more,
            ),
            sources,
            "here",
        )

    return build


@pytest.fixture
def finished(make, finish):
    compiled = make()
    for node in compiled.nodes.values():
        finish(node)
    return compiled


def test_all_is_new_at_first(make, store):
    plan = decide(make(), store)
    assert set(actions(plan).values()) == {Action.RUN}
    assert reason(plan, "quality.mean.s0") == "new"
    assert len(plan.work) == len(make().nodes)


def test_nothing_is_done_twice(finished, make, again):
    plan = decide(make(), again())
    assert plan.work == ()
    assert actions(plan) == {"quality.mean.s0": "reuse", "quality.median.s0": "reuse", "speed": "reuse"}


def test_a_changed_source_makes_its_runs_and_joint_runs_stale_and_says_which(finished, make, code, again):
    code.edited["toy/mean.py"] = 1
    plan = decide(make(), again())
    assert actions(plan) == {
        "fitted.mean.s0": "stale",
        "words": "reuse",
        "quality.mean.s0": "stale",
        "quality.median.s0": "reuse",
        "speed": "stale",
    }
    for name in ("fitted.mean.s0", "quality.mean.s0", "speed"):
        assert reason(plan, name) == "toy/mean.py changed"


def test_a_changed_parameter_is_named(finished, make, again):
    plan = decide(make(shift=3), again())
    assert actions(plan)["quality.mean.s0"] == Action.STALE
    assert reason(plan, "quality.mean.s0").startswith("mean: toy.mean parameters changed")


def test_a_further_method_makes_joint_runs_stale_alone(finished, study, row, cell, sources, again):
    three = study(
        [row("mean", "toy.mean", shift=0), row("median", "toy.median"), row("reader", "toy.reader")],
        [cell("speed", "toy.speed", {"parallel": p}) for p in (1, 2)],
        seeds=(0,),
    )
    plan = decide(compile_study(three, sources, "here"), again())
    assert actions(plan) == {"speed": "stale"}
    assert "reader: toy.reader added" in reason(plan, "speed")


def test_a_further_seed_runs_alone(finished, make, again):
    plan = decide(make(seeds=(0, 1)), again())
    assert {n for n, a in actions(plan).items() if a.works} == {
        "fitted.mean.s1",
        "fitted.median.s1",
        "quality.mean.s1",
        "quality.median.s1",
    }


def test_a_changed_metric_only_scores_again(finished, make, code, again):
    code.edited["toy/error.py"] = 1
    plan = decide(make(), again())
    assert actions(plan) == {"quality.mean.s0": "re-score", "quality.median.s0": "re-score", "speed": "reuse"}
    assert reason(plan, "quality.mean.s0") == "toy.error changed or new"


def test_failed_scoring_is_tried_again_without_the_method(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "quality.mean.s0")
    directory = finish(node)
    scores = json.loads((directory / "scores.json").read_text())
    for score in scores.values():
        score |= {"state": "failed", "reason": "ImportError: no module"}
    (directory / "scores.json").write_text(json.dumps(scores))
    plan = decide(make(), again())
    assert actions(plan)["quality.mean.s0"] == Action.RESCORE
    assert reason(plan, "quality.mean.s0") == "scoring failed before: ImportError: no module"


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED, State.LOST, State.INFRASTRUCTURE, State.PREEMPTED])
def test_failures_are_tried_again(finished, make, finish, again, state):
    node = next(n for n in finished.nodes.values() if n.name == "quality.mean.s0")
    finish(node, state, reason="ValueError: no")
    plan = decide(make(), again())
    assert {n for n, a in actions(plan).items() if a.works} == {"quality.mean.s0"}
    assert actions(plan)["fitted.mean.s0"] == Action.REUSE


def test_a_run_killed_before_its_record_is_tried_again(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "quality.mean.s0")
    (finish(node) / "run.json").unlink()
    plan = decide(make(), again())
    assert reason(plan, "quality.mean.s0") == "not finished: attempt 1 left no record"


def test_a_torn_record_counts_as_none(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "quality.mean.s0")
    (finish(node) / "run.json").write_text('{"key": "ab')
    assert actions(decide(make(), again()))["quality.mean.s0"] == Action.RUN


def test_limits_are_met_again_only_when_wider_or_asked(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "quality.mean.s0")
    finish(node, State.TIMEOUT, reason="after 10m")
    assert actions(decide(make(), again()))["quality.mean.s0"] == Action.KEEP
    assert actions(decide(make(), again(), Choices(retry=True)))["quality.mean.s0"] == Action.RUN
    compiled = make()
    longer = replace(node, resources=Resources(timeout=1200))
    wider = replace(compiled, nodes={**compiled.nodes, node.key: longer})
    assert actions(decide(wider, again()))["quality.mean.s0"] == Action.RUN
    more_memory = replace(node, resources=Resources(memory=4 * 2**30))
    kept = replace(compiled, nodes={**compiled.nodes, node.key: more_memory})
    assert actions(decide(kept, again()))["quality.mean.s0"] == Action.KEEP


def test_a_failed_entry_of_a_joint_run_waits_for_retry(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "speed")
    ids = [e["id"] for e in node.document["entries"]]
    entries = {id: EntryState(State.OK) for id in ids} | {ids[0]: EntryState(State.FAILED, "ValueError")}
    finish(node, entries=entries)
    plan = decide(make(), again())
    assert actions(plan)["speed"] == Action.REUSE
    assert "1 of 4 entries failed" in reason(plan, "speed")
    assert actions(decide(make(), again(), Choices(retry=True)))["speed"] == Action.RUN


def test_skipped_runs_stay_skipped(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "quality.mean.s0")
    finish(node, State.SKIPPED, reason="0 samples")
    plan = decide(make(), again())
    assert (actions(plan)["quality.mean.s0"], reason(plan, "quality.mean.s0")) == ("reuse", "skipped: 0 samples")


def test_only_and_rerun(finished, make, again):
    plan = decide(make(), again(), Choices(only=("speed",)))
    assert list(actions(plan)) == ["speed"]
    plan = decide(make(), again(), Choices(rerun=("quality/mean",)))
    assert {n for n, a in actions(plan).items() if a.works} == {"quality.mean.s0"}
    assert decide(make(), again(), Choices(only=("perplexity",))).unused_patterns == ("perplexity",)


def test_a_build_can_be_made_again_by_name(finished, make, again):
    plan = decide(make(), again(), Choices(rerun=("fitted.mean*",)))
    assert actions(plan)["fitted.mean.s0"] == Action.RUN


def test_a_closed_gate_skips_what_stands_behind_it(study, row, cell, sources, finish, again):
    gated = Use("toy.words", {"size": 10}, gate={"size": ">= 20"})
    only = study([row("mean", "toy.mean")], [cell("quality", "toy.quality", text=gated)], seeds=(0,))
    compiled = compile_study(only, sources, "here")
    words = next(n for n in compiled.nodes.values() if n.name == "words")
    run = next(n for n in compiled.nodes.values() if n.kind == "observation")
    finish(words, measured={"size": 10.0})
    plan = decide(compiled, again())
    assert actions(plan)["quality.mean.s0"] == Action.SKIP
    assert reason(plan, "quality.mean.s0") == "gate words: size 10, wanted >= 20"
    assert Upstream(again(), compiled.nodes)(run.requires) == ("gate words: size 10, wanted >= 20", True)
    finish(words, measured={"size": 30.0})
    assert actions(decide(compiled, again()))["quality.mean.s0"] == Action.RUN
    finish(words, State.FAILED, reason="ValueError: no")
    assert Upstream(again(), compiled.nodes)(run.requires) == ("upstream words: ValueError: no", False)


def test_costs_come_from_like_nodes(finished, make, again):
    plan = decide(make(seeds=(0, 1)), again())
    costs = {p.node.name: p.cost.seconds for p in plan.planned}
    assert costs["quality.mean.s1"] == 2.0
    assert costs["quality.mean.s0"] is None  # reused


def test_a_gate_that_closes_later_takes_finished_runs_back(study, row, cell, sources, finish, again):
    def compiled(gate: str):
        words = Use("toy.words", {"size": 10}, gate={"size": gate})
        only = study([row("mean", "toy.mean")], [cell("quality", "toy.quality", text=words)], seeds=(0,))
        return compile_study(only, sources, "here")

    for node in compiled(">= 5").nodes.values():
        finish(node, measured={"size": 10.0} if node.name == "words" else None)
    assert actions(decide(compiled(">= 5"), again())) == {"quality.mean.s0": "reuse"}
    shut = decide(compiled(">= 20"), again())
    assert actions(shut) == {"quality.mean.s0": "skip"}
    assert all(p.open for p in shut.planned)


def test_an_entry_that_waited_for_a_build_makes_its_joint_run_wait(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "speed")
    ids = [e["id"] for e in node.document["entries"]]
    waiting = {id: EntryState(State.OK) for id in ids} | {ids[0]: EntryState(State.SKIPPED, "upstream", upstream=True)}
    finish(node, entries=waiting)
    plan = decide(make(), again())
    # it names no build: nothing can be waited for, and the exit status still tells
    assert [p.open for p in plan.planned if p.node.name == "speed"] == [True]


@pytest.mark.parametrize("state", [State.TIMEOUT, State.OUT_OF_MEMORY])
def test_an_entry_that_ends_a_joint_run_is_left_out_the_next_time(finished, make, finish, again, state):
    node = next(n for n in finished.nodes.values() if n.name == "speed")
    culprit = node.document["entries"][0]["id"]
    finish(node, state, reason="after 10m", entries={culprit: EntryState(state, "after 10m")})
    (speed,) = [p for p in decide(make(), again()).planned if p.node.name == "speed"]
    assert (speed.action, speed.again) == (Action.RUN, False)  # its blame stays
    assert "without the one that ended it" in speed.reason
    (asked,) = [p for p in decide(make(), again(), Choices(retry=True)).planned if p.node.name == "speed"]
    assert (asked.action, asked.again) == (Action.RUN, True)


def test_what_somebody_removed_is_made_again(finished, make, finish, again):
    node = next(n for n in finished.nodes.values() if n.name == "quality.mean.s0")
    finish(node, files={"observations.npz": "sha256:0"})
    plan = decide(make(), again())
    assert (actions(plan)["quality.mean.s0"], reason(plan, "quality.mean.s0")) == ("run", "observations.npz is gone")
