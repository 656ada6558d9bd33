"""Finished records to scores: what each combination that the study asks for came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.contract import Json
from harness.results.record import RunRecord, ScoreRecord, State
from harness.results.score import Score
from harness.results.store import Store, Stored

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Wanted:
    """One score that a study asks for, and where it is found. ``skip``: the declared reason why it is not run."""

    method: str
    evaluation: str
    cell: Mapping[str, Json] = field(hash=False)
    metric: str
    seed: int | None
    key: str = ""
    entry: str = ""
    score_key: str = ""
    requires: tuple[str, ...] = ()
    skip: str | None = None


ReadArrays = Callable[[Path, str], "Mapping[str, np.ndarray]"]
Blocked = Callable[[Sequence[str]], "tuple[str, bool] | None"]


def collect(wanted: Iterable[Wanted], store: Store, blocked: Blocked, read_arrays: ReadArrays) -> list[Score]:
    """Scores in the order asked for, failed, skipped and missing ones included.

    ``blocked``: why nodes that require these builds cannot run, and whether a closed gate is the reason.
    ``read_arrays``: reads per-item values of a score key from a run's directory.
    """
    runs: dict[str, Stored | None] = {}
    scores = []
    for want in wanted:
        if want.skip is None and want.key not in runs:
            directory = store.runs.find(want.key)
            runs[want.key] = None if directory is None else Stored(directory)
        scores.append(_score(want, runs.get(want.key), blocked, read_arrays))
    return scores


def _score(want: Wanted, stored: Stored | None, blocked: Blocked, read_arrays: ReadArrays) -> Score:
    record = stored.record if stored is not None else None
    why = None if want.skip is not None else blocked(want.requires)
    if want.skip is not None or stored is None or record is None or (why is not None and why[1]):
        state, reason, gate = _absent(want, why)
        return _plain(want, state, reason, gate_closed=gate)
    found = stored.scores.get(want.score_key)
    state, reason_ = _state(want, record, found)
    if state is not State.OK or found is None:
        return _plain(want, state, reason_, stored.directory.name)
    return replace(
        _plain(want, state, found.note or None, stored.directory.name),
        value=found.value,
        n=found.n,
        arrays=partial(read_arrays, stored.directory, want.score_key),
        hardware=str(record.environment.get("cpu") or ""),
        versions=record.versions,
        commit=record.commit,
        started=record.started,
    )


def _plain(want: Wanted, state: State, reason: str | None, run: str = "", gate_closed: bool = False) -> Score:
    return Score(
        want.method,
        want.evaluation,
        want.cell,
        want.metric,
        want.seed,
        state,
        reason=reason,
        run=run,
        gate_closed=gate_closed,
    )


def _absent(want: Wanted, why: tuple[str, bool] | None) -> tuple[State, str, bool]:
    if want.skip is not None:
        return State.SKIPPED, want.skip, False
    if why is not None:
        return State.SKIPPED, why[0], why[1]
    return State.QUEUED, "not run yet", False


def _state(want: Wanted, record: RunRecord, found: ScoreRecord | None) -> tuple[State, str | None]:
    entry = record.entries.get(want.entry)
    if entry is not None and entry.state is not State.OK:
        return entry.state, entry.reason
    if record.state is not State.OK:
        return record.state, record.reason
    if found is None:
        return State.QUEUED, "not scored yet"
    if found.state is not State.OK:
        return found.state, f"scoring: {found.reason}"
    return State.OK, None
