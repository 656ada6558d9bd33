"""One attempt at a node, as files: what the driver lays out before it, and what it makes of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.execution.executor import Mode, Verdict
from harness.execution.log import last_lines
from harness.planning.node import Node
from harness.results.files import last_attempt, write_json
from harness.results.record import EntryState, RunRecord, State
from harness.results.store import Shelf, Stored


@dataclass(frozen=True)
class Step:
    """A node to be worked on. ``cost``: expected seconds, if known.

    ``rerun``: do it although a finished record is there (one that another driver finishes meanwhile is taken all the
    same). ``skips``: builds whose product must not be used, by key, with the reason, as the plan knows them. ``waits``:
    builds for whose sake alone a joint run is repeated; while all of them are bad, it is not.
    """

    node: Node
    mode: Mode = "run"
    cost: float | None = None
    rerun: bool = False
    skips: Mapping[str, str] = field(default_factory=dict)
    waits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """How a step ended. ``failures``: entries that failed in a run that is OK as a whole.

    ``blocked``: not started, because a build it needs failed or has a closed gate. ``reused``: another driver did it.
    """

    state: State
    reason: str | None = None
    seconds: float = 0.0
    failures: int = 0
    blocked: bool = False
    reused: bool = False
    log: Path | None = None

    @property
    def ok(self) -> bool:
        return self.state is State.OK and not self.failures


def begin(step: Step, directory: Path, builds: Shelf, skips: Mapping[str, str]) -> int:
    """Lay out the next attempt: node.json, attempts/N, and in it ``skip.json`` (why builds must not be used, by key).

    What earlier attempts left stays until something takes its place. Raises OSError.
    """
    (directory / "attempts").mkdir(parents=True, exist_ok=True)
    if step.rerun:  # entries that ended an earlier attempt's process are measured again
        for active in (directory / "attempts").glob("*/active"):
            active.unlink()
    write_json(directory / "node.json", _document(step.node, builds))
    number = last_attempt(directory) + 1
    attempt = directory / "attempts" / str(number)
    attempt.mkdir()
    if skips:
        write_json(attempt / "skip.json", skips)
    return number


def _document(node: Node, builds: Shelf) -> Mapping[str, Any]:
    """The node, with its builds under the directory names that they have here (another study may have named them)."""
    names = node.document.get("builds")
    if not names:
        return node.document
    here = {key: (builds.find(key) or builds.root / name).name for key, name in names.items()}
    return {**node.document, "builds": here}


def stamp(step: Step, directory: Path | None) -> tuple[int, int] | None:
    """Tells one version of the file that commits this step from another; None where there is none."""
    if directory is None:
        return None
    try:
        status = (directory / ("scores.json" if step.mode == "score" else "run.json")).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def standing(step: Step, directory: Path, changed: bool) -> Result | None:
    """The result that is on disk, if it will do. ``changed``: it was written since this driver started."""
    stored = Stored(directory)
    record = stored.record
    if record is None or record.key != step.node.key:
        return None
    if step.mode == "score":
        problem = _unscored(step.node, stored, record)
        return _of_record(step.node, record, problem, directory) if changed or problem is None else None
    fine = record.state is State.OK and not step.rerun
    if fine or (changed and (record.state.done or record.state is State.FAILED)):
        return _of_record(step.node, record, _unscored(step.node, stored, record), directory)
    return None


def conclude(step: Step, directory: Path, number: int, verdict: Verdict) -> Result:
    """What the attempt came to; writes run.json where the worker could not. Raises OSError."""
    stored = Stored(directory)
    record = stored.record
    log = directory / "attempts" / str(number) / "log"
    if step.mode == "score":
        problem = "there are no observations" if record is None else _unscored(step.node, stored, record)
        if verdict.state is State.OK and record is not None:
            return _of_record(step.node, record, problem, directory, verdict.seconds, log)
        return Result(verdict.state, _reason(verdict, log) or problem, verdict.seconds, log=log)
    if record is None or record.key != step.node.key or record.attempt != number:
        state, reason = _without_record(verdict, log)
        if not _keeps(record, step.node.key, state):
            write_json(directory / "run.json", _record(step.node, number, state, reason, verdict, log.parent).to_json())
        return Result(state, reason, verdict.seconds, log=log)
    problem = _unscored(step.node, stored, record)
    if record.state is State.OK and verdict.state is not State.OK and problem is not None:
        reason = f"{_reason(verdict, log) or verdict.state}, after the observations were stored"
        return Result(verdict.state, reason, verdict.seconds, log=log)
    return _of_record(step.node, record, problem, directory, verdict.seconds, log)


def _keeps(record: RunRecord | None, key: str, state: State) -> bool:
    """A finished record is worth more than the news that a repetition was stopped."""
    stopped = state in (State.CANCELLED, State.LOST, State.INFRASTRUCTURE, State.PREEMPTED)
    return stopped and record is not None and record.key == key and record.state is State.OK


def _without_record(verdict: Verdict, log: Path) -> tuple[State, str | None]:
    if verdict.state is State.OK:
        return State.FAILED, "ended without a result"
    return verdict.state, _reason(verdict, log)


def _reason(verdict: Verdict, log: Path) -> str | None:
    """The verdict's, with the last line of the log where the process ended itself."""
    lines = last_lines(log, 1) if verdict.exit else []
    return f"{verdict.reason}: {lines[0].strip()[:300]}" if lines and verdict.state is State.FAILED else verdict.reason


def _record(node: Node, number: int, state: State, reason: str | None, verdict: Verdict, attempt: Path) -> RunRecord:
    entries = {}
    active = _active(node, attempt)
    if active is not None and state not in (State.CANCELLED, State.PREEMPTED):
        entries = {active: EntryState(state, reason)}
    started = datetime.now(UTC) - timedelta(seconds=verdict.seconds)
    return RunRecord(
        key=node.key,
        state=state,
        reason=reason,
        attempt=number,
        started=started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        seconds=verdict.seconds,
        peak_memory=verdict.peak_memory,
        entries=entries,
    )


def _active(node: Node, attempt: Path) -> str | None:
    """The entry that was being worked on when the process ended."""
    try:
        text = (attempt / "active").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if any(entry["id"] == text for entry in node.document.get("entries", ())) else None


def _unscored(node: Node, stored: Stored, record: RunRecord) -> str | None:
    """Why a score of a measured entry is missing; None if none is."""
    try:
        missing = stored.unscored(node.document.get("metrics", ())) if record.state is State.OK else []
    except ValueError as error:
        return str(error)
    return f"metric {missing[0][0]}: {missing[0][1] or 'no score'}" if missing else None


def _of_record(
    node: Node,
    record: RunRecord,
    problem: str | None,
    directory: Path,
    seconds: float | None = None,
    log: Path | None = None,
) -> Result:
    seconds = record.seconds if seconds is None else seconds
    log = log or directory / "attempts" / str(record.attempt) / "log"
    if record.state is State.OK and problem is not None:
        return Result(State.FAILED, problem, seconds, log=log)
    failed = {id: e for id, e in record.entries.items() if e.state not in (State.OK, State.SKIPPED)}
    if record.state is not State.OK or not failed:
        return Result(record.state, record.reason, seconds, log=log)
    reasons = "; ".join(f"{_label(node, id)}: {e.reason or e.state}" for id, e in failed.items())
    reason = f"{len(failed)} of {len(record.entries)} entries failed: {reasons}"
    return Result(State.OK, reason, seconds, failures=len(failed), log=log)


def _label(node: Node, entry: str) -> str:
    labels: Sequence[tuple[str, str]] = node.labels.get(entry, ())
    return labels[0][0] if labels else entry[:12]
