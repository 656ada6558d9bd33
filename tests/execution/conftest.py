"""A workbench for worker tests: adapters in a file, nodes on disk, runs in this process."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.execution import worker
from harness.results.files import digest, read_json
from harness.results.record import RunRecord, ScoreRecord
from harness.results.store import Stored

HEAD = """
from __future__ import annotations
from pathlib import Path
import numpy as np
from harness.contract import *
CALLS = Path(__file__).with_name("calls")

def called(what):
    with open(CALLS, "a") as file:
        file.write(what + "\\n")
"""

PLAIN = """
class Ours(Method):
    size: int = 3
class Seen(Evaluation[Ours]):
    def observe(self, method, context):
        called(f"observe-{method.size}")
        return Observations({"x": np.arange(method.size)}, {"seed": context.seed, "limit": context.limit})
"""


class Bench:
    """``results/`` with nodes in it, and ``adapters.py`` beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results = root / "results"
        self.file = root / "adapters.py"
        self.plain = PLAIN

    def adapters(self, source: str) -> None:
        self.file.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")

    def reference(self, name: str, **params: Any) -> dict[str, Any]:
        module = f"file:{self.file}:{name}"
        return {"use": f"./adapters.py:{name}", "module": module, "code": "", "params": params}

    def entry(self, id: str, method: Mapping[str, Any], evaluation: Mapping[str, Any], **cell: Any) -> dict[str, Any]:
        return {"id": id, "method": method, "evaluation": evaluation, "cell": cell}

    def run_node(self, *entries: Mapping[str, Any], shape: str = "single", name: str = "run", **more: Any) -> Path:
        document = {"kind": "observation", "shape": shape, "entries": list(entries), **more}
        return self._node(self.results / "study" / "runs", name, document)

    def single(self, evaluation: str = "Seen", method: str = "Ours", **more: Any) -> Path:
        return self.run_node(self.entry("e1", self.reference(method), self.reference(evaluation)), **more)

    def command(self, directory: Path, attempt: int = 1) -> list[str]:
        """The worker in a process of its own."""
        module = [sys.executable, "-m", "harness.execution.worker", str(directory)]
        return [*module, "--results", str(self.results), "--attempt", str(attempt)]

    def build_node(self, component: Mapping[str, Any], name: str = "build", **more: Any) -> Path:
        return self._node(self.results / "builds", name, {"kind": "build", "component": component, **more})

    def _node(self, shelf: Path, name: str, document: Mapping[str, Any]) -> Path:
        base = {"schema_version": 1, "contract": 1, "name": name, "seed": 0, "limit": None, "builds": {}}
        resources = {"cpus": 1, "gpus": 0, "memory": 2**30, "timeout": 60.0}
        node = {**base, "resources": resources, "metrics": [], **document}
        node.setdefault("key", digest(node))
        directory = shelf / f"{name}--{node['key'][:12]}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "node.json").write_text(json.dumps(node), encoding="utf-8")
        return directory

    def work(self, directory: Path, attempt: int = 1, mode: Any = "run") -> RunRecord:
        assert worker.main(directory, self.results, attempt, mode) == 0
        return RunRecord.from_json(read_json(directory / "run.json"))

    def scores(self, directory: Path) -> Mapping[str, ScoreRecord]:
        return Stored(directory).scores

    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().split() if path.exists() else []

    def verdict(self, directory: Path, attempt: int, active: str | None, state: str, reason: str = "SIGSEGV") -> None:
        folder = directory / "attempts" / str(attempt)
        folder.mkdir(parents=True)
        (folder / "verdict.json").write_text(json.dumps({"state": state, "reason": reason}))
        if active is not None:
            (folder / "active").write_text(active)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.delenv("HARNESS_GRANT", raising=False)
    return Bench(tmp_path)
