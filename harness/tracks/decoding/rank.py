"""One rank: a process with a device and threads of its own, that does what its group asks of it."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Trouble:
    """What a rank tells of an exception. ``collective``: raised inside a collective, as the death of a peer is."""

    text: str
    collective: bool
    memory: bool


@dataclass
class Rank:
    """The rank as the functions see it that are asked of it. ``held``: whatever they keep from one to the next."""

    number: int
    size: int
    device: str
    held: Any = None
    _groups: dict[int, Any] = field(default_factory=dict)

    def barrier(self) -> None:
        """All ranks of the group have come here, and their devices are idle."""
        self.synchronize()
        dist.barrier()
        self.synchronize()

    def synchronize(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def all_reduce(self, tensor: Tensor, tensor_parallel: int) -> None:
        """Sum in place over this rank's replica: ranks 0 to n-1 are the first, the next n the second, and so on."""
        if tensor_parallel > 1:
            dist.all_reduce(tensor, group=self._replica(tensor_parallel))

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, which have one shape."""
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor.contiguous())
        return found

    def _replica(self, tensor_parallel: int) -> Any:
        if tensor_parallel not in self._groups:
            starts = range(0, self.size, tensor_parallel)
            made = [dist.new_group(list(range(s, s + tensor_parallel))) for s in starts]  # by all ranks, in one order
            self._groups[tensor_parallel] = made[self.number // tensor_parallel]
        return self._groups[tensor_parallel]


def main(descriptor: int, number: int, size: int, threads: int, parent: int, store: str) -> None:
    """Join the group through the file ``store``, then answer on the socket ``descriptor`` until it closes."""
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its ranks
    faulthandler.enable()
    channel = Connection(descriptor)
    torch.set_num_threads(threads)
    rank = Rank(number, size, "cuda" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu")
    _answer(channel, partial(_join, rank, store))
    while True:
        try:
            message = channel.recv_bytes()
        except (EOFError, OSError):
            break
        _answer(channel, partial(_do, rank, message))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # peers may be gone, and taking leave of them would hang


def _join(rank: Rank, store: str) -> None:
    backend = "gloo" if rank.device == "cpu" else "nccl"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank.number, world_size=rank.size)


def _do(rank: Rank, message: bytes) -> Any:
    function, arguments = pickle.loads(message)
    with torch.inference_mode():
        return function(rank, *arguments)


def _answer(channel: Connection, work: Callable[[], Any]) -> None:
    try:
        answer = work()
    except Exception as error:
        traceback.print_exc()
        answer = _trouble(error)
    channel.send(answer)


def _trouble(error: Exception) -> Trouble:
    """The last line of the traceback, and where its deepest frame is."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    names = {cls.__name__ for cls in type(error).__mro__}
    text = traceback.format_exception_only(error)[-1].strip()
    collective = "distributed" in Path(frame.filename).parts
    memory = bool(names & {"MemoryError", "OutOfMemoryError"}) or "can't allocate memory" in text
    return Trouble(f"{text} ({Path(frame.filename).name}:{frame.lineno})", collective, memory)


def _end_with(parent: int) -> None:
    """Die when the parent does (Linux); elsewhere the closing socket says so."""
    if sys.platform.startswith("linux"):
        with suppress(OSError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
