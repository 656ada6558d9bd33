"""Where records lie, and what is there: a scan of the results directory, without an index that could go stale."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.results.files import RecordError, last_attempt, read_json
from harness.results.record import RunRecord, ScoreRecord, State


@dataclass(frozen=True)
class Shelf:
    """Directories ``NAME--KEY12`` below ``root``. Names are for people; the key alone identifies."""

    root: Path

    def path(self, key: str, name: str) -> Path:
        """The directory of this key: the one that exists, whatever its name, or the one to make."""
        return self.find(key) or self.root / f"{name}--{key[:12]}"

    def find(self, key: str) -> Path | None:
        """Raises nothing: None where no directory has this key."""
        name = self._names.get(key[:12])
        if name is not None:
            return self.root / name
        return next(iter(self.root.glob(f"*--{key[:12]}")), None)

    @cached_property
    def _names(self) -> dict[str, str]:
        try:
            with os.scandir(self.root) as entries:
                names = sorted(e.name for e in entries if "--" in e.name)
        except FileNotFoundError:
            return {}
        return {name.rpartition("--")[2]: name for name in names}

    def records(self) -> Iterator[Stored]:
        """Everything on the shelf, as it stood when the shelf was first read."""
        for name in self._names.values():
            yield Stored(self.root / name)


@dataclass(frozen=True)
class Stored:
    """A run or build on disk; each file is read when asked for, once."""

    directory: Path

    @cached_property
    def node(self) -> Mapping[str, Any] | None:
        """``node.json``; None where it is missing."""
        document: Mapping[str, Any] | None = _maybe(self.directory / "node.json")
        return document

    @cached_property
    def record(self) -> RunRecord | None:
        """``run.json``; None where it is missing or not a record (the run is then made again)."""
        document = _maybe(self.directory / "run.json")
        try:
            return None if document is None else RunRecord.from_json(document)
        except ValueError:
            return None

    @cached_property
    def scores(self) -> Mapping[str, ScoreRecord]:
        """``scores.json`` by score key; empty where it is missing."""
        document = _maybe(self.directory / "scores.json") or {}
        return {key: ScoreRecord.from_json(value) for key, value in document.items()}

    def unscored(self, metrics: Iterable[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """Of the ``metrics`` of a node.json, those of measured entries that have no value: name, and why it failed.

        Raises ValueError where ``scores.json`` is of another shape.
        """
        entries = self.record.entries if self.record is not None else {}
        missing: list[tuple[str, str | None]] = []
        for metric in metrics:
            entry = entries.get(metric["entry"])
            if entry is not None and entry.state is not State.OK:
                continue
            score = self.scores.get(metric["score_key"])
            if score is None:
                missing.append((metric["metric"]["use"], None))
            elif score.state not in (State.OK, State.SKIPPED):
                missing.append((metric["metric"]["use"], score.reason or str(score.state)))
        return missing

    @property
    def attempt(self) -> int:
        return last_attempt(self.directory)


def _maybe(path: Path) -> Any:
    try:
        return read_json(path)
    except (FileNotFoundError, NotADirectoryError, RecordError):
        return None


@dataclass(frozen=True)
class Store:
    """The results directory as one study uses it: its own runs, and builds that studies share."""

    root: Path
    study: str
    builds: Shelf = field(init=False)
    runs: Shelf = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "builds", Shelf(self.root / "builds"))
        object.__setattr__(self, "runs", Shelf(self.root / self.study / "runs"))

    def shelf(self, kind: str) -> Shelf:
        return self.builds if kind == "build" else self.runs
