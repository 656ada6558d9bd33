"""Who may import whom, and what is not loaded at the start."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("harness", "methods")

PURE = {
    "harness",  # for its version; the functions of its interface count as the command line
    "harness.contract",
    "harness.spec.adapter",
    "harness.spec.study",
    "harness.results.files",
    "harness.results.gate",
}
"""Types, and functions of their arguments alone: anyone in the engine may import them."""

ENGINE = {"spec", "planning", "execution", "results", "leaderboard", "publish", "assets"}

ALLOWED: Mapping[str, set[str]] = {
    "cli": {"cli", *ENGINE},
    "publish": {"publish", "results", "spec"},
    "leaderboard": {"leaderboard", "results", "spec"},
    "execution": {"execution", "planning", "results", "spec", "assets"},
    "planning": {"planning", "spec", "results"},
    "results": {"results"},
    "assets": {"assets"},
    "spec": {"spec"},
    "contract": set(),  # nothing at all
    "tracks": {"tracks", "assets"},
    "methods": {"tracks", "assets"},
}
"""Package -> packages of ours that its modules may import, beside what is pure."""

CLI = {"harness", "harness.__main__", "harness.api"}
"""Modules outside the packages that count as the command line (where they import)."""


def package_of(module: str) -> str:
    """The package, in the words of the table, that a module of ours belongs to."""
    if module in CLI:
        return "cli"
    first, _, rest = module.partition(".")
    return first if first == "methods" else rest.partition(".")[0]


def imported(source: str, module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """Modules of ours that a source imports, wherever the statement stands, with its line."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found = [origin(base, alias.name) for alias in node.names]
        else:
            continue
        yield from ((name, node.lineno) for name in found if name.partition(".")[0] in OURS)


def origin(base: str, name: str) -> str:
    """The module that ``from base import name`` reads; ``harness.run`` for a function of the interface."""
    own = is_module(f"{base}.{name}") or (base == "harness" and name != "__version__")
    return f"{base}.{name}" if own else base


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def forbidden(source: str, module: str, is_package: bool = False) -> list[str]:
    """Imports of this source that the table does not allow: "module:line imports name"."""
    return [
        f"{module}:{line} imports {name}"
        for name, line in imported(source, module, is_package)
        if not may_import(module, name)
    ]


def may_import(module: str, name: str) -> bool:
    importer, target = package_of(module), package_of(name)
    if importer == "methods":
        if name == "harness.contract":
            return True
        own_track = module.split(".")[1:2]
        return name.split(".")[1:2] == own_track if target == "methods" else target in ALLOWED["methods"]
    if importer == "tracks":
        return name == "harness.contract" or target in ALLOWED["tracks"]
    if importer == "contract" or target in ("tracks", "methods"):
        return False
    return name in PURE or target in ALLOWED[importer]


def modules() -> Iterator[tuple[str, Path]]:
    for top in OURS:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_the_import_contract() -> None:
    found = [
        line
        for module, path in modules()
        for line in forbidden(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")
    ]
    assert found == []


def test_every_package_stands_in_the_table() -> None:
    assert {package_of(module) for module, _ in modules()} <= set(ALLOWED)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("harness.planning.compile", "import harness.tracks.decoding.layout"),
        ("harness.execution.worker", "def f():\n    from methods.decoding import mla"),
        ("harness.cli.main", "from harness import tracks"),
        ("harness.spec.load", "from ..plan import compile"),
        ("harness.spec.load", "from harness.planning.digest import code_digest"),
        ("harness.spec.load", "from harness.results import store"),
        ("harness.results.scan", "from harness.spec import load"),
        ("harness.assets.fetch", "import harness.spec"),
        ("harness.leaderboard.table", "from harness.execution import executor"),
        ("harness.leaderboard.table", "if TYPE_CHECKING:\n    from harness.planning.node import Node"),
        ("harness.leaderboard.table", "from harness import run"),
        ("harness.contract", "from harness.spec.adapter import Adapter"),
        ("harness.tracks.decoding.layout", "from harness.spec.adapter import Adapter"),
        ("harness.tracks.decoding.layout", "from harness.results.files import digest"),
        ("harness.tracks.decoding.layout", "import methods"),
        ("harness.tracks.decoding.layout", "from harness import api"),
        ("methods.decoding.mla", "from methods.coverage.cqr import fit"),
        ("methods.decoding.mla", "from ..coverage import cqr"),
        ("methods.decoding.mla", "import harness.results.files"),
    ],
)
def test_the_checker_finds_what_is_forbidden(module: str, source: str) -> None:
    line = source.count("\n") + 1
    (found,) = forbidden(source, module)
    assert found.startswith(f"{module}:{line} imports ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("harness.cli.run_command", "from harness.execution import local\nfrom harness.leaderboard.table import build"),
        ("harness.api", "import harness.planning.compile"),
        (
            "harness.execution.worker",
            "import harness\nfrom harness import __version__, contract\nfrom harness.assets import fetch",
        ),
        ("harness.planning.compile", "from harness.spec.study import Study"),
        ("harness.results.scan", "from harness.spec.adapter import Adapter\nfrom . import files"),
        ("harness.spec.load", "from harness.results.files import digest\nimport numpy, json"),
        ("harness.assets.fetch", "from harness.results.files import replacing"),
        ("harness.tracks.decoding.perplexity", "from harness.tracks.text.corpus import Corpus\nimport harness.assets"),
        ("methods.decoding.mla", "from harness.tracks.decoding import layout\nfrom .parts import x\nimport torch"),
    ],
)
def test_the_checker_lets_the_rest_pass(module: str, source: str) -> None:
    assert forbidden(source, module) == []


def test_the_start_is_light() -> None:
    """All modules of these packages together load no torch, pandas or scipy."""
    light = {"cli", "spec", "planning", "results", "leaderboard"}
    names = [m for m, _ in modules() if package_of(m) in light and not m.endswith("__main__")]
    assert len(names) > 20
    program = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(sorted({'torch', 'pandas', 'scipy', 'methods', 'harness.tracks'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
