"""Patterns of ``--only`` and ``--rerun``: which nodes they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.planning.node import Node


def split_patterns(values: Iterable[str]) -> tuple[str, ...]:
    """``--only a,b``, ``--only a --only b`` and ``--only "a, b"`` alike; commas inside brackets stay."""
    return tuple(p.strip() for value in values for p in re.split(r",(?![^\[]*\])", value) if p.strip())


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
