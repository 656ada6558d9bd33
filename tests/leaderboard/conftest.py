"""A made-up study, and scores for it, built from a few words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.leaderboard.samples import Sample
from harness.results.record import State
from harness.results.score import Score
from harness.spec.adapter import Adapter
from harness.spec.study import Claim, EvaluationCell, Expectation, MethodRow, Skip, Study, Use


def metric(name, *, of="toy.task", kind="mean", direction="max", scale="linear", unit=""):
    return Adapter(
        f"toy.{name}", "metric", f"toy:{name}", of=(of,), kind=kind, direction=direction, scale=scale, unit=unit
    )


def evaluation(name, *, deterministic=False, shape="single"):
    return Adapter(f"toy.{name}", "evaluation", f"toy:{name}", deterministic=deterministic, shape=shape)


def cells(name, metrics, axes=({},), use=None):
    made = []
    for cell in axes:
        label = "|".join(f"{k}={v}" for k, v in cell.items())
        used = Use(f"toy.{use or name}", dict(cell))
        label = f"{name}[{label}]" if label else name
        made.append(EvaluationCell(label, name, cell, used, tuple(Use(f"toy.{m}") for m in metrics)))
    return tuple(made)


def study(methods, evaluations, adapters, *, seeds=(0, 1, 2), claims=(), profile="laptop", skips=(), limit=None):
    rows = tuple(
        m if isinstance(m, MethodRow) else MethodRow(m, m, {}, Use("toy.method"), "proposed" if i == 0 else "rival")
        for i, m in enumerate(methods)
    )
    return Study(
        name="made-up",
        title="A made-up study",
        path=Path("made_up.yaml"),
        profile=profile,
        track="toy",
        methods=rows,
        evaluations=tuple(evaluations),
        seeds=tuple(seeds),
        claims=tuple(claims),
        skips=tuple(skips),
        limit=limit,
        adapters={a.name: a for a in adapters},
    )


def score(
    method, where, value=None, *, cell=None, seed=0, state=State.OK, items=None, units=None, replicates=None, **more
):
    """``where``: "evaluation.metric"."""
    name, _, short = where.partition(".")
    arrays = {"items": items, "units": units, "replicates": replicates}
    arrays = {k: np.asarray(v) for k, v in arrays.items() if v is not None}
    more.setdefault("run", f"{name}-{method}-{seed}")
    return Score(method, name, cell or {}, short, seed, state, value, arrays=lambda: arrays, **more)


def sample(
    values, *, kind="mean", log=False, exact=False, items=None, units=None, replicates=None, run="r", seeds=None
):
    """One per seed: ``values``; ``items``, ``units``, ``replicates`` are lists of arrays, one per seed."""
    given = {"items": items, "units": units, "replicates": replicates}
    arrays = tuple(({k: np.asarray(v[i]) for k, v in given.items() if v is not None},) for i in range(len(values)))
    seeds = tuple(range(len(values))) if seeds is None else tuple(seeds)
    runs = tuple((run,) for _ in values)
    return Sample(kind, log, exact, seeds, np.asarray(values, float), runs, lambda: arrays)


def one_metric(methods=("ours", "theirs"), *, kind="mean", direction="max", scale="linear", **more):
    """A study with one evaluation "task" and one metric "accuracy"."""
    deterministic = more.pop("deterministic", False)
    axes = more.pop("axes", ({},))
    adapters = (
        metric("accuracy", kind=kind, direction=direction, scale=scale),
        evaluation("task", deterministic=deterministic),
    )
    return study(methods, cells("task", ["accuracy"], axes), adapters, **more)


def claim(id="c", where=None, against=None, metric="task.accuracy", expect=None, **more):
    where = {"method": "ours"} if where is None else where
    return Claim(id, f"It is as {id} says.", metric, where, expect, against, **more)


def full_study():
    """All states: exact cache sizes by degree, timed latencies, perplexities over seeds, a quiz of one run."""
    degrees = [{"tensor_parallel": t} for t in (1, 2, 4, 8)]
    timed = [{"context": 1024, "tensor_parallel": t} for t in (1, 4)]
    adapters = (
        evaluation("cache_size", deterministic=True),
        evaluation("latency", shape="timed"),
        evaluation("perplexity"),
        evaluation("quiz", deterministic=False),
        metric("elements_per_token", kind="exact", direction="min", unit="head dims"),
        metric("tokens_per_second", kind="median", scale="log", unit="1/s"),
        metric("seconds", kind="median", direction="min", scale="log", unit="s"),
        metric("perplexity", scale="log", direction="min"),
        metric("loss", direction="min", unit="nats"),
        metric("share", kind="proportion"),
        metric("steps", kind="exact", direction=None),
    )
    evaluations = (
        *cells("cache", ["elements_per_token"], degrees, "cache_size"),
        *cells("latency", ["tokens_per_second", "seconds"], timed, "latency"),
        *cells("perplexity", ["perplexity", "loss", "steps"]),
        *cells("quiz", ["share"]),
    )
    methods = ("mlra-4", "mla", "gqa|wide *x*", "Schrödinger ± 漢字")
    claims = (
        claim(
            "cache-tp4",
            {"method": "mlra-4", "tensor_parallel": 4},
            metric="cache.elements_per_token",
            expect=Expectation("equals", value=1.5),
            paper=1.5,
        ),
        claim(
            "faster",
            {"method": "mlra-4", "tensor_parallel": 4, "context": 1024},
            {"method": "mla", "tensor_parallel": 1},
            "latency.tokens_per_second",
            Expectation("ratio", ">=", 2.8),
            paper=2.8,
        ),
        claim(
            "as-good",
            {"method": "mlra-4"},
            {"method": "mla"},
            "perplexity.perplexity",
            Expectation("equivalence", margin=0.02, relative=True),
            paper="13.672 against 13.727",
        ),
        claim(
            "order",
            {},
            metric="perplexity.perplexity",
            expect=Expectation("order", order=("mlra-4", "mla", "gqa|wide *x*")),
        ),
        claim(
            "everywhere",
            {"method": "mlra-4"},
            {"method": "mla"},
            "cache.elements_per_token",
            Expectation("ratio", "<", 1),
            every=("tensor_parallel",),
        ),
        claim(
            "at-scale",
            {"method": "mlra-4"},
            {"method": "mla"},
            "quiz.share",
            Expectation("difference", ">", 0),
            scale="paper",
        ),
    )
    skips = (Skip({"method": "Schrödinger ± 漢字", "evaluation": "quiz"}, "no answers in this method"),)
    return study(methods, evaluations, adapters, claims=claims, skips=skips)


def full_scores():
    rng = np.random.default_rng(7)
    made = []
    sizes = {"mlra-4": (4.5, 2.5, 1.5, 1.5), "mla": (4.5,) * 4, "gqa|wide *x*": (16, 8, 4, 2)}
    for method, values in sizes.items():
        for degree, value in zip((1, 2, 4, 8), values, strict=True):
            made.append(score(method, "cache.elements_per_token", value, cell={"tensor_parallel": degree}, seed=None))
    for method, speed in (("mlra-4", 900.0), ("mla", 330.0), ("gqa|wide *x*", 500.0)):
        for degree in (1, 4):
            logs = np.log(speed * (1.1 if degree == 4 else 1.0)) + rng.normal(0, 0.01, 9)
            cell = {"tensor_parallel": degree, "context": 1024}
            for name, items in (("tokens_per_second", logs), ("seconds", -logs)):
                value = float(np.exp(np.median(items)))
                made.append(
                    score(method, f"latency.{name}", value, cell=cell, seed=None, items=items, run="latency", n=9)
                )
    for degree in (1, 4):
        for name in ("tokens_per_second", "seconds"):
            cell = {"tensor_parallel": degree, "context": 1024}
            made.append(
                score(
                    "Schrödinger ± 漢字",
                    f"latency.{name}",
                    cell=cell,
                    seed=None,
                    state=State.TIMEOUT,
                    reason="600 s were over",
                )
            )
    base = (2.61, 2.62, 2.615)
    for method, shift in (("mlra-4", -0.004), ("mla", 0.0), ("gqa|wide *x*", 0.03)):
        for seed, loss in enumerate(base):
            if method == "mla" and seed == 1:
                for name in ("perplexity", "loss", "steps"):
                    made.append(
                        score(
                            method,
                            f"perplexity.{name}",
                            seed=seed,
                            state=State.FAILED,
                            reason="RuntimeError: loss is NaN",
                        )
                    )
                continue
            loss = loss + shift + rng.normal(0, 0.001)
            made.append(score(method, "perplexity.perplexity", float(np.exp(loss)), seed=seed, n=100))
            made.append(score(method, "perplexity.loss", float(loss), seed=seed, n=100))
            made.append(score(method, "perplexity.steps", 400.0, seed=seed))
    for seed in (0, 1, 2):
        made.append(
            score("Schrödinger ± 漢字", "perplexity.perplexity", float("inf"), seed=seed, reason="overflow in exp")
        )
        made.append(score("Schrödinger ± 漢字", "perplexity.loss", float("nan"), seed=seed))
        made.append(score("Schrödinger ± 漢字", "perplexity.steps", 400.0, seed=seed))
    for method, share in (("mlra-4", 0.75), ("mla", 0.7)):
        made.append(
            score(
                method,
                "quiz.share",
                share,
                seed=None,
                n=20,
                items=[1] * round(20 * share) + [0] * round(20 - 20 * share),
                hardware="a CPU" if method == "mla" else "another CPU",
            )
        )
    return made


@pytest.fixture
def lab():
    """The helpers of this file, for tests."""
    return SimpleNamespace(**{k: v for k, v in globals().items() if callable(v) and not k.startswith("_")})


@pytest.fixture(scope="module")
def lab_module():
    """As ``lab``, for tests that draw many examples."""
    return SimpleNamespace(**{k: v for k, v in globals().items() if callable(v) and not k.startswith("_")})
