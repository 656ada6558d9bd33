"""The default executor: jobs on this machine, each in a clean process of its own with CPUs and memory granted to it."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from signal import Signals

from harness.execution.executor import Job, Verdict
from harness.execution.forkserver import thread_limits
from harness.execution.hostlock import WAITING, HostLock
from harness.execution.launch import Event, ForkServer, Launch, Launcher, Spawner
from harness.execution.log import LIMIT, Log
from harness.execution.process import GRACE, Ending, Table, Tree, kernel_kills, memory, new_marker, snapshot
from harness.execution.slots import Grant, Queue, Slots, duration, size, this_machine
from harness.results.record import State

WORKER = "harness.execution.worker:main"
_SOON = 0.02  # s: how often a tree that is being ended is looked at


@dataclass
class _Running:
    """A job that has its resources. ``doom``: what it is ended for; ``exited``: how its first process ended."""

    job: Job
    grant: Grant
    marker: str
    launcher: Launcher
    log: Log
    tree: Tree
    sent: float = field(default_factory=time.monotonic)
    kernel_kills: int = field(default_factory=kernel_kills)
    started: float | None = None
    peak: int = 0
    doom: tuple[State, str] | None = None
    exited: Event | None = None
    ending: Ending | None = None

    def end(self, state: State, reason: str, grace: float) -> None:
        """End it, unless that is under way."""
        if self.doom is None and self.exited is None:
            self.doom = state, reason
            self.ending = Ending(self.tree, grace)

    def verdict(self) -> Verdict:
        event = self.exited or Event("ended", self.marker)
        state, reason = self.doom or _judge(event, kernel_kills() > self.kernel_kills)
        seconds = time.monotonic() - (self.started or self.sent)
        peak = max(self.peak, event.peak or 0) or None
        return Verdict(self.job.key, state, reason, event.exit, event.signal, seconds, peak)


def _judge(event: Event, kernel_killed: bool) -> tuple[State, str | None]:
    """What the end of a process that was left alone means."""
    if event.kind == "refused":
        return State.INFRASTRUCTURE, event.reason
    if event.kind == "died":
        return State.LOST, event.reason
    if event.signal == Signals.SIGKILL:
        if kernel_killed:
            return State.OUT_OF_MEMORY, "killed by the kernel for want of memory"
        return State.LOST, "killed by signal 9, perhaps out of memory"
    if event.signal is not None:
        try:
            return State.FAILED, f"killed by {Signals(event.signal).name}"
        except ValueError:
            return State.FAILED, f"killed by signal {event.signal}"
    if event.exit == os.EX_IOERR:  # the worker's own word for a full disk and the like
        return State.INFRASTRUCTURE, f"exit status {event.exit}"
    return (State.OK, None) if event.exit == 0 else (State.FAILED, f"exit status {event.exit}")


class LocalExecutor:
    """Slots of CPUs and memory on this machine.

    ``jobs``: how many at once, besides what CPUs and memory allow. ``worker``: "package.module:function", called as
    ``function(directory, results, attempt, mode)`` in the job's process. ``fork``: whether a fork server starts the
    jobs (where that is possible, by default) or a new interpreter each. ``lock``: against other harness processes on
    this host. ``say`` takes messages for the user. ``grace``: seconds between asking a job to end and killing it.
    A job's slot is handed out again only when every process of its tree is gone.
    """

    def __init__(
        self,
        jobs: int | None = None,
        worker: str = WORKER,
        *,
        fork: bool | None = None,
        slots: Slots | None = None,
        lock: HostLock | None = None,
        say: Callable[[str], None] = lambda message: None,
        grace: float = GRACE,
        log_limit: int = LIMIT,
    ) -> None:
        self._worker = worker
        self._fork = sys.platform.startswith("linux") if fork is None else fork
        self._slots = slots or this_machine(jobs)
        self._lock = lock or HostLock()
        self._say, self._grace, self._log_limit = say, grace, log_limit
        self._queue = Queue()
        self._running: dict[str, _Running] = {}  # by marker
        self._launchers: dict[tuple[str, ...], Launcher] = {}
        self._ended: list[Verdict] = []
        self._next_watch = 0.0
        self._said: set[str] = set()

    def submit(self, job: Job) -> None:
        refusal = self._slots.refusal(job.resources)
        if refusal is not None:
            self._report(job, Verdict(job.key, State.FAILED, refusal))
        else:
            self._queue.add(job)

    def running(self) -> Sequence[str]:
        return [r.job.key for r in self._running.values() if r.started is not None]

    def poll(self, timeout: float) -> Sequence[Verdict]:
        deadline = time.monotonic() + timeout
        while True:
            self._start()
            self._receive()
            self._watch()
            self._finish()
            left = deadline - time.monotonic()
            if self._ended or left <= 0:
                break
            self._wait(left)
        ended, self._ended = self._ended, []
        return ended

    def cancel(self) -> None:
        for job in self._queue.drain():
            self._report(job, Verdict(job.key, State.CANCELLED, "cancelled before it started"))
        for running in self._running.values():
            running.end(State.CANCELLED, "cancelled", self._grace)
            if running.started is None and isinstance(running.launcher, ForkServer):
                running.launcher.process.kill()  # still importing: it would not listen for seconds
        if not self._running:
            self._lock.release()

    def close(self) -> None:
        """End what runs, and the processes that start the workers."""
        self.cancel()
        patience = time.monotonic() + self._grace + 10
        while self._running and time.monotonic() < patience:
            self.poll(0.1)
        for launcher in self._launchers.values():
            launcher.close()
        self._launchers.clear()
        self._lock.close()

    def _start(self) -> None:
        while (found := self._queue.next(self._slots)) is not None:
            job, grant = found
            if not self._lock.take("exclusive" if job.exclusive else "shared"):
                self._slots.give_back(grant)
                self._queue.put_back(job)
                self._say_once(WAITING)
                return
            self._said.discard(WAITING)
            self._launch(job, grant)

    def _launch(self, job: Job, grant: Grant) -> None:
        attempt = job.directory / "attempts" / str(job.attempt)
        marker = new_marker(job.key, job.attempt)
        launcher = self._launcher(job.preload)
        log = Log(attempt / "log", self._log_limit)
        running = _Running(job, grant, marker, launcher, log, Tree(marker))
        self._running[marker] = running
        granted = {"cpus": grant.cpus, "devices": grant.devices, "threads": len(grant.cpus)}
        environment = {
            "HARNESS_GRANT": json.dumps(granted),
            "CUDA_VISIBLE_DEVICES": ",".join(grant.devices),
            **thread_limits(len(grant.cpus)),
        }
        arguments = (str(job.directory), str(job.results), str(job.attempt), job.mode)
        launcher.start(Launch(marker, arguments, environment, grant.cpus, log.descriptor))
        log.handed_over()

    def _launcher(self, preload: Sequence[str]) -> Launcher:
        modules = tuple(sorted(set(preload))) if self._fork else ()
        if modules not in self._launchers:
            self._launchers[modules] = ForkServer(self._worker, modules) if self._fork else Spawner(self._worker)
        return self._launchers[modules]

    def _receive(self) -> None:
        for modules, launcher in list(self._launchers.items()):
            for event in launcher.events():
                if event.kind == "note":
                    self._say_once(event.reason or "")
                elif event.kind == "died":
                    del self._launchers[modules]
                    launcher.close()
                    for running in self._running.values():
                        if running.launcher is launcher:
                            self._exited(running, event)
                elif event.marker in self._running:
                    self._event(self._running[event.marker], event)

    def _event(self, running: _Running, event: Event) -> None:
        if event.kind == "started":
            running.started = time.monotonic()
            running.tree.add(event.pid)
        else:
            self._exited(running, event)

    def _exited(self, running: _Running, event: Event) -> None:
        if running.exited is None:
            running.exited = event
            running.ending = running.ending or Ending(running.tree, 0)  # strays have had their time

    def _watch(self) -> None:
        """Timeouts; now and then, at little cost beside the jobs, the memory that whole trees hold."""
        now = time.monotonic()
        active = [r for r in self._running.values() if r.started is not None and r.ending is None]
        for running in active:
            if running.started is not None and now - running.started > running.job.resources.timeout:
                running.end(State.TIMEOUT, f"after {duration(running.job.resources.timeout)}", self._grace)
        if active and now >= self._next_watch:
            table = snapshot()
            for running in active:
                self._weigh(running, table)
            cost = time.monotonic() - now
            exclusive = any(running.grant.exclusive for running in active)
            self._next_watch = time.monotonic() + (max(1.0, 100 * cost) if exclusive else max(0.25, 20 * cost))

    def _weigh(self, running: _Running, table: Table) -> None:
        limit = running.job.resources.memory
        used = memory(running.tree.refresh(table), limit)
        running.peak = max(running.peak, used)
        if used > limit:
            running.end(State.OUT_OF_MEMORY, f"used {size(used)} of {size(limit)}", 0)

    def _finish(self) -> None:
        ending = [r for r in self._running.values() if r.ending is not None]
        table = snapshot() if ending else {}
        for running in ending:
            if running.ending is not None and running.ending.step(table) and running.exited is not None:
                del self._running[running.marker]
                running.log.finish()
                self._slots.give_back(running.grant)
                self._report(running.job, running.verdict())
        if ending and not self._running:
            self._lock.release()

    def _report(self, job: Job, verdict: Verdict) -> None:
        path = job.directory / "attempts" / str(job.attempt) / "verdict.json"
        with suppress(OSError):  # a full disk must not keep the verdict from the driver
            path.with_suffix(".tmp").write_text(json.dumps(asdict(verdict)), encoding="utf-8")
            path.with_suffix(".tmp").replace(path)
        self._ended.append(verdict)

    def _wait(self, left: float) -> None:
        """Until a launcher has something to tell, or it is time to look again."""
        descriptors = [launcher.descriptor() for launcher in self._launchers.values()]
        if (self._running and None in descriptors) or any(r.ending is not None for r in self._running.values()):
            left = min(left, _SOON)
        deadlines = [r.started + r.job.resources.timeout for r in self._running.values() if r.started is not None]
        now = time.monotonic()
        next_look = min([now + 0.25 if self._queue else now + left, *deadlines, now + left])
        if deadlines:
            next_look = min(next_look, self._next_watch)
        poller = select.poll()
        for descriptor in descriptors:
            if descriptor is not None:
                poller.register(descriptor, select.POLLIN)
        poller.poll(max(1, round(1000 * (next_look - now))))

    def _say_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._say(message)
