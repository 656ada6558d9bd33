"""What planning and resuming cost: a study of ten thousand runs, planned afresh and found to be finished.

    python benchmarks/planning.py [--runs 10000] [--rounds 5]

One run is executed for real; its records stand for the others', with their own keys. Each round plans the study on an
empty results directory and on the finished one. CPU and wall seconds, medians and their spread.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import harness
from harness.planning.decide import Action, Plan
from harness.results.store import Store
from harness.spec.study import Study

ADAPTERS = """
from typing import ClassVar
import numpy as np
from harness.contract import Evaluation, Method, Metric, Observations, Values

class Model(Method):
    shift: float = 0.0

class Quality(Evaluation[Model]):
    size: int = 1
    def observe(self, method, context):
        return Observations({"errors": np.abs(context.rng("data").normal(size=100) - method.shift)})

class Error(Metric):
    of: ClassVar[tuple[str, ...]] = ("./adapters.py:Quality",)
    direction: ClassVar = "min"
    def score(self, seen, parameters, context):
        return Values(float(seen.arrays["errors"].mean()), seen.arrays["errors"])
"""

SPEC = """
harness: 1
study: planning
title: Many runs
track: decoding
methods:
  model: {{use: "./adapters.py:Model", matrix: {{shift: {shifts}}}}}
evaluations:
  quality: {{use: "./adapters.py:Quality", matrix: {{size: {sizes}}}, metrics: ["./adapters.py:Error"]}}
seeds: 10
"""


def finish(plan: Plan, template: Path) -> None:
    """Leave for every node the files that its execution would have left."""
    files = {name: (template / name).read_text("utf-8") for name in ("run.json", "scores.json", "node.json")}
    seen = [template / name for name in json.loads(files["run.json"])["files"]]
    keys = json.loads(files["node.json"])
    old = keys["key"], keys["entries"][0]["id"], keys["metrics"][0]["score_key"]
    for planned in plan.planned:
        document = planned.node.document
        new = planned.node.key, document["entries"][0]["id"], document["metrics"][0]["score_key"]
        directory = plan.store.runs.root / planned.node.directory_name
        (directory / "attempts" / "1").mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            for before, after in zip(old, new, strict=True):
                text = text.replace(before, after)
            (directory / name).write_text(text, "utf-8")
        for path in seen:
            shutil.copy(path, directory)


def timed(study: Study, results: Path) -> tuple[Plan, float, float]:
    """The plan, CPU seconds and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    plan = harness.plan(study, results=results)
    return plan, time.process_time() - cpu, time.perf_counter() - wall


def spread(name: str, seconds: list[tuple[float, float]]) -> str:
    cpu, wall = ([pair[i] for pair in seconds] for i in (0, 1))
    return (
        f"{name:<10} {statistics.median(wall):5.2f} s ({min(wall):.2f} to {max(wall):.2f}),"
        f" CPU {statistics.median(cpu):5.2f} s ({min(cpu):.2f} to {max(cpu):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of planning and resuming.")
    parser.add_argument("--runs", type=int, default=10_000, help="a multiple of 200")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "adapters.py").write_text(ADAPTERS)
        spec = root / "planning.yaml"
        spec.write_text(SPEC.format(shifts=list(range(20)), sizes=list(range(given.runs // 200))))
        os.environ["HARNESS_CACHE"] = str(root / "cache")
        study = harness.load(spec)
        one = harness.load(
            spec, set=["seeds=1", "methods.model.matrix.shift=[0]", "evaluations.quality.matrix.size=[0]"]
        )
        harness.run(one, results=root / "one", jobs=1)
        (template,) = Store(root / "one", "planning").runs.root.glob("quality*")
        fresh, finished = [], []
        plan, *_ = timed(study, root / "empty")
        finish(Plan(plan.compiled, Store(root / "full", "planning"), plan.planned), template)
        for _ in range(given.rounds):
            plan, *seconds = timed(study, root / "empty")
            assert len(plan.work) == given.runs, plan.counts
            fresh.append((seconds[0], seconds[1]))
            plan, *seconds = timed(study, root / "full")
            assert plan.counts[Action.REUSE] == given.runs, plan.counts
            finished.append((seconds[0], seconds[1]))
        size = (template / "run.json").stat().st_size
    print(f"{given.runs} runs, {given.rounds} rounds; run.json takes {size} bytes")
    print(spread("planned", fresh))
    print(spread("resumed", finished))


if __name__ == "__main__":
    main()
