"""A made-up track, as the registry would describe it, and studies over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness.planning.node import Node
from harness.planning.parts import Sources
from harness.results.files import write_json
from harness.results.record import EntryState, RunRecord, ScoreRecord, State
from harness.results.store import Store
from harness.spec.adapter import Adapter, Parameter
from harness.spec.study import EvaluationCell, MethodRow, Study, Use

MODEL, CORPUS = "toy.protocol:Model", "toy.protocol:Corpus"


def parameter(name: str, schema: dict[str, Any] | None = None, default: Any = None, **more: Any) -> Parameter:
    required = more.pop("required", False)
    return Parameter(name, schema or {"type": "integer"}, required, default, **more)


def adapter(name: str, role: Any, parameters: list[Parameter] = [], **more: Any) -> Adapter:  # noqa: B006
    module = f"toy.{name.partition('.')[2]}:{name.partition('.')[2].title()}"
    return Adapter(name, role, module, parameters={p.name: p for p in parameters}, **more)


ACCEPTS_CORPUS = {"x-accepts": [CORPUS]}

ADAPTERS = {
    a.name: a
    for a in [
        adapter("toy.mean", "method", [parameter("shift", default=0)], bases=("toy.mean:Mean", MODEL)),
        adapter("toy.median", "method", bases=("toy.median:Median", MODEL)),
        adapter("toy.reader", "method", reads=("alpha",), bases=("toy.reader:Reader", MODEL)),
        adapter("toy.words", "build", [parameter("size", default=10)], product=(CORPUS,)),
        adapter(
            "toy.fitted",
            "build",
            [parameter("method", given=True), parameter("text", given=True), parameter("steps", default=5)],
            product=("toy.protocol:Fitted",),
            seeded=True,
            preload=("numpy",),
        ),
        adapter(
            "toy.quality",
            "evaluation",
            [
                parameter("text", ACCEPTS_CORPUS, required=True),
                parameter("fitted", {"x-accepts": ["toy.protocol:Fitted"]}, built="toy.fitted"),
                parameter("alpha", {"type": "number"}, 0.1, scoring=True),
                parameter("size", default=1),
            ],
            method=MODEL,
        ),
        adapter("toy.count", "evaluation", [parameter("width", default=1)], method=MODEL, deterministic=True),
        adapter(
            "toy.speed",
            "evaluation",
            [parameter("parallel", default=1), parameter("context", default=8)],
            method=MODEL,
            shape="timed",
            joint=("parallel",),
            items=False,
        ),
        adapter("toy.error", "metric", of=("toy.quality",), direction="min"),
        adapter("toy.total", "metric", of=("toy.count",), direction="min", kind="exact"),
        adapter("toy.rate", "metric", of=("toy.speed",), direction="max", kind="median"),
    ]
}


@pytest.fixture
def row() -> Callable[..., MethodRow]:
    def make(label: str, use: str, **params: Any) -> MethodRow:
        cell = {k: v for k, v in params.items() if f"{k}=" in label}
        return MethodRow(label, label.partition("[")[0], cell, Use(use, params))

    return make


@pytest.fixture
def cell() -> Callable[..., EvaluationCell]:
    metrics = {"toy.quality": "toy.error", "toy.count": "toy.total", "toy.speed": "toy.rate"}

    def make(name: str, use: str, axes: dict[str, Any] | None = None, **params: Any) -> EvaluationCell:
        axes = axes or {}
        label = f"{name}[{'|'.join(f'{k}={v}' for k, v in axes.items())}]" if axes else name
        return EvaluationCell(label, name, axes, Use(use, {**params, **axes}), (Use(metrics[use]),))

    return make


@pytest.fixture
def study() -> Callable[..., Study]:
    def make(methods: list[MethodRow], evaluations: list[EvaluationCell], **more: Any) -> Study:
        more = {"seeds": (0, 1), "adapters": ADAPTERS, **more}
        return Study("toys", "Toys", Path("toys.yaml"), None, "toy", tuple(methods), tuple(evaluations), **more)

    return make


class Code:
    """Code digests by module, which a test may change as an edit of the file would."""

    def __init__(self) -> None:
        self.edited: dict[str, int] = {}

    def __call__(self, module: str) -> dict[str, str]:
        file = module.partition(":")[0].replace(".", "/") + ".py"
        return {f: f"v{self.edited.get(f, 0)} of {f}" for f in (file, "toy/protocol.py")}


@pytest.fixture
def code() -> Code:
    return Code()


@pytest.fixture
def sources(code: Code) -> Sources:
    return Sources(code, lambda reference: f"revision of {reference}")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "toys")


@pytest.fixture
def again(store: Store) -> Callable[[], Store]:
    """The same results directory, read afresh."""
    return lambda: Store(store.root, store.study)


@pytest.fixture
def finish(store: Store) -> Callable[..., Path]:
    """Leave the records that an executed node leaves."""

    def make(node: Node, state: State = State.OK, **more: Any) -> Path:
        directory = store.shelf(node.kind).root / node.directory_name
        (directory / "attempts" / "1").mkdir(parents=True, exist_ok=True)
        if node.kind == "build":
            (directory / "product").mkdir(exist_ok=True)
        write_json(directory / "node.json", node.document)
        scored = more.pop("scored", True)
        entries = more.pop("entries", {e["id"]: EntryState(state) for e in node.document.get("entries", ())})
        record = RunRecord(node.key, state, entries=entries, seconds=2.0, bytes=1000, started="2026-01-01", **more)
        write_json(directory / "run.json", record.to_json())
        if node.kind == "observation" and scored:
            write_json(
                directory / "scores.json",
                {
                    m["score_key"]: asdict(ScoreRecord(m["metric"]["use"], m["entry"], State.OK, 1.5, 3))
                    for m in node.document["metrics"]
                },
            )
        return directory

    return make
