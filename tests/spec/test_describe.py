"""Component classes to rows: types, defaults, marks, what a class says of itself, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Annotated, Any, ClassVar, Generic, Literal, Optional, Protocol, TypeVar, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contract import (
    AssetReference,
    Build,
    Component,
    Evaluation,
    Given,
    JointEvaluation,
    Method,
    Metric,
    Needs,
    Scoring,
    TimedEvaluation,
    built,
)
from harness.spec.adapter import Adapter, Parameter
from harness.spec.describe import DescribeError, describe, from_json, short_name, to_json

ME = __name__


class Encoder(Protocol):
    """A protocol of a track."""


class Towers:
    """What a build makes."""


class TallTowers(Towers):
    pass


class Corpus(Component):
    """Text."""

    abstract = True


class Ranker(Method):
    """A protocol of methods."""

    abstract = True


class Paragraphs(Corpus):
    """Paragraphs of a corpus.

    More of it here.
    """

    source: AssetReference = "text.paragraphs"
    tokens: Annotated[int, {"minimum": 1}] = 1000
    share: float = 1
    floats: tuple[float, ...] = (1, 2)
    pair: tuple[int, str] = (1, "a")
    mode: Literal["train", "test", 3] = "train"
    names: Sequence[str] = ()
    weights: Mapping[str, float] = field(default_factory=lambda: {"a": 1})
    maybe: int | None = None
    either: int | str = 3
    maybe_mode: Optional[Literal["a"]] = None  # noqa: UP045
    nested: Union[list[int], str, None] = None  # noqa: UP007
    anything: Any = None
    flags: list = field(default_factory=list)  # type: ignore[type-arg]
    local: AssetReference | None = None
    bounded: Annotated[float | None, {"exclusiveMinimum": 0}] = None
    verbose: bool
    table: dict = field(default_factory=dict)  # type: ignore[type-arg]


SCHEMAS: Mapping[str, tuple[Mapping[str, Any], Any]] = {
    "source": ({"type": "string", "format": "asset"}, "text.paragraphs"),
    "tokens": ({"type": "integer", "minimum": 1}, 1000),
    "share": ({"type": "number"}, 1.0),
    "floats": ({"type": "array", "items": {"type": "number"}}, [1.0, 2.0]),
    "pair": (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
        [1, "a"],
    ),
    "mode": ({"enum": ["train", "test", 3]}, "train"),
    "names": ({"type": "array", "items": {"type": "string"}}, []),
    "weights": ({"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1.0}),
    "maybe": ({"type": ["integer", "null"]}, None),
    "either": ({"type": ["integer", "string"]}, 3),
    "maybe_mode": ({"enum": ["a", None]}, None),
    "nested": (
        {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}, {"type": "null"}]},
        None,
    ),
    "anything": ({}, None),
    "flags": ({"type": "array"}, []),
    "local": ({"type": ["string", "null"], "format": "asset"}, None),
    "bounded": ({"type": ["number", "null"], "exclusiveMinimum": 0}, None),
    "table": ({"type": "object"}, {}),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_types_and_defaults(name: str) -> None:
    parameter = describe(Paragraphs, "text.paragraphs").parameters[name]
    schema, default = SCHEMAS[name]
    assert parameter.schema == schema
    assert parameter.default == default
    assert repr(parameter.default) == repr(default)  # 1.0 is not 1
    assert not parameter.required


def test_a_plain_component() -> None:
    adapter = describe(Paragraphs, "text.paragraphs")
    assert adapter.name == "text.paragraphs"
    assert adapter.role == "component"
    assert adapter.module == f"{ME}:Paragraphs"
    assert adapter.summary == "Paragraphs of a corpus."
    assert adapter.bases == (f"{ME}:Paragraphs", f"{ME}:Corpus")
    assert list(adapter.parameters) == [*list(SCHEMAS)[:-1], "verbose", "table"]
    assert adapter.parameters["verbose"] == Parameter("verbose", {"type": "boolean"}, required=True)
    assert adapter.parameters["source"].asset
    assert adapter.parameters["local"].asset


class Trained(Build[Towers]):
    seeded = True
    gate: ClassVar[Mapping[str, str]] = {"accuracy": ">= 0.9"}
    method: Given[Ranker]
    text: Given[Corpus]
    steps: int = 10


class Taller(Trained):
    """Inherits what it makes."""


B = TypeVar("B")


class Folded(Build[B], Generic[B]):
    abstract = True


class FoldedTowers(Folded[TallTowers]):
    pass


def test_builds() -> None:
    adapter = describe(Trained, "x.trained")
    assert adapter.role == "build"
    assert adapter.summary == ""
    assert adapter.product == (f"{ME}:Towers",)
    assert adapter.seeded
    assert adapter.gate == {"accuracy": ">= 0.9"}
    given_method = adapter.parameters["method"]
    assert given_method.given
    assert given_method.accepts == (f"{ME}:Ranker",)
    assert [p.name for p in adapter.settable()] == ["steps"]
    assert describe(Taller, "x.taller").product == (f"{ME}:Towers",)
    folded = describe(FoldedTowers, "x.folded")
    assert folded.product == (f"{ME}:TallTowers", f"{ME}:Towers")
    assert folded.fits((f"{ME}:Towers",))
    assert not folded.fits((f"{ME}:Corpus",))


class Perplexity(Evaluation[Ranker]):
    deterministic = True
    items = False
    text: Corpus
    maybe: Corpus | None = None
    several: tuple[Corpus | Encoder, ...] = ()
    by_name: Mapping[str, Corpus] = field(default_factory=dict)
    decoder: Towers = built("x.trained")
    alpha: Scoring[float] = 1
    strict: Scoring[Annotated[int, {"minimum": 0}]] = 0


def test_evaluations() -> None:
    adapter = describe(Perplexity, "x.perplexity")
    assert (adapter.role, adapter.shape, adapter.deterministic, adapter.items) == ("evaluation", "single", True, False)
    assert adapter.method == f"{ME}:Ranker"
    p = adapter.parameters
    assert p["text"] == Parameter("text", {"type": "object", "x-accepts": [f"{ME}:Corpus"]}, required=True)
    assert p["maybe"].schema == {"type": ["object", "null"], "x-accepts": [f"{ME}:Corpus"]}
    assert not p["maybe"].required
    both = {"type": "object", "x-accepts": [f"{ME}:Corpus", f"{ME}:Encoder"]}
    assert p["several"].schema == {"type": "array", "items": both}
    assert p["by_name"].schema["additionalProperties"]["x-accepts"] == [f"{ME}:Corpus"]
    assert p["decoder"].built == "x.trained"
    assert not p["decoder"].required
    assert p["decoder"].accepts == (f"{ME}:Towers",)
    assert p["alpha"] == Parameter("alpha", {"type": "number"}, required=False, default=1.0, scoring=True)
    assert p["strict"].scoring
    assert p["strict"].schema == {"type": "integer", "minimum": 0}


class Cost(JointEvaluation[Ranker]):
    abstract = True


class HeadToHead(Cost):
    joint = ("size",)
    size: int = 1


class Latency(TimedEvaluation[Ranker]):
    joint = ("size",)
    size: int


class AnyMethod(Evaluation[Method]):
    pass


def test_shapes() -> None:
    joint = describe(HeadToHead, "x.head_to_head")
    assert (joint.shape, joint.joint, joint.method) == ("joint", ("size",), f"{ME}:Ranker")
    timed = describe(Latency, "x.latency")
    assert (timed.shape, timed.method) == ("timed", f"{ME}:Ranker")
    assert set(timed.parameters) == {"rounds", "warmup", "min_time", "size"}
    assert timed.bases == (f"{ME}:Latency",)
    assert describe(AnyMethod, "x.any").method is None


class Quick(Ranker):
    needs = Needs(extras=("fast",), devices=("cuda",), preload=("torch",), assets=("models.small",))
    reads = ("alpha",)


class TokensPerSecond(Metric):
    of = ("x.latency",)
    direction = "max"
    unit = "1/s"
    kind = "median"
    scale = "log"


def test_methods_and_metrics() -> None:
    method = describe(Quick, "x.quick")
    assert (method.role, method.reads, method.extras, method.devices) == ("method", ("alpha",), ("fast",), ("cuda",))
    assert (method.preload, method.assets) == (("torch",), ("models.small",))
    metric = describe(TokensPerSecond, "x.tokens_per_second")
    assert (metric.role, metric.of, metric.direction) == ("metric", ("x.latency",), "max")
    assert (metric.unit, metric.kind, metric.scale) == ("1/s", "median", "log")


class Colour(Enum):
    RED = "red"


def bad(base: type, annotations: Mapping[str, Any], **body: Any) -> type:
    return type("Bad", (base,), {"__annotations__": annotations, "__module__": ME, **body})


TEXT_EXTRAS = Needs(extras="torch")  # type: ignore[arg-type]

SCORED_CORPUS = Annotated[Corpus | None, "scoring"]

REFUSED: Mapping[str, tuple[Callable[[], type], str]] = {
    "scoring without default": (lambda: bad(Method, {"a": Scoring[int]}), r"Bad\.a: a scoring parameter is a plain"),
    "scoring component": (
        lambda: bad(Method, {"a": SCORED_CORPUS}, a=None),
        "a scoring parameter is a plain",
    ),
    "component default": (lambda: bad(Method, {"a": Towers}, a=Towers()), r"Bad\.a: a component's default is None or"),
    "component or text": (lambda: bad(Method, {"a": Corpus | str}), "either components or plain values"),
    "built text": (lambda: bad(Method, {"a": str}, a=built("x.y")), "give the field that class as its type"),
    "set": (lambda: bad(Method, {"a": set[int]}), r"set is no type that a spec can write: use bool"),
    "enumeration": (lambda: bad(Method, {"a": Colour}), "use Literal"),
    "keys": (lambda: bad(Method, {"a": Mapping[int, str]}), "a mapping's keys are text in a spec, not int"),
    "type variable": (lambda: bad(Method, {"a": B}), "is no type that a spec can write"),
    "inner mark": (lambda: bad(Method, {"a": list[Scoring[int]]}), "marks a whole field"),
    "unfit default": (lambda: bad(Method, {"a": int}, a="many"), r"Bad\.a: its default does not fit its type: 'many'"),
    "unfit choice": (lambda: bad(Method, {"a": Literal["b"]}, a="c"), "its default does not fit its type"),
    "low default": (lambda: bad(Method, {"a": Annotated[int, {"minimum": 1}]}, a=0), "less than the minimum of 1"),
    "no schema": (lambda: bad(Method, {"a": Annotated[int, {"type": "whole"}]}, a=0), "is no JSON Schema"),
    "infinite": (lambda: bad(Method, {"a": float}, a=float("inf")), "default inf is no JSON number"),
    "odd default": (lambda: bad(Method, {"a": Any}, a=Colour.RED), "is no JSON value"),
    "unknown type": (lambda: bad(Method, {"a": "Nowhere"}), "type hints cannot be read .*Nowhere"),
    "gate": (lambda: bad(Trained, {}, gate={"a": "high"}), r"Bad\.gate\['a'\]: 'high' is no threshold"),
    "product": (lambda: bad(Build, {}), r"class Bad\(Build\[Product\]\)"),
    "joint": (lambda: bad(JointEvaluation, {}, joint=("size",)), r"Bad\.joint names 'size'"),
    "joint text": (lambda: bad(JointEvaluation, {"a": int}, joint="a"), r"Bad\.joint: 'a', expected a tuple"),
    "of": (lambda: bad(Metric, {}), "a metric names its evaluations"),
    "kind": (lambda: bad(Metric, {}, of=("a.b",), kind="average"), r"Bad\.kind: 'average', expected one of 'mean'"),
    "needs": (lambda: bad(Method, {}, needs=("torch",)), r"Bad\.needs: .*expected Needs"),
    "extras": (lambda: bad(Method, {}, needs=TEXT_EXTRAS), r"Bad\.needs\.extras: 'torch', expected a"),
    "two roles": (lambda: type("Bad", (Quick, TokensPerSecond), {}), "method and metric at once"),
    "no component": (lambda: Towers, r"Towers.* is no harness\.contract\.Component"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(DescribeError, match=message):
        describe(make(), "x.bad")


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        ("MLRA", "mlra"),
        ("GLA2", "gla2"),
        ("CacheSize", "cache_size"),
        ("BPE", "bpe"),
        ("BoolQParagraphs", "bool_q_paragraphs"),
        ("TokensPerSecond", "tokens_per_second"),
        ("HTTPServer", "http_server"),
        ("Top1Accuracy", "top1_accuracy"),
    ],
)
def test_names(cls: str, name: str) -> None:
    assert short_name(type(cls, (Method,), {})) == name


def test_own_names() -> None:
    named = type("BoolQParagraphs", (Method,), {"name": "boolq_paragraphs"})
    assert short_name(named) == "boolq_paragraphs"
    annotated = {"__annotations__": {"name": ClassVar[str]}, "name": "paragraphs"}
    assert short_name(type("Annotated", (Method,), annotated)) == "paragraphs"
    assert short_name(type("Heir", (named,), {})) == "heir"
    field_of_that_name = type("Holder", (Method,), {"__annotations__": {"name": str}, "name": "x"})
    assert short_name(field_of_that_name) == "holder"


@pytest.mark.parametrize(
    "cls", [Paragraphs, Trained, FoldedTowers, Perplexity, HeadToHead, Latency, Quick, TokensPerSecond]
)
def test_rows_keep_everything(cls: type) -> None:
    adapter = describe(cls, "x.name")
    back = from_json(json.loads(json.dumps(to_json(adapter), sort_keys=True)))
    assert back == adapter
    assert list(back.parameters) == list(adapter.parameters)


texts = st.lists(st.text(max_size=5), max_size=3).map(tuple)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(
    st.builds(
        Adapter,
        name=st.text(),
        role=st.sampled_from(["method", "metric"]),
        module=st.text(),
        summary=st.text(),
        bases=texts,
        product=texts,
        seeded=st.booleans(),
        gate=st.dictionaries(st.text(), st.text(), max_size=2),
        items=st.booleans(),
        method=st.none() | st.text(),
        direction=st.sampled_from(["max", "min", None]),
        parameters=st.lists(
            st.builds(
                Parameter,
                st.text(),
                st.dictionaries(st.text(), values, max_size=2),
                st.booleans(),
                default=values | st.lists(values, max_size=3),
                scoring=st.booleans(),
                built=st.none() | st.text(),
            ),
            max_size=3,
        ).map(lambda found: {p.name: p for p in found}),
    )
)
def test_any_row_survives_json(adapter: Adapter) -> None:
    assert repr(from_json(json.loads(json.dumps(to_json(adapter))))) == repr(adapter)
