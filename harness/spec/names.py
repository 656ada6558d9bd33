"""What claims, skips and exclusions refer to: methods, evaluations, metrics, axes and their values.

A reference may be to something that only another profile has. It is a mistake only if no form of the document (the
base and each profile) knows everything that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from harness.contract import Json
from harness.spec.component import Reader
from harness.spec.errors import Place, Problems, suggestion
from harness.spec.expand import Arm, Axis, Kind, Outline, Point, show
from harness.spec.study import Use
from harness.spec.text import Entry, Scalar, Tree
from harness.spec.validate import found

T = TypeVar("T")


@dataclass
class Forms:
    """The form that is loaded, and on demand the others."""

    reader: Reader
    outline: Outline
    others: Callable[[], Iterator[tuple[Reader, Outline]]]

    def settle(self, resolve: Callable[[Names], T | None]) -> tuple[T | None, bool]:
        """What ``resolve`` makes of a reference, and whether this form knows it; None after reporting.

        Names unknown here are looked up in the other forms; any other mistake is final.
        """
        own = Names(self.reader, self.outline)
        result = resolve(own)
        if own.wrong or not own.unknown:
            self.reader.problems.extend(own.unknown)
            self.reader.problems.extend(own.wrong)
            return (None if own.wrong else result), True
        for reader, outline in self.others():
            names = Names(reader, outline)
            elsewhere = resolve(names)
            if elsewhere is not None and not names.unknown and not names.wrong:
                return elsewhere, False
        self.reader.problems.extend(own.unknown)
        return None, False


class Names:
    """Looks names up in one form. ``unknown``: what it does not have; ``wrong``: mistakes in any form."""

    def __init__(self, reader: Reader, outline: Outline) -> None:
        self.reader = reader
        self.outline = outline
        self.unknown = Problems()
        self.wrong = Problems()

    def text(self, tree: Tree, what: str) -> str | None:
        """The text that stands there; None after reporting."""
        if isinstance(tree, Scalar) and isinstance(tree.value, str) and tree.value:
            return tree.value
        if isinstance(tree, Scalar):
            hint = f'quote it: "{tree.source}"' if tree.value is not None else "give a name"
            self.wrong.add(tree.place, f"{what} is {found(tree)}, expected a name", hint)
        else:
            self.wrong.add(tree.place, f"{what} is {found(tree)}, expected a name")
        return None

    def arm(self, kind: Kind, name: str, place: Place, *, labels: bool = False) -> Arm | None:
        """The arm of that name, or with that label if ``labels``; None after reporting."""
        for arm in self.outline.of(kind):
            if arm.name == name or (labels and any(point.label == name for point in arm.points)):
                return arm
        broken = {n for k, n in self.outline.broken if k == kind}
        if name in broken or (labels and name.partition("[")[0] in broken):
            return None  # already reported itself
        options = [arm.name for arm in self.outline.of(kind)] + sorted(broken)
        if labels and "[" in name:
            options += [point.label for arm in self.outline.of(kind) for point in arm.points]
        self.unknown.add(place, f'there is no {kind} "{name}"', suggestion(name, options))
        return None

    def method_name(self, tree: Tree) -> str | None:
        """The name of a method, all of whose rows are meant; None after reporting."""
        name = self.text(tree, "method")
        arm = self.arm("method", name, tree.place) if name is not None else None
        return None if arm is None else arm.name

    def method(self, tree: Tree, further: Mapping[str, Entry]) -> str | None:
        """The label of the one row that a name or label, with values of the method's own axes, refers to."""
        name = self.text(tree, "method")
        arm = self.arm("method", name, tree.place, labels=True) if name is not None else None
        if arm is None or name is None:
            return None
        if name != arm.name:
            for axis, entry in further.items():
                self.wrong.add(entry.place, f"the label {name} already says {axis}", "remove this key")
            return name
        cell = self.values(arm, further)
        if cell is None:
            return None
        rows = matching(arm, cell)
        if len(rows) == 1:
            return rows[0].label
        if not rows:
            self.unknown.add(tree.place, f"{name} has no row with {pairs(cell)}", "it is excluded, or off the axes")
            return None
        left = {axis: options for axis, options in open_axes(arm, rows).items() if axis not in cell}
        said = "; ".join(f"{axis} ({', '.join(map(show, options))})" for axis, options in left.items())
        self.wrong.add(
            tree.place, f'"{name}" is {len(rows)} rows of the table', f"say which by {said}, or give the label"
        )
        return None

    def values(self, arm: Arm, entries: Mapping[str, Entry]) -> dict[str, Json] | None:
        """Axis values as cells have them; None after reporting what the arm does not have."""
        cell: dict[str, Json] = {}
        for name, entry in entries.items():
            axis = self.axis(arm.axes, name, entry.place, f"{arm.kind} {arm.name}")
            index = axis.find(self.reader, entry.value) if axis is not None else None
            if axis is not None and index is not None:
                cell[name] = axis.shown[index]
            elif axis is not None:
                self.no_value(axis, entry.value, arm.name)
        return cell if len(cell) == len(entries) else None

    def no_value(self, axis: Axis, tree: Tree, of: str) -> None:
        options = [v if isinstance(u, Use) else show(v) for u, v in zip(axis.values, axis.shown, strict=True)]
        text = tree.source if isinstance(tree, Scalar) else found(tree)
        self.unknown.add(
            tree.place, f"{axis.name} of {of} has no value {text}", suggestion(text, [str(o) for o in options])
        )

    def axis(self, axes: Mapping[str, Axis], name: str, place: Place, of: str) -> Axis | None:
        if name not in axes:
            hint = suggestion(name, axes) if axes else "it has no axes"
            self.unknown.add(place, f'{of} has no axis "{name}"', hint)
        return axes.get(name)


def matching(arm: Arm, cell: Mapping[str, Json]) -> list[Point]:
    """The rows or cells with these values."""
    return [p for p in arm.points if all(p.cell[axis] == value for axis, value in cell.items())]


def open_axes(arm: Arm, points: Collection[Point]) -> dict[str, list[Json]]:
    """Axes on which the points differ, with the values that they have there."""
    values: dict[str, list[Json]] = {axis: [] for axis in arm.axes}
    for point in points:
        for axis, value in point.cell.items():
            if value not in values[axis]:
                values[axis].append(value)
    return {axis: found for axis, found in values.items() if len(found) > 1}


def pairs(cell: Mapping[str, Json]) -> str:
    return ", ".join(f"{axis}={show(value)}" for axis, value in cell.items())
