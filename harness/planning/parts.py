"""Components to references and digests: what a node is made of, and what its key is made of.

Keys are a Merkle tree: each component is hashed once, nodes hash digests, and the digests of the parts are the
reasons that the plan gives.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.contract import CONTRACT_VERSION
from harness.planning.node import Node
from harness.results.files import canonical
from harness.results.record import SCHEMA_VERSION
from harness.spec.adapter import Adapter, Parameter
from harness.spec.study import Resources, Study, Use

VERSIONS = f"contract {CONTRACT_VERSION}, records {SCHEMA_VERSION}"
"""In every key: what adapters are promised, and what records hold."""


class PlanError(Exception):
    """The study cannot be planned: says which component wants what."""


@dataclass(frozen=True)
class Part:
    """A resolved value.

    ``value`` is what stands in node.json, ``digest`` what enters keys (canonical JSON of a plain value, a hash of
    anything else). ``requires``: keys of the builds it reads, direct ones. ``scoped``: it depends on the scope.
    ``sources`` and ``settings``: what the plan names when they change: file -> digest, and component -> digest of
    its parameters. ``preload``: modules for the worker's parent.
    """

    value: Any
    digest: str
    requires: frozenset[str] = frozenset()
    seeded: bool = False
    scoped: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    preload: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Scope:
    """What givens refer to: the run's method, the evaluation's parameters, and the seed. ``label`` is for people."""

    method: Use
    evaluation: Use
    seed: int
    label: str


@dataclass(frozen=True)
class Sources:
    """What is known of code and data: both are handed in, so that planning reads no adapter and no asset.

    ``code``: Adapter.module -> file -> digest, of all files that the adapter reaches. ``revision``: asset
    reference -> text that changes when the data do.
    """

    code: Callable[[str], Mapping[str, str]]
    revision: Callable[[str], str]


class Resolver:
    """Resolves the components of one study, and gathers the build nodes that they need."""

    def __init__(self, study: Study, sources: Sources) -> None:
        self.study = study
        self.sources = sources
        self.builds: dict[str, Node] = {}
        self._memo: dict[Any, Part] = {}
        self._products: dict[str, Part] = {}
        self._code: dict[str, tuple[Mapping[str, str], str]] = {}
        self._stack: list[str] = []

    def component(self, use: Use, scope: Scope, without: frozenset[str] = frozenset()) -> Part:
        """A component, or the product of a build. Parameters named in ``without`` are left to their defaults.

        Raises PlanError where a given is not there to give, or a build is given itself.
        """
        anywhere = (id(use), without)
        part = self._memo.get(anywhere)
        if part is None:
            here = (*anywhere, id(scope.method), id(scope.evaluation), scope.seed)
            part = self._memo.get(here)
            if part is None:
                part = self._component(use, scope, without)
                self._memo[here if part.scoped or part.seeded else anywhere] = part
        return part

    def _component(self, use: Use, scope: Scope, without: frozenset[str]) -> Part:
        adapter = self._adapter(use.use)
        if use.use in self._stack and adapter.role == "build":
            raise PlanError(f"{' -> '.join([*self._stack, use.use])}: a build that is given itself; name its input")
        self._stack.append(use.use)
        try:
            inner = {p.name: self.parameter(p, use, scope) for p in _stated(adapter, use, without)}
        finally:
            self._stack.pop()
        return self._build(use, adapter, inner, scope) if adapter.role == "build" else self._plain(adapter, inner)

    def parameter(self, parameter: Parameter, use: Use, scope: Scope) -> Part:
        """One parameter's value: given, stated, built, or the default. Raises PlanError where there is none."""
        if parameter.given:
            return self._given(parameter.name, use, scope)
        if parameter.name in use.params:
            value = use.params[parameter.name]
        elif parameter.built is not None:
            value = self._default_build(parameter.built)
        elif parameter.required:
            raise PlanError(f"{use.use} needs {parameter.name}: name {use.use} in the spec and set it")
        else:
            value = parameter.default
        return self._value(value, scope, parameter.schema)

    def _given(self, name: str, use: Use, scope: Scope) -> Part:
        if name == "method":
            return self.component(scope.method, scope)
        parameter = self._adapter(scope.evaluation.use).parameters.get(name)
        if parameter is None:
            raise PlanError(f"{use.use} is given {name}, which {scope.evaluation.use} does not have")
        return self.parameter(parameter, scope.evaluation, scope)

    def _value(self, value: Any, scope: Scope, schema: Mapping[str, Any]) -> Part:
        if isinstance(value, Use):
            return self.component(value, scope)
        assets = holds_asset(schema)
        if assets and isinstance(value, str):
            return Part(value, hashed("asset", self.sources.revision(value)))
        inside = schema if assets else {}  # where assets may stand, every text below is one
        if isinstance(value, Mapping) and (assets or _holds_use(value)):
            inner = {k: self._value(v, scope, inside) for k, v in value.items()}
            return _joined(inner.values(), _values(inner), _digest(inner))
        if isinstance(value, (list, tuple)) and (assets or _holds_use(value)):
            items = [self._value(v, scope, inside) for v in value]
            return _joined(items, [p.value for p in items], hashed("list", *(p.digest for p in items)))
        return Part(value, str(value) if type(value) is int else canonical(value).decode())

    def _plain(self, adapter: Adapter, inner: Mapping[str, Part]) -> Part:
        files, code = self.code(adapter)
        reference = {"use": adapter.name, "module": adapter.module, "code": code, "params": _values(inner)}
        preload = frozenset(adapter.preload)
        settings = _digest({name: part for name, part in inner.items() if not part.sources})
        identity = hashed(
            "component", _class(adapter), code, _digest(inner), *map(self.sources.revision, adapter.assets)
        )
        scoped = any(p.given for p in adapter.parameters.values())
        own = Part(reference, identity, frozenset(), False, scoped, files, {adapter.name: settings[:12]}, preload)
        return _joined([*inner.values(), own], reference, identity)

    def _build(self, use: Use, adapter: Adapter, inner: Mapping[str, Part], scope: Scope) -> Part:
        plain = self._plain(adapter, inner)
        seeded = adapter.seeded or plain.seeded
        seed = scope.seed if seeded else None
        key = hashed("build", VERSIONS, plain.digest, str(seed))
        gate = use.gate if use.gate is not None else adapter.gate
        if key in self.builds and self.builds[key].gate != gate:
            raise PlanError(
                f"{use.use} is named with two gates, {dict(self.builds[key].gate)} and {dict(gate)}: give it one"
            )
        if key in self._products and not use.resources:
            return self._products[key]
        if key not in self.builds:
            self.builds[key] = self._build_node(use, adapter, plain, scope, seed, key)
        elif use.resources:
            node = self.builds[key]
            resources = node.resources.at_least(override(self.study.resources, use.resources))
            document = {**node.document, "resources": resources.to_json()}
            self.builds[key] = replace(node, resources=resources, document=document)
        product = replace(plain, value={"$build": key}, digest=key, requires=frozenset({key}), seeded=seeded)
        self._products[key] = product
        return product

    def _build_node(self, use: Use, adapter: Adapter, plain: Part, scope: Scope, seed: int | None, key: str) -> Node:
        of_method = any(p.given and p.name == "method" for p in adapter.parameters.values())
        label = ".".join(
            [adapter.short, *([scope.label] if of_method else []), *([f"s{seed}"] if seed is not None else [])]
        )
        resources = override(self.study.resources, use.resources)
        requires = tuple(sorted(plain.requires))
        document = {
            "schema_version": SCHEMA_VERSION,
            "contract": CONTRACT_VERSION,
            "kind": "build",
            "key": key,
            "name": slug(label),
            "seed": seed,
            "limit": None,
            "component": plain.value,
            "builds": {k: self.builds[k].directory_name for k in requires},
            "resources": resources.to_json(),
            "addresses": [address(self.study.name, label, plain)],
        }
        gate = use.gate if use.gate is not None else adapter.gate
        preload = tuple(sorted(plain.preload))
        return Node("build", key, slug(label), document, requires, resources, preload=preload, gate=gate)

    def code(self, adapter: Adapter) -> tuple[Mapping[str, str], str]:
        """Files that the adapter reaches with their digests, and one digest of them all."""
        if adapter.module not in self._code:
            files = self.sources.code(adapter.module)
            self._code[adapter.module] = {f: d[:12] for f, d in files.items()}, code_of(files)
        return self._code[adapter.module]

    def _adapter(self, name: str) -> Adapter:
        try:
            return self.study.adapters[name]
        except KeyError:
            raise PlanError(f"{name}: no such adapter") from None

    def _default_build(self, name: str) -> Use:
        memo = self._memo.get(name)
        if memo is None:
            memo = self._memo[name] = Part(Use(name), "")
        use: Use = memo.value
        return use


def _stated(adapter: Adapter, use: Use, without: frozenset[str]) -> list[Parameter]:
    return [p for p in adapter.parameters.values() if p.name not in without]


def _holds_use(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_use(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_use(v) for v in value)
    return isinstance(value, Use)


def holds_asset(schema: Any) -> bool:
    """Whether a parameter's schema lets an asset reference stand anywhere in its value."""
    if isinstance(schema, Mapping):
        return schema.get("format") == "asset" or any(holds_asset(v) for v in schema.values())
    return isinstance(schema, list) and any(holds_asset(v) for v in schema)


def _values(parts: Mapping[str, Part]) -> dict[str, Any]:
    return {name: part.value for name, part in parts.items()}


def _digest(parts: Mapping[str, Part]) -> str:
    return hashed("mapping", *(f"{name}={parts[name].digest}" for name in sorted(parts)))


def code_of(files: Mapping[str, str]) -> str:
    """One digest of all files that an adapter reaches, given each one's: the "code" of its references."""
    return hashed("code", *sorted(files.values()))


def hashed(kind: str, *texts: str) -> str:
    """SHA-256 of texts, as 64 hexadecimal digits; quotes keep their borders."""
    return hashlib.sha256(repr((kind, texts)).encode()).hexdigest()


def _joined(parts: Iterable[Part], value: Any, digest: str) -> Part:
    parts = [p for p in parts if p.sources]  # plain values add nothing
    if len(parts) == 1:
        return replace(parts[0], value=value, digest=digest) if parts[0].digest != digest else parts[0]
    sources: dict[str, str] = {}
    settings: dict[str, str] = {}
    for part in parts:
        sources.update(part.sources)
        settings.update(part.settings)
    return Part(
        value,
        digest,
        frozenset().union(*[p.requires for p in parts]),
        any(p.seeded for p in parts),
        any(p.scoped for p in parts),
        sources,
        settings,
        frozenset().union(*[p.preload for p in parts]),
    )


def _class(adapter: Adapter) -> str:
    """What identifies the class: a file may be moved, a package's module may not."""
    return adapter.module.rpartition(":")[2] if adapter.module.startswith("file:") else adapter.module


def override(defaults: Resources, stated: Mapping[str, Any] | None) -> Resources:
    """The defaults with what a component states."""
    if not stated:
        return defaults
    known = {name: getattr(defaults, name) for name in Resources.__dataclass_fields__}
    return Resources(**{**known, **stated})


def slug(label: str, limit: int = 90) -> str:
    """A label as a file name: ASCII, recognisable, at most ``limit`` characters; the key makes it unique."""
    return _BETWEEN.sub("-", _FOREIGN.sub("-", label.replace("]", ""))).strip("-.")[:limit] or "node"


_FOREIGN = re.compile(r"[^A-Za-z0-9._=+-]")
_BETWEEN = re.compile(r"--+")  # "--" separates the name from the key


def address(study: str, label: str, part: Part) -> dict[str, Any]:
    """Where a node stands in its study, whatever its key, with the digests of its parts."""
    return {"study": study, "label": label, "sources": dict(part.sources), "settings": dict(part.settings)}
