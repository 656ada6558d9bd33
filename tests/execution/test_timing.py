"""Timed runs: rounds, rotation, calibration, synchronisation, and entries that fail alone."""

from __future__ import annotations

import gc
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.contract import Task
from harness.execution import timing
from harness.execution.timing import calls_lasting, timed
from harness.results.observations import read_notes, read_observations
from harness.results.record import State

TIMED = """
import threading, time
class Ours(Method):
    kind: str = "plain"
class Latency(TimedEvaluation[Ours]):
    def prepare(self, method, context):
        name = method.kind
        def call():
            called(f"{name}:call")
            if name == "late" and CALLS.read_text().split().count("late:call") > 6:
                raise RuntimeError("too late")
            return 0.25 if name == "told" else None
        if name == "refuses":
            raise NotApplicable("no kernel")
        if name == "thread":
            threads = []
            def begin():
                threads.append(threading.Thread(target=time.sleep, args=(0.02,)))
                threads[-1].start()
            return Task(begin, sync=lambda: [t.join() for t in threads])
        def note(what):
            return lambda: called(f"{name}:{what}")
        return Task(call, {"tokens": 2}, enter=note("enter"), leave=note("leave"), check=lambda: called("check") or 1.5)
"""


@pytest.fixture(autouse=True)
def small_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "READ_BYTES", 2**20)


def latencies(bench: Any, kinds: dict[str, str], **params: Any) -> Path:
    bench.adapters(TIMED)
    evaluation = bench.reference("Latency", **{"rounds": 4, "warmup": 1, "min_time": 1e-7, **params})
    entries = [bench.entry(id, bench.reference("Ours", kind=kind), evaluation) for id, kind in kinds.items()]
    directory: Path = bench.run_node(*entries, shape="timed", seed=None)
    return directory


def test_rounds_rotate_and_carry_reference_workloads(bench: Any) -> None:
    directory = latencies(bench, {"c": "told", "a": "plain", "b": "plain"})
    assert bench.work(directory).state is State.OK
    seen = {id: read_observations(directory, id) for id in "abc"}
    positions = np.array([seen[id].arrays["position"] for id in "abc"])
    assert positions.tolist() == [[0, 2, 1, 0], [1, 0, 2, 1], [2, 1, 0, 2]]
    for entry in seen.values():
        assert set(entry.arrays) == {"seconds", "reference_read", "reference_matmul", "position"}
        assert all(array.shape == (4,) and (array >= 0).all() for array in entry.arrays.values())
        assert entry.arrays["reference_read"].tolist() == seen["a"].arrays["reference_read"].tolist()
        assert entry.values == {"work": {"tokens": 2}, "calls": 1, "check": 1.5, "synced": False}
    assert seen["c"].arrays["seconds"].tolist() == [0.25] * 4
    assert not (directory / "attempts" / "1" / "active").exists()
    progress = json.loads((directory / "attempts" / "1" / "progress.json").read_text())
    assert progress["total"] == 4


def test_memory_is_entered_and_left_around_each_timing(bench: Any) -> None:
    bench.work(latencies(bench, {"a": "plain"}, rounds=2, warmup=0))
    calls = [call.removeprefix("plain:") for call in bench.calls()]
    prepared = ["enter", "check", "call", "call", "leave"]  # one call warms up, one calibrates
    assert calls == [*prepared, "enter", "call", "call", "leave", "enter", "call", "call", "leave"]


def test_entries_fail_alone(bench: Any) -> None:
    directory = latencies(bench, {"a": "plain", "b": "late", "c": "refuses", "d": "plain"})
    record = bench.work(directory)
    assert record.state is State.OK
    states = {id: (entry.state, entry.reason) for id, entry in record.entries.items()}
    assert states["b"] == (State.FAILED, "RuntimeError: too late")
    assert states["c"] == (State.SKIPPED, "no kernel")
    assert record.entries["b"].where is not None
    assert bench.calls()[-1].endswith("leave")
    for id in "ad":
        assert read_observations(directory, id).arrays["seconds"].shape == (4,)


def test_the_clock_stops_after_the_device(bench: Any) -> None:
    directory = latencies(bench, {"a": "thread"}, rounds=2, warmup=0)
    bench.work(directory)
    seen = read_observations(directory, "a")
    assert (seen.arrays["seconds"] >= 0.02).all()
    assert seen.values["synced"] is True


def test_a_device_without_sync_is_noted(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARNESS_GRANT", '{"cpus": [0], "devices": ["0"], "threads": 1}')
    directory = latencies(bench, {"a": "plain", "b": "thread"}, rounds=1)
    bench.work(directory)
    assert set(read_notes(directory)) == {"a.values.synced"}
    assert "declares no sync" in capfd.readouterr().err


def test_the_entry_being_measured_is_named(bench: Any) -> None:
    bench.adapters(TIMED)
    source = TIMED.replace(
        'called(f"{name}:call")', "called((next(Path(__file__).parent.rglob('active'))).read_text())"
    )
    directory = latencies(bench, {"a": "plain", "b": "plain"}, rounds=1, warmup=0)
    bench.adapters(source)
    bench.work(directory)
    named = [call for call in bench.calls() if ":" not in call and call != "check"]
    assert named == ["a", "a", "b", "b", "a", "a", "b", "b"]


def test_calls_are_repeated_until_a_timing_lasts() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1
        time.sleep(0.001)

    calls = calls_lasting(Task(call), 0.02)
    assert 8 <= calls <= 30
    count = 0
    timing = timed(Task(call), calls)
    assert count == calls
    assert timing.elapsed >= 0.008
    assert timing.seconds == pytest.approx(timing.elapsed / calls)


def test_no_collection_while_the_clock_runs() -> None:
    enabled: list[bool] = []
    timed(Task(lambda: enabled.append(gc.isenabled())), 2)
    assert enabled == [False, False]
    assert gc.isenabled()


@pytest.mark.parametrize("told", [float("nan"), 0.0, -1.0])
def test_a_duration_that_is_none_is_refused(told: float) -> None:
    with pytest.raises(ValueError, match="expected a finite duration"):
        timed(Task(lambda: told), 1)
    assert gc.isenabled()


def test_told_durations_are_averaged_and_not_mixed_with_the_clock() -> None:
    durations = iter([1.0, 3.0])
    assert timed(Task(lambda: next(durations)), 2).seconds == 2.0
    mixed = iter([1.0, None])
    with pytest.raises(ValueError, match="1 of 2 calls"):
        timed(Task(lambda: next(mixed)), 2)
