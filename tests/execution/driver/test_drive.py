"""The driver in this process: order, dependencies, gates, records for those that left none."""

import os
from dataclasses import replace

import pytest
from driving import main, make_node

from harness.execution import attempt as attempts
from harness.execution.drive import Step
from harness.results.files import read_json, write_json
from harness.results.record import RunRecord, State
from harness.results.store import Stored
from harness.spec.study import Resources


def told(outcome, *nodes):
    return [(outcome.results[n.key].state, outcome.results[n.key].reason) for n in nodes]


def test_one_failure_stops_nothing_else(bench):
    nodes = [make_node(f"n{i}") for i in range(10)]
    nodes[3] = make_node("n3", "memory:3e8", "sleep:100", resources=Resources(memory=200 * 2**20))
    nodes[5] = make_node("n5", "raise:no good")
    outcome = bench.drive(*nodes)
    assert outcome.counts == {State.OK: 8, State.OUT_OF_MEMORY: 1, State.FAILED: 1}
    assert outcome.results[nodes[5].key].reason == "exit status 1: RuntimeError: no good"
    assert bench.record(nodes[3]).state is State.OUT_OF_MEMORY
    assert bench.record(nodes[3]).reason.startswith("used ")
    assert not outcome.interrupted


def test_a_process_without_a_record_is_given_one(bench):
    nodes = [make_node("silent", "exit:0"), make_node("crash", "kill:11"), make_node("three", "say:bad luck", "exit:3")]
    bench.drive(*nodes)
    records = [bench.record(node) for node in nodes]
    assert [(r.state, r.reason, r.attempt) for r in records] == [
        (State.FAILED, "ended without a result", 1),
        (State.FAILED, "killed by SIGSEGV", 1),
        (State.FAILED, "exit status 3: bad luck", 1),
    ]
    assert records[0].started.endswith("Z")


def test_a_retry_keeps_earlier_attempts_and_replaces_the_record(bench):
    node = make_node("later", "exit:0")
    bench.drive(node)
    outcome = bench.drive(node)
    assert outcome.results[node.key].state is State.FAILED
    assert bench.record(node).attempt == 2
    assert sorted(p.name for p in (bench.directory(node) / "attempts").iterdir()) == ["1", "2"]


def test_a_record_of_an_earlier_attempt_is_not_taken_for_this_ones(bench):
    node = make_node("node", "exit:0")
    directory = bench.directory(node)
    (directory / "attempts" / "1").mkdir(parents=True)
    write_json(directory / "run.json", RunRecord(node.key, State.FAILED, "before", 1).to_json())
    assert told(bench.drive(node), node) == [(State.FAILED, "ended without a result")]


def test_a_finished_record_is_reused_unless_a_rerun_is_asked_for(bench):
    node = make_node("node")
    bench.drive(node)
    assert bench.drive(node).results[node.key].reused
    assert len(bench.executed()) == 1
    assert not bench.drive(Step(node, rerun=True)).results[node.key].reused
    assert bench.record(node).attempt == 2


def test_a_cancelled_rerun_leaves_the_finished_record(bench):
    node = make_node("node", "kill:9")
    directory = bench.directory(node)
    (directory / "attempts" / "1").mkdir(parents=True)
    write_json(directory / "run.json", RunRecord(node.key, State.OK).to_json())
    assert bench.drive(Step(node, rerun=True)).results[node.key].state is State.LOST
    assert bench.record(node).state is State.OK


def test_builds_come_first_and_a_failed_one_skips_what_needs_it(bench):
    bad = make_node("bad", "raise:broken", kind="build")
    deeper = make_node("deeper", kind="build", requires=(bad.key,))
    good = make_node("good", kind="build")
    on_bad, on_good = make_node("on-bad", requires=(deeper.key,)), make_node("on-good", requires=(good.key,))
    outcome = bench.drive(on_bad, on_good, deeper, bad, good)
    reason = "upstream bad: exit status 1: RuntimeError: broken"
    assert told(outcome, deeper, on_bad) == [(State.SKIPPED, reason)] * 2
    assert outcome.results[on_bad.key].blocked
    assert outcome.results[on_good.key].ok
    assert not bench.directory(on_bad).exists()
    assert not bench.directory(deeper).exists()
    assert bench.executed().index("good") < bench.executed().index("on-good")
    assert bench.ears.of("skipped") == ["deeper", "on-bad"]


def test_a_closed_gate_skips_dependants(bench):
    shut = make_node("shut", "measure:0.84", kind="build", gate={"accuracy": ">= 0.9"})
    fine = make_node("fine", "measure:0.94", kind="build", gate={"accuracy": ">= 0.9"})
    nodes = make_node("a", requires=(shut.key,)), make_node("b", requires=(fine.key,))
    outcome = bench.drive(*nodes, shut, fine)
    assert told(outcome, *nodes) == [(State.SKIPPED, "gate shut: accuracy 0.84, wanted >= 0.9"), (State.OK, None)]
    assert outcome.gates == {shut.key: "accuracy 0.84, wanted >= 0.9"}
    assert outcome.results[shut.key].state is State.OK


def joint(name, *builds, do=()):
    entries = [{"id": f"e{i}", "method": {"params": {"x": [{"$build": b.key}]}}} for i, b in enumerate(builds)]
    document = {"shape": "joint", "entries": entries}
    return make_node(name, *do, requires=tuple(b.key for b in builds), document=document)


def test_a_joint_run_goes_on_while_one_entry_has_its_builds(bench):
    bad, good = make_node("bad", "raise:x", kind="build"), make_node("good", kind="build")
    some, none = joint("some", bad, good, do=["skips"]), joint("none", bad, bad)
    outcome = bench.drive(some, none, bad, good)
    assert outcome.results[some.key].ok
    assert outcome.results[none.key].blocked
    reason = "upstream bad: exit status 1: RuntimeError: x"
    assert read_json(bench.directory(some) / "skip-seen.json") == {bad.key: reason}


def test_a_crash_blames_the_entry_being_measured(bench):
    build = make_node("build", kind="build")
    node = joint("joint", build, build, do=["active:e1", "kill:11"])
    bench.drive(node, build)
    assert {id: (e.state, e.reason) for id, e in bench.record(node).entries.items()} == {
        "e1": (State.FAILED, "killed by SIGSEGV")
    }


def test_a_build_is_read_under_the_name_that_it_has_here(bench):
    build = make_node("ours", kind="build")
    other = bench.results / "builds" / f"theirs--{build.key[:12]}"
    bench.drive(replace(build, name="theirs"))
    node = make_node("run", requires=(build.key,), document={"builds": {build.key: build.directory_name}})
    bench.drive(node)
    assert other.exists()
    assert read_json(bench.directory(node) / "node.json")["builds"] == {build.key: other.name}


METRIC = {"metrics": [{"score_key": "s" * 64, "entry": "e", "metric": {"use": "track.metric"}, "parameters": {}}]}


def test_scores_alone_are_made_without_touching_the_record(bench):
    node = make_node("node", document=METRIC)
    bench.drive(node)
    directory = bench.directory(node)
    committed = (directory / "run.json").read_bytes()
    (directory / "scores.json").unlink()
    outcome = bench.drive(Step(node, "score"))
    assert outcome.results[node.key].ok
    assert (directory / "run.json").read_bytes() == committed
    assert "s" * 64 in Stored(directory).scores


def test_a_score_that_is_missing_is_a_failure_and_the_observations_stay(bench, monkeypatch):
    node = make_node("node", document=METRIC)
    bench.drive(node)
    (bench.directory(node) / "scores.json").unlink()
    crashing = make_node("node", "kill:11", document=METRIC)
    crashing = replace(crashing, key=node.key, document={**crashing.document, "key": node.key})
    outcome = bench.drive(Step(crashing, "score"))
    assert told(outcome, node) == [(State.FAILED, "killed by SIGSEGV")]
    assert bench.record(node).state is State.OK


def test_long_ones_start_first_and_exclusive_ones_last(bench):
    bench.use(jobs=1, slots=None)
    alone = make_node("alone", exclusive=True)
    short, long, build = make_node("short"), make_node("long"), make_node("build", kind="build")
    bench.drive(Step(alone, cost=9.0), Step(short, cost=1.0), Step(long, cost=5.0), Step(build, cost=0.1))
    assert bench.executed() == ["build", "long", "short", "alone"]


def test_progress_of_a_running_node_is_told(bench):
    bench.drive(make_node("node", "progress:3", "sleep:0.6"))
    assert bench.ears.of("progress") == ["3/10 step"]


def test_a_full_disk_stops_the_driver_with_the_reason_and_corrupts_nothing(bench, monkeypatch):
    nodes = [make_node(f"n{i}") for i in range(4)]
    real, written = attempts.write_json, []

    def full(path, document):
        written.append(path)
        if len(written) > 2:
            raise OSError(28, "No space left on device", str(path))
        real(path, document)

    monkeypatch.setattr(attempts, "write_json", full)
    outcome = bench.drive(*nodes)
    assert outcome.error.endswith("node.json: No space left on device")
    assert not outcome.interrupted
    assert {r.state for r in outcome.results.values()} <= {State.OK, State.CANCELLED}
    assert outcome.counts[State.CANCELLED] >= 2
    assert list((bench.store.runs.root / ".claims").glob("*.json")) == []
    monkeypatch.undo()
    assert set(bench.drive(*nodes).counts) == {State.OK}


def test_the_worker_of_these_tests_is_honest(tmp_path):
    (tmp_path / "attempts" / "1").mkdir(parents=True)
    write_json(tmp_path / "node.json", make_node("n", "raise:x").document)
    with pytest.raises(RuntimeError, match="x"):
        main(tmp_path, tmp_path, 1, "run")
    assert (tmp_path / "executed").read_text().split()[1] == str(os.getpid())
