"""Keeps harness processes on one host out of each other's timed runs.

Two locked files in a directory of the user's. ``running``: shared while ordinary jobs run, exclusive while an exclusive
one does. ``wanted``: held by a process that waits for the exclusive lock; the others then start nothing new, so that
it gets its turn. Locks end with the process that holds them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Literal

Mode = Literal["shared", "exclusive"]
WAITING = "waiting for another harness process on this host"


def default_directory() -> Path:
    """A directory on this host that all processes of the user agree on."""
    import platformdirs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(OSError):
            return platformdirs.user_runtime_path("harness", ensure_exists=True)
    directory = Path(tempfile.gettempdir()) / f"harness-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


class HostLock:
    """One process's hold on the host. Never waits: :meth:`take` says whether it was got."""

    def __init__(self, directory: Path | None = None) -> None:
        directory = directory or default_directory()
        directory.mkdir(parents=True, exist_ok=True)
        self._running = os.open(directory / "running", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._wanted = os.open(directory / "wanted", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._mode: Mode | None = None
        self._waits = False

    def take(self, mode: Mode) -> bool:
        """Hold the host in this mode from now on, if no other process's hold stands against it.

        The caller asks for "exclusive" only while it runs nothing itself.
        """
        if self._mode == "exclusive":
            return mode == "exclusive"
        if mode == "shared":
            return self._take_shared()
        if not self._waits and not _lock(self._wanted, fcntl.LOCK_EX):
            return False
        self._waits = True
        self._mode = None  # a failed conversion may have dropped the shared lock
        if not _lock(self._running, fcntl.LOCK_EX):
            fcntl.flock(self._running, fcntl.LOCK_UN)
            return False
        self._stop_waiting()
        self._mode = "exclusive"
        return True

    def _take_shared(self) -> bool:
        self._stop_waiting()
        if not _lock(self._wanted, fcntl.LOCK_SH):
            return False  # somebody waits for the host: let them have it first
        fcntl.flock(self._wanted, fcntl.LOCK_UN)
        if self._mode is None and not _lock(self._running, fcntl.LOCK_SH):
            return False
        self._mode = "shared"
        return True

    def _stop_waiting(self) -> None:
        if self._waits:
            fcntl.flock(self._wanted, fcntl.LOCK_UN)
            self._waits = False

    def release(self) -> None:
        """Let go; does nothing if nothing is held."""
        self._stop_waiting()
        if self._mode is not None:
            fcntl.flock(self._running, fcntl.LOCK_UN)
            self._mode = None

    def close(self) -> None:
        """Let go for good."""
        for descriptor in (self._running, self._wanted):
            with suppress(OSError):
                os.close(descriptor)


def _lock(descriptor: int, operation: int) -> bool:
    """Whether the lock was got. A file system that has no locks does not stand in the way."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    return True
