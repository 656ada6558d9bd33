"""The records that a run leaves: ``node.json``, ``run.json``, ``scores.json``, and what their states mean.

Layout of a run, ``results/STUDY/runs/NAME--KEY12/``, and of a build, ``results/builds/NAME--KEY12/``::

    node.json                     what is asked for (written by the driver)
    attempts/N/{log,verdict.json,active}
    checkpoints/                  survives attempts
    product/                      a build's product
    observations.json, observations.npz, samples.arrow
    run.json                      commits the product or the observations (written last)
    scores.json, scores/KEY12.npz scores and per-item values
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from harness.contract import Json

SCHEMA_VERSION = 1

NO_SAMPLES = "0 samples"
"""Reason of a run that was skipped because its data were empty: nobody declared that."""


class State(StrEnum):
    """How a node, an entry of a joint run, or a score stands."""

    QUEUED = "queued"
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    LOST = "lost"
    INFRASTRUCTURE = "infrastructure"
    SKIPPED = "skipped"

    @property
    def done(self) -> bool:
        """Nothing more is to be had from it without a retry."""
        return self in (State.OK, State.SKIPPED, State.TIMEOUT, State.OUT_OF_MEMORY)

    @property
    def retried(self) -> bool:
        """The next ``run`` tries again of its own accord."""
        return self in (
            State.FAILED,
            State.PREEMPTED,
            State.CANCELLED,
            State.LOST,
            State.INFRASTRUCTURE,
            State.QUEUED,
            State.RUNNING,
        )


@dataclass(frozen=True)
class EntryState:
    """How one entry of a run ended. ``upstream``: a build that it needs failed or has a closed gate."""

    state: State
    reason: str | None = None
    where: str | None = None
    upstream: bool = False


@dataclass(frozen=True)
class RunRecord:
    """``run.json``. Times in seconds, memory and sizes in bytes; ``started`` is UTC, ISO 8601."""

    key: str
    state: State
    reason: str | None = None
    attempt: int = 1
    started: str = ""
    seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    bytes: int | None = None
    granted: Mapping[str, Json] = field(default_factory=dict)
    environment: Mapping[str, Json] = field(default_factory=dict)
    entries: Mapping[str, EntryState] = field(default_factory=dict)
    measured: Mapping[str, float] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def versions(self) -> dict[str, str]:
        """Of Python and of the distributions that the run had imported from."""
        packages = self.environment.get("packages")
        found = {name: str(v) for name, v in packages.items()} if isinstance(packages, Mapping) else {}
        return {"python": str(self.environment["python"]), **found} if "python" in self.environment else found

    @property
    def commit(self) -> str:
        """Of the harness: twelve digits, "... with changes" where files differed from it; empty where unknown."""
        source = self.environment.get("source")
        found = source.get("harness") if isinstance(source, Mapping) else None
        if not isinstance(found, Mapping):
            return ""
        return f"{str(found.get('commit'))[:12]}{' with changes' if found.get('dirty') else ''}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> RunRecord:
        """Raises ValueError for a record of a newer harness or of another shape."""
        document = migrate(document)
        try:
            entries = {
                id: EntryState(State(e["state"]), e.get("reason"), e.get("where"), bool(e.get("upstream")))
                for id, e in document.get("entries", {}).items()
            }
            known = {f: document[f] for f in RunRecord.__dataclass_fields__ if f in document}
            return RunRecord(**{**known, "state": State(document["state"]), "entries": entries})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a run record: {error!r}") from error


@dataclass(frozen=True)
class ScoreRecord:
    """One value of ``scores.json``, under its score key. Per-item values lie in ``scores/KEY12.npz``."""

    metric: str
    entry: str
    state: State
    value: float | None = None
    n: int | None = None
    reason: str | None = None
    note: str = ""

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ScoreRecord:
        try:
            known = {f: document[f] for f in ScoreRecord.__dataclass_fields__ if f in document}
            return ScoreRecord(**{**known, "state": State(document["state"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a score: {error!r}") from error


def migrate(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Bring a record of an earlier schema up to this one. Raises ValueError for a later one."""
    version = document.get("schema_version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise ValueError(f"record of schema {version}, this harness reads up to {SCHEMA_VERSION}: update it")
    return document
