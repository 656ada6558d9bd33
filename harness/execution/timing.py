"""Timed runs: rounds over all entries in rotating order, each with the same reference workloads beside it.

Entries of one run meet the same machine in the same minutes; rotation gives each of them every place in the order,
and the reference workloads (memory read, matrix product) tell a slow round from a slow method.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.contract import Entry, Json, Observations, Task, TimedEvaluation
from harness.execution.context import RunContext
from harness.execution.observe import Outcome, failure_of, outcome_of

READ_BYTES = 128 * 2**20  # far beyond the last cache
MATRIX = 512
_MOST_CALLS = 10**7


class Reference:
    """Two workloads that have nothing to do with any entry. The buffers are made once per process."""

    def __init__(self) -> None:
        self._buffer = np.ones(READ_BYTES // 4, np.float32)
        self._matrix = np.full((MATRIX, MATRIX), 1 / MATRIX, np.float32)

    def read(self) -> float:
        """Bytes per second read from memory by one thread."""
        return _rate(self._buffer.max, self._buffer.nbytes, repeats=2)

    def matmul(self) -> float:
        """FLOP per second of a float32 matrix product, 512 x 512, counted as 2 n^3."""
        return _rate(lambda: self._matrix @ self._matrix, 2 * MATRIX**3, repeats=4)


def _rate(work: Any, amount: float, repeats: int) -> float:
    with _clock_runs():
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        return repeats * amount / (time.perf_counter() - start)


@dataclass
class _Subject:
    """One entry on the bench. ``seconds``: per call, one for each round; ``position``: its place in those rounds."""

    id: str
    task: Task
    calls: int = 1
    check: float | None = None
    seconds: list[float] = field(default_factory=list)
    position: list[int] = field(default_factory=list)


class _Bench:
    def __init__(self, context: RunContext, code: Mapping[str, Path]) -> None:
        self.context = context
        self.code = code
        self.ended: dict[str, Outcome] = {}

    @contextmanager
    def at(self, id: str) -> Iterator[None]:
        """What is raised inside is this entry's failure alone."""
        try:
            with self.context.measuring(id):
                yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.ended[id] = Outcome(failure_of(error, self.code))

    def prepared(self, entries: Sequence[Entry[Any]]) -> list[_Subject]:
        subjects = []
        for entry in entries:
            with self.at(entry.id):
                evaluation = entry.evaluation
                if not isinstance(evaluation, TimedEvaluation):
                    raise TypeError(f"{type(evaluation).__name__} is no TimedEvaluation")
                self.context.seed_globals()
                task = evaluation.prepare(entry.method, self.context)
                if not isinstance(task, Task):
                    raise TypeError(f"prepare returned {type(task).__name__}, expected Task")
                subject = _Subject(entry.id, task)
                with _entered(task):
                    subject.check = None if task.check is None else float(task.check())
                    subject.calls = calls_lasting(task, evaluation.min_time)
                subjects.append(subject)
        return subjects

    def round(self, subjects: Sequence[_Subject], number: int, keep: bool) -> None:
        """Time each subject once, in the order of this round; those that failed before are passed over."""
        shift = number % len(subjects)
        for place, subject in enumerate([*subjects[shift:], *subjects[:shift]]):
            if subject.id in self.ended:
                continue
            with self.at(subject.id), _entered(subject.task):
                if subject.task.enter is not None:
                    timed(subject.task, 1)  # what enter brought back is cold
                seconds = timed(subject.task, subject.calls).seconds
                if keep:
                    subject.seconds.append(seconds)
                    subject.position.append(place)


@contextmanager
def _entered(task: Task) -> Iterator[None]:
    if task.enter is not None:
        task.enter()
    try:
        yield
    finally:
        if task.leave is not None:
            task.leave()


@contextmanager
def _clock_runs() -> Iterator[None]:
    """No garbage collection of ours inside somebody's timing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Timing:
    """``seconds`` per call, as the task tells or by the clock; ``elapsed``: all calls, by the clock."""

    seconds: float
    elapsed: float


def timed(task: Task, calls: int) -> Timing:
    """Call, wait for the device, stop the clock. Raises ValueError for a duration that is none."""
    call, sync = task.call, task.sync
    told, count = 0.0, 0
    with _clock_runs():
        start = time.perf_counter()
        for _ in range(calls):
            result = call()
            if isinstance(result, (float, np.floating)):
                told += float(result)
                count += 1
            result = None  # its memory is free before the next call
        if sync is not None:
            sync()
        elapsed = time.perf_counter() - start
    if count not in (0, calls):
        raise ValueError(f"{count} of {calls} calls returned a duration, expected all or none")
    seconds = told / calls if count else elapsed / calls
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"a call of {seconds} s: expected a finite duration above 0")
    return Timing(seconds, elapsed)


def calls_lasting(task: Task, min_time: float) -> int:
    """How many calls last ``min_time`` seconds by the clock, found by growing from one; warms the task up too."""
    timed(task, 1)
    calls = 1
    while calls < _MOST_CALLS:
        elapsed = timed(task, calls).elapsed
        if elapsed >= min_time:
            break
        wanted = math.ceil(1.1 * calls * min_time / max(elapsed, 1e-9))
        calls = min(max(calls + 1, wanted), 10 * calls, _MOST_CALLS)
    return calls


def observe_timed(entries: Sequence[Entry[Any]], context: RunContext, code: Mapping[str, Path]) -> dict[str, Outcome]:
    """Prepare all entries, calibrate each, then rounds over all.

    Arrays per entry, one number per round: ``seconds`` (per call), ``reference_read`` (bytes/s),
    ``reference_matmul`` (FLOP/s), ``position`` (place in the round's order, from 0). Values: ``work`` (amounts per
    call), ``calls`` (per timing), ``check``, ``synced``.
    """
    bench = _Bench(context, code)
    evaluations = [entry.evaluation for entry in entries if isinstance(entry.evaluation, TimedEvaluation)]
    subjects = bench.prepared(entries)
    if not subjects:
        return bench.ended
    warmup, rounds = max(e.warmup for e in evaluations), max(e.rounds for e in evaluations)
    reference = Reference()
    speeds: dict[str, list[float]] = {"reference_read": [], "reference_matmul": []}
    for number in range(-warmup, rounds):
        if all(subject.id in bench.ended for subject in subjects):
            break
        context.progress(max(number, 0), rounds, "warm-up" if number < 0 else f"round {number + 1} of {rounds}")
        read, matmul = reference.read(), reference.matmul()
        if number >= 0:
            speeds["reference_read"].append(read)
            speeds["reference_matmul"].append(matmul)
        bench.round(subjects, number, keep=number >= 0)
    measured = {s.id: _outcome(s, speeds, context) for s in subjects if s.id not in bench.ended}
    return bench.ended | measured


def _outcome(subject: _Subject, speeds: Mapping[str, list[float]], context: RunContext) -> Outcome:
    arrays = {"seconds": np.array(subject.seconds), "position": np.array(subject.position, np.int64)}
    arrays |= {name: np.array(values) for name, values in speeds.items()}
    synced = subject.task.sync is not None
    values: dict[str, Json] = {"work": dict(subject.task.work), "calls": subject.calls}
    values |= {"check": subject.check, "synced": synced}
    outcome = outcome_of(Observations(arrays, values))
    if outcome.seen is None or synced or not context.devices:
        return outcome
    warning = "a device is granted and the task declares no sync: work that was still running may not be timed"
    print(f"warning: entry {subject.id}: {warning}", file=sys.stderr)
    return replace(outcome, seen=replace(outcome.seen, notes={**outcome.seen.notes, "values.synced": warning}))
