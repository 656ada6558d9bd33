"""Rows of the registry as JSON, both ways and without loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from harness.spec.adapter import Adapter, Parameter


def to_json(adapter: Adapter) -> dict[str, Any]:
    """A row as JSON, without what is at its default. Parameters are a list, since their order counts."""
    row = _stated(adapter)
    if adapter.parameters:
        row["parameters"] = [_stated(p) for p in adapter.parameters.values()]
    return row


def from_json(row: Mapping[str, Any]) -> Adapter:
    """The inverse of :func:`to_json`. Raises TypeError or KeyError for anything else."""
    known: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    parameters = (Parameter(**p) for p in known.pop("parameters", ()))
    return Adapter(**known, parameters={p.name: p for p in parameters})


def _stated(instance: Adapter | Parameter) -> dict[str, Any]:
    row = {}
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if value != default or type(value) is not type(default):
            row[field.name] = list(value) if isinstance(value, tuple) else value
    return row
