"""``harness list WHAT``: what the registry, the specs and the catalogue hold."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROLES = {
    "methods": "method",
    "evaluations": "evaluation",
    "metrics": "metric",
    "builds": "build",
    "components": "component",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=[*ROLES, "tracks", "studies", "assets"])
    parser.add_argument("--track", help="of this track alone")
    parser.add_argument("--specs", type=Path, default=Path("specs"), metavar="DIR", help="where studies lie")
    parser.add_argument("--json", action="store_true")


def run(arguments: argparse.Namespace) -> int:
    rows = _rows(arguments)
    if arguments.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    if not rows:
        where = f" of the track {arguments.track!r}; `harness list tracks` shows them" if arguments.track else ""
        if arguments.what == "studies":
            where = f" below {arguments.specs}; --specs DIR says where they lie"
        print(f"no {arguments.what}{where}")
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        details = [f"{k}: {v}" for k, v in row.items() if k not in ("name", "summary") and v not in (None, "", [], {})]
        print(f"{row['name']:<{width}}  {row['summary']}{'  (' + '; '.join(details) + ')' if details else ''}")
    return 0


def _rows(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    if arguments.what == "assets":
        return _assets()
    if arguments.what == "studies":
        return _studies(arguments.specs)
    from harness.spec.registry import Registry

    adapters = Registry.load().adapters.values()
    if arguments.what == "tracks":
        names = sorted({a.track for a in adapters if a.role in ("method", "evaluation")})
        return [
            {
                "name": name,
                "summary": ", ".join(sorted(a.short for a in adapters if a.track == name and a.role == "evaluation")),
            }
            for name in names
        ]
    rows = []
    for adapter in sorted(adapters, key=lambda a: a.name):
        if adapter.role != ROLES[arguments.what] or arguments.track not in (None, adapter.track):
            continue
        row: dict[str, Any] = {"name": adapter.name, "summary": adapter.summary}
        row["parameters"] = ", ".join(p.name for p in adapter.settable())
        if adapter.role == "metric":
            row |= {"of": ", ".join(adapter.of), "direction": adapter.direction, "unit": adapter.unit}
        rows.append(row)
    return rows


def _assets() -> list[dict[str, Any]]:
    from harness.assets import catalogue

    return [
        {"name": name, "summary": asset.summary, "licence": asset.licence, "size": f"{asset.size / 1e6:.1f} MB"}
        for name, asset in sorted(catalogue().items())
    ]


def _studies(folder: Path) -> list[dict[str, Any]]:
    import yaml

    rows = []
    for path in sorted(folder.glob("*.yaml")):
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if isinstance(document, dict) and "study" in document:
            rows.append({"name": str(document["study"]), "summary": str(document.get("title", "")), "spec": str(path)})
    return rows
