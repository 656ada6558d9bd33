"""Records to scores: finished, failed, skipped and missing ones."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from harness.results.collect import Wanted, collect
from harness.results.files import write_json
from harness.results.record import EntryState, RunRecord, ScoreRecord, State
from harness.results.store import Store

KEY = "ab" * 32
WANT = Wanted("mla", "perplexity", {"size": 1}, "perplexity", 0, KEY, "e1", "s1", ("b1",))


@pytest.fixture
def leave(tmp_path):
    def make(record: RunRecord, *scores: ScoreRecord) -> Store:
        directory = tmp_path / "mlra" / "runs" / f"run--{KEY[:12]}"
        directory.mkdir(parents=True)
        write_json(directory / "run.json", record.to_json())
        if scores:
            write_json(directory / "scores.json", {f"s{i}": asdict(s) for i, s in enumerate(scores, 1)})
        return Store(tmp_path, "mlra")

    return make


def one(store: Store, want: Wanted = WANT, blocked=lambda keys: None):
    (score,) = collect([want], store, blocked, lambda directory, key: {"items": [directory.name, key]})
    return score


def test_a_finished_score(leave):
    record = RunRecord(KEY, State.OK, entries={"e1": EntryState(State.OK)}, environment={"cpu": "EPYC"})
    score = one(leave(record, ScoreRecord("m", "e1", State.OK, 1.5, 30, note="n")))
    assert (score.state, score.value, score.n, score.reason) == (State.OK, 1.5, 30, "n")
    assert (score.method, score.evaluation, score.cell, score.seed) == ("mla", "perplexity", {"size": 1}, 0)
    assert score.hardware == "EPYC"
    assert score.arrays() == {"items": [f"run--{KEY[:12]}", "s1"]}


def test_a_failed_entry_says_why(leave):
    record = RunRecord(KEY, State.OK, entries={"e1": EntryState(State.FAILED, "ValueError: no")})
    score = one(leave(record))
    assert (score.state, score.reason, score.value) == (State.FAILED, "ValueError: no", None)


def test_a_run_that_failed_as_a_whole(leave):
    assert one(leave(RunRecord(KEY, State.TIMEOUT, "after 10m"))).reason == "after 10m"


def test_failed_and_missing_scoring(leave):
    record = RunRecord(KEY, State.OK, entries={"e1": EntryState(State.OK)})
    store = leave(record, ScoreRecord("m", "e1", State.FAILED, reason="ImportError: x"))
    assert one(store).reason == "scoring: ImportError: x"
    assert one(store, Wanted("mla", "p", {}, "m", 0, KEY, "e1", "s9")).reason == "not scored yet"


def test_what_was_not_run(tmp_path):
    store = Store(tmp_path, "mlra")
    assert (one(store).state, one(store).reason) == (State.QUEUED, "not run yet")
    shut = one(store, blocked=lambda keys: (f"gate {keys[0]}: closed", True))
    assert (shut.state, shut.reason, shut.gate_closed) == (State.SKIPPED, "gate b1: closed", True)
    declared = one(store, Wanted("mla", "p", {}, "m", None, skip="no sense"))
    assert (declared.state, declared.reason) == (State.SKIPPED, "no sense")


def test_directories_are_found_by_key_whatever_their_name(tmp_path):
    store = Store(tmp_path, "mlra")
    (store.runs.root / f"old-name--{KEY[:12]}").mkdir(parents=True)
    assert store.runs.path(KEY, "new-name").name == f"old-name--{KEY[:12]}"
    assert store.runs.path("cd" * 32, "new-name").name == "new-name--cdcdcdcdcdcd"
