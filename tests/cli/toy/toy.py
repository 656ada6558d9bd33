"""Adapters of a study that takes no time. Each call that costs something is noted in ``calls.txt``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.contract import (
    Build,
    Context,
    Evaluation,
    Json,
    Mapping,
    Method,
    Metric,
    NotApplicable,
    Observations,
    Values,
)

CALLS = Path(__file__).with_name("calls.txt")


def note(what: str) -> None:
    with open(CALLS, "a", encoding="utf-8") as file:
        file.write(f"{what}\n")


def dawdle(what: str) -> None:
    """Wait where a test wants to catch us, named in the file ``slow``."""
    slow = Path(__file__).with_name("slow")
    if slow.exists() and slow.read_text() == what:
        CALLS.with_name("reached").write_text(str(os.getpid()))
        time.sleep(60)


class Model(Method):
    """Predicts one number."""

    abstract: ClassVar[bool] = True

    def predict(self, x: np.ndarray) -> float:
        raise NotImplementedError


class Mean(Model):
    """The mean, and something added."""

    shift: float = 0.0

    def predict(self, x: np.ndarray) -> float:
        return float(x.mean()) + self.shift


class Median(Model):
    """The median."""

    def predict(self, x: np.ndarray) -> float:
        return float(np.median(x))


class Broken(Model):
    """Fails, but for seed 0 skips."""

    skip: bool = False

    def predict(self, x: np.ndarray) -> float:
        if self.skip:
            raise NotApplicable("nothing for it here")
        raise ValueError("broken on purpose")


class Data:
    """Draws."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x


class Draws(Build[Data]):
    """Normal draws."""

    seeded: ClassVar[bool] = True
    n: int = 100

    def make(self, context: Context) -> Mapping[str, float]:
        note(f"draws {context.seed}")
        (context.directory / "half").write_text("half")
        dawdle("build")
        np.save(context.directory / "x.npy", context.rng("data").normal(size=self.n))
        return {"n": self.n}

    def load(self, directory: Path) -> Data:
        return Data(np.load(directory / "x.npy"))


class Quality(Evaluation[Model]):
    """Absolute errors of the prediction."""

    data: Data

    def observe(self, method: Model, context: Context) -> Observations:
        note(f"observe {type(method).__name__} {context.seed}")
        dawdle("observation")
        x = self.data.x[: context.limit]
        for i, value in enumerate(x[:2]):
            context.sample(str(i), value=float(value))
        return Observations({"errors": np.abs(x - method.predict(x))})


class Error(Metric):
    """Mean absolute error."""

    of: ClassVar[tuple[str, ...]] = ("./toy.py:Quality",)
    direction: ClassVar[Any] = "min"

    def score(self, seen: Observations, parameters: Mapping[str, Json], context: Context) -> Values:
        note("score")
        errors = seen.arrays["errors"]
        return Values(float(errors.mean()), errors)
