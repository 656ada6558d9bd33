"""Process trees: which processes belong to a job, how much memory they hold, and how all of them are ended.

A job's processes are found by a marker in their environment (``HARNESS_NODE``, unique per attempt), by descent, and by
memory: one that was seen once stays known, also when it cleans its environment or leaves its parents.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

MARKER = "HARNESS_NODE"
MARKER_LENGTH = 64
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""

_PROC = Path("/proc")
_LINUX = sys.platform.startswith("linux")
_MARK = re.compile(rb"(?:^|\0)HARNESS_NODE=([^\0]*)")


@dataclass(frozen=True)
class Process:
    """``pid`` and ``start`` identify a process. ``start``: clock ticks since boot; hundredths of a second elsewhere."""

    pid: int
    parent: int
    start: int
    marker: str | None = None


Table = Mapping[int, Process]


def new_marker(key: str, attempt: int, pid: int | None = None) -> str:
    """A marker for one attempt: begins with the driver's :func:`marker_prefix`, and is ``MARKER_LENGTH`` long."""
    marker = f"{marker_prefix(pid or os.getpid())}{key[:12]}-{attempt}-{secrets.token_hex(4)}"
    return marker.ljust(MARKER_LENGTH, "-")[:MARKER_LENGTH]


def marker_prefix(pid: int, start: int | None = None) -> str:
    """What the markers of all jobs of one driver begin with."""
    return f"{pid:x}-{start_of(pid) if start is None else start:x}-"


def start_of(pid: int) -> int:
    """When a process started; 0 if it is gone."""
    process = _read(pid, environment=False)
    return process.start if process is not None else 0


def snapshot() -> Table:
    """All living processes; zombies count as gone. Markers of other users' processes cannot be read."""
    pids = (int(e.name) for e in os.scandir(_PROC) if e.name.isdigit()) if _LINUX else psutil.pids()
    found = (_read(pid) for pid in pids)
    return {process.pid: process for process in found if process is not None}


def _read(pid: int, environment: bool = True) -> Process | None:
    if not _LINUX:
        return _read_portable(pid, environment)
    try:
        stat = _bytes(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the command's name may hold anything
    if fields[0] in (b"Z", b"X"):
        return None
    marker = None
    if environment:
        with suppress(OSError):
            match = _MARK.search(_bytes(f"/proc/{pid}/environ"))
            marker = match[1].decode("ascii", "replace") if match else None
    return Process(pid, int(fields[1]), int(fields[19]), marker)


def _bytes(path: str) -> bytes:
    """What a file holds; without the layers of ``open``, since every process is looked at several times a second."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 16), b""))
    finally:
        os.close(descriptor)


def _read_portable(pid: int, environment: bool) -> Process | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        marker = None
        if environment:
            with suppress(psutil.Error, OSError):
                marker = process.environ().get(MARKER)
        return Process(pid, process.ppid(), int(process.create_time() * 100), marker)
    except psutil.Error:
        return None


class Tree:
    """The processes of one job. ``pid``: its first process, if that has started."""

    def __init__(self, marker: str, pid: int | None = None) -> None:
        self.marker = marker
        self._known: dict[int, int] = {}
        self.add(pid)

    def add(self, pid: int | None) -> None:
        """A process that belongs to it, by id."""
        if pid is not None:
            self._known[pid] = start_of(pid)

    def refresh(self, table: Table) -> list[int]:
        """The ids of those that are alive."""
        found = {pid for pid, start in self._known.items() if pid in table and table[pid].start == start}
        found |= {process.pid for process in table.values() if process.marker == self.marker}
        children = defaultdict(list)
        for process in table.values():
            children[process.parent].append(process.pid)
        todo = list(found)
        while todo:
            new = [child for child in children[todo.pop()] if child not in found]
            found.update(new)
            todo.extend(new)
        found.discard(os.getpid())
        self._known = {pid: table[pid].start for pid in found}
        return sorted(found)


class Ending:
    """Ends a tree without waiting: SIGTERM, after ``grace`` seconds SIGKILL, until none is left."""

    def __init__(self, tree: Tree, grace: float = GRACE) -> None:
        self.tree = tree
        self._kill_at = time.monotonic() + grace
        self._warned: set[int] = set()
        self._sure = True

    def step(self, table: Table | None = None) -> bool:
        """Whether all are gone. Call it again, some hundredths of a second later, until they are."""
        alive = self.tree.refresh(snapshot() if table is None else table)
        killing = time.monotonic() >= self._kill_at
        beyond_us = 0
        for pid in alive:
            if killing or pid not in self._warned:
                beyond_us += not _signal(pid, signal.SIGKILL if killing else signal.SIGTERM)
                self._warned.add(pid)
        if len(alive) > beyond_us:
            self._sure = False  # look twice: one may have come up behind the first look's back
            return False
        self._sure, sure = True, self._sure
        return sure


def _signal(pid: int, number: signal.Signals) -> bool:
    """False if the process is not ours to end (it runs as another user)."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


def end_tree(pid: int | None, marker: str, grace: float = GRACE) -> None:
    """End a whole tree, strays included; returns when all are gone."""
    ending = Ending(Tree(marker, pid), grace)
    while not ending.step():
        time.sleep(0.02)


def end_marked(prefix: str) -> int:
    """Kill what jobs of a dead driver left behind, by its :func:`marker_prefix`; returns how many there were."""
    ended: set[int] = set()
    while left := [p.pid for p in snapshot().values() if p.marker is not None and p.marker.startswith(prefix)]:
        ours = [pid for pid in left if _signal(pid, signal.SIGKILL)]
        if not ours:
            break
        ended.update(ours)
        time.sleep(0.02)
    return len(ended)


def memory(pids: Iterable[int], limit: int) -> int:
    """Bytes that the processes hold. Pages that they share count once where that decides about ``limit``."""
    pids = list(pids)
    total = sum(_resident(pid) for pid in pids)
    return total if total <= limit or not _LINUX else sum(_proportional(pid) for pid in pids)


def _resident(pid: int) -> int:
    with suppress(OSError, psutil.Error):
        if _LINUX:
            return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _proportional(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


def kernel_kills() -> int:
    """How often the kernel has ended a process for want of memory, here or on the whole machine; 0 if not known."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with suppress(OSError):
            for line in Path(path).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0
