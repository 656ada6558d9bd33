"""``harness validate SPEC...``: every error of every file at once."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", nargs="+", type=Path, metavar="SPEC", help="spec files, or folders of them")
    parser.add_argument("--json", action="store_true", help="errors as JSON")
    parser.add_argument("--no-code", action="store_true", help="refuse adapters taken straight from files")


def run(arguments: argparse.Namespace) -> int:
    from harness.spec.load import check
    from harness.spec.registry import Registry

    paths = [path for spec in arguments.spec for path in _files(spec)]
    if not paths:
        print(f"harness: no *.yaml file in {', '.join(map(str, arguments.spec))}", file=sys.stderr)
        return 2
    errors = check(paths, Registry.load(no_code=arguments.no_code))
    if arguments.json:
        print(json.dumps([error.to_json() for error in errors], indent=1, ensure_ascii=False))
    else:
        for error in errors:
            print(error)
        files = f"{len(paths)} spec{'s' if len(paths) > 1 else ''}"
        print(f"{files}: {len(errors)} error{'s' if len(errors) != 1 else ''}" if errors else f"{files}: all well")
    return 2 if errors else 0


def _files(spec: Path) -> list[Path]:
    return sorted([*spec.glob("*.yaml"), *spec.glob("*.yml")]) if spec.is_dir() else [spec]
