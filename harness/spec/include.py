"""A spec file with what it includes: paths are relative to the including file, which wins."""

from __future__ import annotations

import os
from pathlib import Path

from harness.spec.errors import Place, Problems, SpecErrors
from harness.spec.text import Broken, Entry, Fields, Items, Scalar, Tree, parse


def read(path: Path, problems: Problems) -> Fields | None:
    """The document of a file with its includes merged in, without the key ``include``.

    None where nothing could be read; what is wrong is added to ``problems``.
    """
    return _Reader(problems).file(str(path), None, ())


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._done: dict[str, Fields | None] = {}

    def file(self, name: str, origin: Place | None, stack: tuple[str, ...]) -> Fields | None:
        """``origin``: where the including file names it, None for the first; ``stack``: the files that led here."""
        real = os.path.realpath(name)
        if real in stack:
            chain = " -> ".join(os.path.relpath(f, os.path.dirname(stack[0])) for f in [*stack, real])  # noqa: PTH120
            self._problems.add(origin or Place(name), f"includes go round in a circle: {chain}", "remove one of them")
            return None
        if real not in self._done:
            self._done[real] = self._read(name, origin, (*stack, real))
        return self._done[real]

    def _read(self, name: str, origin: Place | None, stack: tuple[str, ...]) -> Fields | None:
        try:
            tree = parse(Path(name).read_bytes(), name, self._problems)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            what = f"the included file {name} cannot be read: {reason}" if origin else f"cannot be read: {reason}"
            self._problems.add(
                origin or Place(name), what, "check the path; it is relative to the including file" * bool(origin)
            )
            return None
        except SpecErrors as errors:
            self._problems.errors += errors.errors
            return None
        if tree is None:
            self._problems.add(Place(name, 1, 1), "the file is empty", "begin with: harness: 1")
            return None
        if not isinstance(tree, Fields):
            if not isinstance(tree, Broken):
                what = "a list" if isinstance(tree, Items) else "a single value"
                self._problems.add(tree.place, f"a spec is a mapping, found {what}", "begin with: harness: 1")
            return None
        return self._with_includes(tree, name, stack)

    def _with_includes(self, tree: Fields, name: str, stack: tuple[str, ...]) -> Fields:
        own = Fields(tree.place, {key: entry for key, entry in tree.entries.items() if key != "include"})
        if "include" not in tree.entries:
            return own
        included = Fields(tree.place)
        for path in self._paths(tree.entries["include"]):
            target = os.path.normpath(Path(name).parent / str(path.value))
            found = self.file(target, path.place, stack)
            if found is not None:
                included = merge(included, found)
        return merge(included, own)

    def _paths(self, entry: Entry) -> list[Scalar]:
        items = entry.value.items if isinstance(entry.value, Items) else (entry.value,)
        paths = []
        for item in items:
            if isinstance(item, Scalar) and isinstance(item.value, str) and item.value:
                paths.append(item)
            elif not isinstance(item, Broken):
                self._problems.add(item.place, "include takes a path or a list of paths", "write: include: common.yaml")
        return paths


def merge(base: Fields, over: Fields) -> Fields:
    """Both together; where they meet, mappings are merged and ``over`` wins."""
    entries = dict(base.entries)
    for key, entry in over.entries.items():
        below: Tree | None = entries[key].value if key in entries else None
        if isinstance(below, Fields) and isinstance(entry.value, Fields):
            entry = Entry(entry.place, merge(below, entry.value))
        entries[key] = entry
    return Fields(over.place, entries)
