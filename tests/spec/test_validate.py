"""Typing by JSON Schema: what is taken, what it becomes, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.spec.errors import Problems, nearest, suggestion
from harness.spec.text import parse
from harness.spec.validate import BAD, Typist

TWO = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2}
FLOATS = {"type": "object", "additionalProperties": {"type": "number"}}


def typed(source: str, schema: dict[str, Any]) -> tuple[Any, list[str]]:
    problems = Problems()
    tree = parse(source.encode(), "f", problems)
    assert tree is not None
    value = Typist(problems).typed(tree, schema, "x")
    return value, [error.message for error in problems.errors]


@pytest.mark.parametrize(
    ("source", "schema", "value"),
    [
        ("1", {"type": "number"}, 1.0),
        ("1e4", {"type": "integer"}, 10000),
        ("1", {"type": ["integer", "number"]}, 1),
        ("1", {"type": ["string", "integer"]}, 1),
        ("'1'", {"type": ["string", "integer"]}, "1"),
        ("1.5", {"type": ["integer", "number"]}, 1.5),
        ("null", {"type": ["number", "null"]}, None),
        ("null", {}, None),
        ("[1, a]", TWO, [1, "a"]),
        ("{a: 1}", FLOATS, {"a": 1.0}),
        ("[{a: 1}, 2]", {"type": "array", "items": {"anyOf": [FLOATS, {"type": "integer"}]}}, [{"a": 1.0}, 2]),
        ("8.0", {"enum": [4, 8]}, 8),
        ("null", {"enum": ["a", None]}, None),
        ("{a: [1, x]}", {}, {"a": [1, "x"]}),
        ("6", {"type": "integer", "multipleOf": 3}, 6),
        ("[1, 2]", {"type": "array", "items": {"type": "number"}, "uniqueItems": True}, [1.0, 2.0]),
    ],
)
def test_taken(source: str, schema: dict[str, Any], value: object) -> None:
    found, errors = typed(source, schema)
    assert errors == []
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    ("source", "schema", "message"),
    [
        ("a", {"type": ["integer", "null"]}, 'x is the text "a", expected an integer or null'),
        ("true", {"type": "integer"}, "x is true, expected an integer"),
        ("true", {"enum": [1]}, "x is true, expected 1"),
        ("4", {"enum": ["4"]}, "x is the number 4, expected text"),
        ("[1]", TWO, "x has 1 items, expected at least 2"),
        ("[1, a, b]", TWO, "x has 3 items, expected at most 2"),
        ("[a, a]", TWO, 'x[0] is the text "a", expected an integer'),
        ("{a: b}", FLOATS, 'x.a is the text "b", expected a number'),
        ("{b: 1}", {"type": "object", "properties": {"a": {}}, "additionalProperties": False}, 'x has no key "b"'),
        ("{}", {"type": "object", "required": ["a"]}, 'x lacks the key "a"'),
        ("3", {"type": "integer", "exclusiveMinimum": 3}, "x is 3, it must be more than 3"),
        ("3", {"type": "integer", "maximum": 2}, "x is 3, it must be at most 2"),
        ("3", {"type": "integer", "exclusiveMaximum": 3}, "x is 3, it must be less than 3"),
        ("abc", {"type": "string", "maxLength": 2}, 'x is the text "abc", it must have at most 2 characters'),
        ("7", {"type": "integer", "multipleOf": 3}, "x does not fit: 7 is not a multiple of 3"),
        ("[1, 1.0]", {"type": "array", "uniqueItems": True}, "x has the number 1.0 twice"),
        ("[a]", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "x is a list, expected text or an integer"),
    ],
)
def test_refused(source: str, schema: dict[str, Any], message: str) -> None:
    assert typed(source, schema) == (BAD, [message])


def test_nearest_name() -> None:
    assert nearest("learning-rate", ["learning_rate", "lr"]) == "learning_rate"
    assert nearest("KV_Heads", ["kv_heads"]) == "kv_heads"
    assert nearest("zzz", ["a", "b"]) is None
    assert suggestion("zzz", ["b", "a"]) == "there is a, b"
    assert suggestion("zzz", []) == ""
