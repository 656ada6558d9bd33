"""Declared skips, exclusions, and methods that do not fit an evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.contract import Json
from harness.spec import grammar
from harness.spec.component import Reader
from harness.spec.errors import Place
from harness.spec.expand import Arm, Kind, exclusions
from harness.spec.names import Forms, Names
from harness.spec.study import Skip
from harness.spec.text import Broken, Entry, Fields, Items, Scalar, Tree
from harness.spec.validate import BAD, found


def read_skips(forms: Forms, document: Mapping[str, Entry]) -> list[Skip]:
    """The document's own skips, then those of its methods and evaluations. What only other forms have is left out."""
    skips = []
    if "skip" in document:
        skips += _listed(forms, document["skip"].value, {})
    for arm in forms.outline.arms.values():
        tree = arm.entries["skip"].value if "skip" in arm.entries else None
        if isinstance(tree, Items):
            skips += _listed(forms, tree, {arm.kind: arm.name})
        elif tree is not None:
            reason = forms.reader.typed(tree, grammar.keys(arm.kind)["skip"], "skip")
            if reason is not BAD:
                skips.append(Skip({arm.kind: arm.name}, reason))
    return skips


def _listed(forms: Forms, tree: Tree, fixed: Mapping[str, str]) -> list[Skip]:
    if not isinstance(tree, Items):
        forms.reader.typed(tree, {"type": "array"}, "skip")
        return []
    skips = []
    for item in tree.items:
        entries = forms.reader.section(item, "skip", "this entry of skip", item.place)
        if entries is None or "where" not in entries:
            continue
        reason = forms.reader.value(entries, "skip", "reason", default="")
        where = entries["where"]
        if not isinstance(where.value, Fields):
            forms.reader.typed(where.value, {"type": "object"}, "where")
        elif not where.value.entries and not fixed:
            forms.reader.problems.add(where.place, "where is empty: this skips everything", "say what to skip")
        else:
            cell, here = _settle(forms, where.value, fixed)
            if cell is not None and here:
                skips.append(Skip(cell, reason))
    return skips


def _settle(forms: Forms, where: Fields, fixed: Mapping[str, str]) -> tuple[dict[str, Json] | None, bool]:
    return forms.settle(lambda names: _where(names, where, fixed))


def _where(names: Names, where: Fields, fixed: Mapping[str, str]) -> dict[str, Json] | None:
    cell: dict[str, Json] = {**fixed}
    arms: list[Arm] = []
    kinds: tuple[Kind, Kind] = ("method", "evaluation")
    for kind in kinds:
        if kind in fixed:
            if kind in where.entries:
                names.wrong.add(where.entries[kind].place, f"this skip is for {fixed[kind]} already", "remove this key")
            chosen = names.outline.arms.get((kind, fixed[kind]))
            arms += [chosen] if chosen else []
        elif kind in where.entries:
            tree = where.entries[kind].value
            name = names.text(tree, kind)
            arm = names.arm(kind, name, tree.place, labels=True) if name is not None else None
            if arm is None or name is None:
                return None
            arms.append(arm)
            cell[kind] = name
        else:
            arms += names.outline.of(kind)
    for key, entry in where.entries.items():
        if key not in kinds:
            _axis_value(names, arms, key, entry, cell)
    return None if names.unknown or names.wrong else cell


def _axis_value(names: Names, arms: Iterable[Arm], key: str, entry: Entry, cell: dict[str, Json]) -> None:
    arms = list(arms)
    having = [arm for arm in arms if key in arm.axes]
    for arm in having:
        index = arm.axes[key].find(names.reader, entry.value)
        if index is not None:
            cell[key] = arm.axes[key].shown[index]
            return
    if having:
        names.no_value(having[0].axes[key], entry.value, having[0].name)
    elif not names.outline.broken:
        known = {name: axis for arm in arms for name, axis in arm.axes.items()}
        names.axis(known, key, entry.place, "what is skipped")


def check_methods(forms: Forms) -> None:
    """Every name that an evaluation lists under ``methods`` must be a method of some form."""
    for arm in forms.outline.of("evaluation"):
        tree = arm.entries["methods"].value if "methods" in arm.entries else None
        for item in tree.items if isinstance(tree, Items) else ():
            _check_method(forms, item)


def _check_method(forms: Forms, tree: Tree) -> None:
    forms.settle(lambda names: names.method_name(tree))


def check_exclusions(forms: Forms) -> None:
    """Every entry of ``exclude`` must name values that some form has."""
    for arm in forms.outline.arms.values():
        tree = arm.entries["exclude"].value if "exclude" in arm.entries else None
        if tree is not None and not isinstance(tree, (Items, Broken)):
            forms.reader.typed(tree, {"type": "array"}, "exclude")
        for item in tree.items if isinstance(tree, Items) else ():
            if not isinstance(item, (Fields, Broken)) or (isinstance(item, Fields) and not item.entries):
                what = "an empty mapping" if isinstance(item, Fields) else found(item)
                message = f"exclude holds {what}, expected axis values"
                forms.reader.problems.add(item.place, message, "write {axis: value}")
        for cell in exclusions(arm):
            _check_exclusion(forms, arm, cell)


def _check_exclusion(forms: Forms, arm: Arm, cell: Fields) -> None:
    def resolve(names: Names) -> dict[str, Json] | None:
        other = names.outline.arms.get((arm.kind, arm.name))
        return names.values(other, cell.entries) if other is not None else None

    forms.settle(resolve)


def covers(skip: Skip, method: tuple[str, str, Mapping[str, Json]], other: tuple[str, str, Mapping[str, Json]]) -> bool:
    """Whether a skip is about this method and evaluation, each as (name, label, cell)."""
    for key, value in skip.where.items():
        if key == "method":
            fits = value in method[:2]
        elif key == "evaluation":
            fits = value in other[:2]
        else:
            fits = any(key in cell and cell[key] == value for cell in (method[2], other[2]))
        if not fits:
            return False
    return True


def check_fit(reader: Reader, methods: Iterable[Arm], evaluations: Iterable[Arm], skips: Iterable[Skip]) -> None:
    """Every method must be of the kind that each evaluation takes, unless the pair is skipped."""
    skips = list(skips)
    evaluations = list(evaluations)
    for method in methods:
        for evaluation in evaluations:
            wanted = evaluation.adapter.method
            if wanted is None or not evaluation.takes(method.name) or method.adapter.fits((wanted,)):
                continue
            if _all_skipped(method, evaluation, skips):
                continue
            message = (
                f"{method.adapter.name} is no {wanted.rpartition(':')[2]}, "
                f'which evaluation "{evaluation.name}" ({evaluation.adapter.name}) takes'
            )
            hint = f"leave it out of the methods of {evaluation.name}, or use another method"
            reader.problems.add(_use_place(method), message, hint)


def _all_skipped(method: Arm, evaluation: Arm, skips: list[Skip]) -> bool:
    return all(
        any(covers(s, (method.name, p.label, p.cell), (evaluation.name, q.label, q.cell)) for s in skips)
        for p in method.points
        for q in evaluation.points
    )


def _use_place(arm: Arm) -> Place:
    tree = arm.entries["use"].value
    return tree.place if isinstance(tree, Scalar) else arm.place
