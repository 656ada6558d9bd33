"""The driver: takes the steps of a plan through an executor, in order of need, beside other drivers.

Builds come first, exclusive runs last (so that the host changes hands once), long ones before short ones where costs
are known, else in the order given. Only a few steps are claimed ahead of those that run, so that drivers that share a
results directory share the work.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from harness.execution.attempt import Result, Step, begin, conclude, stamp, standing
from harness.execution.claims import Claim, claim
from harness.execution.executor import Executor, Job, Verdict
from harness.planning.node import builds_in
from harness.results.files import RecordError, read_json
from harness.results.gate import closed_gate
from harness.results.record import State
from harness.results.store import Store, Stored

__all__ = ["Listener", "Outcome", "Result", "Step", "drive"]

AHEAD = 2
"""Steps that are claimed and queued beyond those that run."""

_TICK = 0.2  # s
_HELD = 0.3  # s until a step that another driver holds is asked for again
_PATIENCE = 20.0  # s for an executor to end what it was told to cancel


class Listener(Protocol):
    """What a driver tells about its work. Steps that are skipped or done by others are never queued or started."""

    def planned(self, steps: Sequence[Step]) -> None: ...
    def queued(self, step: Step) -> None: ...
    def started(self, step: Step) -> None: ...
    def progress(self, step: Step, done: float, total: float, note: str) -> None: ...
    def finished(self, step: Step, result: Result) -> None: ...
    def skipped(self, step: Step, result: Result) -> None: ...
    def message(self, text: str) -> None: ...
    def ended(self, outcome: Outcome) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """Results by key. ``error``: why the driver stopped before its time (no space on the disk, no right to write).

    ``gates``: builds whose gate is closed, by key, with the reason.
    """

    results: Mapping[str, Result]
    interrupted: bool = False
    seconds: float = 0.0
    error: str | None = None
    gates: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> Mapping[State, int]:
        return Counter(result.state for result in self.results.values())


def drive(steps: Sequence[Step], store: Store, executor: Executor, listener: Listener) -> Outcome:
    """Work through ``steps``. Failures are in the outcome, not raised; the executor is left open.

    SIGINT, SIGTERM or SIGHUP end everything at once; finished runs stay, and claims are let go.
    """
    began = time.monotonic()
    work = _Drive({step.node.key: step for step in steps}, store, executor, listener)
    listener.planned(list(work.steps.values()))
    try:
        with _signals(work):
            work.run()
    finally:
        outcome = Outcome(work.results, work.stopped is not None, time.monotonic() - began, work.error, work.gates)
        listener.ended(outcome)
    return outcome


@contextmanager
def _signals(work: _Drive) -> Iterator[None]:
    """Signals set a flag meanwhile; outside the main thread they are the caller's affair."""

    def note(number: int, frame: FrameType | None) -> None:
        if work.stopped is not None and not work.stopping:  # the work is in this very process, and does not end
            raise KeyboardInterrupt
        work.stopped = number

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Active:
    """A step that was handed to the executor."""

    step: Step
    directory: Path
    attempt: int
    claim: Claim
    started: bool = False
    progress_read: int = 0


class _Drive:
    def __init__(self, steps: Mapping[str, Step], store: Store, executor: Executor, listener: Listener) -> None:
        self.steps, self.results = steps, dict[str, Result]()
        self.gates: dict[str, str] = {}
        self.stopped: int | None = None
        self.stopping = False
        self.error: str | None = None
        self._store, self._executor, self._listener = store, executor, listener
        self._bad: dict[str, str] = {}  # builds that cannot be used, with the reason as their dependants show it
        self._waiting = list(steps.values())
        self._ready: list[Step] = []
        self._active: dict[str, _Active] = {}
        self._held: dict[str, float] = {}
        self._stamps = {key: stamp(step, self._directory(step)) for key, step in steps.items()}

    def _directory(self, step: Step) -> Path | None:
        return self._store.shelf(step.node.kind).find(step.node.key)

    def run(self) -> None:
        try:
            self._release_waiting()
            while len(self.results) < len(self.steps) and self.stopped is None:
                self._submit()
                if len(self.results) < len(self.steps):
                    self._collect()
        except KeyboardInterrupt:
            self.stopped = self.stopped or signal.SIGINT
        except OSError as error:
            self.error = f"{error.filename or self._store.root}: {error.strerror or error}"
            self._listener.message(f"stopping: {self.error}")
        finally:
            self._stop()

    # What is ready

    def _release_waiting(self) -> None:
        """Move steps whose builds have ended to the ready ones, or skip them."""
        before = -1
        while before != len(self.results):  # a skipped build decides about its dependants
            before = len(self.results)
            waiting, self._waiting = self._waiting, []
            for step in waiting:
                if step.mode == "run" and any(k in self.steps and k not in self.results for k in step.node.requires):
                    self._waiting.append(step)
                elif (reason := self._blocked(step)) is not None:
                    self._end(step, Result(State.SKIPPED, reason, blocked=True))
                else:
                    self._ready.append(step)
        self._ready.sort(key=_urgency)

    def _blocked(self, step: Step) -> str | None:
        """Why a step cannot run: a build it needs is bad; for a joint run, one of every entry."""
        bad = self._skips(step)
        if step.mode == "score" or not bad:
            return None
        if step.node.kind == "build" or step.node.document.get("shape", "single") == "single":
            return next(iter(bad.values()))
        if step.waits and all(key in bad for key in step.waits):
            return bad[step.waits[0]]  # its rivals are measured already
        reasons = [next((bad[k] for k in builds_in(e) if k in bad), None) for e in step.node.document["entries"]]
        return next(iter(bad.values())) if all(reasons) else None

    def _skips(self, step: Step) -> dict[str, str]:
        bad = {**self._bad, **step.skips}
        return {key: bad[key] for key in step.node.requires if key in bad}

    def _submit(self) -> None:
        """Hand ready steps to the executor, a few ahead of those that run."""
        place = 0
        while place < len(self._ready) and self.stopped is None:
            if len(self._active) - len(self._executor.running()) >= AHEAD:
                return
            step = self._ready[place]
            if self._take(step):
                self._ready.remove(step)  # it may have moved: its end can have made others ready
                place = 0 if len(self._ready) < place else place
            else:
                place += 1

    def _take(self, step: Step) -> bool:
        """Start work on a step, or accept what another driver made of it; False while another one has it."""
        key, now = step.node.key, time.monotonic()
        if self._held.get(key, 0.0) > now:
            return False
        shelf = self._store.shelf(step.node.kind)
        held = claim(shelf.root, key)
        if held is None:
            if key not in self._held:
                self._listener.message(f"{step.node.name}: another driver is at it")
            self._held[key] = now + _HELD
            return False
        if held.message is not None:
            self._listener.message(held.message)
        try:
            directory = shelf.path(key, step.node.name)
            result = standing(step, directory, stamp(step, directory) != self._stamps[key])
            if result is None:
                attempt = begin(step, directory, self._store.builds, self._skips(step))
                self._active[key] = _Active(step, directory, attempt, held)
        finally:
            if key not in self._active:
                held.release()
        if result is not None:
            self._end(step, _reused(result))
            return True
        node = step.node
        self._executor.submit(
            Job(
                directory.absolute(),
                self._store.root.absolute(),
                key,
                node.name,
                attempt,
                node.resources,
                node.exclusive and step.mode == "run",
                node.preload,
                step.mode,
            )
        )
        self._listener.queued(step)
        return True

    # What has ended

    def _collect(self) -> None:
        if not self._active:
            time.sleep(_TICK)  # other drivers have all that is left
            return
        verdicts = self._executor.poll(_TICK)
        self._look(set(self._executor.running()))
        for verdict in verdicts:
            self._conclude(verdict)

    def _conclude(self, verdict: Verdict) -> None:
        active = self._active[verdict.key]
        self._start(active)
        try:
            result = conclude(active.step, active.directory, active.attempt, verdict)
        finally:
            del self._active[verdict.key]
            active.claim.release()
        self._end(active.step, result)

    def _end(self, step: Step, result: Result) -> None:
        node = step.node
        self.results[node.key] = result
        if node.kind == "build":
            if result.state is not State.OK:
                why = result.reason or str(result.state)
                self._bad[node.key] = why if result.blocked else f"upstream {node.name}: {why}"
            elif (closed := self._gate(step)) is not None:
                self.gates[node.key] = closed
                self._bad[node.key] = f"gate {node.name}: {closed}"
        if result.blocked:
            self._listener.skipped(step, result)
        else:
            self._listener.finished(step, result)
        if node.kind == "build" and node.key in self.gates:
            self._listener.message(self._bad[node.key])
        if node.kind == "build" and self._waiting:
            self._release_waiting()

    def _gate(self, step: Step) -> str | None:
        directory = self._directory(step)
        record = Stored(directory).record if step.node.gate and directory is not None else None
        return None if record is None else closed_gate(step.node.gate, record.measured)

    def _look(self, running: set[str]) -> None:
        """Tell what has started and how far it is; keep the claims alive."""
        for key, active in self._active.items():
            active.claim.touch()
            if key in running:
                self._start(active)
                self._progress(active)

    def _start(self, active: _Active) -> None:
        if not active.started:
            active.started = True
            self._listener.started(active.step)

    def _progress(self, active: _Active) -> None:
        path = active.directory / "attempts" / str(active.attempt) / "progress.json"
        with suppress(OSError, RecordError, KeyError, TypeError, ValueError):
            written = path.stat().st_mtime_ns
            if written != active.progress_read:
                active.progress_read = written
                told: Mapping[str, Any] = read_json(path)
                note = str(told.get("note") or "")
                self._listener.progress(active.step, float(told["done"]), float(told["total"]), note)

    def _stop(self) -> None:
        """End what runs, keep what is there, let go of everything. Does nothing after a complete run."""
        self.stopping = True
        if self._active:
            self._executor.cancel()
        deadline = time.monotonic() + _PATIENCE
        while self._active and time.monotonic() < deadline:
            for verdict in self._executor.poll(_TICK):
                try:
                    self._conclude(verdict)
                except OSError as error:
                    self.error = self.error or f"{error.filename or self._store.root}: {error.strerror or error}"
                    self.results[verdict.key] = Result(verdict.state, verdict.reason, verdict.seconds)
        for active in self._active.values():
            active.claim.release()
        for key in self.steps:
            self.results.setdefault(key, Result(State.CANCELLED, "not started"))


def _urgency(step: Step) -> tuple[bool, bool, float]:
    cost = math.inf if step.cost is None else step.cost
    return step.node.kind != "build", step.node.exclusive, -cost


def _reused(result: Result) -> Result:
    return replace(result, reused=True)
