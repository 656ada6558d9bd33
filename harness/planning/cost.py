"""What nodes will cost, from what their like cost before."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from harness.planning.node import Node
from harness.results.record import State
from harness.results.store import Shelf

_SEED = re.compile(r"\.s\d+$")


@dataclass(frozen=True)
class Cost:
    """``seconds`` of one slot and ``bytes`` on disk; None where nothing like it has run."""

    seconds: float | None = None
    bytes: int | None = None


class History:
    """Costs of finished nodes by name, seeds aside; read once, when first asked."""

    def __init__(self, *shelves: Shelf) -> None:
        self._shelves = shelves
        self._known: dict[str, Cost] | None = None

    def cost(self, node: Node) -> Cost:
        """The median over finished nodes of this name, seeds aside."""
        if self._known is None:
            self._known = self._read()
        return self._known.get(_SEED.sub("", node.name), Cost())

    def _read(self) -> dict[str, Cost]:
        seen: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for shelf in self._shelves:
            for stored in shelf.records():
                record = stored.record
                if record is not None and record.state is State.OK:
                    name = stored.directory.name.rpartition("--")[0]
                    seen[_SEED.sub("", name)].append((record.seconds, record.bytes or 0))
        return {
            name: Cost(median(s for s, _ in costs), int(median(b for _, b in costs))) for name, costs in seen.items()
        }
