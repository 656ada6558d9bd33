"""Digests of an adapter's code: of every module that it reaches in its own distribution and in our tracks and methods.

By parsing, never importing. Comments, docstrings, blank lines, quotes and indentation change nothing. The walk ends
at the contract and the assets, whose versions are in the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from harness.planning.canonical import Import, read_source
from harness.results.files import digest

OURS = frozenset({"harness", "methods"})
"""Top-level packages of our distribution."""

ENDS = ("harness.contract", "harness.assets")
"""Not entered: their version is in the keys."""


class DigestError(Exception):
    """A source that cannot be found, read or parsed: names file and line."""


def code_digest(module: str) -> str:
    """One SHA-256 for the code of ``Adapter.module``. Raises DigestError."""
    return digest(code_parts(module))


def code_parts(module: str) -> Mapping[str, str]:
    """File -> SHA-256 of its canonical form, for each file that the code of ``Adapter.module`` reaches.

    ``module``: "package.module:Class" or "file:/abs/path.py:Class". Files are named relative to the folder that
    their distribution (or the file) lies in, with forward slashes. Raises DigestError.
    """
    place = module.rpartition(":")[0]
    if place.startswith("file:"):
        path = Path(place.removeprefix("file:"))
        start, tree = _Module((path.stem,), path), _Tree({top: _location(top) for top in OURS}, path.parent)
    else:
        own = place.partition(".")[0]
        tree = _Tree({top: _location(top) for top in _tops(own) | OURS}, None, engine=own in OURS)
        found = tree.find(tuple(place.split(".")))
        if found is None or found.path is None:
            raise DigestError(f"{module}: there is no module {place}; is its distribution installed?")
        start = found
    return tree.reached(start)


def siblings(path: Path) -> Mapping[str, Path | None]:
    """Module name -> file, for each module beside a file adapter that its code reaches, and the packages they are in.

    None stands for a package without ``__init__.py``. Raises DigestError.
    """
    tree = _Tree(dict.fromkeys(OURS), path.parent)
    _, *reached = tree.walk(_Module((path.stem,), path))
    names = {module.name[:end] for module in reached for end in range(1, len(module.name) + 1)}
    return {".".join(name): found.path for name in sorted(names) if (found := tree.find(name))}


@dataclass(frozen=True)
class _Module:
    """A module by its dotted name, with its file; a namespace package has none."""

    name: tuple[str, ...]
    path: Path | None

    @property
    def package(self) -> tuple[str, ...]:
        """What relative imports start from."""
        return self.name if self.path is None or self.path.name == "__init__.py" else self.name[:-1]


@dataclass(frozen=True)
class _Tree:
    """The modules that count: ``tops``, and (of a file) what else lies in ``folder``.

    ``engine``: whether ``harness`` counts outside ``harness.tracks``.
    """

    tops: Mapping[str, Path | None]
    folder: Path | None
    engine: bool = False

    def reached(self, start: _Module) -> dict[str, str]:
        return dict(sorted((self._label(m), _read(m.path)[0]) for m in self.walk(start) if m.path is not None))

    def walk(self, start: _Module) -> Iterator[_Module]:
        """``start``, then each module that its code reaches; ``start`` again where one of them imports it."""
        seen: set[_Module] = set()
        todo = [start]
        while todo:
            module = todo.pop()
            yield module
            assert module.path is not None
            for target in (t for i in _read(module.path)[1] for t in self._targets(module, i)):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)

    def find(self, name: tuple[str, ...]) -> _Module | None:
        """The module of this name; None where it does not count."""
        if name[0] == "harness" and name[1:2] != ("tracks",) and not self.engine:
            return None
        top = self.tops[name[0]] if name[0] in self.tops else self.folder and self.folder / name[0]
        if top is None:
            return None
        place = top.joinpath(*name[1:])
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file():
                return _Module(name, path)
        return _Module(name, None) if place.is_dir() else None

    def _targets(self, module: _Module, statement: Import) -> Iterator[_Module]:
        """Modules whose code an import brings in. A package counts where names come from it itself or it is bound."""
        base = tuple(statement.module.split(".")) if statement.module else ()
        if statement.level:
            package = module.package
            base = package[: len(package) - statement.level + 1] + base
        origin = self.find(base) if base else None
        found = [] if statement.names else [self.find(base[:end]) for end in range(1, len(base) + 1)]
        for name in statement.names:
            submodule = self.find((*base, name)) if origin is None or origin.package == base else None
            found.append(submodule or origin)
        for target in found:
            if target is not None and target.path is not None and not self._ends(target.name):
                yield target

    def _ends(self, name: tuple[str, ...]) -> bool:
        dotted = ".".join(name)
        return dotted == "harness" or any(dotted == end or dotted.startswith(f"{end}.") for end in ENDS)

    def _label(self, module: _Module) -> str:
        assert module.path is not None
        parents = len(module.name) - 1 + (module.path.name == "__init__.py")
        return "/".join(module.path.parts[-parents - 1 :])


def _read(path: Path) -> tuple[str, tuple[Import, ...]]:
    try:
        source = read_source(path.read_bytes())
    except OSError as error:
        raise DigestError(f"{path}: cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        raise DigestError(f"{path}:{error.lineno or 1}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise DigestError(f"{path}: cannot be parsed: {error}") from error
    return source.digest, source.imports


def _location(top: str) -> Path | None:
    """The folder of a top-level package, or a top-level module's path without ``.py``. Imports nothing."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    if folders:
        return Path(folders[0])
    return Path(spec.origin).with_suffix("") if spec.origin else None


@cache
def _tops(top: str) -> frozenset[str]:
    """Top-level packages of the distribution that ``top`` belongs to, as far as it registers adapters."""
    if top in OURS:
        return OURS
    for distribution in {p.dist.name: p.dist for p in entry_points(group="harness.adapters") if p.dist}.values():
        named = (distribution.read_text("top_level.txt") or "").split()
        registered = [p.value.partition(".")[0] for p in distribution.entry_points if p.group == "harness.adapters"]
        if top in named or top in registered:
            return frozenset({*named, *registered, top}) - OURS
    return frozenset({top})
