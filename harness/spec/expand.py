"""Methods and evaluations with their axes: which rows and cells a form of the document has."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from harness.contract import Json
from harness.spec import grammar
from harness.spec.adapter import Adapter, Parameter
from harness.spec.component import Reader
from harness.spec.errors import Place, nearest, suggestion
from harness.spec.metrics import read_metrics
from harness.spec.study import Use
from harness.spec.text import Broken, Entry, Fields, Items, Scalar, Tree, equal, json_text, plain, resolve
from harness.spec.validate import BAD

MAX_CELLS = 100_000
Kind = Literal["method", "evaluation"]


@dataclass(frozen=True)
class Axis:
    """``values`` are typed, components among them; ``shown``: the same as cells, labels and claims have them.

    ``default``: index of the value around which the axis varies; None for an axis of the matrix. ``listed``: as
    written, for the resolved document.
    """

    name: str
    parameter: Parameter
    values: tuple[Any, ...]
    shown: tuple[Json, ...]
    default: int | None = None
    listed: tuple[Any, ...] = ()

    def find(self, reader: Reader, tree: Tree) -> int | None:
        """The index of a value that a spec refers to; None if the axis does not have it."""
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            for index, shown in enumerate(self.shown):
                if isinstance(self.values[index], Use) and shown == tree.value:
                    return index
        with reader.trial():
            value = reader.typed(tree, self.parameter.schema, self.name)
        matches = [i for i, known in enumerate(self.values) if value is not BAD and same(known, value)]
        return matches[0] if matches else None


@dataclass(frozen=True)
class Point:
    """One row or cell: its axis values as shown, and all its parameters."""

    label: str
    cell: Mapping[str, Json]
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """A method or an evaluation of the document. ``use`` has the parameters that no axis of the matrix sets.

    ``metrics``: what an evaluation is scored with. ``methods``: names of those it is done with, None for all.
    """

    kind: Kind
    name: str
    place: Place
    entries: Mapping[str, Entry]
    adapter: Adapter
    use: Use
    axes: Mapping[str, Axis] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    metrics: tuple[Use, ...] = ()
    methods: tuple[str, ...] | None = None

    def takes(self, method: str) -> bool:
        """Whether an evaluation is done with a method, by name or label."""
        return self.methods is None or method.partition("[")[0] in self.methods


@dataclass(frozen=True)
class Outline:
    """All arms of one form of the document. ``broken``: (kind, name) of those that could not be read."""

    arms: Mapping[tuple[Kind, str], Arm]
    broken: frozenset[tuple[Kind, str]]

    def of(self, kind: Kind) -> list[Arm]:
        return [arm for (k, _), arm in self.arms.items() if k == kind]


def outline(reader: Reader, document: Mapping[str, Entry]) -> Outline:
    """Reads the sections methods and evaluations; everything wrong is reported."""
    arms: dict[tuple[Kind, str], Arm] = {}
    broken: set[tuple[Kind, str]] = set()
    kinds: tuple[tuple[Kind, str], ...] = (("method", "methods"), ("evaluation", "evaluations"))
    for kind, key in kinds:
        tree = document[key].value if key in document else None
        if not isinstance(tree, Fields):
            if tree is not None:
                reader.typed(tree, {"type": "object"}, key)
            continue
        if not tree.entries:
            reader.problems.add(document[key].place, f"{key} is empty", f"declare one {kind} at least")
        for name, entry in tree.entries.items():
            arm = _arm(reader, kind, name, entry, list(tree.entries))
            if arm is None:
                broken.add((kind, name))
            else:
                arms[kind, name] = arm
    return Outline(arms, frozenset(broken))


def _arm(reader: Reader, kind: Kind, name: str, entry: Entry, names: Sequence[str]) -> Arm | None:
    before = len(reader.problems.errors)
    rule = grammar.METHOD_NAME if kind == "method" else grammar.EVALUATION_NAME
    reader.name_fits(name, entry.place, rule, f"the name of {_article(kind)}")
    if isinstance(entry.value, Fields) and "use" not in entry.value.entries:
        near = nearest(name, [n for n in names if n != name])
        if near and set(entry.value.entries) <= set(grammar.keys(kind)):
            hint = f'did you mean "{near}"? Else add use: ...'
            reader.problems.add(entry.place, f'{kind} "{name}" lacks the key "use"', hint)
            return None
    entries = reader.section(entry.value, kind, f'{kind} "{name}"', entry.place)
    adapter = reader.adapter(entries) if entries is not None else None
    if entries is None or adapter is None:
        return None
    roles = ("method", "build") if kind == "method" else ("evaluation",)
    if adapter.role not in roles:
        fitting = sorted(a.name for a in reader.registry.adapters.values() if a.role == kind)
        message = f"{adapter.name} is {_article(adapter.role)}, not {_article(kind)}"
        reader.problems.add(entries["use"].value.place, message, suggestion(adapter.name, fitting))
        return None
    written = {key: _axis_entries(reader, entries, key) for key in ("matrix", "vary")}
    use = reader.use(adapter, entries, f'{kind} "{name}"', tuple(written["matrix"]))
    axes = _axes(reader, adapter, use, written)
    metrics = read_metrics(reader, adapter, entries) if kind == "evaluation" else ()
    if use is BAD or axes is None or len(reader.problems.errors) > before:
        return None
    listed = reader.value(entries, kind, "methods") if kind == "evaluation" else None
    methods = None if listed is None else tuple(listed)
    arm = Arm(kind, name, entry.place, entries, adapter, use, axes, metrics=metrics, methods=methods)
    return _with_points(reader, arm)


def _article(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"


def _axis_entries(reader: Reader, entries: Mapping[str, Entry], key: str) -> Mapping[str, Entry]:
    if key not in entries or isinstance(entries[key].value, Broken):
        return {}
    tree = entries[key].value
    if isinstance(tree, Fields):
        return tree.entries
    reader.typed(tree, {"type": "object"}, key)
    return {}


def _axes(
    reader: Reader, adapter: Adapter, use: Any, written: Mapping[str, Mapping[str, Entry]]
) -> dict[str, Axis] | None:
    axes: dict[str, Axis] = {}
    bad = False
    for name, entry in [*written["matrix"].items(), *written["vary"].items()]:
        parameter = reader.settable(adapter, name, entry.place)
        if name in axes:
            reader.problems.add(entry.place, f"{name} stands in matrix and in vary", "remove one of them")
            bad = True
        if parameter is None or name in axes:
            bad = True
            continue
        varies = name not in written["matrix"]
        if varies and use is BAD:
            continue
        axis = _axis(reader, parameter, entry, use if varies else None)
        if axis is None:
            bad = True
        else:
            axes[name] = axis
    return None if bad else axes


def _axis(reader: Reader, parameter: Parameter, entry: Entry, around: Use | None) -> Axis | None:
    """An axis of the matrix, or one that varies ``around`` the parameter's value there."""
    tree = entry.value
    if not isinstance(tree, Items) or not tree.items:
        if not isinstance(tree, Broken):
            message = f"the axis {parameter.name} is {_what(tree)}, expected a list of values"
            hint = f"write [{tree.source}]" if isinstance(tree, Scalar) and tree.source else "give it values"
            reader.problems.add(tree.place, message, hint)
        return None
    values: list[Any] = []
    for item in tree.items:
        value = reader.typed(item, parameter.schema, parameter.name)
        if value is not BAD and any(same(value, known) for known in values):
            message = f"{show(value)} stands twice on the axis {parameter.name}: equal cells"
            reader.problems.add(item.place, message, "remove one of them")
            value = BAD
        values.append(value)
    if BAD in values:
        return None
    listed = tuple(values)
    default = None
    if around is not None:
        if parameter.name not in around.params:
            message = f"{parameter.name} varies around no value"
            reader.problems.add(entry.place, message, "give it one under params, or use matrix")
            return None
        start = around.params[parameter.name]
        if not any(same(start, value) for value in values):
            values.insert(0, start)
        default = next(i for i, value in enumerate(values) if same(start, value))
    return Axis(parameter.name, parameter, tuple(values), tuple(_shown(reader, values)), default, listed)


def _what(tree: Tree) -> str:
    if isinstance(tree, Items):
        return "an empty list"
    if isinstance(tree, Scalar):
        return tree.source if tree.value is not None else "empty"
    return "a mapping"


def same(one: Any, other: Any) -> bool:
    """Whether two typed values are one and the same cell."""
    if isinstance(one, Use) or isinstance(other, Use):
        return type(one) is type(other) and bool(one == other)
    return equal(one, other)


def _shown(reader: Reader, values: Sequence[Any]) -> Iterator[Json]:
    """Components by their short name; where two share it, by their whole name and what tells them apart."""
    uses = [value for value in values if isinstance(value, Use)]
    shorts = Counter(reader.adapters[use.use].short for use in uses)
    for value in values:
        if not isinstance(value, Use):
            yield value
            continue
        short = reader.adapters[value.use].short
        alike = [use.params for use in uses if use.use == value.use]
        differing = [k for k, v in value.params.items() if any(not same(v, params.get(k)) for params in alike)]
        inside = f"({';'.join(f'{k}={show(value.params[k])}' for k in differing)})" if differing else ""
        yield short if shorts[short] == 1 else f"{value.use}{inside}"


def show(value: Any) -> str:
    """A value as labels have it: text as it is unless it could be misread, numbers without a needless point."""
    if isinstance(value, Use):
        return value.use
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, str):
        risky = not value or any(c in '|[]=,"' or not c.isprintable() for c in value) or value != value.strip()
        return json.dumps(value, ensure_ascii=False) if risky or not isinstance(resolve(value), str) else value
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda use: use.use)
    return json_text(value)


def _with_points(reader: Reader, arm: Arm) -> Arm | None:
    matrix = [axis for axis in arm.axes.values() if axis.default is None]
    varied = [axis for axis in arm.axes.values() if axis.default is not None]
    count = math.prod(len(a.values) for a in matrix) * (1 + sum(len(a.values) - 1 for a in varied))
    if count > MAX_CELLS:
        message = f'{arm.kind} "{arm.name}" has {count} combinations, more than {MAX_CELLS}'
        reader.problems.add(arm.place, message, "give fewer values, or use vary")
        return None
    excluded = _excluded(reader, arm)
    order = [p.name for p in arm.adapter.settable()]
    points = []
    for chosen in itertools.product(*(range(len(axis.values)) for axis in matrix)):
        for shift in _shifts(varied):
            at = {**{axis.name: i for axis, i in zip(matrix, chosen, strict=True)}, **shift}
            if not any(all(at[name] == i for name, i in cell.items()) for cell in excluded):
                points.append(_point(arm, at, order))
    if not points:
        reader.problems.add(arm.entries["exclude"].place, "exclude leaves nothing over", "remove an entry")
        return None
    return replace(arm, points=tuple(points))


def _shifts(varied: Sequence[Axis]) -> Iterator[dict[str, int]]:
    """The defaults, then each axis away from its default, one at a time."""
    start = {axis.name: axis.default or 0 for axis in varied}
    yield start
    for axis in varied:
        for index in range(len(axis.values)):
            if index != axis.default:
                yield {**start, axis.name: index}


def _point(arm: Arm, at: Mapping[str, int], order: Sequence[str]) -> Point:
    cell = {name: axis.shown[at[name]] for name, axis in arm.axes.items()}
    values = {**arm.use.params, **{name: axis.values[at[name]] for name, axis in arm.axes.items()}}
    inside = "|".join(
        f"{name}={value if isinstance(arm.axes[name].values[at[name]], Use) else show(value)}"
        for name, value in cell.items()
    )
    label = f"{arm.name}[{inside}]" if inside else arm.name
    return Point(label, cell, {name: values[name] for name in order if name in values})


def _excluded(reader: Reader, arm: Arm) -> list[dict[str, int]]:
    """The cells to leave out, as far as this form of the document has them."""
    cells = []
    for tree in exclusions(arm):
        at = {name: arm.axes[name].find(reader, e.value) for name, e in tree.entries.items() if name in arm.axes}
        if tree.entries and len(at) == len(tree.entries) and None not in at.values():
            cells.append({name: index for name, index in at.items() if index is not None})
    return cells


def exclusions(arm: Arm) -> list[Fields]:
    """The entries of ``exclude`` that are mappings."""
    tree = arm.entries["exclude"].value if "exclude" in arm.entries else None
    return [item for item in tree.items if isinstance(item, Fields)] if isinstance(tree, Items) else []


def plain_use(value: Any) -> Any:
    """A typed value as it would stand in a spec."""
    if isinstance(value, Use):
        document: dict[str, Any] = {"use": value.use}
        if value.params:
            document["params"] = plain_use(value.params)
        if value.resources:
            document["resources"] = dict(value.resources)
        if value.gate is not None:
            document["gate"] = dict(value.gate)
        return document
    if isinstance(value, Mapping):
        return {key: plain_use(inner) for key, inner in value.items()}
    return [plain_use(item) for item in value] if isinstance(value, (list, tuple)) else value


def literal(tree: Tree) -> Json:
    """An axis value that no axis has, as it stands."""
    value: Json = plain(tree)
    return value
