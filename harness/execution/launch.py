"""How jobs are started: by a fork server that has the modules loaded, or in a new interpreter each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol

from harness.execution.forkserver import PACKET, PLACEHOLDER, thread_limits
from harness.execution.process import MARKER, end_tree

READY_WITHIN = 300.0
"""Seconds that a server may take to import its modules."""

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from harness.execution.forkserver import {function} as run; sys.exit(run(sys.argv[1:]))"
)


@dataclass(frozen=True)
class Launch:
    """``arguments``: directory, results, attempt, mode, as text. ``output``: descriptor that takes what it prints."""

    marker: str
    arguments: tuple[str, str, str, str]
    environment: dict[str, str]
    cpus: tuple[int, ...]
    output: int


@dataclass(frozen=True)
class Event:
    """What happened to a job. "died": the launcher itself ended (``marker`` is empty), with all its jobs."""

    kind: Literal["started", "ended", "refused", "note", "died"]
    marker: str = ""
    pid: int | None = None
    exit: int | None = None
    signal: int | None = None
    peak: int | None = None
    reason: str | None = None


class Launcher(Protocol):
    def start(self, launch: Launch) -> None: ...

    def events(self) -> Sequence[Event]:
        """What happened since the last call; does not wait."""
        ...

    def descriptor(self) -> int | None:
        """Becomes readable when there are events; None: ask again soon."""
        ...

    def close(self) -> None: ...


def _command(function: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-c", _BOOT.format(function=function), json.dumps(sys.path), *arguments]


class ForkServer:
    """The driver's side of a fork server, which starts importing at once."""

    def __init__(self, entry: str, preload: Sequence[str]) -> None:
        self._ready = self._dead = False
        self._started = time.monotonic()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        environment = {"PYTHONHASHSEED": "0", **os.environ, **thread_limits(1), MARKER: PLACEHOLDER}
        with theirs:
            self.process = subprocess.Popen(
                _command("main", str(theirs.fileno()), entry, *preload),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal reaches the driver alone
            )

    def start(self, launch: Launch) -> None:
        message = {
            "marker": launch.marker,
            "arguments": launch.arguments,
            "environment": launch.environment,
            "cpus": launch.cpus,
        }
        with suppress(OSError):  # the server has died: events() says so
            socket.send_fds(self._channel, [json.dumps(message).encode()], [launch.output])

    def descriptor(self) -> int | None:
        return None if self._dead else self._channel.fileno()

    def events(self) -> Sequence[Event]:
        found: list[Event] = []
        while not self._dead:
            try:
                data = self._channel.recv(PACKET, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not self._ready and time.monotonic() - self._started > READY_WITHIN:
                    found.append(self._death(f"its imports took more than {READY_WITHIN:.0f} s"))
                break
            except OSError:
                data = b""
            if not data:
                found.append(self._death(None))
                break
            found.extend(self._understand(json.loads(data)))
        return found

    def _understand(self, message: dict[str, Any]) -> list[Event]:
        if message["kind"] != "ready":
            return [Event(**message)]
        self._ready = True
        notes = [f"cannot preload {name}: {why}; going on without it" for name, why in message["problems"].items()]
        if message["threads"] > 1:
            notes.append(f"the preloaded modules started {message['threads'] - 1} threads; jobs may hang for that")
        return [Event("note", reason=note) for note in notes]

    def _death(self, why: str | None) -> Event:
        self._dead = True
        if why is not None:
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.returncode
        if why is None and code is not None and code < 0:
            why = f"killed by signal {-code}"
        if why is None:
            self._errors.seek(0)
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            why = lines[-1] if lines else f"exit status {code}"
        return Event("died", reason=f"the process that starts the workers ended: {why}")

    def close(self) -> None:
        """End the server and all that descends from it."""
        self._channel.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()


class Spawner:
    """A new interpreter per job, for systems where forking is not safe."""

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._jobs: dict[str, subprocess.Popen[bytes]] = {}
        self._events: list[Event] = []

    def start(self, launch: Launch) -> None:
        try:
            process = subprocess.Popen(
                _command("spawned", self._entry, *launch.arguments),
                stdin=subprocess.DEVNULL,
                stdout=launch.output,
                stderr=launch.output,
                env={**os.environ, **launch.environment, MARKER: launch.marker},
                start_new_session=True,
            )
        except OSError as error:
            self._events.append(Event("refused", launch.marker, reason=f"no further process: {error.strerror}"))
            return
        self._jobs[launch.marker] = process
        self._events.append(Event("started", launch.marker, pid=process.pid))

    def descriptor(self) -> int | None:
        return None

    def events(self) -> Sequence[Event]:
        found, self._events = self._events, []
        for marker, process in list(self._jobs.items()):
            code = process.poll()
            if code is not None:
                del self._jobs[marker]
                exit, number = (code, None) if code >= 0 else (None, -code)
                found.append(Event("ended", marker, process.pid, exit, number))
        return found

    def close(self) -> None:
        for marker, process in self._jobs.items():
            end_tree(process.pid, marker, grace=0)
            process.wait()
        self._jobs.clear()
