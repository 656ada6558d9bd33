"""What every executor does: take jobs, tell how they ended, stop. The directory is the only payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from harness.results.record import State
from harness.spec.study import Resources

Mode = Literal["run", "score"]


@dataclass(frozen=True)
class Job:
    """One node to be worked on in ``directory``, whose ``node.json`` and ``attempts/ATTEMPT/`` exist.

    ``mode`` "score" reads the observations that are there and writes ``scores.json`` alone.
    ``results``: the results directory, below which ``builds/`` lies.
    """

    directory: Path
    results: Path
    key: str
    label: str
    attempt: int
    resources: Resources = Resources()
    exclusive: bool = False
    preload: tuple[str, ...] = ()
    mode: Mode = "run"


@dataclass(frozen=True)
class Verdict:
    """How a job's process ended. State OK: it exited with 0; whether it left a record is for the driver to see."""

    key: str
    state: State
    reason: str | None = None
    exit: int | None = None
    signal: int | None = None
    seconds: float = 0.0
    peak_memory: int | None = None


class Executor(Protocol):
    """Local, in-process, and later Slurm and Ray."""

    def submit(self, job: Job) -> None:
        """Queue a job; it starts when its resources are free."""
        ...

    def poll(self, timeout: float) -> Sequence[Verdict]:
        """Jobs that ended since the last call; waits up to ``timeout`` seconds for the first."""
        ...

    def running(self) -> Sequence[str]:
        """Keys of the jobs that have started and not ended."""
        ...

    def cancel(self) -> None:
        """End everything at once, whole process trees; later polls report them as cancelled."""
        ...

    def close(self) -> None: ...
