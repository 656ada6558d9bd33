"""A package of somebody else's: one method, registered by entry point."""

from __future__ import annotations

from typing import ClassVar

from harness.contract import Context, Evaluation, Json, Mapping, Method, Metric, Observations, Values


class Guesser(Method):
    """Guesses a number."""

    abstract: ClassVar[bool] = True

    def guess(self) -> float:
        raise NotImplementedError


class Always(Guesser):
    """Always the same number."""

    number: float = 1.0

    def guess(self) -> float:
        return self.number


class Distance(Evaluation[Guesser]):
    """How far from three."""

    deterministic: ClassVar[bool] = True

    def observe(self, method: Guesser, context: Context) -> Observations:
        return Observations(values={"distance": abs(method.guess() - 3)})


class Far(Metric):
    """The distance."""

    of: ClassVar[tuple[str, ...]] = ("thirdparty.distance",)
    direction: ClassVar = "min"
    kind: ClassVar = "exact"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        return Values(float(seen.values["distance"]))
