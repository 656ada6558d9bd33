"""Profiles and ``--set``: what is laid over a document before it is validated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import yaml

from harness.spec.errors import Place, Problems, SpecErrors, suggestion
from harness.spec.text import Broken, Entry, Fields, Items, Scalar, Tree, clip, equal, moved, parse, plain, scalar

DEFAULT_PROFILE = "laptop"
FIXED = frozenset({"harness", "study", "track", "include", "profiles"})
"""Keys of a document that a profile cannot change."""
_SECTIONS = frozenset({"params", "matrix", "vary", "resources"})
"""Keys that ``--set`` adds where a document does without them."""


def profile_names(document: Fields) -> tuple[str, ...]:
    entry = document.entries.get("profiles")
    return tuple(entry.value.entries) if entry is not None and isinstance(entry.value, Fields) else ()


def choose(document: Fields, profile: str | None, problems: Problems) -> str | None:
    """The profile that is meant: the one asked for, else the default one if it is declared."""
    names = profile_names(document)
    if profile is None:
        return DEFAULT_PROFILE if DEFAULT_PROFILE in names else None
    if profile in names:
        return profile
    hint = suggestion(profile, names) or "this spec declares none: leave the profile out"
    entry = document.entries.get("profiles")
    problems.add(entry.place if entry else document.place, f'there is no profile "{profile}"', hint)
    return None


def apply_profile(document: Fields, profile: str | None, problems: Problems) -> Fields:
    """The document in one profile, without the key ``profiles``; None is the base form."""
    bare = Fields(document.place, {key: entry for key, entry in document.entries.items() if key != "profiles"})
    if profile is None:
        return bare
    profiles = document.entries["profiles"].value
    assert isinstance(profiles, Fields)
    change = profiles.entries[profile].value
    if not isinstance(change, Fields):
        return bare  # reported where the document's own form is checked
    allowed: dict[str, Entry] = {}
    for key, entry in change.entries.items():
        if key in FIXED or key.startswith("x-"):
            problems.add(entry.place, f"a profile cannot change {key}", "change it in the document itself")
        else:
            allowed[key] = entry
    return _patched(bare, Fields(change.place, allowed), (), problems)


def _patched(base: Fields, change: Fields, path: tuple[str, ...], problems: Problems) -> Fields:
    entries = dict(base.entries)
    for key, entry in change.entries.items():
        where = ".".join((*path, key))
        below = entries[key].value if key in entries else None
        if isinstance(entry.value, Scalar) and entry.value.value is None:
            if below is None:
                problems.add(entry.place, f"the profile removes {where}, which is not there", "remove this entry")
            entries.pop(key, None)
            continue
        merges = isinstance(entry.value, Fields) and (below is None or isinstance(below, Fields))
        if merges and isinstance(entry.value, Fields):
            if not entry.value.entries:
                problems.add(entry.place, f"the profile's entry for {where} is empty", "remove it; null removes a key")
                continue
            inner = below if isinstance(below, Fields) else Fields(entry.value.place)
            place = entry.place if below is None else entries[key].place
            entries[key] = Entry(place, _patched(inner, entry.value, (*path, key), problems))
            continue
        if below is not None and not isinstance(below, Broken) and equal(plain(below), plain(entry.value)):
            problems.add(entry.place, f"the profile's entry for {where} changes nothing", "remove it")
        entries[key] = entry
    return Fields(base.place, entries)


def apply_override(document: Fields, option: str, problems: Problems) -> Fields:
    """The document with one ``PATH=VALUE`` of ``--set``. The value replaces what stands there; null removes it.

    Dots separate keys (the longest key that fits is taken), integers index lists.
    """
    place = Place(f"--set {option}")
    path, equals, text = option.partition("=")
    if not equals or not path:
        problems.add(place, "expected PATH=VALUE", "write for instance: --set seeds=3")
        return document
    if text == "":
        problems.add(place, "the value is missing", "write null to remove the key, '\"\"' for empty text")
        return document
    value = _value(text, place, problems)
    if value is None:
        return document
    changed = _Override(place, value, problems).inside(document, path, "the spec")
    return changed if isinstance(changed, Fields) else document


def _value(text: str, place: Place, problems: Problems) -> Tree | None:
    """Quoted text, lists and mappings as in YAML's flow style; all else is one plain scalar to its end."""
    if text.lstrip()[:1] not in ("[", "{", '"', "'"):
        tree = scalar(place, text.strip(), True, problems)
        return None if isinstance(tree, Broken) else tree
    found = Problems()
    try:
        tree_ = parse(text.encode("utf-8"), place.file, found)
    except (SpecErrors, yaml.YAMLError) as error:
        message = error.errors[0].message if isinstance(error, SpecErrors) else "not YAML"
        problems.add(place, f"the value {clip(text)} cannot be read: {message}", "quote text that holds brackets")
        return None
    for mistake in found.errors:
        problems.add(place, mistake.message, mistake.hint)
    return None if found or tree_ is None else moved(tree_, place)


class _Override:
    """Walks down a path and rebuilds the tree around the new value."""

    def __init__(self, place: Place, value: Tree, problems: Problems) -> None:
        self._place = place
        self._value = value
        self._problems = problems
        self._removes = isinstance(value, Scalar) and value.value is None

    def inside(self, tree: Tree, path: str, where: str) -> Tree | None:
        """The tree with the value set at ``path``; None after a mistake, which is reported."""
        if isinstance(tree, Fields):
            return self._in_fields(tree, path, where)
        if isinstance(tree, Items):
            return self._in_items(tree, path, where)
        if not isinstance(tree, Broken):
            self._problems.add(self._place, f"{where} is a single value: it has no {path}", "end the path there")
        return None

    def _in_fields(self, tree: Fields, path: str, where: str) -> Tree | None:
        key, rest = _split(path, tree.entries)
        known = key in tree.entries
        if not known and (self._removes or (rest and key not in _SECTIONS)):
            self._problems.add(self._place, f"{where} has no {key}", suggestion(key, tree.entries))
            return None
        entries = dict(tree.entries)
        if not rest and self._removes:
            del entries[key]
        else:
            below: Tree = entries[key].value if known else Fields(self._place)
            inner = self.inside(below, rest, key) if rest else self._value
            if inner is None:
                return None
            entries[key] = Entry(entries[key].place if known and rest else self._place, inner)
        return Fields(tree.place, entries)

    def _in_items(self, tree: Items, path: str, where: str) -> Tree | None:
        index, _, rest = path.partition(".")
        if not index.isdecimal() or int(index) >= len(tree.items):
            hint = f"write an index from 0 to {len(tree.items) - 1}" if tree.items else "set the whole list"
            self._problems.add(self._place, f"{where} is a list of {len(tree.items)}: it has no {index}", hint)
            return None
        items = list(tree.items)
        inner = self.inside(items[int(index)], rest, f"{where}.{index}") if rest else self._value
        if inner is None:
            return None
        items[int(index) : int(index) + 1] = [] if self._removes and not rest else [inner]
        return Items(tree.place, tuple(items))


def _split(path: str, keys: Mapping[str, Entry]) -> tuple[str, str]:
    """The first key of a path and the rest: the longest key that is there, else up to the first dot."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if key in keys:
            return key, ".".join(parts[length:])
    return parts[0], ".".join(parts[1:])


def form(document: Fields, profile: str | None, overrides: tuple[str, ...], problems: Problems) -> Fields:
    """The document in one profile with the overrides: what is validated."""
    start = apply_profile(document, profile, problems)
    return reduce(lambda tree, option: apply_override(tree, option, problems), overrides, start)
