"""The resolved document of a study: every value written out, nothing left to include, merge or look up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from harness.spec.component import Reader
from harness.spec.expand import Arm, Outline, plain_use
from harness.spec.quantities import show_duration, show_memory
from harness.spec.study import Claim, Expectation, Resources, Skip, Study
from harness.spec.text import Fields, Items


def resolved(study: Study, shape: Outline, elsewhere: Collection[str], reader: Reader) -> dict[str, Any]:
    """A spec that loads to the same study. ``elsewhere``: ids of claims that name what this form does not have."""
    document: dict[str, Any] = {"harness": 1, "study": study.name, "title": study.title}
    if study.paper:
        document["paper"] = study.paper
    document["track"] = study.track
    document["seeds"] = len(study.seeds) if study.seeds == tuple(range(len(study.seeds))) else list(study.seeds)
    if study.limit is not None:
        document["limit"] = study.limit
    document["resources"] = _all_resources(study.resources)
    document["methods"] = {arm.name: _method(reader, arm) for arm in shape.of("method")}
    document["evaluations"] = {arm.name: _evaluation(reader, arm) for arm in shape.of("evaluation")}
    if study.skips:
        document["skip"] = [_skip(skip) for skip in study.skips]
    if study.claims:
        document["claims"] = [_claim(claim, claim.id in elsewhere) for claim in study.claims]
    return document


def _all_resources(resources: Resources) -> dict[str, Any]:
    return _resources({name: getattr(resources, name) for name in Resources.__dataclass_fields__})


def _resources(stated: Mapping[str, Any]) -> dict[str, Any]:
    shown = dict(stated)
    if "memory" in shown:
        shown["memory"] = show_memory(shown["memory"])
    if "timeout" in shown:
        shown["timeout"] = show_duration(shown["timeout"])
    return shown


def _method(reader: Reader, arm: Arm) -> dict[str, Any]:
    role = reader.value(arm.entries, "method", "role")
    return {**_arm(reader, arm), **({"role": role} if role else {})}


def _evaluation(reader: Reader, arm: Arm) -> dict[str, Any]:
    metrics = [plain_use(use) if use.params else use.use for use in arm.metrics]
    methods = {} if arm.methods is None else {"methods": list(arm.methods)}
    return {**_arm(reader, arm), **methods, "metrics": metrics}


def _arm(reader: Reader, arm: Arm) -> dict[str, Any]:
    document: dict[str, Any] = plain_use(arm.use)
    if "resources" in arm.entries:
        document["resources"] = _resources(reader.value(arm.entries, arm.kind, "resources", default={}))
    for key, varies in (("matrix", False), ("vary", True)):
        axes = {name: plain_use(axis.listed) for name, axis in arm.axes.items() if (axis.default is not None) is varies}
        if axes:
            document[key] = axes
    excluded = _excluded(reader, arm)
    if excluded:
        document["exclude"] = excluded
    return document


def _excluded(reader: Reader, arm: Arm) -> list[dict[str, Any]]:
    """The entries of ``exclude`` that this form has, with their values as typed."""
    entries = arm.entries["exclude"].value if "exclude" in arm.entries else None
    cells = []
    for item in entries.items if isinstance(entries, Items) else ():
        if not isinstance(item, Fields):
            continue
        at = {name: arm.axes[name].find(reader, e.value) for name, e in item.entries.items() if name in arm.axes}
        if len(at) == len(item.entries) and None not in at.values():
            cells.append({name: arm.axes[name].shown[i] for name, i in at.items() if i is not None})
    return cells


def _skip(skip: Skip) -> dict[str, Any]:
    return {"where": dict(skip.where), "reason": skip.reason}


def _claim(claim: Claim, elsewhere: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"id": claim.id, "says": claim.says, "metric": claim.metric}
    if claim.where:
        document["where"] = dict(claim.where)
    if claim.against is not None:
        document["against"] = dict(claim.against)
    document["expect"] = _expect(claim.expect)
    for key in ("every", "mean"):
        axes = getattr(claim, key)
        if axes:
            document[key] = list(axes)
    stated = {"control": claim.control, "paper": claim.paper, "note": claim.note or None}
    document |= {key: value for key, value in stated.items() if value is not None}
    if claim.scale != "here":
        document["scale"] = claim.scale
    if elsewhere:
        document["elsewhere"] = True
    return document


def _expect(expect: Expectation) -> dict[str, Any]:
    tolerance = {"tolerance": expect.tolerance} if expect.tolerance else {}
    if expect.kind == "equals":
        return {"equals": expect.value, **tolerance}
    if expect.kind == "order":
        return {"order": list(expect.order)}
    if expect.kind == "equivalence":
        return {"equivalence": expect.margin, **({} if expect.relative else {"absolute": True})}
    return {expect.kind: f"{expect.op} {expect.value!r}", **tolerance}
