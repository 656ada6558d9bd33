"""All adapters of a package, or one of a file, by importing them.

As a program, ``python -m harness.spec.describe NAMESPACE=PACKAGE ...`` or ``... path.py:Class``, this is the one
place of the engine outside the workers that imports adapters: it prints their rows as JSON and ends.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.contract import Component
from harness.spec.adapter import Adapter
from harness.spec.described import FILE_USE
from harness.spec.reflect import DescribeError, describe, one_line
from harness.spec.rows import from_json, to_json

__all__ = ["DescribeError", "describe", "describe_file", "describe_packages", "from_json", "to_json"]


def describe_packages(packages: Sequence[tuple[str, str]]) -> list[Adapter]:
    """All concrete adapters that the modules of (namespace, package) pairs define, sorted by name.

    Raises DescribeError for a class that is no proper adapter and for two of one name, AdapterImportError.
    """
    found: dict[str, Adapter] = {}
    for key, package in packages:
        for module in _modules(package):
            for cls in _concrete(module):
                adapter = describe(cls, f"{namespace_of(key)}.{short_name(cls)}")
                earlier = found.setdefault(adapter.name, adapter)
                if earlier.module != adapter.module:
                    raise DescribeError(
                        f"{adapter.name} is both {earlier.module} and {adapter.module}: rename one of the classes"
                    )
    return [found[name] for name in sorted(found)]


def _modules(package: str) -> Iterator[ModuleType]:
    top = _imported(package)
    yield top
    for info in pkgutil.walk_packages(getattr(top, "__path__", []), f"{package}."):
        if not info.name.endswith(".__main__"):
            yield _imported(info.name)


def namespace_of(key: str) -> str:
    """ "decoding-methods", the name of an entry point, registers into "decoding"."""
    return key.partition("-")[0]


def short_name(cls: type) -> str:
    """``CacheSize`` -> cache_size, ``MLRA`` -> mlra; or the class's own ``name``."""
    own = cls.__dict__.get("name")
    if isinstance(own, str) and "name" not in [f.name for f in dataclasses.fields(cls)]:
        return own
    text = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", cls.__name__)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower().replace("__", "_")


def _concrete(module: ModuleType) -> Iterator[type[Component]]:
    for cls in vars(module).values():
        if not (inspect.isclass(cls) and issubclass(cls, Component) and cls.__module__ == module.__name__):
            continue
        if not cls.__dict__.get("abstract", False) and not cls.__name__.startswith("_"):
            yield cls


def describe_file(path: Path, cls_name: str) -> Adapter:
    """The adapter ``cls_name`` of a file; its name is ``path:cls_name``. Raises DescribeError."""
    name = f"_file_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DescribeError(f"{path}: no Python file")
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise DescribeError(f"{path} cannot be imported: {_where(error, path.parent)}") from error
    cls = getattr(module, cls_name, None)
    if cls is None:
        names = [c.__name__ for c in _concrete(module)]
        raise DescribeError(f"{path} has no class {cls_name}; it has {', '.join(names) or 'no adapter at all'}")
    if not (isinstance(cls, type) and issubclass(cls, Component)):
        raise DescribeError(
            f"{path}: {cls_name} is no adapter: subclass a harness.contract Method, Evaluation, Metric or Build"
        )
    try:
        return _located(describe(cls, f"{path}:{cls_name}"), name, path)
    except DescribeError as error:
        raise DescribeError(str(error).replace(f"{name}:", f"{path}:")) from error


def _located(adapter: Adapter, module: str, path: Path) -> Adapter:
    """The adapter with the classes of its file under their place instead of the module's passing name."""
    text = json.dumps(to_json(adapter))
    place = json.dumps(f"file:{path}:")[1:-1]
    return from_json(json.loads(text.replace(f'"{module}:', f'"{place}')))


def _imported(module: str) -> ModuleType:
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:
        raise AdapterImportError(f"{module} cannot be imported: {_where(error, None)}") from error


class AdapterImportError(Exception):
    """A package of adapters that cannot be imported here, for want of an extra perhaps."""


def _where(error: BaseException, folder: Path | None) -> str:
    """The exception with the last line of ours that it passed."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    inside = [f for f in frames if folder is not None and Path(f.filename).is_relative_to(folder)]
    place = "".join(f"{f.filename}:{f.lineno}: " for f in (inside or frames)[-1:])
    return place + one_line(error)


def main(arguments: Sequence[str]) -> int:
    """Print ``{"adapters": [...], "files": [...]}`` or ``{"error": ..., "kind": ...}``.

    Whatever the adapters print while they are imported goes to stderr.
    """
    channel = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    answer: dict[str, Any]
    try:
        files: list[str] = []
        if len(arguments) == 1 and (match := FILE_USE.fullmatch(arguments[0])):
            path = Path(match["path"]).resolve()
            adapters = [describe_file(path, match["cls"])]
            files = _loaded_from(path.parent)
        else:
            pairs = [a.partition("=") for a in arguments]
            adapters = describe_packages([(key, package) for key, _, package in pairs])
        answer = {"adapters": [to_json(a) for a in adapters], "files": files}
    except (DescribeError, AdapterImportError) as error:
        answer = {"error": str(error), "kind": "describe" if isinstance(error, DescribeError) else "import"}
    with open(channel, "w", encoding="utf-8") as out:
        json.dump(answer, out)
    return 1 if "error" in answer else 0


def _loaded_from(folder: Path) -> list[str]:
    """Files in this folder, or below it, that are loaded as modules."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return sorted({f for f in files if f and f.endswith(".py") and Path(f).is_relative_to(folder)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
