"""``python -m harness.spec.schema`` writes ``harness/spec.schema.json``: the grammar of specs, and our registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from harness.results.files import replacing
from harness.spec.adapter import Adapter
from harness.spec.described import OWN, NotDescribed, describe_anew, providers, sources_digest
from harness.spec.registry import SCHEMA
from harness.spec.rows import to_json


class SchemaError(Exception):
    """The schema cannot be made: says of which adapter, and why."""


def make() -> str:
    """The text of the schema, from our adapters as they are now. Imports them in a subprocess.

    Raises SchemaError.
    """
    packages = next((p.packages for p in providers() if p.name == OWN), None)
    if packages is None:
        raise SchemaError(f"{OWN} is not installed, so that its entry points are unknown: pip install -e .")
    try:
        adapters = {a.name: a for a in describe_anew(packages)}
    except NotDescribed as error:
        raise SchemaError(str(error)) from error
    check_closed(adapters)
    return text(adapters, packages)


def text(adapters: Mapping[str, Adapter], packages: Sequence[tuple[str, str]]) -> str:
    """The document as it lies on disk: the same adapters and sources give the same bytes."""
    from harness.spec.grammar import document_schema

    document: dict[str, Any] = {
        **document_schema(adapters),
        "x-adapters": {name: to_json(adapter) for name, adapter in adapters.items()},
        "x-packages": dict(packages),
        "x-sources": sources_digest(packages),
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def check_closed(adapters: Mapping[str, Adapter]) -> None:
    """Raises SchemaError where an adapter names an evaluation or a build that none of them is."""
    for adapter in adapters.values():
        for name in adapter.of:
            if name not in adapters or adapters[name].role != "evaluation":
                raise SchemaError(f"{adapter.module}.of names {name!r}, which is no evaluation")
        for parameter in adapter.parameters.values():
            if parameter.built is None:
                continue
            build = adapters.get(parameter.built)
            if build is None or build.role != "build" or not build.fits(parameter.accepts):
                raise SchemaError(
                    f"{adapter.module}.{parameter.name} is built by {parameter.built!r}, which is no build of "
                    f"{' or '.join(parameter.accepts)}"
                )


def is_fresh() -> bool:
    """Whether the committed schema is what :func:`make` would write now. Raises SchemaError."""
    return SCHEMA.exists() and SCHEMA.read_text(encoding="utf-8") == make()


def main() -> int:
    try:
        fresh = make()
    except SchemaError as error:
        print(f"harness: {error}", file=sys.stderr)
        return 1
    with replacing(SCHEMA) as file:
        file.write(fresh.encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
