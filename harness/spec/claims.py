"""Claims: what they name is looked up, what they leave open is closed or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.contract import Json
from harness.results.gate import parse_threshold
from harness.spec.component import Reader
from harness.spec.errors import Place, suggestion
from harness.spec.expand import Arm, literal, show
from harness.spec.names import Forms, Names, matching, open_axes, pairs
from harness.spec.study import Claim, Expectation
from harness.spec.text import Broken, Entry, Fields, Items, Scalar, Tree, clip

KINDS = ("equals", "ratio", "difference", "order", "equivalence")
_NO_ENTRIES: Mapping[str, Entry] = {}


@dataclass(frozen=True)
class _Found:
    """What one form makes of a claim's references."""

    where: Mapping[str, Json]
    against: Mapping[str, Json] | None
    order: tuple[str, ...]
    control: str | None


def read_claims(forms: Forms, tree: Tree) -> list[tuple[Claim, bool]]:
    """Every claim, and whether this form of the document has all that it names."""
    reader = forms.reader
    if not isinstance(tree, Items):
        reader.typed(tree, {"type": "array"}, "claims")
        return []
    claims = []
    lines: dict[str, Place] = {}
    for item in tree.items:
        entries = reader.section(item, "claim", "this claim", item.place)
        if entries is None:
            continue
        name = reader.value(entries, "claim", "id", default="")
        if name in lines:
            message = f'the claim "{name}" stands twice: in line {lines[name].line} and here'
            reader.problems.add(entries["id"].value.place, message, "give each claim an id of its own")
        elif name:
            lines[name] = entries["id"].value.place
        claim = _Reading(forms, entries).claim(name)
        if claim is not None:
            claims.append(claim)
    return claims


class _Reading:
    """One claim being read."""

    def __init__(self, forms: Forms, entries: Mapping[str, Entry]) -> None:
        self._forms = forms
        self._reader: Reader = forms.reader
        self._entries = entries

    def _value(self, key: str, default: Any = None) -> Any:
        return self._reader.value(self._entries, "claim", key, default=default)

    def claim(self, name: str) -> tuple[Claim, bool] | None:
        before = len(self._reader.problems.errors)
        plain = {key: self._value(key) for key in ("says", "control", "paper", "scale", "note", "elsewhere")}
        metric = self._value("metric")
        self.every, self.mean = self._axes("every"), self._axes("mean")
        self.expect = read_expectation(self._reader, self._entries["expect"]) if "expect" in self._entries else None
        self.where, self.against = self._cell("where"), self._cell("against")
        if metric is None or self.expect is None or self.where is None:
            return None
        self._check_shape(self.expect)
        found, here = self._settle(metric, bool(plain["elsewhere"]))
        if found is None or len(self._reader.problems.errors) > before:
            return None
        claim = Claim(
            id=name,
            says=plain["says"],
            metric=metric,
            where=found.where,
            expect=with_order(self.expect, found.order),
            against=found.against,
            every=self.every,
            mean=self.mean,
            control=found.control,
            paper=plain["paper"],
            scale=plain["scale"] or "here",
            note=plain["note"] or "",
        )
        return claim, here

    def _axes(self, key: str) -> tuple[str, ...]:
        value = self._value(key, ())
        return (value,) if isinstance(value, str) else tuple(value)

    def _cell(self, key: str) -> Mapping[str, Entry] | None:
        """The entries of where or against; empty where it is absent, None after reporting."""
        if key not in self._entries:
            return _NO_ENTRIES
        tree = self._entries[key].value
        if isinstance(tree, Fields):
            return tree.entries
        self._reader.typed(tree, {"type": "object"}, key)
        return None

    def _check_shape(self, expect: Expectation) -> None:
        """What a kind of expectation needs beside it, whatever the names are."""
        problems, at = self._reader.problems, self._entries["expect"]
        pairwise = expect.kind in ("ratio", "difference", "equivalence")
        if pairwise and "against" not in self._entries:
            problems.add(at.place, f"{expect.kind} compares with nothing", "add against: {method: ...}")
        if not pairwise and "against" in self._entries:
            problems.add(self._entries["against"].place, f"{expect.kind} takes no against", "remove it")
        assert self.where is not None
        if expect.kind == "order" and "method" in self.where:
            message = "order names its methods itself"
            problems.add(self.where["method"].place, message, "remove method from where")
        if expect.kind != "order" and "method" not in self.where:
            place = self._entries["where"].place if "where" in self._entries else at.place
            problems.add(place, "where names no method", "add where: {method: ...}")
        for axis in self.every + self.mean:
            for cell in (self.where, self.against or {}):
                if axis in cell:
                    message = f"{axis} has a value here, and is in {'every' if axis in self.every else 'mean'} too"
                    problems.add(cell[axis].place, message, "remove one of them")
            if axis in self.every and axis in self.mean:
                problems.add(self._entries["mean"].place, f"{axis} is in every and in mean", "remove one of them")

    def _settle(self, metric: str, lenient: bool) -> tuple[_Found | None, bool]:
        if not lenient:
            return self._forms.settle(lambda names: self._resolve(names, metric))
        with self._reader.trial():
            found, here = self._forms.settle(lambda names: self._resolve(names, metric))
        return (found, here) if found is not None else (self._as_written(), False)

    def _resolve(self, names: Names, metric: str) -> _Found | None:
        assert self.expect is not None
        assert self.where is not None
        place = self._entries["metric"].value.place
        evaluation, dot, short = metric.partition(".")
        if not dot:
            names.wrong.add(place, f'the metric "{metric}" names no evaluation', "write EVALUATION.METRIC")
            return None
        arm = names.arm("evaluation", evaluation, place)
        if arm is not None:
            self._check_metric(names, arm, short, place)
            for key, axes in (("every", self.every), ("mean", self.mean)):
                for axis in axes:
                    names.axis(arm.axes, axis, self._axis_place(key, axis), f"evaluation {arm.name}")
        control = self._entries.get("control")
        control_label = names.method(control.value, {}) if control is not None else None
        order = tuple(names.method(tree, {}) or "" for tree in self._order_trees())
        if arm is None:
            return None
        named = [*zip(order, self._order_trees(), strict=True)]
        for label, tree in [*named, *([(control_label, control.value)] if control is not None else [])]:
            if label:
                self._check_taken(names, arm, label, tree.place)
        where = self._point(names, arm, self.where, {})
        against = None
        if self.against and where is not None:
            against = self._point(names, arm, self.against, where)
        if names.unknown or names.wrong or where is None or "" in order or (self.against and against is None):
            return None
        return _Found(where, against, order, control_label)

    def _check_taken(self, names: Names, arm: Arm, label: str, place: Place) -> None:
        if not arm.takes(label):
            message = f"evaluation {arm.name} is not done with {label}"
            names.unknown.add(place, message, f"it is done with {', '.join(arm.methods or ())}")

    def _axis_place(self, key: str, axis: str) -> Place:
        tree = self._entries[key].value
        items = tree.items if isinstance(tree, Items) else (tree,)
        return next(item.place for item in items if isinstance(item, Scalar) and item.value == axis)

    def _check_metric(self, names: Names, arm: Arm, short: str, place: Place) -> None:
        known = {adapter.short: adapter for adapter in (names.reader.adapters[use.use] for use in arm.metrics)}
        if short not in known:
            message = f'evaluation {arm.name} has no metric "{short}"'
            names.unknown.add(place, message, suggestion(short, known))
        elif self.expect is not None and self.expect.kind == "order" and known[short].direction is None:
            message = f"{known[short].name} has no direction: no order is best first"
            names.wrong.add(place, message, "claim a difference instead")

    def _order_trees(self) -> list[Tree]:
        expect = self._entries["expect"].value
        tree = expect.entries["order"].value if isinstance(expect, Fields) and "order" in expect.entries else None
        return list(tree.items) if isinstance(tree, Items) else []

    def _point(
        self, names: Names, arm: Arm, entries: Mapping[str, Entry], inherited: Mapping[str, Json]
    ) -> dict[str, Json] | None:
        """The method's label and a value for each axis of the evaluation that is not in every or mean."""
        own = {key: e for key, e in entries.items() if key != "method" and key in arm.axes}
        further = {key: e for key, e in entries.items() if key != "method" and key not in arm.axes}
        point: dict[str, Json] = {}
        if "method" in entries:
            further = self._of_method(names, arm, entries["method"].value, further)
            label = names.method(entries["method"].value, further)
            if label is None:
                return None
            self._check_taken(names, arm, label, entries["method"].value.place)
            point["method"] = label
        else:
            for key, entry in further.items():
                names.axis(arm.axes, key, entry.place, f"evaluation {arm.name}")
            point.update({"method": inherited["method"]} if "method" in inherited else {})
        stated = names.values(arm, own)
        if stated is None or names.unknown:
            return None
        kept = {axis: value for axis, value in inherited.items() if axis in arm.axes and axis not in stated}
        return self._closed(names, arm, point, {**kept, **stated}, entries)

    def _of_method(self, names: Names, arm: Arm, tree: Tree, further: dict[str, Entry]) -> dict[str, Entry]:
        """Of the keys that are no axes of the evaluation those of the method; the rest is reported."""
        if not isinstance(tree, Scalar):
            return further
        method = names.outline.arms.get(("method", str(tree.value).partition("[")[0]))
        known = {**(method.axes if method else {}), **arm.axes}
        for key in [key for key in further if key not in known] if method else []:
            entry = further.pop(key)
            names.axis(known, key, entry.place, f"evaluation {arm.name} with method {tree.value}")
        return further

    def _closed(
        self, names: Names, arm: Arm, point: dict[str, Json], cell: dict[str, Json], entries: Mapping[str, Entry]
    ) -> dict[str, Json] | None:
        """The cell with every axis that has but one value left filled in; an axis that stays open is a mistake."""
        cells = matching(arm, cell)
        key = "against" if entries is self.against else "where"
        place = self._entries[key].place if key in self._entries else self._entries["metric"].place
        if not cells:
            names.unknown.add(place, f"{arm.name} has no cell with {pairs(cell)}", "it is excluded")
            return None
        varying = open_axes(arm, cells)
        for axis, values in varying.items():
            if axis not in self.every and axis not in self.mean:
                message = f"{key} leaves {axis} of {arm.name} open ({', '.join(map(show, values))})"
                names.wrong.add(place, message, f"say which, or every: {axis}, or mean: {axis}")
        left = [axis for axis in arm.axes if axis not in self.every and axis not in self.mean]
        return {**point, **{axis: cells[0].cell[axis] for axis in left}}

    def _as_written(self) -> _Found:
        """For a claim marked ``elsewhere``: its references as they stand."""
        assert self.where is not None
        where = {key: literal(entry.value) for key, entry in self.where.items()}
        against = {**where, **{key: literal(entry.value) for key, entry in (self.against or {}).items()}}
        order = tuple(str(literal(tree)) for tree in self._order_trees())
        return _Found(where, against if self.against else None, order, self._value("control"))


def read_expectation(reader: Reader, entry: Entry) -> Expectation | None:
    """One of the kinds with its numbers; None after reporting."""
    tree = entry.value
    entries = reader.section(tree, "expect", "expect", entry.place)
    if entries is None:
        return None
    kinds = [kind for kind in KINDS if kind in entries]
    if len(kinds) != 1:
        what = "nothing that can be judged" if not kinds else f"{' and '.join(kinds)} at once"
        reader.problems.add(entry.place, f"expect says {what}", f"give one of {', '.join(KINDS)}")
        return None
    kind = kinds[0]
    value = reader.value(entries, "expect", kind)
    tolerance = reader.value(entries, "expect", "tolerance", default=0.0)
    absolute = reader.value(entries, "expect", "absolute", default=False)
    for key, of in (("tolerance", ("equals", "ratio", "difference")), ("absolute", ("equivalence",))):
        if key in entries and kind not in of:
            reader.problems.add(entries[key].place, f"{key} has no meaning with {kind}", "remove it")
    if value is None or isinstance(tree, Broken):
        return None
    place = entries[kind].value.place
    if kind == "equals":
        text = f"equals: {show(value)}" + (f", tolerance: {show(tolerance)}" if tolerance else "")
        return Expectation("equals", "==", value, tolerance=tolerance, text=text)
    if kind == "order":
        return Expectation("order", order=tuple(value), text="order")
    if kind == "equivalence":
        return _equivalence(reader, value, absolute, place)
    return _comparison(reader, kind, value, tolerance, place)


def _comparison(reader: Reader, kind: str, text: str | float, tolerance: float, place: Place) -> Expectation | None:
    try:
        op, value = parse_threshold(text) if isinstance(text, str) else ("", text)
    except ValueError:
        op, value = "", float("nan")
    if not op or value != value or value in (float("inf"), float("-inf")):
        message = f"{kind} is {clip(str(text))}, expected an operator and a number"
        reader.problems.add(place, message, f'write for instance ">= {text if isinstance(text, float) else 2.8}"')
        return None
    if op != "==" and tolerance:
        reader.problems.add(place, f"a tolerance has no meaning with {op}", "remove it")
    shown = f"{kind}: {op} {show(value)}" + (f", tolerance: {show(tolerance)}" if tolerance else "")
    if kind == "ratio":
        return Expectation("ratio", op, value, tolerance=tolerance, text=shown)  # type: ignore[arg-type]
    return Expectation("difference", op, value, tolerance=tolerance, text=shown)  # type: ignore[arg-type]


def _equivalence(reader: Reader, value: float | str, absolute: bool, place: Place) -> Expectation | None:
    margin = 0.0
    percent = isinstance(value, str) and value.endswith("%")
    try:
        margin = float(value[:-1]) / 100 if isinstance(value, str) and percent else float(value)
    except ValueError:
        margin = float("nan")
    if not 0 < margin < float("inf") or (isinstance(value, str) and not percent):
        message = f"equivalence is {value}, expected a margin above 0"
        reader.problems.add(place, message, "write for instance 2% or 0.02")
        return None
    if absolute and percent:
        reader.problems.add(place, "a percentage is no absolute margin", "give a number, or remove absolute")
        return None
    shown = f"equivalence: {show(margin)}, absolute" if absolute else f"equivalence: {show(round(margin * 100, 10))}%"
    return Expectation("equivalence", margin=margin, relative=not absolute, text=shown)


def with_order(expect: Expectation, order: tuple[str, ...]) -> Expectation:
    """The expectation with its methods' labels."""
    if expect.kind != "order":
        return expect
    return Expectation("order", order=order, text=f"order: [{', '.join(order)}]")
