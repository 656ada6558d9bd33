"""A made-up track as a registry, by hand; and specs written from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.spec.adapter import Adapter, Parameter
from harness.spec.errors import suggestion
from harness.spec.load import check, load
from harness.spec.study import Study

LEARNER, CORPUS, MODEL = "toy.protocol:Learner", "toy.protocol:Corpus", "toy.protocol:Model"
NUMBER, INTEGER, TEXT = {"type": "number"}, {"type": "integer"}, {"type": "string"}
ACCEPTS = {"type": "object", "x-accepts": [CORPUS]}


def parameter(name: str, schema: Mapping[str, Any], default: Any = None, **more: Any) -> Parameter:
    return Parameter(name, schema, more.pop("required", False), default, **more)


def adapter(name: str, role: Any, *parameters: Parameter, **more: Any) -> Adapter:
    cls = name.partition(".")[2].title().replace("_", "")
    module = f"toy.adapters:{cls}"
    bases = (module, *more.pop("bases", ()))
    return Adapter(name, role, module, bases=bases, parameters={p.name: p for p in parameters}, **more)


def adapters() -> dict[str, Adapter]:
    rows = [
        adapter(
            "toy.alpha",
            "method",
            parameter("lr", NUMBER, 0.1),
            parameter("layers", {"type": "integer", "minimum": 1}, 2),
            parameter("revision", TEXT, "main"),
            parameter("languages", {"type": "array", "items": TEXT}, []),
            parameter("kind", {"enum": ["slow", "fast"]}, "slow"),
            parameter("flag", {"type": "boolean"}, False),
            parameter("window", {"type": ["integer", "null"]}, None),
            bases=(LEARNER,),
        ),
        adapter("toy.beta", "method", parameter("heads", INTEGER, 4), bases=(LEARNER,)),
        adapter("toy.gamma", "method", parameter("corpus", ACCEPTS, required=True), bases=(LEARNER,)),
        adapter("toy.stranger", "method"),
        adapter(
            "toy.words",
            "component",
            parameter("size", INTEGER, 100),
            parameter("seeded_by", TEXT, "words"),
            bases=(CORPUS,),
        ),
        adapter("toy.chars", "build", parameter("size", INTEGER, 10), product=(CORPUS,), gate={"quality": ">= 0.5"}),
        adapter("toy.mixed", "component", parameter("parts", {"type": "array", "items": ACCEPTS}, []), bases=(CORPUS,)),
        adapter(
            "toy.trained", "build", parameter("method", {}, required=True, given=True), product=(MODEL,), seeded=True
        ),
        adapter(
            "toy.speed",
            "evaluation",
            parameter("parallel", INTEGER, 1),
            parameter("context", INTEGER, 8),
            method=LEARNER,
            shape="timed",
            joint=("parallel",),
            items=False,
        ),
        adapter(
            "toy.quality",
            "evaluation",
            parameter("text", ACCEPTS, required=True),
            parameter("model", {"type": "object", "x-accepts": [MODEL]}, built="toy.trained"),
            parameter("alpha", NUMBER, 0.5, scoring=True),
            method=LEARNER,
        ),
        adapter("toy.rate", "metric", of=("toy.speed",), direction="max", kind="median"),
        adapter("toy.size", "metric", of=("toy.speed",), kind="exact"),
        adapter("toy.error", "metric", parameter("norm", INTEGER, 1), of=("toy.quality",), direction="min"),
        adapter("other.words", "component", parameter("size", INTEGER, 7), bases=(CORPUS,)),
    ]
    return {row.name: row for row in rows}


@dataclass(frozen=True)
class ToyRegistry:
    adapters: Mapping[str, Adapter]

    def resolve(self, use: str, base: Path) -> Adapter:
        if use in self.adapters:
            return self.adapters[use]
        if use == "./mine.py:Mine" and (base / "mine.py").exists():
            module = f"file:{base}/mine.py:Mine"
            return Adapter(use, "method", module, bases=(module, LEARNER))
        raise LookupError(f'there is no adapter "{use}"; {suggestion(use, self.adapters)}')


@pytest.fixture(scope="session")
def registry() -> ToyRegistry:
    return ToyRegistry(adapters())


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a spec (relative name, so that errors begin with it) and gives its name."""
    monkeypatch.chdir(tmp_path)

    def write(text: str | bytes, name: str = "s.yaml") -> str:
        data = text.encode("utf-8") if isinstance(text, str) else text
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data)
        return name

    return write


@pytest.fixture
def loaded(spec: Callable[..., str], registry: ToyRegistry) -> Callable[..., Study]:
    def make(text: str, **options: Any) -> Study:
        return load(spec(text), registry, **options)

    return make


BASE = """\
harness: 1
study: toys
track: toy
methods:
  a: {method}
evaluations:
  speed: {{use: toy.speed, matrix: {{parallel: [1, 2]}}}}
"""


@pytest.fixture
def mistakes(spec: Callable[..., str], registry: ToyRegistry) -> Callable[[str, str | bytes], list[str]]:
    """All errors, without the file's name, of a whole spec ("text"), of a good one with another method in line 5
    ("method"), or of a good one with more from line 8 on ("more").
    """

    def find(kind: str, source: str | bytes) -> list[str]:
        text = source
        if kind != "text":
            assert isinstance(source, str)
            text = BASE.format(method=source if kind == "method" else "{use: toy.alpha}")
            text += f"{source}\n" if kind == "more" else ""
        return [str(error).removeprefix("s.yaml:") for error in check([spec(text)], registry)]

    return find
