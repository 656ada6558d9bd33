"""Groups of ranks: processes joined by torch.distributed inside one run, started, asked and ended from here.

Collectives block, so a rank that dies would leave its peers waiting for ever. The parent waits on all of them at once:
each is a socket away, which closes however its rank ends.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from harness.contract import Context
from harness.tracks.decoding.rank import Trouble

_GRACE = 1.0  # s: for a better reason than a collective that broke
_START = (
    "import json, sys; path, arguments = json.loads(sys.argv[1]); sys.path[:] = path; "
    "from harness.tracks.decoding.rank import main; main(*arguments)"
)
_LOOPBACK = "lo" if sys.platform.startswith("linux") else "lo0"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class RankError(RuntimeError):
    """A rank raised or died: which one, and how. All ranks of its group have been ended."""


class RankOutOfMemory(RankError, MemoryError):
    """The same, for want of memory."""


class RankGroup:
    """``size`` processes of ``threads`` threads each, joined by gloo, or by NCCL with one of ``devices`` for each.

    They start in seconds (an interpreter and torch), end with this process, and belong to its session.
    """

    def __init__(self, size: int, threads: int, directory: Path, devices: Sequence[str] = ()) -> None:
        """Start the ranks; ``directory`` holds the file by which they find one another. Raises RankError."""
        self.size = size
        self._channels: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        folder = tempfile.mkdtemp(prefix="ranks-", dir=directory)
        self._end = weakref.finalize(self, _end, self._processes, self._channels, folder)
        try:
            for number in range(size):
                visible = devices[number] if devices else ""
                self._start(number, threads, visible, str(Path(folder) / "store"))
            self._answers(range(size))
        except BaseException:
            self.close()
            raise

    def _start(self, number: int, threads: int, device: str, store: str) -> None:
        ours, theirs = Pipe()
        self._channels.append(ours)
        with theirs:
            arguments = [theirs.fileno(), number, self.size, threads, os.getpid(), store]
            process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps([sys.path, arguments])],
                env={
                    "GLOO_SOCKET_IFNAME": _LOOPBACK,
                    **os.environ,
                    **dict.fromkeys(_THREADS, str(threads)),
                    "CUDA_VISIBLE_DEVICES": device,
                },
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self._processes.append(process)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    @property
    def alive(self) -> bool:
        """Whether it can be asked: not closed, and no rank has died."""
        return self._end.alive and all(process.poll() is None for process in self._processes)

    def ask(self, function: Callable[..., Any], *arguments: Any, ranks: Iterable[int] | None = None) -> list[Any]:
        """``function(rank, *arguments)`` on all ranks at once, or on some: their results, in order.

        Raises RankError as soon as a rank raises or dies, or where the group has been closed. Function, arguments and
        results are pickled.
        """
        if not self._end.alive:
            raise RankError("the ranks have been ended")
        numbers = range(self.size) if ranks is None else list(ranks)
        buffer = io.BytesIO()
        _Pickler(buffer).dump((function, arguments))
        try:
            for number in numbers:
                with suppress(OSError):  # its end is told by the answers
                    self._channels[number].send_bytes(buffer.getvalue())
            return self._answers(numbers)
        except BaseException:
            self.close()  # what is still under way cannot be told from later answers
            raise

    def close(self) -> None:
        """End all ranks; returns when they are gone."""
        self._end()

    def _answers(self, numbers: Iterable[int]) -> list[Any]:
        """One answer of each rank. Raises RankError at the first that has none."""
        found: dict[int, Any] = {}
        waiting = {self._channels[number]: number for number in numbers}
        while waiting:
            for channel in wait(list(waiting)):
                assert isinstance(channel, Connection)
                answer = self._receive(number := waiting.pop(channel))
                if isinstance(answer, Trouble):
                    raise self._error(number, answer, waiting)
                found[number] = answer
        return [found[number] for number in sorted(found)]

    def _receive(self, number: int) -> Any:
        try:
            return self._channels[number].recv()
        except (EOFError, OSError):
            return Trouble(_ending(self._processes[number]), collective=False, memory=False)

    def _error(self, number: int, trouble: Trouble, waiting: dict[Connection, int]) -> RankError:
        """A broken collective is what others notice of a rank that died: give that one a moment to be heard."""
        deadline = time.monotonic() + _GRACE
        while trouble.collective and waiting and (left := deadline - time.monotonic()) > 0:
            for channel in wait(list(waiting), left):
                assert isinstance(channel, Connection)
                other = waiting.pop(channel)
                answer = self._receive(other)
                if isinstance(answer, Trouble) and trouble.collective and not answer.collective:
                    number, trouble = other, answer
        kind = RankOutOfMemory if trouble.memory else RankError
        return kind(f"rank {number} of {self.size}: {trouble.text}")


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        status = process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        return "closed its connection"
    if status >= 0:
        return f"ended with status {status}; its last words are in the log"
    killed = " (by hand, or by the system for want of memory)" if -status == signal.SIGKILL else ""
    return f"ended by {signal.Signals(-status).name}{killed}"


def _end(processes: Sequence[subprocess.Popen[bytes]], channels: Sequence[Connection], folder: str) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
    for channel in channels:
        channel.close()
    shutil.rmtree(folder, ignore_errors=True)


class _Pickler(pickle.Pickler):
    """Classes and functions of a module straight from a file are named by that file: no import finds it."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, types.FunctionType)):
            name = value.__module__
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is not None and "." not in name and PathFinder.find_spec(name) is None:
                return from_file, (name, str(file), value.__qualname__)
        return NotImplemented


def from_file(name: str, file: str, qualified: str) -> Any:
    """What ``qualified`` is in the module ``name``, which is loaded from ``file`` if it is not there yet."""
    if name not in sys.modules:
        spec = spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is no Python module")
        sys.modules[name] = module = module_from_spec(spec)
        sys.path.insert(0, str(Path(file).parent))
        sys.dont_write_bytecode = True
        spec.loader.exec_module(module)
    found: Any = sys.modules[name]
    for part in qualified.split("."):
        found = getattr(found, part)
    return found


_shared: weakref.WeakValueDictionary[tuple[int, int, Path, tuple[str, ...]], RankGroup] = weakref.WeakValueDictionary()


def shared_group(size: int, share_of: int, context: Context) -> RankGroup:
    """The run's group of ``size`` ranks, each with the threads of one of ``share_of``; a new one if it has ended.

    It lives as long as somebody holds it. Raises RankError where the ranks do not start.
    """
    threads = max(1, context.cpus // share_of)
    key = (size, threads, context.directory, context.devices[:size])
    group = _shared.get(key)
    if group is None or not group.alive:
        group = RankGroup(size, threads, context.directory, context.devices[:size])
        _shared[key] = group
    return group
