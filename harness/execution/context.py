"""The Context that adapters are handed: directories, seeded streams, grants, assets, samples, progress."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.contract import Json
from harness.results.files import finite
from harness.results.samples import SampleWriter

_PROGRESS_INTERVAL = 0.25  # s


@dataclass(frozen=True)
class Grant:
    """What the executor gave: CPU numbers, device leases, threads. In the variable HARNESS_GRANT, as JSON."""

    cpus: tuple[int, ...]
    devices: tuple[str, ...]
    threads: int

    @staticmethod
    def of(resources: Mapping[str, Any]) -> Grant:
        """The executor's grant; without one, as many of this process's CPUs as the node asks for."""
        text = os.environ.get("HARNESS_GRANT")
        if text:
            given = json.loads(text)
            cpus, devices = tuple(given.get("cpus", ())), tuple(given.get("devices", ()))
            return Grant(cpus, devices, int(given.get("threads") or len(cpus) or 1))
        here = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
        cpus = tuple(here[: int(resources.get("cpus", 1))])
        return Grant(cpus, (), len(cpus))

    def to_json(self) -> dict[str, Json]:
        return {"cpus": list(self.cpus), "devices": list(self.devices), "threads": self.threads}


@dataclass
class RunContext:
    """Implements :class:`harness.contract.Context` for one attempt at one node.

    ``attempt``: its folder ``attempts/N``; ``samples`` is None while scoring, when there are none to keep.
    ``entry``: the entry being measured, which samples are marked with.
    """

    directory: Path
    checkpoints: Path
    seed: int | None
    limit: int | None
    memory: int
    grant: Grant
    attempt: Path
    samples: SampleWriter | None = None
    entry: str | None = None
    _told: float = field(default=-1.0, repr=False)

    @property
    def cpus(self) -> int:
        return self.grant.threads

    @property
    def devices(self) -> tuple[str, ...]:
        return self.grant.devices

    def rng(self, stream: str) -> np.random.Generator:
        """A new generator at the start of its stream, from (seed, stream) alone."""
        return np.random.Generator(np.random.PCG64(int.from_bytes(self._hash(stream), "big")))

    def seed_for(self, stream: str) -> int:
        """63 bits from (seed, stream) alone."""
        return int.from_bytes(self._hash(stream)[:8], "big") >> 1

    def _hash(self, stream: str) -> bytes:
        return hashlib.sha256(json.dumps([self.seed, stream]).encode()).digest()

    def asset(self, reference: str) -> Path:
        from harness.assets import resolve

        return Path(resolve(reference))

    def sample(self, id: str, **fields: Json) -> None:
        """Raises RuntimeError while scoring: samples are part of what was observed."""
        if self.samples is None:
            raise RuntimeError("context.sample was called where no samples are kept: only observe may call it")
        self.samples.add(id, fields if self.entry is None else {"entry": self.entry, **fields})

    def progress(self, done: float, total: float, note: str = "") -> None:
        """Into ``attempts/N/progress.json``, at most four times a second; a lost report is no error."""
        now = time.monotonic()
        if now - self._told < _PROGRESS_INTERVAL and self._told >= 0:
            return
        self._told = now
        document = finite({"done": float(done), "total": float(total), "note": str(note), "time": time.time()})
        path = self.attempt / "progress.json"
        with suppress(OSError):
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(document), encoding="utf-8")
            os.replace(temporary, path)

    @contextmanager
    def measuring(self, entry: str) -> Iterator[None]:
        """Leaves the entry's name in ``attempts/N/active`` if the process ends inside, so that it can be blamed."""
        outer = self.entry
        self._activate(entry)
        try:
            yield
        finally:
            self._activate(outer)

    def _activate(self, entry: str | None) -> None:
        self.entry = entry
        active = self.attempt / "active"
        if entry is None:
            active.unlink(missing_ok=True)
        else:
            active.write_text(entry, encoding="utf-8")

    def seed_globals(self) -> None:
        """Start the global generators of loaded libraries from the seed too, for code that draws from them."""
        seed = self.seed_for("global")
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(seed)


@contextmanager
def scratch(attempt: Path) -> Iterator[Path]:
    """An empty folder for the length of a run."""
    folder = attempt / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
