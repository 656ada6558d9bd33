"""Patterns of ``--only`` and ``--rerun``: which nodes they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from harness.planning.node import Node
from harness.spec.study import Study


class PatternError(LookupError):
    """A pattern that means no run, which is an error of the call."""


def split_patterns(values: Iterable[str] | str) -> tuple[str, ...]:
    """``--only a,b``, ``--only a --only b`` and ``--only "a, b"`` alike; commas inside brackets stay.

    Raises PatternError for an empty pattern: an unset variable must not mean everything.
    """
    values = [values] if isinstance(values, str) else list(values)
    patterns = tuple(p.strip() for value in values for p in re.split(r",(?![^\[]*\])", value))
    if not all(patterns):
        raise PatternError("an empty pattern; name a METHOD, an EVALUATION or EVALUATION/METHOD")
    return patterns


def hint(pattern: str, study: Study) -> str:
    """What is wrong with a pattern that means no run, and the nearest that means one."""
    methods = [name for row in study.methods for name in dict.fromkeys((row.name, row.label))]
    evaluations = [name for cell in study.evaluations for name in dict.fromkeys((cell.name, cell.label))]
    first, slash, second = pattern.partition("/")
    if slash and second in evaluations and first in methods:
        return f"pattern {pattern!r} means no run of {study.name}: write EVALUATION/METHOD, {second}/{first}"
    if slash and first in evaluations and second in methods:
        cells = [cell for cell in study.evaluations if first in (cell.name, cell.label)]
        takers = list(dict.fromkeys(row.name for row in study.methods if any(cell.takes(row) for cell in cells)))
        taken = second.partition("[")[0] in takers
        why = "it is skipped" if taken else f"{first} is done with {', '.join(takers)}; add it to its methods: [...]"
        return f"pattern {pattern!r} means no run of {study.name}: {why}"
    if slash:
        near = f"{_nearest(first, evaluations)}/{_nearest(second, methods)}"
    else:
        near = ", ".join(get_close_matches(pattern, [*methods, *evaluations], 3) or [*evaluations, *methods][:8])
    return f"pattern {pattern!r} means no run of {study.name}; try {near}"


def _nearest(name: str, known: Sequence[str]) -> str:
    return next(iter(get_close_matches(name, known, 1, 0)), name)


class Patterns:
    """Names or labels of methods and evaluations, or EVALUATION/METHOD; ``*`` and ``?`` are wild.

    ``perplexity`` means every cell of that evaluation, ``latency/mla`` one method's part in it. A joint run is
    meant if any of its entries is.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._expressions = [_expression(p) for p in patterns]
        self.unused = set(patterns)

    def match(self, node: Node) -> bool:
        """Whether any pattern means this node; notes which patterns have meant something."""
        names = _names(node)
        found = False
        for pattern, expression in zip(self.patterns, self._expressions, strict=True):
            if any(expression.fullmatch(name) for name in names):
                self.unused.discard(pattern)
                found = True
        return found


def _names(node: Node) -> set[str]:
    names = {node.name}
    for pairs in node.labels.values():
        for method, evaluation in pairs:
            for m in (method, _bare(method)):
                for e in (evaluation, _bare(evaluation)):
                    names.update((m, e, f"{e}/{m}"))
    return names


def _bare(label: str) -> str:
    return label.partition("[")[0]


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern))
