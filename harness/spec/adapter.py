"""What is known of an adapter without importing it: the rows of the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.contract import Json

Role = Literal["method", "evaluation", "metric", "build", "component"]
Shape = Literal["single", "joint", "timed"]


@dataclass(frozen=True)
class Parameter:
    """One field of an adapter.

    ``schema`` is JSON Schema 2020-12 for a plain value. Wherever it has ``x-accepts`` (a list of qualified
    class names, "package.module:Class"), the value there is a component ``{use, params}`` of one of these
    classes, or a build whose product is one; this also holds below ``items`` and ``additionalProperties``.
    """

    name: str
    schema: Mapping[str, Any]
    required: bool
    default: Json = None
    scoring: bool = False
    given: bool = False
    built: str | None = None

    @property
    def accepts(self) -> tuple[str, ...]:
        return tuple(self.schema.get("x-accepts", ()))

    @property
    def asset(self) -> bool:
        return self.schema.get("format") == "asset"


@dataclass(frozen=True)
class Adapter:
    """A method, evaluation, metric, build or other component that a spec can name with ``use:``.

    ``module``: "package.module:Class", or "file:/abs/path.py:Class" for a class taken straight from a file.
    ``bases``: qualified names of its classes, itself first: what ``x-accepts`` and ``method`` match against.
    ``product``: for a build, the qualified names of its product's classes, most special first.
    ``method``: for an evaluation, the protocol that its methods must be of.
    """

    name: str
    role: Role
    module: str
    summary: str = ""
    bases: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    # builds
    product: tuple[str, ...] = ()
    seeded: bool = False
    gate: Mapping[str, str] = field(default_factory=dict)
    # methods
    reads: tuple[str, ...] = ()
    # evaluations
    shape: Shape = "single"
    joint: tuple[str, ...] = ()
    deterministic: bool = False
    items: bool = True
    method: str | None = None
    # metrics
    of: tuple[str, ...] = ()
    direction: Literal["max", "min"] | None = None
    unit: str = ""
    kind: str = "mean"
    scale: Literal["linear", "log"] = "linear"

    @property
    def track(self) -> str:
        """The first part of the name; empty for a class taken from a file."""
        return self.name.partition(".")[0] if not self.module.startswith("file:") else ""

    @property
    def short(self) -> str:
        """The name inside its track, as tables and claims use it: ``tokens_per_second``."""
        return self.name.rpartition(":")[2] if self.module.startswith("file:") else self.name.partition(".")[2]

    def provides(self) -> tuple[str, ...]:
        """Qualified class names of what stands where this adapter is named: itself, or a build's product."""
        return (*self.bases, *self.product)

    def fits(self, accepts: tuple[str, ...]) -> bool:
        return bool(set(accepts) & set(self.provides()))

    def settable(self) -> Iterator[Parameter]:
        """Parameters that a spec may set."""
        return (p for p in self.parameters.values() if not p.given)
