"""What a spec document may hold: one JSON Schema per section, from which validation and editors' help are made.

Own keywords: ``x-words`` says in words what a pattern wants; ``x-accepts`` lists the classes of which a value must be
a component; the formats "duration" and "memory" are those of :mod:`harness.spec.quantities`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.spec.adapter import Adapter

Schema = Mapping[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1}
_SLUG: Schema = {
    "type": "string",
    "pattern": r"^[a-z0-9][a-z0-9_.-]{0,79}$",
    "x-words": "lower-case letters, digits, and . _ - inside (at most 80)",
}
METHOD_NAME: Schema = {
    "type": "string",
    "pattern": r"^(?=[^\s])[^\[\]|=,*?/\\\"'\x00-\x1f\x7f]{1,80}(?<=[^\s])$",
    "x-words": "at most 80 characters, without [ ] | = , * ? / \\ or quotes",
}
EVALUATION_NAME: Schema = {
    "type": "string",
    "pattern": r"^(?=[^\s])[^\[\]|=,*?/\\\"'.\x00-\x1f\x7f]{1,80}(?<=[^\s])$",
    "x-words": "at most 80 characters, without . [ ] | = , * ? / \\ or quotes",
}
PROFILE_NAME: Schema = _SLUG
ONE_OR_MORE: Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_VALUES: Schema = {"type": "array", "minItems": 1}
_AXES: Schema = {"type": "object", "additionalProperties": _VALUES}
_CELL: Schema = {"type": "object", "minProperties": 1}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _section(description: str, properties: Mapping[str, Schema], *required: str) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_SKIPS: Schema = {"type": "array", "items": _ref("skip")}
_ARM: Mapping[str, Schema] = {
    "use": _TEXT,
    "params": {"type": "object", "description": "Values of the parameters; the rest keep their defaults."},
    "matrix": {**_AXES, "description": "Every combination of these values is a row or cell of its own."},
    "vary": {**_AXES, "description": "These values one at a time, the other parameters at their defaults."},
    "exclude": {"type": "array", "items": _CELL, "description": "Combinations that are left out."},
    "resources": _ref("resources"),
    "skip": {"anyOf": [_TEXT, _SKIPS], "description": "Why this is not run, or a list of {where, reason}."},
}

SECTIONS: Mapping[str, Schema] = {
    "document": _section(
        "A study: methods, evaluations and claims.",
        {
            "harness": {"const": 1, "description": "Version of this grammar."},
            "study": _SLUG,
            "title": _TEXT,
            "paper": {
                "type": "object",
                "properties": dict.fromkeys(("title", "arxiv", "doi", "venue", "url"), _TEXT),
            },
            "track": _TEXT,
            "include": ONE_OR_MORE,
            "methods": {
                "type": "object",
                "propertyNames": METHOD_NAME,
                "additionalProperties": _ref("method"),
                "minProperties": 1,
            },
            "evaluations": {
                "type": "object",
                "propertyNames": EVALUATION_NAME,
                "additionalProperties": _ref("evaluation"),
                "minProperties": 1,
            },
            "seeds": {
                "anyOf": [
                    {"type": "integer", "minimum": 1, "maximum": 100_000},
                    {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True},
                ],
                "description": "N for 0 to N-1, or a list.",
            },
            "limit": {"type": "integer", "minimum": 1, "description": "Use so many items at most."},
            "resources": _ref("resources"),
            "claims": {"type": "array", "items": _ref("claim")},
            "profiles": {
                "type": "object",
                "propertyNames": PROFILE_NAME,
                "additionalProperties": {"type": "object"},
                "description": "Changes to the document, by name; null removes a key.",
            },
            "skip": _SKIPS,
        },
        "harness",
        "study",
        "track",
        "methods",
        "evaluations",
    ),
    "method": _section(
        "A method: one row of the table, or one for each combination of its matrix.",
        {**_ARM, "role": {"enum": ["proposed", "baseline", "rival", "control"]}, "gate": _ref("gate")},
        "use",
    ),
    "evaluation": _section(
        "What is measured of every method.",
        {
            **_ARM,
            "methods": {
                "type": "array",
                "minItems": 1,
                "items": _TEXT,
                "uniqueItems": True,
                "description": "Methods it is done with, by default all; the others have no row in its table.",
            },
            "metrics": {
                "type": "array",
                "minItems": 1,
                "items": {"anyOf": [_TEXT, _ref("component")]},
                "description": "Names of metrics, or {use, params}; by default all that belong to the evaluation.",
            },
        },
        "use",
    ),
    "component": _section(
        "A component by name.",
        {key: _ARM[key] for key in ("use", "params", "resources")} | {"gate": _ref("gate")},
        "use",
    ),
    "gate": {
        "type": "object",
        "additionalProperties": _TEXT,
        "description": 'Thresholds on what a build measures, as in {accuracy: ">= 0.9"}.',
    },
    "resources": _section(
        "What a run asks for.",
        {
            "cpus": {"type": "integer", "minimum": 1},
            "gpus": {"type": "number", "minimum": 0, "description": "A fraction below 1 shares a device."},
            "memory": {"type": ["integer", "string"], "format": "memory"},
            "timeout": {"type": ["number", "string"], "format": "duration"},
        },
    ),
    "skip": _section(
        "Combinations that are not run, and why.",
        {"where": {"type": "object"}, "reason": _TEXT},
        "where",
        "reason",
    ),
    "claim": _section(
        "A claim of the paper, and how it is judged.",
        {
            "id": _SLUG,
            "says": _TEXT,
            "metric": {**_TEXT, "description": "EVALUATION.METRIC"},
            "where": {"type": "object", "description": "The method, and a value for each axis of the evaluation."},
            "against": {"type": "object", "description": "What it is compared with; the rest is as in where."},
            "expect": _ref("expect"),
            "every": {**ONE_OR_MORE, "description": "Axes at each of whose values the claim must hold."},
            "mean": {**ONE_OR_MORE, "description": "Axes over which the metric is averaged."},
            "control": {**_TEXT, "description": "A method that must fail the same expectation."},
            "paper": {"type": ["number", "string"], "description": "The paper's figure."},
            "scale": {"enum": ["here", "paper"]},
            "note": _TEXT,
            "elsewhere": {"type": "boolean", "description": "It may name what only another profile has."},
        },
        "id",
        "says",
        "metric",
        "expect",
    ),
    "expect": _section(
        "Exactly one of equals, ratio, difference, order and equivalence.",
        {
            "equals": {"type": "number"},
            "tolerance": {"type": "number", "minimum": 0},
            "ratio": {"type": ["string", "number"], "description": 'An operator and a number, as in ">= 2.8".'},
            "difference": {"type": ["string", "number"], "description": 'An operator and a number, as in "> 0".'},
            "order": {"type": "array", "items": _TEXT, "minItems": 2, "uniqueItems": True},
            "equivalence": {"type": ["number", "string"], "description": "A margin: 2% or 0.02, both relative."},
            "absolute": {"type": "boolean", "description": "The margin is in the metric's own unit."},
        },
    ),
}


def keys(section: str) -> Mapping[str, Schema]:
    """The keys of a section and the schemas of their values."""
    properties: Mapping[str, Schema] = SECTIONS[section]["properties"]
    return properties


def homes(key: str) -> list[str]:
    """Sections that have this key."""
    return [name for name, schema in SECTIONS.items() if key in schema.get("properties", {})]


def document_schema(adapters: Mapping[str, Adapter]) -> dict[str, Any]:
    """JSON Schema 2020-12 of a spec document, for editors: with the names and parameters of these adapters."""
    sections = dict(SECTIONS)
    document = dict(sections.pop("document"))
    document["patternProperties"] = {"^x-": {"description": "Ignored; a place for anchors."}}
    parameters = {a.name: _parameters(a, adapters) for a in adapters.values() if a.role != "metric" or a.parameters}
    definitions: dict[str, Any] = {
        **sections,
        "method": _arm(sections["method"], adapters, ("method", "build"), axes=True),
        "evaluation": _arm(sections["evaluation"], adapters, ("evaluation",), axes=True),
        "component": _arm(sections["component"], adapters, ("component", "build", "metric"), axes=False),
        **{f"params.{name}": schema for name, schema in parameters.items()},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "harness spec",
        **document,
        "$defs": definitions,
    }


def _names(adapters: Iterable[Adapter]) -> Schema:
    return {"anyOf": [{"enum": sorted(a.name for a in adapters)}, {"type": "string", "pattern": r"\.py:\w+$"}]}


def _arm(section: Schema, adapters: Mapping[str, Adapter], roles: tuple[str, ...], *, axes: bool) -> Schema:
    """A section with ``use``: the names it may have, and for each name the parameters."""
    chosen = [a for a in adapters.values() if a.role in roles]
    cases = []
    for adapter in chosen:
        then: dict[str, Any] = {"params": _ref(f"params.{adapter.name}")}
        if adapter.role == "metric" and not adapter.parameters:
            continue
        if axes:
            names = {"propertyNames": {"enum": [p.name for p in adapter.settable()]}}
            then |= {"matrix": names, "vary": names}
        known = {"properties": {"use": {"const": adapter.name}}, "required": ["use"]}
        cases.append({"if": known, "then": {"properties": then}})
    properties = {**section["properties"], "use": _names(chosen)}
    return {**section, "properties": properties, **({"allOf": cases} if cases else {})}


def _parameters(adapter: Adapter, adapters: Mapping[str, Adapter]) -> Schema:
    properties = {}
    for parameter in adapter.settable():
        schema = _for_editors(parameter.schema, adapters)
        stated = not parameter.required and parameter.built is None
        properties[parameter.name] = {**schema, "default": parameter.default} if stated else schema
    return {"type": "object", "description": adapter.summary, "properties": properties, "additionalProperties": False}


def _for_editors(schema: Any, adapters: Mapping[str, Adapter]) -> Any:
    """A parameter's schema with ``x-accepts`` written out as the components that fit."""
    if isinstance(schema, list):
        return [_for_editors(item, adapters) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    accepts = tuple(schema.get("x-accepts", ()))
    rest = {key: _for_editors(value, adapters) for key, value in schema.items() if not key.startswith("x-")}
    if not accepts:
        return rest
    fitting = [a for a in adapters.values() if a.fits(accepts)]
    component = {"allOf": [_ref("component"), {"properties": {"use": _names(fitting)}}]}
    kinds = schema.get("type")
    return {"anyOf": [component, {"type": "null"}]} if isinstance(kinds, list) and "null" in kinds else component
