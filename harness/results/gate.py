"""Gates: thresholds on what a build measured, and whether its product may be used."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_THRESHOLD = re.compile(r"\s*(>=|<=|==|>|<)\s*(\S+)\s*")


def parse_threshold(text: str) -> tuple[str, float]:
    """ ">= 0.9" -> (">=", 0.9). Raises ValueError that says what is expected."""
    match = _THRESHOLD.fullmatch(text)
    try:
        if match:
            return match[1], float(match[2])
    except ValueError:
        pass
    raise ValueError(f"{text!r} is no threshold: write an operator (>= > <= < ==) and a number, as in '>= 0.9'")


def closed_gate(gate: Mapping[str, str], measured: Mapping[str, float] | None) -> str | None:
    """Why the gate is closed ("accuracy 0.84, wanted >= 0.9"); None where it is open."""
    for name, threshold in gate.items():
        op, wanted = parse_threshold(threshold)
        value = (measured or {}).get(name)
        if value is None:
            return f"{name} was not measured, wanted {threshold}"
        if not _OPERATORS[op](value, wanted):
            return f"{name} {value:g}, wanted {threshold}"
    return None
