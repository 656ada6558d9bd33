"""Which cells a claim is about: its parts, one for each value of an axis in ``every`` or each pair of an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from harness.contract import Json
from harness.leaderboard.samples import freeze
from harness.spec.study import Claim, EvaluationCell, MethodRow, Study


class ClaimError(ValueError):
    """A claim that has no cells in this study as it stands; says what is lacking."""


@dataclass(frozen=True)
class Target:
    """A method row at an evaluation cell."""

    row: MethodRow
    cell: EvaluationCell

    @property
    def axes(self) -> Mapping[str, Json]:
        return {**self.row.cell, **self.cell.cell}


@dataclass(frozen=True)
class Part:
    """``where`` against ``against`` (may be empty); several targets are averaged over."""

    label: str
    where: tuple[Target, ...]
    against: tuple[Target, ...] = ()


def parts(study: Study, claim: Claim, control: str | None = None) -> tuple[Part, ...]:
    """At least one part. ``control`` takes the place of the method of ``where``, or of the first of an order.

    Raises ClaimError where the study has no such method, axis value or comparison, or where an axis stays open.
    """
    if claim.expect.kind == "order":
        order = [str(m) for m in claim.expect.order]
        if control is not None:
            place = order.index(str(claim.where.get("method", order[0]))) if claim.where.get("method") in order else 0
            order[place] = control
        found = [
            p for a, b in pairwise(order) for p in _parts(study, claim, {**claim.where, "method": a}, {"method": b})
        ]
        return tuple(found)
    where = {**claim.where, "method": control} if control is not None else claim.where
    if claim.expect.kind != "equals" and claim.against is None:
        raise ClaimError(f"{claim.expect.kind} wants something to compare with (against)")
    return tuple(_parts(study, claim, where, None if claim.expect.kind == "equals" else claim.against))


def _parts(study: Study, claim: Claim, where: Mapping[str, Json], against: Mapping[str, Json] | None) -> list[Part]:
    own: dict[object, list[Target]] = {}
    for target in _targets(study, claim, where, where):
        own.setdefault(tuple(freeze(target.axes.get(axis)) for axis in claim.every), []).append(target)
    found = []
    for targets in own.values():
        _closed(claim, targets, where)
        fixed = {axis: targets[0].axes[axis] for axis in claim.every if axis in targets[0].axes}
        label = ", ".join(f"{k}={_text(v)}" for k, v in fixed.items())
        if against is None:
            found.append(Part(label, tuple(targets)))
            continue
        wanted = {**where, **fixed, **against}
        rivals = _targets(study, claim, wanted, against)
        _closed(claim, rivals, against)
        if claim.expect.kind == "order":
            pair = f"{targets[0].row.label} before {rivals[0].row.label}"
            label = f"{pair}, {label}" if label else pair
        found.append(Part(label, tuple(targets), tuple(rivals)))
    return found


def _closed(claim: Claim, targets: list[Target], where: Mapping[str, Json]) -> None:
    """Several targets are only right where they differ in axes that are averaged over."""
    places = {tuple(freeze(t.axes.get(axis)) for axis in claim.mean) for t in targets}
    if len(places) < len(targets):
        raise ClaimError(f"{dict(where)} is more than one cell: give every axis a value, or name it in every or mean")


def _targets(study: Study, claim: Claim, wanted: Mapping[str, Json], explicit: Mapping[str, Json]) -> list[Target]:
    """Cells that fit ``wanted``; an axis that neither method nor evaluation has counts only if it is ``explicit``."""
    evaluation = claim.metric.rpartition(".")[0]
    method = wanted.get("method")
    rows = [r for r in study.methods if method == r.label] or [r for r in study.methods if method == r.name]
    if not rows:
        raise ClaimError(f"no method {method} in this profile")
    cells = [c for c in study.evaluations if c.name == evaluation]
    found = [Target(r, c) for r in rows for c in cells if _fits({**r.cell, **c.cell}, wanted, explicit)]
    if not found:
        axes = ", ".join(f"{k}={_text(v)}" for k, v in wanted.items() if k != "method")
        raise ClaimError(f"no cell {axes} of {evaluation} for {method} in this profile")
    return found


def _fits(axes: Mapping[str, Json], wanted: Mapping[str, Json], explicit: Mapping[str, Json]) -> bool:
    for axis, value in wanted.items():
        if axis == "method":
            continue
        if axis not in axes:
            if axis in explicit:
                return False
            continue
        if freeze(axes[axis]) != freeze(value):
            return False
    return True


def _text(value: Json) -> str:
    return str(value)
