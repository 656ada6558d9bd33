"""A node of the plan: something to be made once (a build) or observed once (a run).

A *reference* is how a component stands in ``node.json``: ``{"use", "module", "code", "params"}``, where a value in
``params`` is plain JSON, a reference, ``{"$build": KEY}`` for a build's product, or a list or mapping of these.

``node.json`` of a run::

    {"schema_version": 1, "contract": 1, "kind": "observation", "shape": "single" | "joint" | "timed",
     "key": ..., "name": ..., "seed": 0, "limit": null, "site": null,
     "entries": [{"id": ..., "method": REFERENCE, "evaluation": REFERENCE, "cell": {joint axes}}],
     "builds": {KEY: DIRECTORY_NAME}, "resources": {...},
     "metrics": [{"score_key": ..., "entry": ID, "metric": REFERENCE, "parameters": {...}}],
     "addresses": [{"study", "evaluation", "cell", "seed", "label", "parts": {PART: DIGEST}}]}

and of a build ``{..., "kind": "build", "component": REFERENCE, "seed", "builds", "resources", "addresses"}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.spec.study import Resources

Kind = Literal["build", "observation"]


@dataclass(frozen=True)
class Node:
    """``requires``: keys of the builds it reads. ``labels``: per entry id, the (method, evaluation) labels it serves.

    ``name`` is for people (ASCII, at most 90 characters); the directory is ``name--key[:12]``.
    ``gate``: thresholds of a build. ``exclusive``: nothing else of ours on the host meanwhile.
    """

    kind: Kind
    key: str
    name: str
    document: Mapping[str, Any]
    requires: tuple[str, ...] = ()
    resources: Resources = Resources()
    exclusive: bool = False
    preload: tuple[str, ...] = ()
    gate: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    @property
    def directory_name(self) -> str:
        return f"{self.name}--{self.key[:12]}"


def builds_in(value: Any) -> Iterator[str]:
    """Keys of the builds whose products stand in a reference, or in anything made of references."""
    if isinstance(value, Mapping):
        if "$build" in value:
            yield str(value["$build"])
            return
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for inner in value:
            yield from builds_in(inner)
