"""What this machine has for jobs, and who may have it next.

CPUs are granted by number; memory is counted. A job that asks for more than the machine has is refused; one that asks
for more memory than is free now runs alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.execution.executor import Job
from harness.spec.study import Resources

OVERTAKEN = 8
"""So many later jobs may start before one that waits for its resources; an exclusive one is never overtaken."""


@dataclass(frozen=True)
class Grant:
    """CPU numbers, bytes, and device leases."""

    cpus: tuple[int, ...]
    memory: int
    devices: tuple[str, ...] = ()
    exclusive: bool = False


class Slots:
    """``memory``: bytes to grant together; ``total``: what a job may ask for at all; ``jobs``: how many at once."""

    def __init__(self, cpus: Sequence[int], memory: int, total: int | None = None, jobs: int | None = None) -> None:
        self._cpus = tuple(cpus)
        self._memory = memory
        self._total = total if total is not None else memory
        self._jobs = jobs
        self._granted: list[Grant] = []

    @property
    def busy(self) -> int:
        """How many jobs run."""
        return len(self._granted)

    def refusal(self, resources: Resources) -> str | None:
        """Why this machine can never run such a job, in one sentence."""
        if resources.gpus > 0:
            return f"asks for {resources.gpus:g} GPU{'s' if resources.gpus > 1 else ''}, none here"
        if resources.cpus > len(self._cpus):
            return f"asks for {resources.cpus} CPUs, {len(self._cpus)} here"
        if resources.memory > self._total:
            return f"asks for {size(resources.memory)} of memory, {size(self._total)} here"
        return None

    def take(self, resources: Resources, exclusive: bool = False) -> Grant | None:
        """Resources for a job, or None if they are not free now."""
        if any(g.exclusive for g in self._granted) or (exclusive and self._granted):
            return None
        if self._jobs is not None and len(self._granted) >= self._jobs:
            return None
        used = {cpu for grant in self._granted for cpu in grant.cpus}
        free = [cpu for cpu in self._cpus if cpu not in used]
        room = self._memory - sum(grant.memory for grant in self._granted)
        if resources.cpus > len(free) or (resources.memory > room and self._granted):
            return None
        grant = Grant(tuple(free[: resources.cpus]), resources.memory, (), exclusive)
        self._granted.append(grant)
        return grant

    def give_back(self, grant: Grant) -> None:
        self._granted.remove(grant)


class Queue:
    """Jobs in the order in which they start: as submitted, except that small ones slip by a big one that waits.

    At most ``OVERTAKEN`` do so; then the line stands still until the big one has started. An exclusive job that has
    come to the head stops the line at once, since everything that starts before it delays it.
    """

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._overtaken: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        self._jobs.append(job)

    def drain(self) -> list[Job]:
        """All jobs, which are then no longer queued."""
        jobs, self._jobs = self._jobs, []
        return jobs

    def next(self, slots: Slots) -> tuple[Job, Grant] | None:
        """The job that starts now, with what it is granted; None while nothing can start."""
        for place, job in enumerate(self._jobs):
            grant = slots.take(job.resources, job.exclusive)
            if grant is not None:
                del self._jobs[place]
                self._overtaken.pop(job.key, None)
                for other in self._jobs[:place]:
                    self._overtaken[other.key] = self._overtaken.get(other.key, 0) + 1
                return job, grant
            if job.exclusive or self._overtaken.get(job.key, 0) >= OVERTAKEN:
                return None
        return None

    def put_back(self, job: Job) -> None:
        """To the head of the line: it cannot start after all."""
        self._jobs.insert(0, job)


def this_machine(jobs: int | None = None) -> Slots:
    """CPUs that this process may use and memory that is free now, within the limits of its control group."""
    limit = _memory_limit()
    memory = psutil.virtual_memory()
    return Slots(usable_cpus(), min(memory.available, limit), min(memory.total, limit), jobs)


def usable_cpus() -> tuple[int, ...]:
    """Numbers of the CPUs that this process may use; fewer where a control group limits their time."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    for quota, period in _numbers("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"):
        if quota > 0 and period > 0:
            cpus = cpus[: max(1, math.ceil(quota / period))]
    return tuple(cpus)


def _memory_limit() -> int:
    limits = [first for first, _ in _numbers("memory.max", "memory/memory.limit_in_bytes") if first > 0]
    return int(min(limits, default=1 << 62))


def _numbers(*names: str) -> Iterable[tuple[float, float]]:
    """Pairs of numbers that the control group's files hold (second version, then the first version's); -1 for none."""
    root = Path("/sys/fs/cgroup")
    own = _own_group()
    for folder in (root, *(root / own.relative_to("/") / ("../" * i) for i in range(len(own.parts)))):
        with suppress(OSError, ValueError):
            words = [*(folder / names[0]).read_text().split(), "max"]
            yield _number(words[0]), _number(words[1])
    with suppress(OSError, ValueError):
        values = [_number((root / name).read_text().strip()) for name in names[1:]]
        yield values[0], values[-1]


def _own_group() -> Path:
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/"):
                return Path(line[3:])
    return Path("/")


def _number(word: str) -> float:
    return -1.0 if word == "max" else float(word)


def size(amount: float) -> str:
    """Bytes for people: "2.3 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def duration(seconds: float) -> str:
    """Seconds for people: "2s", "1m30s", "10m", "2h5m"."""
    if seconds < 60:
        return f"{seconds:.3g}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m" + (f"{rest}s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h" + (f"{minutes}m" if minutes else "")
