"""A joint evaluation of players whose skill is built; a player whose skill is named in the file ``unfit`` is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.contract import (
    Build,
    Context,
    Entry,
    Failure,
    JointEvaluation,
    Json,
    Mapping,
    Method,
    Metric,
    Observations,
    Sequence,
    Values,
)


class Skill:
    """How good."""

    def __init__(self, value: float) -> None:
        self.value = value


class Fit(Build[Skill]):
    """Fitted in no time."""

    gate: ClassVar[Mapping[str, str]] = {"value": ">= 0"}
    value: float

    def make(self, context: Context) -> Mapping[str, float]:
        unfit = Path(__file__).with_name("unfit")
        if unfit.exists() and float(unfit.read_text()) == self.value:
            raise RuntimeError("unfit")
        (context.directory / "value").write_text(str(self.value))
        return {"value": self.value}

    def load(self, directory: Path) -> Skill:
        return Skill(float((directory / "value").read_text()))


class Player(Method):
    """Plays as well as its skill."""

    skill: Skill


class Duel(JointEvaluation[Player]):
    """All against all."""

    deterministic: ClassVar[bool] = True

    def observe_all(self, entries: Sequence[Entry[Player]], context: Context) -> Mapping[str, Observations | Failure]:
        with open(Path(__file__).with_name("calls.txt"), "a", encoding="utf-8") as file:
            file.write(f"duel of {len(entries)}\n")
        return {e.id: Observations({"skill": np.array([e.method.skill.value])}) for e in entries}


class Points(Metric):
    """The skill."""

    of: ClassVar[tuple[str, ...]] = ("./duel.py:Duel",)
    direction: ClassVar[Any] = "max"
    kind: ClassVar[Any] = "exact"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        return Values(float(seen.arrays["skill"][0]))
