"""Sections and components of a spec: keys checked, names resolved, parameters typed and filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.results.gate import parse_threshold
from harness.spec import grammar
from harness.spec.adapter import Adapter, Parameter
from harness.spec.errors import Place, Problems, nearest, suggestion
from harness.spec.study import Use
from harness.spec.text import Broken, Entry, Fields, Scalar, Tree, planted
from harness.spec.validate import BAD, Typist, found

_SECTION_NAMES = {
    "document": "at the top level",
    "method": "in a method",
    "evaluation": "in an evaluation",
    "component": "in a component",
    "resources": "under resources",
    "claim": "in a claim",
    "skip": "in an entry of skip",
    "expect": "under expect",
}


class Registry(Protocol):
    """What the spec wants of the registry."""

    @property
    def adapters(self) -> Mapping[str, Adapter]: ...

    def resolve(self, use: str, base: Path) -> Adapter:
        """An adapter by name, or a class from a file relative to ``base``. Raises LookupError saying what is wrong."""
        ...


class Reader(Typist):
    """Reads one form of a document. ``adapters``: what it has named so far, by the name that stands in the spec."""

    def __init__(self, registry: Registry, base: Path, problems: Problems) -> None:
        super().__init__(problems)
        self.registry = registry
        self.base = base
        self.adapters: dict[str, Adapter] = {}
        self._refused: dict[str, str] = {}

    def section(self, tree: Tree, name: str, what: str, at: Place) -> dict[str, Entry] | None:
        """The entries of a section, the unknown ones reported and left out; None if it is no such thing at all."""
        if not isinstance(tree, Fields):
            if not isinstance(tree, Broken):
                self.typed(tree, {"type": "object"}, what)
            return None
        schema = grammar.SECTIONS[name]
        known = {}
        for key, entry in tree.entries.items():
            if key in schema["properties"]:
                known[key] = entry
            elif not (name == "document" and key.startswith("x-")):
                hint = self._parameter_hint(tree, key) or _unknown_hint(key, name)
                self.problems.add(entry.place, f'unknown key "{key}" {_place_of(name, what)}', hint)
        for key in schema["required"]:
            if key not in known:
                self.problems.add(at, f'{what} lacks the key "{key}"', "add it")
        return known

    def _parameter_hint(self, tree: Fields, key: str) -> str:
        """For a parameter that stands beside ``use`` instead of under ``params``."""
        use = tree.entries.get("use")
        if use is None or not isinstance(use.value, Scalar) or not isinstance(use.value.value, str):
            return ""
        with self.trial():
            adapter = self.named(use.value.value, use.place)
        return (
            f"it is a parameter of {adapter.name}: put it under params" if adapter and key in adapter.parameters else ""
        )

    def value(self, entries: Mapping[str, Entry], section: str, key: str, what: str = "", default: Any = None) -> Any:
        """The typed value of one key of a section; ``default`` where it is absent or was reported."""
        if key not in entries:
            return default
        value = self.typed(entries[key].value, grammar.keys(section)[key], what or key)
        return default if value is BAD else value

    def component(self, tree: Tree, accepts: tuple[str, ...], what: str) -> Any:
        """A ``Use`` of an adapter that provides one of the classes; BAD after reporting."""
        if isinstance(tree, Scalar):
            wanted = "a component {use: NAME, params: {...}}"
            hint = f"write {{use: {tree.value}}}" if isinstance(tree.value, str) else "name one with use:"
            state = "has no value" if tree.value is None else f"is {found(tree)}"
            self.problems.add(tree.place, f"{what} {state}, expected {wanted}", hint)
            return BAD
        entries = self.section(tree, "component", what, tree.place)
        adapter = self.adapter(entries) if entries is not None else None
        if entries is None or adapter is None:
            return BAD
        if not adapter.fits(accepts):
            kinds = " or ".join(name.rpartition(":")[2] for name in accepts)
            fitting = sorted(a.name for a in self.registry.adapters.values() if a.fits(accepts))
            hint = f"these are: {', '.join(fitting[:8])}" if fitting else "no registered adapter is"
            self.problems.add(entries["use"].value.place, f"{what}: {adapter.name} is no {kinds}", hint)
            return BAD
        return self.use(adapter, entries, what)

    def adapter(self, entries: Mapping[str, Entry]) -> Adapter | None:
        """The adapter that ``use`` names; None after reporting, or without ``use``."""
        if "use" not in entries:
            return None
        tree = entries["use"].value
        name = self.typed(tree, grammar.keys("component")["use"], "use")
        return None if name is BAD else self.named(name, tree.place)

    def named(self, name: str, place: Place) -> Adapter | None:
        """The adapter of that name; None after reporting."""
        if name not in self.adapters and name not in self._refused:
            try:
                self.adapters[name] = self.registry.resolve(name, self.base)
                self._follow_builds(self.adapters[name], place)
            except LookupError as error:
                self._refused[name] = str(error.args[0]) if error.args else f'there is no adapter "{name}"'
        if name in self._refused:
            message, _, hint = self._refused[name].partition("; ")
            self.problems.add(place, message, hint)
        return self.adapters.get(name)

    def _follow_builds(self, adapter: Adapter, place: Place) -> None:
        """The builds that make an adapter's fields by default are part of the study too."""
        for parameter in adapter.parameters.values():
            if parameter.built is not None:
                self.named(parameter.built, place)

    def use(
        self, adapter: Adapter, entries: Mapping[str, Entry], what: str, axes: Collection[str] | None = None
    ) -> Any:
        """The component with its parameters; BAD after reporting.

        ``axes``: parameters of a method or evaluation that its matrix sets; None for components inside of these.
        """
        place = entries["use"].value.place
        params = self.parameters(adapter, entries.get("params"), place, axes or ())
        extras = {}
        for key in ("resources", "gate"):
            if key not in entries:
                continue
            extras[key] = self.value(entries, "component", key)
            if adapter.role != "build" and (key == "gate" or axes is None):
                message = f"{what}: {adapter.name} is no build, it has no {key} of its own"
                self.problems.add(entries[key].place, message, "remove it")
        gate = self._gate(adapter, entries["gate"].value, extras["gate"]) if extras.get("gate") else None
        resources = extras.get("resources") if adapter.role == "build" else None
        name = entries["use"].value
        assert isinstance(name, Scalar)
        return BAD if params is BAD else Use(str(name.value), params, resources, gate)

    def _gate(self, adapter: Adapter, tree: Tree, gate: Mapping[str, str]) -> dict[str, str]:
        thresholds = {}
        for name, text in gate.items():
            entry = tree.entries[name] if isinstance(tree, Fields) else Entry(tree.place, tree)
            if adapter.gate and name not in adapter.gate:
                message = f"{adapter.name} has no threshold on {name}"
                self.problems.add(entry.place, message, suggestion(name, adapter.gate))
            try:
                op, value = parse_threshold(text)
            except ValueError:
                message = f'the threshold on {name} is "{text}", expected an operator and a number'
                self.problems.add(entry.value.place, message, 'write for instance ">= 0.9"')
                continue
            thresholds[name] = f"{op} {value!r}"
        return thresholds

    def parameters(self, adapter: Adapter, entry: Entry | None, at: Place, axes: Collection[str]) -> Any:
        """Typed parameters and defaults, in the adapter's order; without given ones, builds not named, and ``axes``."""
        stated: Mapping[str, Entry] = {}
        bad = False
        if entry is not None:
            if not isinstance(entry.value, Fields):
                self.typed(entry.value, {"type": "object"}, "params")
                return BAD
            stated = entry.value.entries
            known = [self._known(adapter, key, inner, axes) for key, inner in stated.items()]
            bad = not all(known)
        values = {}
        for parameter in adapter.settable():
            value = self._parameter(adapter, parameter, stated, at, axes)
            if value is BAD:
                bad = True
            elif value is not None or parameter.name in stated or parameter.built is None:
                values[parameter.name] = value
        return BAD if bad else {key: value for key, value in values.items() if key not in axes}

    def _known(self, adapter: Adapter, key: str, entry: Entry, axes: Collection[str]) -> bool:
        if key in axes:
            message = f"{key} stands in params and in matrix"
            self.problems.add(entry.place, message, "remove one of them")
            return False
        return self.settable(adapter, key, entry.place) is not None

    def settable(self, adapter: Adapter, key: str, place: Place) -> Parameter | None:
        """The parameter of that name that a spec may set; None after reporting."""
        parameter = adapter.parameters.get(key)
        if parameter is None:
            names = [p.name for p in adapter.settable()]
            hint = suggestion(key, names) or "it has no parameters"
            self.problems.add(place, f'{adapter.name} has no parameter "{key}"', hint)
        elif parameter.given:
            message = f"{key} of {adapter.name} is given by the run"
            self.problems.add(place, message, "remove it")
        else:
            return parameter
        return None

    def _parameter(
        self, adapter: Adapter, parameter: Parameter, stated: Mapping[str, Entry], at: Place, axes: Collection[str]
    ) -> Any:
        """None where it is left to a build or to an axis."""
        name = parameter.name
        if name in axes:
            return None
        if name in stated:
            return self.typed(stated[name].value, parameter.schema, name)
        if parameter.built is not None:
            return None
        if parameter.required:
            near = nearest(name, [key for key in stated if key not in adapter.parameters])
            hint = f'did you mean it by "{near}"?' if near else f"add it: params: {{{name}: ...}}"
            self.problems.add(at, f'{adapter.name} needs the parameter "{name}"', hint)
            return BAD
        return self.default(parameter, at)

    def default(self, parameter: Parameter, at: Place) -> Any:
        """The default, typed as if it stood in the spec."""
        with self.trial():
            value = self.typed(planted(parameter.default, at), parameter.schema, parameter.name)
        return parameter.default if value is BAD else value


def _place_of(section: str, what: str) -> str:
    return "at the top level" if section == "document" else f"in {what}"


def _unknown_hint(key: str, section: str) -> str:
    """Where the key belongs if it is one of another section, else what was probably meant."""
    own = grammar.keys(section)
    homes = [home for home in grammar.homes(key) if home in _SECTION_NAMES]
    near = nearest(key, own)
    if near is not None and not homes:
        return f'did you mean "{near}"?'
    if homes:
        return f"it belongs {' or '.join(_SECTION_NAMES[home] for home in homes)}"
    for home in _SECTION_NAMES:
        other = nearest(key, grammar.keys(home))
        if other is not None:
            return f'did you mean "{other}"? It belongs {_SECTION_NAMES[home]}'
    return f"the keys here are {', '.join(own)}"
