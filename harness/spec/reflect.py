"""A component class to its row of the registry, by type hints and class variables."""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, get_args, get_origin

from harness import contract
from harness.contract import (
    Build,
    Built,
    Component,
    Evaluation,
    JointEvaluation,
    Method,
    Metric,
    Needs,
    TimedEvaluation,
)
from harness.results.gate import parse_threshold
from harness.spec.adapter import Adapter, Parameter, Role, Shape
from harness.spec.hints import HintError, class_hints, holds_components, qualified, read_hint, to_json

_CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "direction": ("max", "min", None),
    "kind": ("mean", "proportion", "median", "exact", "replicates"),
    "scale": ("linear", "log"),
}


class DescribeError(Exception):
    """A class that is no proper adapter: the message names class and field, and says what to do."""


def describe(cls: type, name: str) -> Adapter:
    """The row of a component class. Raises DescribeError."""
    if not (isinstance(cls, type) and issubclass(cls, Component)):
        raise DescribeError(f"{cls!r} is no harness.contract.Component: subclass Method, Evaluation, Metric or Build")
    needs = cls.needs
    if not isinstance(needs, Needs):
        raise DescribeError(f"{qualified(cls)}.needs: {needs!r}, expected Needs(...)")
    role = _role(cls)
    parameters = {p.name: p for p in _parameters(cls)}
    common = Adapter(
        name=name,
        role=role,
        module=qualified(cls),
        summary=_summary(cls),
        bases=_names(cls),
        parameters=parameters,
        extras=_texts(cls, "needs.extras", needs.extras),
        devices=_texts(cls, "needs.devices", needs.devices),
        preload=_texts(cls, "needs.preload", needs.preload),
        assets=_texts(cls, "needs.assets", needs.assets),
    )
    return dataclasses.replace(common, **_particulars(cls, parameters))


def _role(cls: type[Component]) -> Role:
    roles: tuple[tuple[type, Role], ...] = (
        (Method, "method"),
        (Evaluation, "evaluation"),
        (Metric, "metric"),
        (Build, "build"),
    )
    found = [role for base, role in roles if issubclass(cls, base)]
    if len(found) > 1:
        raise DescribeError(f"{qualified(cls)} is {' and '.join(found)} at once: make it two classes")
    return found[0] if found else "component"


def _particulars(cls: type[Component], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """What only builds, methods, evaluations or metrics have."""
    if issubclass(cls, Build):
        product = _type_argument(cls, Build)
        return {"product": _product(cls, product), "seeded": bool(cls.seeded), "gate": _gate(cls)}
    if issubclass(cls, Method):
        return {"reads": _texts(cls, "reads", cls.reads)}
    if issubclass(cls, Metric):
        of = _texts(cls, "of", getattr(cls, "of", ()))
        if not of:
            raise DescribeError(f"{qualified(cls)}: a metric names its evaluations: of = ('track.evaluation',)")
        chosen = {field: _choice(cls, field) for field in _CHOICES}
        return {"of": of, "unit": str(cls.unit), **chosen}
    if issubclass(cls, Evaluation):
        return _evaluation(cls, parameters)
    return {}


def _evaluation(cls: type[Evaluation[Any]], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    shape: Shape = "single"
    joint: tuple[str, ...] = ()
    if issubclass(cls, JointEvaluation):
        shape = "timed" if issubclass(cls, TimedEvaluation) else "joint"
        joint = _texts(cls, "joint", cls.joint)
        for axis in joint:
            if axis not in parameters or parameters[axis].given:
                raise DescribeError(f"{qualified(cls)}.joint names {axis!r}, which is none of its fields")
    method = _type_argument(cls, Evaluation)
    protocol = qualified(method) if isinstance(method, type) and method is not Method else None
    return {
        "shape": shape,
        "joint": joint,
        "deterministic": bool(cls.deterministic),
        "items": bool(cls.items),
        "method": protocol,
    }


def _product(cls: type, product: Any) -> tuple[str, ...]:
    product = get_origin(product) or product
    if not isinstance(product, type):
        raise DescribeError(f"{qualified(cls)}: say what it makes, as in class {cls.__name__}(Build[Product])")
    return _names(product)


def _gate(cls: type[Build[Any]]) -> dict[str, str]:
    for name, threshold in cls.gate.items():
        try:
            parse_threshold(threshold)
        except (TypeError, ValueError) as error:
            raise DescribeError(f"{qualified(cls)}.gate[{name!r}]: {error}") from None
    return dict(cls.gate)


def _choice(cls: type, field: str) -> Any:
    value = getattr(cls, field)
    if value not in _CHOICES[field]:
        raise DescribeError(
            f"{qualified(cls)}.{field}: {value!r}, expected one of {', '.join(map(repr, _CHOICES[field]))}"
        )
    return value


def _texts(cls: type, field: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(v, str) for v in value):
        raise DescribeError(f"{qualified(cls)}.{field}: {value!r}, expected a tuple of texts, as in ('name',)")
    return tuple(value)


def _summary(cls: type) -> str:
    text = (cls.__doc__ or "").strip()
    made = text.startswith(f"{cls.__name__}(")  # dataclass writes the signature where there is no docstring
    return "" if made else text.partition("\n")[0].strip()


def _names(cls: type) -> tuple[str, ...]:
    """Qualified names of a class and its bases, without the contract's and the language's own."""
    left_out = (object, Generic, Protocol, ABC)
    return tuple(qualified(c) for c in cls.__mro__ if c not in left_out and c.__module__ != contract.__name__)


def _type_argument(cls: type, generic: type) -> Any:
    """What stands in the brackets of ``generic`` among the bases of ``cls``, however far up; None if nothing."""
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        if not (isinstance(origin, type) and issubclass(origin, generic)):
            continue
        arguments = get_args(base)
        if origin is generic:
            return arguments[0] if arguments else None
        found = _type_argument(origin, generic)
        if isinstance(found, TypeVar):
            named = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
            found = named.get(found)
        if found is not None:
            return found
    return None


def _parameters(cls: type[Component]) -> Iterator[Parameter]:
    try:
        hints = class_hints(cls)
    except Exception as error:
        raise DescribeError(
            f"{qualified(cls)}: its type hints cannot be read ({one_line(error)}): import the types outside of "
            "TYPE_CHECKING, where they can be found at run time"
        ) from error
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        try:
            yield _parameter(field, hints[field.name])
        except HintError as error:
            raise DescribeError(f"{qualified(cls)}.{field.name}: {error}") from None


def _parameter(field: dataclasses.Field[Any], type_hint: Any) -> Parameter:
    hint = read_hint(type_hint)
    scoring, given = "scoring" in hint.marks, "given" in hint.marks
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    required = default is dataclasses.MISSING
    built = default.name if isinstance(default, Built) else None
    component = holds_components(hint.schema)
    if scoring and (required or given or component):
        raise HintError("a scoring parameter is a plain value with a default")
    if built is not None and "x-accepts" not in hint.schema:
        raise HintError("what a build makes is an object of a class: give the field that class as its type")
    if component and not (required or built or default is None or default in ((), [], {})):
        raise HintError("a component's default is None or built('track.build'); a spec names others with use:")
    value = None if required or built else to_json(default, hint.schema)
    if not (required or built or component):
        _check_default(value, hint.schema)
    return Parameter(field.name, hint.schema, required, value, scoring, given, built)


def _check_default(value: Any, schema: Mapping[str, Any]) -> None:
    from jsonschema import Draft202012Validator  # slow to import, and wanted only when classes are described
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise HintError(f"its Annotated mapping is no JSON Schema: {error.message}") from None
    misfit = next(Draft202012Validator(schema).iter_errors(value), None)
    if misfit is not None:
        raise HintError(f"its default does not fit its type: {misfit.message}")


def one_line(error: BaseException) -> str:
    """ "TypeError: what it says", on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
