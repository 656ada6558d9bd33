"""Trees against JSON Schema: typed plain values, or every mistake in plain words at its place.

The same walk types the document's own keys (:mod:`harness.spec.grammar`) and the adapters' parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from harness.spec import grammar
from harness.spec.errors import Place, Problems, nearest, suggestion
from harness.spec.quantities import QuantityError, parse_duration, parse_memory
from harness.spec.text import Broken, Entry, Fields, Items, Scalar, Tree, clip, equal, json_text, plain, resolve

Schema = Mapping[str, Any]


class _Bad:
    """In place of a value that was reported as wrong."""

    def __repr__(self) -> str:
        return "BAD"


BAD: Final = _Bad()
MIN_MEMORY = 2**20
"""Less is taken for a forgotten unit."""

_WANTED = {
    "string": "text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_KEYWORDS = frozenset(
    (
        *("$ref", "type", "enum", "const", "anyOf", "pattern", "minLength", "maxLength", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
        *("properties", "required", "additionalProperties", "propertyNames", "minProperties"),
        *("title", "description", "default", "examples"),
    )
)


class Typist:
    """Types values by schemas. A component, wherever a schema has ``x-accepts``, is left to ``component``."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def component(self, tree: Tree, accepts: tuple[str, ...], what: str) -> Any:
        """Overridden where components may stand."""
        raise NotImplementedError

    @contextmanager
    def trial(self) -> Iterator[Problems]:
        """Mistakes made inside are not reported, but handed out."""
        kept, self.problems = self.problems, Problems()
        try:
            yield self.problems
        finally:
            self.problems = kept

    def typed(self, tree: Tree, schema: Schema, what: str) -> Any:
        """The value as the schema wants it, or BAD after reporting why not. ``what`` names it in messages."""
        if isinstance(tree, Broken):
            return BAD
        if "$ref" in schema:
            schema = grammar.SECTIONS[schema["$ref"].rpartition("/")[2]]
        kinds = schema.get("type")
        if isinstance(tree, Scalar) and tree.value is None and _takes_null(schema):
            return None
        if "x-accepts" in schema:
            return self.component(tree, tuple(schema["x-accepts"]), what)
        if "format" in schema and schema["format"] in _QUANTITIES and isinstance(tree, Scalar):
            return self._quantity(tree, schema["format"], what)
        if isinstance(kinds, list):
            return self._any(tree, [{**schema, "type": kind} for kind in kinds], what)
        if "anyOf" in schema:
            return self._any(tree, schema["anyOf"], what)
        if "const" in schema or "enum" in schema:
            return self._choice(tree, schema.get("enum", [schema.get("const")]), what)
        value = self._by_kind(tree, schema, what)
        return value if value is BAD else self._rest(tree, value, schema, what)

    def _by_kind(self, tree: Tree, schema: Schema, what: str) -> Any:
        kind = schema.get("type")
        if kind is None:
            kind = {Items: "array", Fields: "object"}.get(type(tree))
            if kind is None:
                return plain(tree)
        if kind == "array" and isinstance(tree, Items):
            return self._array(tree, schema, what)
        if kind == "object" and isinstance(tree, Fields):
            return self._object(tree, schema, what)
        if isinstance(tree, Scalar) and kind in _SCALARS:
            return self._scalar(tree, kind, schema, what)
        return self._mismatch(tree, _WANTED[kind], what)

    def _scalar(self, tree: Scalar, kind: str, schema: Schema, what: str) -> Any:
        value = _SCALARS[kind](tree.value)
        if value is BAD:
            return self._mismatch(tree, _WANTED[kind], what)
        if isinstance(value, str):
            return self._text(tree, value, schema, what)
        for keyword, words, holds in _BOUNDS:
            bound = schema.get(keyword)
            if bound is not None and kind != "boolean" and not holds(value, bound):
                self.problems.add(tree.place, f"{what} is {tree.source}, it must be {words} {bound}", "change it")
                return BAD
        return value

    def _text(self, tree: Scalar, value: str, schema: Schema, what: str) -> Any:
        if len(value) < schema.get("minLength", 0):
            self.problems.add(tree.place, f"{what} is empty" if not value else f"{what} is too short", "give a value")
            return BAD
        if len(value) > schema.get("maxLength", len(value)):
            message = f'{what} is the text "{clip(value)}", it must have at most {schema["maxLength"]} characters'
            self.problems.add(tree.place, message, "shorten it")
            return BAD
        if "pattern" in schema and not re.search(schema["pattern"], value):
            words = schema.get("x-words") or f"text that matches {schema['pattern']}"
            self.problems.add(tree.place, f'{what} is "{clip(value)}"', f"it must be {words}")
            return BAD
        return value

    def _mismatch(self, tree: Tree, wanted: str, what: str) -> Any:
        if isinstance(tree, Scalar) and tree.value is None:
            self.problems.add(tree.place, f"{what} has no value, expected {wanted}", "remove it or give a value")
        else:
            self.problems.add(tree.place, f"{what} is {found(tree)}, expected {wanted}", _remedy(tree, wanted))
        return BAD

    def _choice(self, tree: Tree, options: list[Any], what: str) -> Any:
        value = plain(tree)
        for option in options:
            if equal(option, value):
                return option
        texts = [option if isinstance(option, str) else json_text(option) for option in options]
        if isinstance(tree, Scalar) and tree.source in options:
            return self._mismatch(tree, "text", what)
        near = nearest(value, texts) if isinstance(value, str) else None
        hint = f'did you mean "{near}"?' if near else ""
        self.problems.add(tree.place, f"{what} is {found(tree)}, expected {_or(texts)}", hint)
        return BAD

    def _any(self, tree: Tree, schemas: list[Schema], what: str) -> Any:
        """The first alternative that takes the value without converting it, else the first that takes it."""
        taken = []
        failed = []
        for schema in schemas:
            with self.trial() as problems:
                value = self.typed(tree, schema, what)
            if value is BAD:
                failed.append((schema, problems))
            elif not isinstance(tree, Scalar) or type(value) is type(tree.value):
                return value
            else:
                taken.append(value)
        if taken:
            return taken[0]
        alike = [problems for schema, problems in failed if _alike(tree, schema)]
        if len(alike) == 1:
            self.problems.extend(alike[0])
            return BAD
        return self._mismatch(tree, _or([_wanted(schema) for schema in schemas]), what)

    def _array(self, tree: Items, schema: Schema, what: str) -> Any:
        first = schema.get("prefixItems", [])
        rest = schema.get("items", {})
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if rest is False:
            rest, most = {}, len(first)
        count = len(tree.items)
        if count < least or (most is not None and count > most):
            bound = f"at least {least}" if count < least else f"at most {most}"
            self.problems.add(tree.place, f"{what} has {count} items, expected {bound}", "add or remove some")
            return BAD
        each = [*first, *[rest] * count][:count]
        values = [self.typed(item, s, f"{what}[{i}]") for i, (item, s) in enumerate(zip(tree.items, each, strict=True))]
        if schema.get("uniqueItems"):
            for i, value in enumerate(values):
                if value is not BAD and any(equal(value, earlier) for earlier in values[:i]):
                    self.problems.add(tree.items[i].place, f"{what} has {found(tree.items[i])} twice", "remove one")
                    return BAD
        return BAD if BAD in values else values

    def _object(self, tree: Fields, schema: Schema, what: str) -> Any:
        if len(tree.entries) < schema.get("minProperties", 0):
            self.problems.add(tree.place, f"{what} is empty", "remove it or give a value")
            return BAD
        properties = schema.get("properties", {})
        more = schema.get("additionalProperties", {})
        values = {}
        for key, entry in tree.entries.items():
            if key in properties or more is not False:
                inner = properties.get(key, more if isinstance(more, Mapping) else {})
                values[key] = self._named(key, entry, schema, inner, what)
            else:
                self.problems.add(entry.place, f'{what} has no key "{key}"', suggestion(key, properties))
                values[key] = BAD
        for key in schema.get("required", ()):
            if key not in tree.entries:
                self.problems.add(tree.place, f'{what} lacks the key "{key}"', "add it")
                values[key] = BAD
        return BAD if BAD in values.values() else values

    def _named(self, key: str, entry: Entry, schema: Schema, inner: Schema, what: str) -> Any:
        if not self.name_fits(key, entry.place, schema.get("propertyNames"), "the name"):
            return BAD
        return self.typed(entry.value, inner, f"{what}.{key}" if what else key)

    def name_fits(self, key: str, place: Place, names: Schema | None, what: str) -> bool:
        """Whether a key is a valid name; reports it if not."""
        if names is None or re.search(names.get("pattern", ""), key):
            return True
        self.problems.add(
            place, f'{what} "{clip(key)}" is not allowed', f"use {names.get('x-words', names['pattern'])}"
        )
        return False

    def _quantity(self, tree: Scalar, kind: str, what: str) -> Any:
        if tree.value is None or isinstance(tree.value, bool):
            return self._mismatch(tree, _QUANTITIES[kind][1], what)
        try:
            value = _QUANTITIES[kind][0](tree.value)
        except QuantityError as error:
            self.problems.add(tree.place, f"{what}: {error.message}", error.hint)
            return BAD
        least = MIN_MEMORY if kind == "memory" else 0.0
        if value < least or value == 0:
            hint = f'"{tree.source}GiB" perhaps: a number alone is bytes' if kind == "memory" else "give a longer time"
            self.problems.add(tree.place, f"{what} is {tree.source}, which is too little to run anything", hint)
            return BAD
        return value

    def _rest(self, tree: Tree, value: Any, schema: Schema, what: str) -> Any:
        """Keywords that only an adapter's own annotations bring, left to the library."""
        rare = {k: v for k, v in schema.items() if k not in _KEYWORDS and not k.startswith("x-")}
        if not rare:
            return value
        from jsonschema import Draft202012Validator  # slow to import, and hardly ever wanted

        for error in Draft202012Validator(rare).iter_errors(plain(tree)):
            self.problems.add(tree.place, f"{what} does not fit: {clip(error.message, 200)}", "change it")
            return BAD
        return value


def found(tree: Tree) -> str:
    """What stands there, for messages."""
    if isinstance(tree, Items):
        return "a list"
    if not isinstance(tree, Scalar):
        return "a mapping"
    if tree.value is None:
        return "null"
    if isinstance(tree.value, bool):
        return tree.source
    return f'the text "{clip(tree.source)}"' if isinstance(tree.value, str) else f"the number {tree.source}"


def _remedy(tree: Tree, wanted: str) -> str:
    if not isinstance(tree, Scalar):
        return "write it as a list" if wanted == "a list" else ""
    if wanted == "text":
        return f'quote it: "{tree.source}"'
    if not isinstance(tree.value, str):
        return f"write [{tree.source}]" if wanted == "a list" else ""
    bare = tree.source.strip().replace("_", "").replace(",", "")
    if wanted in ("a number", "an integer") and isinstance(resolve(bare), (int, float)) and resolve(bare) is not True:
        return "remove the quotes" if bare == tree.source else f"write {bare}"
    if wanted == "true or false" and tree.source.lower() in ("yes", "no", "on", "off", "true", "false", "y", "n"):
        return "write " + ("true" if tree.source.lower() in ("yes", "on", "true", "y") else "false")
    return f"write [{tree.source}]" if wanted == "a list" else ""


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return BAD
    return float(value)


def _integer(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        return BAD
    return int(value)


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "string": lambda value: value if isinstance(value, str) else BAD,
    "number": _number,
    "integer": _integer,
    "boolean": lambda value: value if isinstance(value, bool) else BAD,
    "null": lambda value: None if value is None else BAD,
}
_BOUNDS: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    ("minimum", "at least", lambda value, bound: value >= bound),
    ("maximum", "at most", lambda value, bound: value <= bound),
    ("exclusiveMinimum", "more than", lambda value, bound: value > bound),
    ("exclusiveMaximum", "less than", lambda value, bound: value < bound),
)
_QUANTITIES: Mapping[str, tuple[Callable[[int | float | str], int | float], str]] = {
    "duration": (parse_duration, 'a time such as "10m"'),
    "memory": (parse_memory, 'a size such as "2GiB"'),
}


def _takes_null(schema: Schema) -> bool:
    kinds = schema.get("type")
    return kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _alike(tree: Tree, schema: Schema) -> bool:
    """Whether the value is of the schema's kind, so that its complaint is the one to show."""
    if "$ref" in schema:
        schema = grammar.SECTIONS[schema["$ref"].rpartition("/")[2]]
    if isinstance(tree, Items):
        return schema.get("type") == "array"
    if isinstance(tree, Fields):
        return schema.get("type") == "object" or "x-accepts" in schema
    kind = schema.get("type", "")
    return isinstance(tree, Scalar) and kind in _SCALARS and _SCALARS[kind](tree.value) is not BAD


def _wanted(schema: Schema) -> str:
    if "x-accepts" in schema or schema.get("$ref", "").endswith("component"):
        return "a component {use: ...}"
    if "enum" in schema:
        return _or([json_text(option) for option in schema["enum"]])
    return _WANTED.get(schema.get("type", ""), "a value")


def _or(words: list[str]) -> str:
    words = list(dict.fromkeys(words))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
