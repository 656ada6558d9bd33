"""Records: round trips, migration, and which states are tried again."""

from __future__ import annotations

import json

import pytest

from harness.results.gate import closed_gate, parse_threshold
from harness.results.record import SCHEMA_VERSION, EntryState, RunRecord, ScoreRecord, State


def test_a_run_record_survives_json():
    record = RunRecord(
        "k", State.OK, attempt=2, entries={"e": EntryState(State.FAILED, "why", "x.py:3")}, measured={"a": 0.5}
    )
    assert RunRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_unknown_fields_are_ignored_and_missing_ones_are_an_error():
    assert RunRecord.from_json({"key": "k", "state": "ok", "more": 1}) == RunRecord("k", State.OK)
    with pytest.raises(ValueError, match="not a run record"):
        RunRecord.from_json({"state": "ok"})
    with pytest.raises(ValueError, match="not a score"):
        ScoreRecord.from_json({"metric": "m"})


def test_a_later_schema_is_refused():
    with pytest.raises(ValueError, match="update it"):
        RunRecord.from_json({"key": "k", "state": "ok", "schema_version": SCHEMA_VERSION + 1})


def test_every_state_is_either_done_or_tried_again():
    assert all(state.done != state.retried for state in State)
    assert State("ok") == "ok"


@pytest.mark.parametrize(
    ("gate", "measured", "expected"),
    [
        ({"a": ">= 0.9"}, {"a": 0.9}, None),
        ({"a": ">= 0.9"}, {"a": 0.84}, "a 0.84, wanted >= 0.9"),
        ({"a": ">=0.9", "b": "< 1e-2"}, {"a": 1, "b": 0.02}, "b 0.02, wanted < 1e-2"),
        ({"a": "> 0"}, None, "a was not measured, wanted > 0"),
        ({}, None, None),
    ],
)
def test_gates(gate, measured, expected):
    assert closed_gate(gate, measured) == expected


@pytest.mark.parametrize("text", ["0.9", ">= high", "=> 1", ""])
def test_bad_thresholds_say_what_is_expected(text):
    with pytest.raises(ValueError, match="write an operator"):
        parse_threshold(text)
