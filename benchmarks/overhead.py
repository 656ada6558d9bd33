"""What isolation costs: trivial runs through the driver and its fork server, against new interpreters that load torch.

    python benchmarks/overhead.py [--runs 20] [--rounds 5] [--preload torch]

Each round drives so many runs, one at a time, from claim to record, then starts a few new interpreters that import the
same module and do nothing. Medians over rounds and their spread, in milliseconds per run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.execution.drive import Step, drive
from harness.execution.local import LocalExecutor
from harness.execution.progress import QuietListener
from harness.planning.node import Node
from harness.results.files import digest
from harness.results.record import State
from harness.results.store import Store

ADAPTERS = """
from harness.contract import Evaluation, Method, Observations

class Nothing(Method):
    pass

class Trivial(Evaluation[Nothing]):
    def observe(self, method, context):
        return Observations()
"""


def trivial(adapters: Path, round: int, number: int, preload: tuple[str, ...]) -> Node:
    """A run that does nothing."""

    def reference(name: str) -> dict[str, object]:
        return {"use": f"./{adapters.name}:{name}", "module": f"file:{adapters}:{name}", "code": "", "params": {}}

    name = f"trivial-{round}-{number}"
    entry = {"id": "e", "method": reference("Nothing"), "evaluation": reference("Trivial"), "cell": {}}
    document = {
        "schema_version": 1,
        "contract": 1,
        "kind": "observation",
        "shape": "single",
        "name": name,
        "seed": 0,
        "limit": None,
        "entries": [entry],
        "builds": {},
        "resources": {"cpus": 1, "gpus": 0, "memory": 2 * 2**30, "timeout": 60.0},
        "metrics": [],
        "addresses": [],
    }
    key = digest(document)
    return Node("observation", key, name, {**document, "key": key}, preload=preload)


def isolated(nodes: list[Node], results: Path, executor: LocalExecutor) -> float:
    """Seconds per run. Raises SystemExit if a run did not end well."""
    began = time.perf_counter()
    outcome = drive([Step(node) for node in nodes], Store(results, "overhead"), executor, QuietListener())
    seconds = (time.perf_counter() - began) / len(nodes)
    bad = [result for result in outcome.results.values() if result.state is not State.OK]
    if bad:
        raise SystemExit(f"{len(bad)} runs did not end well: {bad[0].reason}")
    return seconds


def interpreters(count: int, module: str) -> float:
    """Seconds per new interpreter that imports the module."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return (time.perf_counter() - began) / count


def spread(name: str, seconds: list[float]) -> str:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{name:<34} {1000 * middle:8.1f} ms   ({1000 * low:.1f} to {1000 * high:.1f} over {len(seconds)} rounds)"


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of an isolated run.")
    parser.add_argument("--runs", type=int, default=20, help="isolated runs per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--preload", default="torch")
    given = parser.parse_args()
    runs, fresh = [], []
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        adapters = Path(folder) / "adapters.py"
        adapters.write_text(ADAPTERS)
        executor = LocalExecutor(jobs=1)
        try:
            began = time.perf_counter()
            isolated([trivial(adapters, -1, 0, (given.preload,))], results, executor)  # the server loads its modules
            print(f"server ready, and its first run done, after {time.perf_counter() - began:.1f} s")
            for round in range(given.rounds):
                nodes = [trivial(adapters, round, number, (given.preload,)) for number in range(given.runs)]
                runs.append(isolated(nodes, results, executor))
                fresh.append(interpreters(3, given.preload))
        finally:
            executor.close()
    print(spread(f"isolated run, {given.preload} ready", runs))
    print(spread(f"new interpreter, import {given.preload}", fresh))


if __name__ == "__main__":
    main()
