"""Type hints to JSON Schema 2020-12, and defaults to JSON: what a spec may write for a field."""

from __future__ import annotations

import collections.abc
import inspect
import math
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", types.NoneType: "null"}
_ARRAYS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class HintError(TypeError):
    """A type that a spec has no way to write; the message says which, and what to use."""


@dataclass(frozen=True)
class Hint:
    """``schema`` of the values; ``marks``: "scoring" and "given", from the outermost ``Annotated``."""

    schema: Mapping[str, Any]
    marks: frozenset[str] = field(default_factory=frozenset)


class _Hashable(dict[str, Any]):
    """A mapping inside ``Annotated``, as unions want it before Python 3.13."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self)))


class _Annotated:
    """Stands for ``Annotated`` where hints are evaluated again."""

    def __class_getitem__(cls, arguments: tuple[Any, ...]) -> Any:
        return _hashable(arguments)


def _hashable(arguments: tuple[Any, ...]) -> Any:
    return Annotated[tuple(_Hashable(a) if isinstance(a, dict) else a for a in arguments)]


def class_hints(cls: type) -> dict[str, Any]:
    """Type hints of a class and its bases with their annotations. Raises what evaluating them raises."""
    try:
        return get_type_hints(cls, include_extras=True)
    except TypeError:  # Annotated[int, {...}] | None, or an alias of it
        hints: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            annotations = inspect.get_annotations(base)
            alone = type(base.__name__, (), {"__annotations__": annotations, "__module__": base.__module__})
            aliases = {n: v for n, v in vars(sys.modules[base.__module__]).items() if get_origin(v) is Annotated}
            names = {n: _hashable(get_args(v)) for n, v in aliases.items()}
            names = {**vars(base), **names, "Annotated": _Annotated}
            hints |= get_type_hints(alone, localns=names, include_extras=True)
        return hints


def qualified(cls: type) -> str:
    """ "package.module:Class", as ``x-accepts`` and the registry name classes."""
    return f"{cls.__module__}:{cls.__qualname__}"


def read_hint(hint: Any) -> Hint:
    """The schema of a field's type. A class other than the plain ones becomes ``x-accepts``. Raises HintError."""
    marks: set[str] = set()
    while get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        marks.update(m for m in metadata if m in ("scoring", "given"))
        rest = [m for m in metadata if m not in ("scoring", "given")]
        if rest:
            return Hint(to_schema(Annotated[(inner, *rest)]), frozenset(marks))
        hint = inner
    return Hint(to_schema(hint), frozenset(marks))


def to_schema(hint: Any) -> dict[str, Any]:
    """JSON Schema of a type. Raises HintError."""
    hint = getattr(hint, "__value__", hint)  # `type Name = ...` of Python 3.12
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and hint in _PLAIN:  # others need not be hashable
        return {"type": _PLAIN[hint]}
    if hint is None:
        return {"type": "null"}
    if hint is Any or hint is object:
        return {}
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if (origin or hint) in _ARRAYS:
        return _array(arguments, (origin or hint) is tuple)
    if (origin or hint) in _OBJECTS:
        return _object(arguments)
    return _component(origin or hint)


def _annotated(inner: Any, metadata: Sequence[Any]) -> dict[str, Any]:
    schema = to_schema(inner)
    for item in metadata:
        if isinstance(item, Mapping):
            schema |= item
        elif item == "asset":
            schema["format"] = "asset"
        elif item in ("scoring", "given"):
            raise HintError(f"{item!r} marks a whole field, not a part of its type")
    return schema


def _union(alternatives: Sequence[Any]) -> dict[str, Any]:
    schemas = [to_schema(a) for a in alternatives]
    null = {"type": "null"}
    others = [s for s in schemas if s != null]
    components = [s for s in others if "x-accepts" in s]
    if components and len(components) < len(others):
        raise HintError("a field takes either components or plain values, not both: make it two fields")
    if components:
        one: dict[str, Any] = {"type": "object", "x-accepts": [c for s in components for c in s["x-accepts"]]}
    elif all(set(s) == {"type"} and isinstance(s["type"], str) for s in others):
        kinds = [s["type"] for s in others]
        one = {"type": kinds if len(kinds) > 1 else kinds[0]} if kinds else null
    else:
        one = others[0] if len(others) == 1 else {"anyOf": others}
    return _or_null(one) if null in schemas else one


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    schema = dict(schema)
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if "type" in schema:
        schema["type"] = [*([schema["type"]] if isinstance(schema["type"], str) else schema["type"]), "null"]
    return schema


def _array(arguments: Sequence[Any], is_tuple: bool) -> dict[str, Any]:
    if not arguments:
        return {"type": "array"}
    if is_tuple and arguments[-1] is not Ellipsis:
        items = [to_schema(a) for a in arguments]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    items_schema = to_schema(arguments[0])
    return {"type": "array", "items": items_schema} if items_schema else {"type": "array"}


def _object(arguments: Sequence[Any]) -> dict[str, Any]:
    if not arguments:
        return {"type": "object"}
    if arguments[0] is not str:
        raise HintError(f"a mapping's keys are text in a spec, not {_show(arguments[0])}: use Mapping[str, ...]")
    values = to_schema(arguments[1])
    return {"type": "object", "additionalProperties": values} if values else {"type": "object"}


def _component(hint: Any) -> dict[str, Any]:
    if isinstance(hint, TypeVar) or not isinstance(hint, type):
        raise HintError(f"{_show(hint)} is no type that a spec can write")
    if issubclass(hint, Enum):
        raise HintError(f"{_show(hint)} is an enumeration: use Literal with the texts that a spec may write")
    if hint.__module__ in ("builtins", "types"):
        raise HintError(f"{_show(hint)} is no type that a spec can write: use bool, int, float, str, list or Mapping")
    return {"type": "object", "x-accepts": [qualified(hint)]}


def _show(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def holds_components(schema: Mapping[str, Any]) -> bool:
    """Whether components stand anywhere in values of this schema."""
    inner = [*schema.get("prefixItems", ()), *schema.get("anyOf", ())]
    inner += [schema[k] for k in ("items", "additionalProperties") if isinstance(schema.get(k), Mapping)]
    return "x-accepts" in schema or any(holds_components(s) for s in inner)


def to_json(value: Any, schema: Mapping[str, Any]) -> Any:
    """A default as the JSON value that a spec would give: tuples as lists, integers as floats where floats are
    wanted. Raises HintError for what JSON cannot hold.
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return float(value) if schema.get("type") in ("number", ["number", "null"]) else value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise HintError(f"default {value} is no JSON number: use None and say what it means")
        return value
    if isinstance(value, (list, tuple)):
        each = schema.get("prefixItems") or [schema.get("items") or {}] * len(value)
        return [to_json(v, s) for v, s in zip(value, each, strict=False)]
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        return {k: to_json(v, schema.get("additionalProperties") or {}) for k, v in value.items()}
    raise HintError(f"default {value!r} is no JSON value")
