"""Joint runs: entries that fail alone, and the one that ends the process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.results.observations import read_observations
from harness.results.record import State
from harness.results.samples import read_samples

JOINT = """
import os
class Ours(Method):
    size: int = 3
class Duel(JointEvaluation[Ours]):
    joint = ("at",)
    at: int = 1
    def observe_all(self, entries, context):
        seen = {}
        for entry in entries:
            called(entry.id)
            if entry.method.size == 0:
                seen[entry.id] = Failure("gave up", "duel.py:1")
            elif entry.method.size == -1:
                seen[entry.id] = Failure("cannot", skipped=True)
            elif entry.method.size == 9:
                os._exit(9)
            elif entry.method.size > 0:
                context.sample("s", size=entry.method.size)
                seen[entry.id] = Observations({"x": np.arange(entry.method.size)}, {"at": entry.evaluation.at})
        return seen
"""


def joint(bench: Any, sizes: dict[str, int], **more: Any) -> Path:
    entries = [bench.entry(i, bench.reference("Ours", size=n), bench.reference("Duel", at=n)) for i, n in sizes.items()]
    directory: Path = bench.run_node(*entries, shape="joint", **more)
    return directory


def test_joint_entries_fail_alone(bench: Any) -> None:
    bench.adapters(JOINT)
    directory = joint(bench, {"d": 4, "a": 0, "b": -1, "c": -2})
    record = bench.work(directory)
    assert record.state is State.OK
    states = {id: (entry.state, entry.reason) for id, entry in record.entries.items()}
    assert states == {
        "a": (State.FAILED, "gave up"),
        "b": (State.SKIPPED, "cannot"),
        "c": (State.FAILED, "observe_all returned nothing for this entry"),
        "d": (State.OK, None),
    }
    assert record.entries["a"].where == "duel.py:1"
    assert read_observations(directory, "d").values == {"at": 4}
    assert read_samples(directory).to_pylist() == [{"id": "s", "entry": "d", "size": 4}]
    assert bench.calls() == ["a", "b", "c", "d"]
    assert not (directory / "attempts" / "1" / "active").exists()


@pytest.mark.parametrize(("sizes", "state"), [({"a": 0, "b": -1}, State.FAILED), ({"a": -1, "b": -1}, State.SKIPPED)])
def test_a_joint_run_without_an_ok_entry(bench: Any, sizes: dict[str, int], state: State) -> None:
    bench.adapters(JOINT)
    assert bench.work(joint(bench, sizes)).state is state


def test_a_joint_evaluation_that_raises_fails_all(bench: Any) -> None:
    bench.adapters(JOINT.replace("os._exit(9)", "raise ValueError('nine')"))
    directory = joint(bench, {"a": 3, "b": 9})
    record = bench.work(directory)
    assert [entry.reason for entry in record.entries.values()] == ["ValueError: nine"] * 2
    assert not (directory / "attempts" / "1" / "active").exists()


def test_an_entry_that_cannot_be_made_or_whose_build_is_missing(bench: Any) -> None:
    bench.adapters(JOINT + "\nclass Broken(Ours):\n    def __post_init__(self): raise ValueError('bad size')\n")
    duel = bench.reference("Duel")
    lacking = bench.entry("c", bench.reference("Ours", size={"$build": "cd" * 32}), duel)
    entries = [bench.entry("a", bench.reference("Broken"), duel), bench.entry("b", bench.reference("Ours"), duel)]
    directory = bench.run_node(*entries, lacking, shape="joint", builds={"cd" * 32: "fit--cdcdcdcdcdcd"})
    record = bench.work(directory)
    assert record.state is State.OK
    assert record.entries["a"].reason == "ValueError: bad size"
    assert (record.entries["c"].state, record.entries["c"].reason) == (State.SKIPPED, "upstream fit: not made yet")
    assert bench.calls() == ["b"]


def test_the_entry_that_ended_the_process_is_left_out_of_the_next_attempt(bench: Any) -> None:
    bench.adapters(JOINT)
    directory = joint(bench, {"a": 3, "b": 9, "c": 2})
    assert subprocess.run(bench.command(directory), check=False).returncode == 9
    attempt = directory / "attempts" / "1"
    assert (attempt / "active").read_text() == "b"
    (attempt / "verdict.json").write_text('{"state": "failed", "reason": "exit status 9"}')
    record = bench.work(directory, 2)
    assert record.state is State.OK
    assert record.entries["b"].reason == "ended the process in attempt 1: exit status 9"
    assert bench.calls() == ["a", "b", "a", "c"]


@pytest.mark.parametrize("state", ["cancelled", "preempted", "infrastructure", "ok"])
def test_nobody_is_blamed_for_what_came_from_outside(bench: Any, state: str) -> None:
    bench.adapters(JOINT)
    directory = joint(bench, {"a": 3})
    bench.verdict(directory, 1, "a", state)
    assert bench.work(directory, 2).state is State.OK


def test_a_joint_crash_in_loading_is_the_entrys_too(bench: Any) -> None:
    bench.adapters(JOINT + "\nclass Crashes(Ours):\n    def __post_init__(self): os._exit(5)\n")
    duel = bench.reference("Duel")
    entries = [bench.entry("a", bench.reference("Ours"), duel), bench.entry("b", bench.reference("Crashes"), duel)]
    directory = bench.run_node(*entries, shape="joint")
    assert subprocess.run(bench.command(directory), check=False).returncode == 5
    assert (directory / "attempts" / "1" / "active").read_text() == "b"


def test_an_entry_whose_build_must_not_be_used_is_skipped(bench: Any) -> None:
    bench.adapters(JOINT)
    duel = bench.reference("Duel")
    barred = bench.entry("a", bench.reference("Ours", size={"$build": "cd" * 32}), duel)
    entries = [barred, bench.entry("b", bench.reference("Ours"), duel)]
    directory = bench.run_node(*entries, shape="joint", builds={"cd" * 32: "fit--cdcdcdcdcdcd"})
    attempt = directory / "attempts" / "1"
    attempt.mkdir(parents=True)
    (attempt / "skip.json").write_text(json.dumps({"cd" * 32: "gate fit: accuracy 0.84 < 0.9"}))
    record = bench.work(directory)
    assert (record.state, record.entries["a"].state) == (State.OK, State.SKIPPED)
    assert record.entries["a"].reason == "gate fit: accuracy 0.84 < 0.9"
