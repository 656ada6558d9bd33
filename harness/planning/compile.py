"""Study to nodes: which builds are made, which runs observe what, and where each score is to be found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.contract import CONTRACT_VERSION, Json
from harness.planning.node import Node
from harness.planning.parts import (
    VERSIONS,
    Part,
    PlanError,
    Resolver,
    Scope,
    Sources,
    address,
    hashed,
    slug,
)
from harness.results.collect import Wanted
from harness.results.files import canonical
from harness.results.record import SCHEMA_VERSION
from harness.spec.adapter import Adapter
from harness.spec.skips import covers
from harness.spec.study import EvaluationCell, MethodRow, Skip, Study, Use


@dataclass(frozen=True)
class Compiled:
    """``nodes`` by key, every node after those that it requires; ``wanted``: each score that the study asks for."""

    study: Study
    nodes: Mapping[str, Node]
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True)
class _Entry:
    """One method x one evaluation cell, resolved for one seed. ``metrics``: short name and resolved metric."""

    id: str
    method: MethodRow
    cell: EvaluationCell
    parts: Part
    document: Mapping[str, Any]
    metrics: tuple[tuple[str, Part], ...]
    scoring: str

    def score_key(self, key: str, metric: Part) -> str:
        return hashed("score", key, self.id, metric.digest, self.scoring)

    def scorings(self, key: str) -> Iterator[dict[str, Any]]:
        """What the worker scores, as it stands in node.json."""
        parameters = plain_parameters(self.cell.use)
        for _, metric in self.metrics:
            yield {
                "score_key": self.score_key(key, metric),
                "entry": self.id,
                "metric": metric.value,
                "parameters": parameters,
            }


def compile_study(study: Study, sources: Sources, site: str) -> Compiled:
    """All nodes of a study. ``site``: the machine that timed runs will get, which is in their keys.

    A pure function of its arguments: nothing is read but what ``sources`` reads. Raises PlanError.
    """
    resolver = Resolver(study, sources)
    runs: dict[str, Node] = {}
    wanted: list[Wanted] = []
    for group in _groups(study):
        for node, scores in _compile_group(group, study, resolver, site):
            runs[node.key] = _merged(runs[node.key], node) if node.key in runs else node
            wanted.extend(scores)
    wanted.extend(_declared_skips(study))
    return Compiled(study, {**_in_order(resolver.builds), **runs}, tuple(wanted))


@dataclass(frozen=True)
class _Group:
    """What goes into one run, seed aside: the rows and cells of a joint run, or one of each."""

    adapter: Adapter
    label: str
    pairs: tuple[tuple[MethodRow, EvaluationCell], ...]


def _groups(study: Study) -> Iterator[_Group]:
    for adapter, label, cells in _outer_cells(study):
        pairs = [(row, cell) for row in study.methods for cell in cells if _wants(study, row, cell)]
        if adapter.shape != "single":
            if pairs:
                yield _Group(adapter, label, tuple(pairs))
            continue
        for row, cell in pairs:
            yield _Group(adapter, f"{cell.label}.{row.label}", ((row, cell),))


def _wants(study: Study, row: MethodRow, cell: EvaluationCell) -> bool:
    return cell.takes(row) and skipped(study.skips, row, cell) is None


def _outer_cells(study: Study) -> Iterator[tuple[Adapter, str, Sequence[EvaluationCell]]]:
    """Cells that lie in the same run: those that differ in joint axes only."""
    outer: dict[tuple[str, bytes], list[EvaluationCell]] = {}
    for cell in study.evaluations:
        joint = study.adapters[cell.use.use].joint
        rest = {axis: plain(value) for axis, value in cell.cell.items() if axis not in joint}
        outer.setdefault((cell.name, canonical(rest)), []).append(cell)
    for (name, _), cells in outer.items():
        adapter = study.adapters[cells[0].use.use]
        rest = {axis: value for axis, value in cells[0].cell.items() if axis not in adapter.joint}
        yield adapter, label_of(name, rest), cells


def _compile_group(
    group: _Group, study: Study, resolver: Resolver, site: str
) -> Iterator[tuple[Node, Iterator[Wanted]]]:
    timed = group.adapter.shape == "timed"
    for number, seed in enumerate(study.seeds):
        entries = [_entry(row, cell, study, resolver, seed) for row, cell in group.pairs]
        seeded = any(entry.parts.seeded for entry in entries)
        once = timed or (group.adapter.deterministic and not seeded)
        if once and number:
            return
        node_seed = seed if seeded or not (timed or group.adapter.deterministic) else None
        node = _node(group, entries, study, resolver, node_seed, site if timed else None)
        yield node, _wanted(node, entries, node_seed)


def _entry(row: MethodRow, cell: EvaluationCell, study: Study, resolver: Resolver, seed: int) -> _Entry:
    scope = Scope(row.use, cell.use, seed, row.label)
    adapter = study.adapters[cell.use.use]
    reads = set(study.adapters[row.use.use].reads)
    unread = frozenset(p.name for p in adapter.parameters.values() if p.scoring and p.name not in reads)
    method = resolver.component(row.use, scope)
    evaluation = resolver.component(cell.use, scope, unread)
    parts = Part(
        None,
        hashed("entry", method.digest, evaluation.digest),
        method.requires | evaluation.requires,
        method.seeded or evaluation.seeded,
        True,
        {**method.sources, **evaluation.sources},
        {**{f"{row.label}: {k}": v for k, v in method.settings.items()}, **evaluation.settings},
        method.preload | evaluation.preload,
    )
    id = parts.digest[:16]
    joint = {axis: plain(cell.cell[axis]) for axis in adapter.joint if axis in cell.cell}
    document = {"id": id, "method": method.value, "evaluation": evaluation.value, "cell": joint}
    metrics = tuple((study.adapters[use.use].short, _metric(use, scope, resolver)) for use in cell.metrics)
    scored = {p.name: resolver.parameter(p, cell.use, scope).digest for p in adapter.parameters.values() if p.scoring}
    return _Entry(id, row, cell, parts, document, metrics, canonical(scored).decode())


def _metric(use: Use, scope: Scope, resolver: Resolver) -> Part:
    metric = resolver.component(use, scope)
    if metric.requires:
        raise PlanError(f"{use.use}: a metric reads observations, not builds")
    return metric


def _node(
    group: _Group, entries: Sequence[_Entry], study: Study, resolver: Resolver, seed: int | None, site: str | None
) -> Node:
    limit = study.limit if group.adapter.items else None
    shape = group.adapter.shape
    by_id = {entry.id: entry for entry in sorted(entries, key=lambda e: e.id)}
    resources = entries[0].cell.resources
    for entry in entries:
        resources = resources.at_least(entry.method.resources).at_least(entry.cell.resources)
    if site is not None:  # timings depend on what they are granted
        site = f"{site}; granted {resources.cpus} CPUs, {resources.gpus:g} GPUs"
    key = hashed("observation", VERSIONS, shape, str(seed), str(limit), str(site), *by_id)
    label = group.label if seed is None else f"{group.label}.s{seed}"
    requires = sorted(frozenset().union(*(entry.parts.requires for entry in entries)))
    labels: dict[str, tuple[tuple[str, str], ...]] = {}
    for entry in entries:
        labels[entry.id] = (*labels.get(entry.id, ()), (entry.method.label, entry.cell.label))
    document = {
        "schema_version": SCHEMA_VERSION,
        "contract": CONTRACT_VERSION,
        "kind": "observation",
        "shape": shape,
        "key": key,
        "name": slug(label),
        "seed": seed,
        "limit": limit,
        "site": site,
        "entries": [entry.document for entry in by_id.values()],
        "builds": {k: resolver.builds[k].directory_name for k in requires},
        "resources": resources.to_json(),
        "metrics": list({row["score_key"]: row for entry in entries for row in entry.scorings(key)}.values()),
        "addresses": [_address(study, label, entries, site)],
    }
    preload = sorted(frozenset().union(*(entry.parts.preload for entry in entries)))
    return Node(
        "observation", key, slug(label), document, tuple(requires), resources, shape == "timed", tuple(preload),
        labels=labels,
    )  # fmt: skip


def _wanted(node: Node, entries: Sequence[_Entry], seed: int | None) -> Iterator[Wanted]:
    for entry in entries:
        cell = {axis: plain(value) for axis, value in entry.cell.cell.items()}
        requires = tuple(sorted(entry.parts.requires))
        for short, metric in entry.metrics:
            yield Wanted(
                method=entry.method.label,
                evaluation=entry.cell.name,
                cell=cell,
                metric=short,
                seed=seed,
                key=node.key,
                entry=entry.id,
                score_key=entry.score_key(node.key, metric),
                requires=requires,
            )


def _declared_skips(study: Study) -> Iterator[Wanted]:
    for row in study.methods:
        for cell in study.evaluations:
            reason = skipped(study.skips, row, cell) if cell.takes(row) else None
            if reason is None:
                continue
            axes = {axis: plain(value) for axis, value in cell.cell.items()}
            for use in cell.metrics:
                yield Wanted(row.label, cell.name, axes, study.adapters[use.use].short, None, skip=reason)


def skipped(skips: Sequence[Skip], row: MethodRow, cell: EvaluationCell) -> str | None:
    """The declared reason for which this combination is not run."""
    method, evaluation = (row.name, row.label, row.cell), (cell.name, cell.label, cell.cell)
    return next((skip.reason for skip in skips if covers(skip, method, evaluation)), None)


def _merged(one: Node, other: Node) -> Node:
    """Two nodes of one key: the same observation, wanted under several labels or scored in several ways."""
    metrics = {m["score_key"]: m for node in (one, other) for m in node.document["metrics"]}
    addresses = {canonical(a): a for node in (one, other) for a in node.document["addresses"]}
    resources = one.resources.at_least(other.resources)
    labels = {
        id: tuple(dict.fromkeys((*one.labels.get(id, ()), *other.labels.get(id, ()))))
        for id in {**one.labels, **other.labels}
    }
    document = {
        **one.document,
        "metrics": list(metrics.values()),
        "addresses": list(addresses.values()),
        "resources": resources.to_json(),
    }
    return replace(one, document=document, resources=resources, labels=labels)


def _address(study: Study, label: str, entries: Sequence[_Entry], site: str | None) -> dict[str, Any]:
    sources = {f: d for entry in entries for f, d in entry.parts.sources.items()}
    settings = {f: d for entry in entries for f, d in entry.parts.settings.items()}
    if site is not None:
        settings["machine"] = site
    return address(study.name, label, Part(None, "", sources=sources, settings=settings))


def _in_order(builds: Mapping[str, Node]) -> dict[str, Node]:
    """Builds after those that they require. They are gathered that way; a dict keeps it."""
    return dict(builds)


def label_of(name: str, cell: Mapping[str, Any]) -> str:
    """name[axis=value|axis=value]"""
    if not cell:
        return name
    return f"{name}[{'|'.join(f'{axis}={text(value)}' for axis, value in cell.items())}]"


def text(value: Any) -> str:
    """A parameter's value as labels show it."""
    if isinstance(value, Use):
        return value.use.rpartition(".")[2]
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain(value: Any) -> Json:
    """A value as JSON, components as ``{use, params}``."""
    if isinstance(value, Use):
        return {"use": value.use, "params": {k: plain(v) for k, v in value.params.items()}}
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value  # type: ignore[no-any-return]


def plain_parameters(use: Use) -> dict[str, Json]:
    """The parameters that are no components, as metrics see them."""
    return {name: plain(value) for name, value in use.params.items() if not isinstance(value, Use)}
