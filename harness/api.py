"""The steps of the command line as functions: load, plan, fetch, run, table, samples."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.planning.compile import Compiled, compile_study
from harness.planning.decide import Action, Choices, Plan, Planned, Upstream, decide
from harness.planning.parts import Sources, holds_asset
from harness.planning.select import PatternError, hint, split_patterns
from harness.results.collect import collect
from harness.results.files import RecordError
from harness.results.score import Score
from harness.results.store import Store
from harness.spec.registry import Registry
from harness.spec.study import Study, Use

if TYPE_CHECKING:
    import pandas as pd

    from harness.assets.fetch import Fetched
    from harness.execution.drive import Listener, Outcome, Step
    from harness.execution.executor import Executor, Mode
    from harness.leaderboard.table import Leaderboard


@dataclass(frozen=True)
class Result:
    """What :func:`run` came to: how the nodes ended, and the leaderboard of all that is finished."""

    plan: Plan
    outcome: Outcome
    leaderboard: Leaderboard


def load(
    path: str | Path,
    *,
    profile: str | None = None,
    set: Sequence[str] = (),
    seeds: int | None = None,
    limit: int | None = None,
    no_code: bool = False,
) -> Study:
    """The study of a spec file, in one profile. Raises SpecErrors with every error of every file."""
    from harness.spec.load import load as load_spec

    registry = Registry.load(no_code=no_code)
    return load_spec(Path(path), registry, profile=profile, overrides=set, seeds=seeds, limit=limit)


def results_directory(results: str | Path | None) -> Path:
    """``results``, else $HARNESS_RESULTS, else ``results`` below the current directory; absolute.

    Raises RecordError where a file stands in its place, or on the way there.
    """
    path = Path(results or os.environ.get("HARNESS_RESULTS") or "results").absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    if not there.is_dir():
        raise RecordError(f"results directory {path}: {there} is a file; name a folder")
    return path


def compiled(study: Study) -> Compiled:
    """All builds and runs of a study. Raises PlanError and AssetError."""
    from harness.assets import revision
    from harness.execution.environment import site_fingerprint
    from harness.planning.digest import code_parts

    return compile_study(study, Sources(code_parts, revision), site_fingerprint())


def plan(
    study: Study,
    *,
    results: str | Path | None = None,
    only: Sequence[str] = (),
    rerun: Sequence[str] = (),
    retry: bool = False,
) -> Plan:
    """What :func:`run` would do, and why. Raises PlanError, and PatternError for a pattern that means no run."""
    choices = Choices(split_patterns(only), split_patterns(rerun), retry)
    with _collector_paused():
        made = decide(compiled(study), Store(results_directory(results), study.name), choices)
    if made.unused_patterns:
        raise PatternError(hint(made.unused_patterns[0], study))
    return made


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A plan is many objects that all stay: the cyclic collector would walk them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run(
    study: Study | Plan,
    *,
    results: str | Path | None = None,
    only: Sequence[str] = (),
    rerun: Sequence[str] = (),
    retry: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    listener: Listener | None = None,
) -> Result:
    """Do what the plan says, and make the leaderboard of all that is finished.

    ``executor``: the local one with ``jobs`` slots by default. Failures are in the result, not raised.
    """
    from harness.execution.drive import drive
    from harness.execution.local import LocalExecutor
    from harness.execution.progress import QuietListener

    todo = study if isinstance(study, Plan) else plan(study, results=results, only=only, rerun=rerun, retry=retry)
    steps = [_step(planned, todo) for planned in todo.work]
    listener = listener or QuietListener()
    executor = executor or LocalExecutor(jobs, say=listener.message)
    try:
        outcome = drive(steps, todo.store, executor, listener)
    finally:
        executor.close()
    fresh = Store(todo.store.root, todo.store.study)
    return Result(todo, outcome, leaderboard(todo.compiled, fresh))


def _step(planned: Planned, todo: Plan) -> Step:
    from harness.execution.drive import Step

    upstream = Upstream(todo.store, todo.compiled.nodes)
    whys = {key: upstream([key], gates_only=True) for key in planned.node.requires}
    skips = {key: why[0] for key, why in whys.items() if why is not None}  # a joint run leaves these out
    mode: Mode = "score" if planned.action is Action.RESCORE else "run"
    return Step(planned.node, mode, planned.cost.seconds, planned.again, skips, planned.waits)


def table(study: Study, *, results: str | Path | None = None) -> Leaderboard:
    """The leaderboard and the judged claims from what is finished so far."""
    return leaderboard(compiled(study), Store(results_directory(results), study.name))


def leaderboard(compiled: Compiled, store: Store) -> Leaderboard:
    """Tables and judgements from the records in ``store``."""
    from harness.leaderboard.table import build

    return build(compiled.study, scores(compiled, store))


def scores(compiled: Compiled, store: Store) -> list[Score]:
    """Every score that the study asks for, missing and failed ones included."""
    from harness.results.values import read_arrays

    return collect(compiled.wanted, store, Upstream(store, compiled.nodes), read_arrays)


def samples(study: Study, *, results: str | Path | None = None, only: Sequence[str] = ()) -> pd.DataFrame:
    """Per-item samples of all finished runs as one data frame, with columns ``run``, ``method`` and ``evaluation``."""
    import pandas as pd

    from harness.results.samples import read_samples

    todo = plan(study, results=results, only=only)
    frames = []
    for planned in todo.planned:
        directory = todo.store.shelf(planned.node.kind).find(planned.node.key)
        if planned.node.kind == "build" or directory is None or not (directory / "samples.arrow").exists():
            continue
        frame = read_samples(directory).to_pandas()
        labels = [pair for pairs in planned.node.labels.values() for pair in pairs]
        frame.insert(0, "run", directory.name)
        frame.insert(1, "method", " ".join(dict.fromkeys(m for m, _ in labels)))
        frame.insert(2, "evaluation", " ".join(dict.fromkeys(e for _, e in labels)))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["run", "method", "evaluation"])


def asset_references(study: Study) -> list[str]:
    """References of all assets that a study's components read, in order of first use."""
    found: dict[str, None] = {}

    def visit(use: Use) -> None:
        adapter = study.adapters[use.use]
        found.update(dict.fromkeys(adapter.assets))
        for parameter in adapter.parameters.values():
            value = use.params.get(parameter.name, parameter.default)
            if holds_asset(parameter.schema):
                found.update(dict.fromkeys(texts(value)))
            if parameter.built is not None and parameter.name not in use.params:
                visit(Use(parameter.built))
            walk(value)

    def texts(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, (dict, list, tuple)):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from texts(inner)

    def walk(value: object) -> None:
        if isinstance(value, Use):
            visit(value)
        elif isinstance(value, dict):
            for inner in value.values():
                walk(inner)
        elif isinstance(value, (list, tuple)):
            for inner in value:
                walk(inner)

    rows = [row for row in study.methods if any(cell.takes(row) for cell in study.evaluations)]
    for use in [row.use for row in rows] + [cell.use for cell in study.evaluations]:
        visit(use)
    return list(found)


def fetch(study: Study) -> list[Fetched]:
    """Get every asset that the study needs into the cache; what could not be had says why in ``error``."""
    from harness.assets.fetch import fetch_all

    return fetch_all(asset_references(study))
