"""Jobs one after the other in this very process, so that a debugger reaches them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from harness.execution import worker
from harness.execution.executor import Job, Verdict
from harness.results.record import State


class InProcessExecutor:
    """An :class:`~harness.execution.executor.Executor` without processes, time limits or memory limits."""

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()
        self._ended: list[Verdict] = []
        self._running: list[str] = []

    def submit(self, job: Job) -> None:
        self._queue.append(job)

    def poll(self, timeout: float) -> Sequence[Verdict]:
        """Run the next job to its end, however long it takes.

        Raises KeyboardInterrupt when interrupted; that job is reported as cancelled by the next call.
        """
        if not self._ended and self._queue:
            self._ended.append(self._work(self._queue.popleft()))
        ended, self._ended = self._ended, []
        return ended

    def _work(self, job: Job) -> Verdict:
        start = time.perf_counter()
        self._running = [job.key]
        try:
            status = worker.main(job.directory, job.results, job.attempt, job.mode)
        except KeyboardInterrupt:
            seconds = time.perf_counter() - start
            self._ended.append(Verdict(job.key, State.CANCELLED, "interrupted", seconds=seconds))
            raise
        finally:
            self._running = []
        state = {0: State.OK, worker.STORAGE: State.INFRASTRUCTURE}.get(status, State.FAILED)
        reason = None if status == 0 else f"the worker returned {status}: its message is above"
        return Verdict(job.key, state, reason, exit=status, seconds=time.perf_counter() - start)

    def running(self) -> Sequence[str]:
        return tuple(self._running)

    def cancel(self) -> None:
        """Drop what has not started; later polls report it as cancelled."""
        self._ended += [Verdict(job.key, State.CANCELLED, "cancelled before it started") for job in self._queue]
        self._queue.clear()

    def close(self) -> None:
        self.cancel()
