"""A context for driving the adapters without the engine."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from harness.contract import Json

if importlib.util.find_spec("torch") is None:  # the core tests go without the decoding extra
    collect_ignore_glob = ["tracks/decoding/*", "methods/*", "tracks/text/test_bpe.py"]


@dataclass
class FakeContext:
    """What the engine's context does, as far as adapters can see."""

    directory: Path
    checkpoints: Path
    seed: int | None = 0
    limit: int | None = None
    cpus: int = 1
    devices: tuple[str, ...] = ()
    memory: int = 2**31
    assets: dict[str, Path] = field(default_factory=dict)
    samples: dict[str, dict[str, Json]] = field(default_factory=dict)
    on_progress: Callable[[float, float], None] = lambda done, total: None

    def rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(self.seed_for(stream))

    def seed_for(self, stream: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.seed} {stream}".encode()).digest()[:8], "big") >> 1

    def asset(self, reference: str) -> Path:
        return self.assets[reference]

    def sample(self, id: str, **fields: Json) -> None:
        self.samples[id] = fields

    def progress(self, done: float, total: float, note: str = "") -> None:
        self.on_progress(done, total)


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., FakeContext]:
    """Contexts with fresh directories: ``make_context("name", seed=1)``."""

    def make(name: str = "run", **options: object) -> FakeContext:
        directory, checkpoints = tmp_path / name / "product", tmp_path / name / "checkpoints"
        for path in (directory, checkpoints):
            path.mkdir(parents=True, exist_ok=True)
        return FakeContext(directory, checkpoints, **options)  # type: ignore[arg-type]

    return make
