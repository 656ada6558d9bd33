"""The schema for editors agrees with what validation takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.spec.component import Registry
from harness.spec.grammar import SECTIONS, document_schema
from harness.spec.load import load

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def schema(request: pytest.FixtureRequest) -> dict[str, Any]:
    registry: Registry = request.getfixturevalue("registry")
    return document_schema(registry.adapters)


def test_it_is_json_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


def test_it_takes_a_resolved_spec(schema: dict[str, Any], registry: Registry) -> None:
    document = yaml.safe_load((FIXTURES / "toys.resolved.yaml").read_text(encoding="utf-8"))
    assert [e.message for e in Draft202012Validator(schema).iter_errors(document)] == []
    assert load(FIXTURES / "toys.resolved.yaml", registry).name == "toys"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metods", {}),
        ("seeds", 0),
        ("methods", {"a": {"use": "toy.alhpa"}}),
        ("methods", {"a": {"use": "toy.alpha", "params": {"lrr": 1}}}),
        ("methods", {"a": {"use": "toy.alpha", "params": {"lr": "fast"}}}),
        ("methods", {"a": {"use": "toy.alpha", "matrix": {"layer": [1]}}}),
        ("methods", {"a": {"use": "toy.gamma", "params": {"corpus": {"use": "toy.alpha"}}}}),
        ("resources", {"gpu": 1}),
        ("claims", [{"id": "x"}]),
    ],
)
def test_it_refuses(schema: dict[str, Any], key: str, value: object) -> None:
    document = yaml.safe_load((FIXTURES / "toys.resolved.yaml").read_text(encoding="utf-8"))
    document[key] = value
    assert list(Draft202012Validator(schema).iter_errors(document))


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    names = set(schema["$defs"])
    text = json.dumps([schema, dict(SECTIONS)])
    used = {part.split('"')[0] for part in text.split("#/$defs/")[1:]}
    assert used <= names
