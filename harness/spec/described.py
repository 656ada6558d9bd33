"""Where adapters come from, and their rows: cached by the content of their sources, described in a subprocess else."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.results.files import RecordError, digest, read_json, write_json
from harness.spec.adapter import Adapter
from harness.spec.rows import from_json

GROUP = "harness.adapters"
OWN = "methods-harness"
"""Our distribution; all others are third parties."""

FILE_USE = re.compile(r"(?P<path>.+\.py):(?P<cls>\w+)", re.DOTALL)
"""``path.py:Class``: a class taken straight from a file."""

TIMEOUT = 600.0
"""Seconds that importing adapters may take; the first import of a large library from a cold disk takes a minute."""

_HERE = Path(__file__).resolve().parent
_RULES = tuple(_HERE / f"{name}.py" for name in ("adapter", "describe", "hints", "reflect", "rows"))


class NotDescribed(Exception):
    """``kind``: "describe" where a class is no proper adapter, "import" where the sources cannot be imported."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Provider:
    """A distribution with adapters. ``packages``: (entry point's name, package) pairs."""

    name: str
    version: str
    packages: tuple[tuple[str, str], ...]


def providers() -> list[Provider]:
    """Installed distributions that register adapters, ours among them, by name."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for point in entry_points(group=GROUP):
        name = re.sub(r"[-_.]+", "-", point.dist.name).lower() if point.dist else point.value
        found.setdefault((name, point.dist.version if point.dist else ""), []).append((point.name, point.value))
    return [Provider(name, version, tuple(sorted(packages))) for (name, version), packages in sorted(found.items())]


def sources_digest(packages: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of all that rows of these packages are made from: their sources, and how they are described."""
    roots = sorted({_root(package) for _, package in packages})
    files = [(f"{root}/{path.relative_to(folder)}", path) for root in roots for folder, path in _files(root)]
    rules = [
        (path.name, path) for path in (*_RULES, _HERE.parent / "contract.py", _HERE.parent / "results" / "gate.py")
    ]
    return digest([sorted(packages), {name: _content(path) for name, path in [*files, *rules]}])


def _root(package: str) -> str:
    """Where a package's sources may import from: its top level, but of the engine the one folder."""
    first, _, rest = package.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "harness" and rest else first


def _files(root: str) -> Iterator[tuple[Path, Path]]:
    """(folder, file) of every module below a package, without importing it."""
    first, *rest = root.split(".")
    spec = find_spec(first)
    if spec is None:
        return
    for location in spec.submodule_search_locations or ():
        folder = Path(location).joinpath(*rest)
        for path in sorted(folder.rglob("*.py")):
            yield folder, path
    if spec.submodule_search_locations is None and spec.origin:
        yield Path(spec.origin).parent, Path(spec.origin)


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def cache_folder() -> Path:
    """Where descriptions are kept: $HARNESS_CACHE/registry, else below the user's cache folder."""
    named = os.environ.get("HARNESS_CACHE")
    if named:
        return Path(named).expanduser().absolute() / "registry"
    import platformdirs

    return Path(platformdirs.user_cache_dir("methods-harness", appauthor=False)) / "registry"


def describe_anew(packages: Sequence[tuple[str, str]]) -> list[Adapter]:
    """Rows of whole packages, from a subprocess that imports them. Raises NotDescribed."""
    answer = _ask([f"{key}={package}" for key, package in packages])
    return [from_json(row) for row in answer["adapters"]]


def cached_packages(key: str) -> list[Adapter] | None:
    """Rows kept under a content hash; None where there are none."""
    kept = _kept(key)
    return None if kept is None else [from_json(row) for row in kept["adapters"]]


def described_packages(packages: Sequence[tuple[str, str]], key: str) -> list[Adapter]:
    """Rows of packages whose content hash is ``key``: kept ones, or described now and kept. Raises NotDescribed."""
    rows = cached_packages(key)
    if rows is None:
        answer = _ask([f"{name}={package}" for name, package in packages])
        _keep(key, answer)
        rows = [from_json(row) for row in answer["adapters"]]
    return rows


def described_file(path: Path, cls: str, installed: str) -> Adapter:
    """The row of a class in a file, described once per content of the file and of the modules beside it.

    ``installed``: digest of the sources of all installed adapters, which its bases may stand in.
    Raises NotDescribed, OSError.
    """
    key = digest(["file", str(path), cls, _content(path), installed])
    kept = _kept(key)
    if kept is None or not all(_unchanged(file, content) for file, content in kept["files"].items()):
        kept = _ask([f"{path}:{cls}"])
        kept["files"] = {file: _content(Path(file)) for file in kept["files"]}
        _keep(key, kept)
    return from_json(kept["adapters"][0])


def _unchanged(file: str, content: str) -> bool:
    with suppress(OSError):
        return _content(Path(file)) == content
    return False


def _kept(key: str) -> dict[str, Any] | None:
    with suppress(OSError, RecordError):
        kept = read_json(cache_folder() / f"{key}.json")
        if isinstance(kept, dict) and {"adapters", "files"} <= set(kept):
            return kept
    return None


def _keep(key: str, answer: Mapping[str, Any]) -> None:
    with suppress(OSError):  # without a cache it is only slower
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_json(cache_folder() / f"{key}.json", answer)


def _ask(arguments: Sequence[str]) -> dict[str, Any]:
    """The answer of ``python -m harness.spec.describe``. Raises NotDescribed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(p).absolute()) for p in sys.path)}
    command = [sys.executable, "-B", "-P", "-m", "harness.spec.describe", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, env=environment, check=False
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise NotDescribed(f"importing {', '.join(arguments)} took more than {TIMEOUT:g} s", "import") from None
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        message = f"importing {', '.join(arguments)} ended the process (exit {done.returncode}): {last}"
        raise NotDescribed(message, "import") from None
    if "error" in answer:
        raise NotDescribed(answer["error"], answer["kind"])
    return answer  # type: ignore[no-any-return]
