"""A small process that has imported what the jobs need, and forks one clean child per job.

The server stays single-threaded, so that forking is safe, and never works itself. It ends with its driver: when the
driver's end of the socket closes, however that came about, the server kills all that descends from it, then itself.
Its children die with it (``PR_SET_PDEATHSIG``); their orphans become its own (``PR_SET_CHILD_SUBREAPER``).

Messages are JSON, one per packet. To the server: ``{marker, arguments, environment, cpus}`` with the descriptor that
takes the child's output. From it: ``{"kind": "ready" | "started" | "ended" | "refused", ...}``. Linux only.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import platform
import random
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from harness.execution.process import MARKER, MARKER_LENGTH, Tree, snapshot

PLACEHOLDER = "0" * MARKER_LENGTH
"""The marker in the server's own environment; every child writes its own over it."""

PACKET = 1 << 17
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB", "BLIS")


def thread_limits(threads: int) -> dict[str, str]:
    """Environment variables that keep numerical libraries to so many threads."""
    return {f"{name}_{'MAXIMUM' if name == 'VECLIB' else 'NUM'}_THREADS": str(threads) for name in _THREADS}


def main(arguments: Sequence[str]) -> int:
    """The server: ``DESCRIPTOR ENTRY MODULE...``. Returns when the driver has gone."""
    channel = socket.socket(fileno=int(arguments[0]))
    entry, *modules = arguments[1:]
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    problems = {}
    for name in (entry.partition(":")[0], *modules):
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            problems[name] = f"{type(error).__name__}: {error}"
    _look_around()
    sys.stdout.flush()
    libc.fflush(None)
    gc.collect()
    gc.freeze()  # the collector of a child leaves these pages alone, so that they stay shared
    server = _Server(channel, entry, libc)
    try:
        server.send(kind="ready", problems=problems, threads=len(list(Path("/proc/self/task").iterdir())))
        server.serve()
    finally:
        server.end_descendants()
    return 0


def _look_around() -> None:
    """Find out once what the worker would find out in every job."""
    environment = sys.modules.get("harness.execution.environment")
    if environment is not None:
        environment.distributions()
        environment.cpu_model()
        environment.commit(Path(__file__).parents[1])
        platform.platform()
    threads = sys.modules.get("harness.execution.threads")
    if threads is not None:
        threads.controller()


class _Server:
    def __init__(self, channel: socket.socket, entry: str, libc: ctypes.CDLL) -> None:
        self._channel, self._entry, self._libc = channel, entry, libc
        self._jobs: dict[int, tuple[str, int]] = {}  # process id: (marker, pidfd)

    def send(self, **message: Any) -> None:
        with suppress(OSError):  # no driver any more: the next receive says so
            self._channel.send(json.dumps(message).encode())

    def serve(self) -> None:
        poller = select.poll()
        poller.register(self._channel, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            for watch in self._reap():  # orphans too
                poller.unregister(watch)
                os.close(watch)
            if self._channel.fileno() in ready:
                watch_or_none = self._request()
                if watch_or_none is None:
                    return
                if watch_or_none >= 0:
                    poller.register(watch_or_none, select.POLLIN)

    def _request(self) -> int | None:
        """Start a job: a descriptor that tells its end, -1 if it could not be started, None if the driver is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._channel, PACKET, 1)
        except OSError:
            return None
        if not data:
            return None
        request = json.loads(data)
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(descriptors[0])
            self.send(kind="refused", marker=request["marker"], reason=f"no further process: {error.strerror}")
            return -1
        if pid == 0:
            self._child(request, descriptors[0], server)
        os.close(descriptors[0])
        watch = os.pidfd_open(pid)
        self._jobs[pid] = (request["marker"], watch)
        self.send(kind="started", marker=request["marker"], pid=pid)
        return watch

    def _child(self, request: Mapping[str, Any], output: int, server: int) -> None:
        code = 1
        try:
            os.setsid()
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != server:
                os._exit(1)
            os.dup2(output, 1)
            os.dup2(output, 2)
            for descriptor in (output, self._channel.fileno(), *(watch for _, watch in self._jobs.values())):
                os.close(descriptor)
            self._mark(request["marker"])
            _settle(request["environment"], request["cpus"])
            code = call(self._entry, *request["arguments"])
        except BaseException:
            traceback.print_exc()
        finally:
            _leave(code, self._libc)

    def _mark(self, marker: str) -> None:
        """Write the marker over the server's, in place: /proc/PID/environ shows a process's first environment only."""
        self._libc.getenv.restype = ctypes.c_void_p
        place = self._libc.getenv(MARKER.encode())
        if place and os.environ.get(MARKER) == PLACEHOLDER and len(marker) == MARKER_LENGTH:
            ctypes.memmove(place, marker.encode("ascii"), MARKER_LENGTH)
        os.environ[MARKER] = marker

    def _reap(self) -> list[int]:
        """Report the children that ended; their descriptors."""
        ended = []
        orphans = True
        try:
            while (result := os.wait4(-1, os.WNOHANG))[0]:
                ended.append(result)
        except ChildProcessError:
            orphans = False
        jobs = [(*self._jobs.pop(pid), status, usage) for pid, status, usage in ended if pid in self._jobs]
        if orphans and not self._jobs:
            self.end_descendants()
        for marker, _, status, usage in jobs:
            code = os.waitstatus_to_exitcode(status)
            how = {"exit": code} if code >= 0 else {"signal": -code}
            self.send(kind="ended", marker=marker, peak=usage.ru_maxrss * 1024, **how)
        return [watch for _, watch, _, _ in jobs]

    def end_descendants(self) -> None:
        """Kill all that descends from the server; returns when nothing is left."""
        tree = Tree("server", os.getpid())
        while True:
            for pid in tree.refresh(snapshot() if self._wait() else {}):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not self._wait():
                return
            time.sleep(0.01)

    def _wait(self) -> bool:
        """Reap what has ended; whether children are left."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True


def spawned(arguments: Sequence[str]) -> int:
    """A job in a new interpreter, where the server cannot be had: ``ENTRY DIRECTORY RESULTS ATTEMPT MODE``."""
    grant = json.loads(os.environ.get("HARNESS_GRANT", "{}"))
    _settle({}, grant.get("cpus", []))
    return call(*arguments)


def _settle(environment: Mapping[str, str], cpus: Sequence[int]) -> None:
    """What the server's own state must not decide: environment, CPUs, signals, random numbers, output."""
    os.environ.update(environment)
    if cpus and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, cpus)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.stdout, sys.stderr = _text(1), _text(2)
    faulthandler.enable()


def _text(descriptor: int) -> TextIO:
    """Takes any character, whatever the locale."""
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def call(entry: str, directory: str, results: str, attempt: str | int, mode: str) -> int:
    """Run the worker, ``entry`` being "package.module:function"; its exit status."""
    module, _, function = entry.partition(":")
    try:
        code = getattr(importlib.import_module(module), function)(Path(directory), Path(results), int(attempt), mode)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    return int(code or 0)


def _leave(code: int, libc: ctypes.CDLL) -> None:
    """End without the interpreter's exit handlers, which belong to the server."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    libc.fflush(None)
    os._exit(code)
