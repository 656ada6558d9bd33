"""References to objects: classes imported, parameters converted, products of builds loaded once per process."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.planning.digest import DigestError, siblings
from harness.results.record import State
from harness.results.store import Stored

LoadBuild = Callable[[str], Any]

_siblings: dict[str, Path] = {}
"""Module name -> file, of the modules beside the files loaded so far: some are imported only later."""


class MissingClass(ImportError):
    """A reference names a module or file that no longer has the class."""


class Upstream(Exception):
    """A build that is needed is not there, is not to be used, or did not come out well: "upstream NAME: REASON"."""


class Products:
    """Products of a node's builds, each loaded once.

    ``names``: build key -> directory name below ``builds/``; ``skips``: why builds must not be used, by key (a
    closed gate, for one).
    """

    def __init__(self, results: Path, names: Mapping[str, str], skips: Mapping[str, str] | None = None) -> None:
        self._builds = results / "builds"
        self._names = dict(names)
        self._skips = skips or {}
        self._loaded: dict[str, Any] = {}

    def __call__(self, key: str) -> Any:
        """The product. Raises Upstream where its build is not ok, and whatever ``load`` raises."""
        if key not in self._loaded:
            directory = self._builds / self._names[key]
            node = self.check(key)
            self._names = {**node.get("builds", {}), **self._names}  # inputs of that build
            component = instantiate(node["component"], self)
            self._loaded[key] = component.load(directory / "product")
        return self._loaded[key]

    def check(self, key: str) -> Mapping[str, Any]:
        """``node.json`` of a build that is ok. Raises Upstream otherwise."""
        if key in self._skips:
            raise Upstream(self._skips[key])
        stored = Stored(self._builds / self._names[key])
        name = self._names[key].rpartition("--")[0] or self._names[key]
        if stored.node is None or stored.record is None:
            raise Upstream(f"upstream {name}: not made yet")
        if stored.record.state is not State.OK:
            raise Upstream(f"upstream {name}: {stored.record.reason or stored.record.state}")
        return stored.node


def instantiate(reference: Mapping[str, Any], load_build: LoadBuild) -> Any:
    """The object that a reference stands for, with everything inside it.

    Raises MissingClass, Upstream, and what importing the module or making the object raises.
    """
    if "$build" in reference:  # a method that a build makes
        return load_build(reference["$build"])
    cls = load_class(reference["module"])
    hints = _hints(cls)
    given = reference.get("params", {})
    return cls(**{name: _value(value, hints.get(name, Any), load_build) for name, value in given.items()})


def load_class(module: str) -> type[Any]:
    """ "package.module:Class" or "file:/path.py:Class". Raises MissingClass, or what importing raises."""
    place, _, name = module.rpartition(":")
    found = (
        _load_file(Path(place.removeprefix("file:"))) if place.startswith("file:") else importlib.import_module(place)
    )
    cls: Any = found
    for part in name.split("."):
        cls = getattr(cls, part, None)
    if not isinstance(cls, type):
        raise MissingClass(f"{place} has no class {name} (any more): was it renamed since the plan was made?")
    return cls


def _load_file(path: Path) -> types.ModuleType:
    """A module straight from a file, under a name of its own content, with its folder importable.

    Raises ImportError where a module beside it has the name of another file's that this process knows.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise MissingClass(f"cannot read the adapter file {path}: {error.strerror}") from error
    name = f"harness_file_{hashlib.sha256(str(path).encode() + source).hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    beside = _beside(path)
    if str(path.parent) in sys.path:
        sys.path.remove(str(path.parent))  # another file's folder may stand before it
    sys.path.insert(0, str(path.parent))  # as for `python path.py`
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it runs
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nor for its siblings
    try:
        # Compiled here: cached bytecode is known by second and size alone, and an edit may change neither.
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.dont_write_bytecode = writes
    _siblings.update(beside)
    return module


def _beside(path: Path) -> dict[str, Path]:
    """The modules beside a file that it reaches. Raises ImportError where a name already stands for another file."""
    try:
        found = siblings(path)
    except DigestError:
        return {}  # importing it says what is wrong
    for name, own in found.items():
        loaded = sys.modules.get(name)
        other = _siblings.get(name) if loaded is None else _file(loaded)
        if other is None:  # not known, or built in
            continue
        mine = own or path.parent.joinpath(*name.split("."))
        if mine.resolve() != other.resolve() and not (own is None and other.is_dir()):
            raise ImportError(
                f"{path} imports {name} from {mine}, but in this process {name} is {other}: rename one of them"
            )
    return {name: own for name, own in found.items() if own is not None}


def _file(module: types.ModuleType) -> Path | None:
    """A module's file, or a folder of a package without one; None for what is built in."""
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return Path(file) if file else None


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Types of the fields; a hint that cannot be resolved at run time says nothing."""
    try:
        return typing.get_type_hints(cls)
    except Exception:
        hints: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            names = vars(sys.modules.get(base.__module__, types.ModuleType("none")))
            for name, hint in vars(base).get("__annotations__", {}).items():
                try:
                    holder = types.new_class("holder")
                    holder.__annotations__ = {name: hint}
                    hints |= typing.get_type_hints(holder, dict(names))
                except Exception:
                    hints.pop(name, None)
        return hints


def _value(value: Any, hint: Any, load_build: LoadBuild) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"$build"}:
            return load_build(value["$build"])
        if is_reference(value):
            return instantiate(value, load_build)
        inner = typing.get_args(_fitting(hint, Mapping))
        return {k: _value(v, inner[1] if len(inner) == 2 else Any, load_build) for k, v in value.items()}
    if isinstance(value, list):
        wanted = _fitting(hint, Sequence)
        items = [_value(v, h, load_build) for v, h in zip(value, _item_hints(wanted, len(value)), strict=True)]
        return tuple(items) if (typing.get_origin(wanted) or wanted) is tuple else items
    return value


def _fitting(hint: Any, kind: type[Any]) -> Any:
    """The part of a hint that speaks of a list or a mapping: of ``tuple[int, ...] | None`` the first."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next((part for a in typing.get_args(hint) if (part := _fitting(a, kind)) is not None), None)
    origin = typing.get_origin(hint) or hint
    return hint if isinstance(origin, type) and issubclass(origin, kind) and origin is not str else None


def _item_hints(hint: Any, count: int) -> list[Any]:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and len(arguments) == count and Ellipsis not in arguments:
        return list(arguments)
    return [arguments[0] if arguments else Any] * count


def is_reference(value: Any) -> bool:
    """Whether a value in ``node.json`` stands for a component."""
    return isinstance(value, Mapping) and {"use", "module", "params"} <= set(value)


def references(value: Any) -> Iterator[Mapping[str, Any]]:
    """All references inside a value, outermost first."""
    if is_reference(value):
        yield value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from references(inner)


def sources(document: Any) -> dict[str, Path]:
    """Where the code of all adapters in a document lies: label -> a package's folder, or a file."""
    found: dict[str, Path] = {}
    for reference in references(document):
        place = reference["module"].rpartition(":")[0]
        if place.startswith("file:"):
            path = Path(place.removeprefix("file:"))
            found[path.name] = path
            continue
        top = place.partition(".")[0]
        spec = getattr(sys.modules.get(top), "__spec__", None)
        if top not in found and spec is not None:
            folders = list(spec.submodule_search_locations or ())
            if folders or spec.origin:
                found[top] = Path(folders[0] if folders else spec.origin)
    return found
