"""YAML text to a tree of values that know their place.

Scalars follow the core schema of YAML 1.2: ``no``, ``on``, ``10:00:00``, ``2024-01-02`` and ``1_000`` are text, ``1e4``
is a number, ``010`` is ten. Every scalar keeps how it was written, so that an error can show it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from harness.spec.errors import Place, Problems, SpecError, SpecErrors

MAX_NODES = 100_000
"""Values in one file, aliases written out."""
MAX_DEPTH = 64
MAX_DIGITS = 300


@dataclass(frozen=True, slots=True)
class Scalar:
    """``source``: as written, without quotes."""

    place: Place
    value: bool | int | float | str | None
    source: str


@dataclass(frozen=True, slots=True)
class Items:
    place: Place
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A value under its key; ``place`` is the key's."""

    place: Place
    value: Tree


@dataclass(frozen=True, slots=True)
class Fields:
    place: Place
    entries: Mapping[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broken:
    """Stands where something was already reported as wrong."""

    place: Place


Tree: TypeAlias = "Scalar | Items | Fields | Broken"

_CONSTANTS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_PREFIXED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def resolve(source: str) -> bool | int | float | str | None:
    """The value of a plain scalar in the core schema. Numbers too large for a float come out infinite."""
    if source in _CONSTANTS:
        return _CONSTANTS[source]
    if _INTEGER.fullmatch(source):
        return int(source) if len(source) <= MAX_DIGITS else math.inf
    if _PREFIXED.fullmatch(source):
        return int(source, 0) if len(source) <= MAX_DIGITS else math.inf
    if _FLOAT.fullmatch(source):
        return float(source)
    if _INFINITE.fullmatch(source):
        return float(source.replace(".", "", 1))
    return source


def scalar(place: Place, source: str, plain: bool, problems: Problems) -> Tree:
    """A scalar as written; a number that is not finite is a mistake."""
    value = resolve(source) if plain else source
    if isinstance(value, float) and not math.isfinite(value):
        problems.add(place, f"{clip(source)} is no finite number", "give a finite value, or quote it if it is text")
        return Broken(place)
    return Scalar(place, value, source)


def parse(data: bytes, file: str, problems: Problems) -> Tree | None:
    """The one document of a file; None if it is empty.

    Mistakes after which reading goes on (duplicate keys, unknown aliases, tags) are added to ``problems``.
    Raises SpecErrors for the first that ends it: bad encoding, bad syntax, several documents, too deep, too large.
    """
    text = _decoded(data, file)
    try:
        return _Composer(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), file, problems).tree()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, file) from None


def _fatal(place: Place, message: str, hint: str = "") -> SpecErrors:
    return SpecErrors([SpecError(place.file, place.line, place.column, message, hint)])


def _decoded(data: bytes, file: str) -> str:
    start = Place(file, 1, 1)
    if data.startswith(b"\xef\xbb\xbf"):
        raise _fatal(start, "the file begins with a byte-order mark", "save it as UTF-8 without BOM")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _fatal(start, "the file is UTF-16", "save it as UTF-8 without BOM")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise _fatal(_end_of(before, file), message, "save the file as UTF-8") from None
    found = _UNPRINTABLE.search(text)
    if found:
        message = f"the character U+{ord(found[0]):04X} is not allowed in YAML"
        raise _fatal(_end_of(text[: found.start()], file), message, "remove it")
    return text


def _end_of(text: str, file: str) -> Place:
    return Place(file, text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, file: str) -> SpecErrors:
    mark = error.problem_mark or error.context_mark
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
    lines = text.split("\n")
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    found = line[mark.column] if mark and mark.column < len(line) else ""
    problem = error.problem or "bad syntax"
    if found == "\t":
        return _fatal(place, "a tab stands where indentation is expected", "indent with spaces")
    if "nesting depth" in problem:
        return _fatal(place, *_TOO_DEEP)
    if found in ("@", "`", "%"):
        return _fatal(place, f"plain text cannot begin with {found}", "quote it")
    begun = error.context_mark or mark
    if found in (">", "|") or "block scalar" in (error.context or ""):
        start = max(0, max(line.rfind(c, 0, place.column) for c in ">|"))
        quoted = re.split(r"[,}\]]", line[start:])[0].strip()
        return _fatal(
            Place(file, place.line, start + 1), f"{quoted[:1]} begins a block of text", f'quote it: "{quoted}"'
        )
    if "flow" in (error.context or "") and begun:
        where = "" if "node" in (error.context or "") else f" opened in line {begun.line + 1}"
        message = f"a bracket{where} is not closed, or a comma is missing"
        return _fatal(place, message, "close it; quote text that holds brackets or commas")
    if "end of stream" in problem and begun:
        return _fatal(
            Place(file, begun.line + 1, begun.column + 1), "the quotes opened here are not closed", "close them"
        )
    if "mapping values are not allowed" in problem:
        return _fatal(place, "a second colon in one value, or wrong indentation", "quote the text, or indent the key")
    if "could not find expected ':'" in problem:
        return _fatal(place, "the line before has no colon after its key", 'write "key: value"')
    context = f" {error.context}" if error.context else ""
    return _fatal(place, f"not YAML:{context}: {problem}" if context else f"not YAML: {problem}")


_TOO_DEEP = (f"nested more than {MAX_DEPTH} deep", "flatten it")


class _Composer:
    """Events to a tree. Aliases share their subtree; ``_size`` counts values as if written out."""

    def __init__(self, events: Iterator[Any], file: str, problems: Problems) -> None:
        self._events = events
        self._file = file
        self._problems = problems
        self._anchors: dict[str, tuple[Tree, int, int] | None] = {}  # with size and height
        self._size = 0
        self._deepest = 0

    def tree(self) -> Tree | None:
        tree: Tree | None = None
        seen = False
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            if seen:
                raise _fatal(self._place(event), "a second document begins here", "one file holds one spec")
            seen = True
            tree = self._node(next(self._events), 0)
        empty = isinstance(tree, Scalar) and tree.source == "" and tree.value is None
        return None if empty else tree

    def _place(self, event: Any) -> Place:
        return Place(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, depth: int) -> Tree:
        place = self._place(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, place, depth)
        self._count(1, place)
        self._reach(depth, place)
        size, deepest = self._size, self._deepest
        self._deepest = depth
        if event.anchor in self._anchors:
            self._problems.add(place, f"the anchor &{event.anchor} stands twice", "rename one of them")
        if event.anchor:
            self._anchors[event.anchor] = None  # begun: an alias from inside would never end
        tree = self._content(event, place, depth)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._problems.add(place, f"the tag {tag} has no meaning here", "remove it; quote what is to be text")
            tree = Broken(place)
        if event.anchor:
            self._anchors[event.anchor] = (tree, self._size - size + 1, self._deepest - depth)
        self._deepest = max(deepest, self._deepest)
        return tree

    def _content(self, event: Any, place: Place, depth: int) -> Tree:
        if isinstance(event, yaml.ScalarEvent):
            return scalar(place, event.value, event.implicit[0], self._problems)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
                items.append(self._node(event, depth + 1))
            return Items(place, tuple(items))
        return self._mapping(place, depth)

    def _alias(self, anchor: str | None, place: Place, depth: int) -> Tree:
        if anchor is None or anchor not in self._anchors:
            self._problems.add(place, f"*{anchor} refers to no anchor above it", self._known_anchors())
            return Broken(place)
        known = self._anchors[anchor]
        if known is None:
            self._problems.add(place, f"*{anchor} contains itself", "write the inner value out")
            return Broken(place)
        tree, size, height = known
        self._count(size, place)
        self._reach(depth + height, place)
        return tree

    def _known_anchors(self) -> str:
        names = ", ".join(f"&{name}" for name in self._anchors)
        return f"there is {names}" if names else "define it above with &NAME"

    def _count(self, size: int, place: Place) -> None:
        self._size += size
        if self._size > MAX_NODES:
            raise _fatal(place, f"more than {MAX_NODES} values, aliases written out", "make the spec smaller")

    def _reach(self, depth: int, place: Place) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            raise _fatal(place, *_TOO_DEEP)

    def _mapping(self, place: Place, depth: int) -> Fields:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            merges = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            name = self._key(key)
            if name is None:
                continue
            if name in lines:
                message = f'the key "{clip(name)}" stands twice: in line {lines[name]} and here'
                self._problems.add(key.place, message, "remove one of them")
                continue
            lines[name] = key.place.line
            if merges:
                merged = self._merged(value)
            else:
                own[name] = Entry(key.place, value)
        return Fields(place, {**merged, **own} if merged else own)

    def _key(self, key: Tree) -> str | None:
        if isinstance(key, Scalar) and isinstance(key.value, str):
            return key.value
        if isinstance(key, Scalar):
            what = f"the key {clip(key.source)} is no text" if key.source else "the key is missing"
            self._problems.add(key.place, what, f'quote it: "{clip(key.source)}"' if key.source else "write one")
        elif not isinstance(key, Broken):
            self._problems.add(key.place, "a key must be text, not a list or mapping", "quote it if it is text")
        return None

    def _merged(self, value: Tree) -> dict[str, Entry]:
        """What ``<<`` brings in: the first mapping that has a key wins."""
        sources = value.items if isinstance(value, Items) else (value,)
        found: dict[str, Entry] = {}
        for source in sources:
            if isinstance(source, Fields):
                found = {**source.entries, **found}
            elif not isinstance(source, Broken):
                self._problems.add(source.place, "<< takes a mapping or a list of mappings", "refer to one: <<: *NAME")
        return found


def clip(text: str, width: int = 60) -> str:
    """At most so many characters, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


def plain(tree: Tree) -> Any:
    """The value without its places; None for what is broken."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, Items):
        return [plain(item) for item in tree.items]
    if isinstance(tree, Fields):
        return {key: plain(entry.value) for key, entry in tree.entries.items()}
    return None


def planted(value: Any, place: Place) -> Tree:
    """A plain value as a tree, all of it at one place. The inverse of :func:`plain`."""
    if isinstance(value, Mapping):
        return Fields(place, {key: Entry(place, planted(inner, place)) for key, inner in value.items()})
    if isinstance(value, (list, tuple)):
        return Items(place, tuple(planted(item, place) for item in value))
    return Scalar(place, value, value if isinstance(value, str) else json_text(value))


def moved(tree: Tree, place: Place) -> Tree:
    """The same tree, all of it at one place."""
    if isinstance(tree, Fields):
        return Fields(place, {key: Entry(place, moved(entry.value, place)) for key, entry in tree.entries.items()})
    if isinstance(tree, Items):
        return Items(place, tuple(moved(item, place) for item in tree.items))
    return Scalar(place, tree.value, tree.source) if isinstance(tree, Scalar) else Broken(place)


def json_text(value: Any) -> str:
    """A scalar as YAML and JSON write it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def equal(one: Any, other: Any) -> bool:
    """Whether two plain values are the same in a spec: 1 is 1.0, but no number is true or false."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)
