"""Everything that happens inside one run's process: read ``node.json``, make or observe, commit, score.

``run.json`` is written last and so commits what lies beside it. Exit status: 0 when it was written, whatever its
state; 74 where records could not be read or written (a full disk), or a repetition's code is not the plan's and the
finished record stays; 70 for an error of the harness itself. Both say why on stderr.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.contract import Build
from harness.execution.context import Grant, RunContext, scratch
from harness.execution.environment import environment
from harness.execution.executor import Mode
from harness.execution.instantiate import Products, instantiate, sources
from harness.execution.observe import Outcome, blamed, failure_of, make_entries, observe_joint, observe_single, one_line
from harness.execution.scoring import CodeChanged, check_code, score_run
from harness.execution.threads import set_threads
from harness.execution.timing import observe_timed
from harness.results.files import file_digest, read_json, write_json
from harness.results.observations import write_observations
from harness.results.record import EntryState, RunRecord, State
from harness.results.samples import SampleWriter
from harness.results.store import Stored

INTERNAL = 70
STORAGE = 74
_CHECKSUM_BYTES = 256 * 2**20
_CHECKSUM_FILES = 1000
_COMMITTED = ("run.json", "scores.json", "observations.json", "observations.npz", "samples.arrow")


def main(directory: Path, results: Path, attempt: int, mode: Mode = "run") -> int:
    """Work on one node. Returns the exit status; raises KeyboardInterrupt only."""
    with suppress(Exception):  # stderr may be no file
        faulthandler.enable()
    try:
        work = _Work.start(directory.absolute(), results.absolute(), attempt)
        if mode == "score":
            work.score()
            return 0
        return work.run()
    except OSError as error:
        traceback.print_exc()
        print(f"harness: cannot read or write the record: {error}", file=sys.stderr)
        return STORAGE
    except Exception as error:
        traceback.print_exc()
        print(f"harness: internal error: {type(error).__name__}: {error}", file=sys.stderr)
        return INTERNAL
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()


@dataclass
class _Work:
    directory: Path
    node: Mapping[str, Any]
    grant: Grant
    products: Products
    context: RunContext
    attempt: int
    started: datetime
    clock: float
    cpu: float

    @staticmethod
    def start(directory: Path, results: Path, attempt: int) -> _Work:
        started, clock, cpu = datetime.now(UTC), time.perf_counter(), _cpu_seconds()
        node = read_json(directory / "node.json")
        resources = node.get("resources", {})
        grant = Grant.of(resources)
        set_threads(grant.threads)
        folder = directory / "attempts" / str(attempt)
        checkpoints = directory / "checkpoints"
        for path in (folder, checkpoints):
            path.mkdir(parents=True, exist_ok=True)
        memory = int(resources.get("memory", 0))
        context = RunContext(directory, checkpoints, node.get("seed"), node.get("limit"), memory, grant, folder)
        barred = folder / "skip.json"
        products = Products(results, node.get("builds", {}), read_json(barred) if barred.exists() else {})
        return _Work(directory, node, grant, products, context, attempt, started, clock, cpu)

    def run(self) -> int:
        """Build, or observe and score. Returns the exit status."""
        try:
            self._check_code()
            if self.node["kind"] == "build":
                self.build()
                return 0
            self.observe()
        except CodeChanged as error:
            return self._refuse(str(error))
        self.score()
        return 0

    def build(self) -> None:
        """Make the product beside its place, move it there when it is whole, commit."""
        for left in self.directory.glob("product.tmp-*"):
            shutil.rmtree(left)
        temporary = self.directory / f"product.tmp-{self.attempt}-{os.getpid()}"
        temporary.mkdir()
        self.context.directory = temporary
        self.context.samples = SampleWriter(self.context.attempt / "samples.jsonl")
        record = self._record(EntryState(State.OK))
        try:
            self._make(record, temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _make(self, record: RunRecord, temporary: Path) -> None:
        try:
            component = instantiate(self.node["component"], self.products)
            if not isinstance(component, Build):
                raise TypeError(f"{type(component).__name__} is no Build")
            set_threads(self.grant.threads)
            self.context.seed_globals()
            record = replace(record, measured=_measured(component.make(self.context)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            record = self._record(failure_of(error, sources(self.node)))
        with self._stage() as stage:
            self._check_code()
            if record.state is State.OK:
                self._samples(stage)
                _sync(temporary)
                made = {f"product/{p.relative_to(temporary).as_posix()}": p for p in sorted(_files(temporary))}
                self._commit(record, stage, made, temporary)
            else:
                shutil.rmtree(temporary)
                self._commit(record, stage, {})

    def observe(self) -> None:
        """Observe every entry that can be, store what was seen, commit."""
        samples = self.context.samples = SampleWriter(self.context.attempt / "samples.jsonl")
        with scratch(self.context.attempt) as folder:
            self.context.directory = folder
            outcomes = self._outcomes()
        self.context.entry = None
        (self.context.attempt / "active").unlink(missing_ok=True)
        seen = {id: outcome.seen for id, outcome in outcomes.items() if outcome.seen is not None}
        states = {id: outcomes[id].state for id in sorted(outcomes)}
        record = replace(self._record(_overall(list(states.values()))), entries=states)
        with self._stage() as stage:
            written = write_observations(stage, seen, samples.notes) if seen or samples.count else []
            written += self._samples(stage)
            self._check_code()
            self._commit(record, stage, {path.name: path for path in written})

    def _outcomes(self) -> dict[str, Outcome]:
        blame = blamed(self.directory / "attempts", self.attempt) if self.node["shape"] != "single" else {}
        entries = make_entries(self.node, self.products, self.context, blame)
        set_threads(self.grant.threads)  # adapters have loaded their libraries by now
        if not entries.ready:
            return entries.ended
        code = sources(self.node)
        match self.node["shape"]:
            case "single":
                entry = entries.ready[0]
                return {entry.id: observe_single(entry, self.context, code)}
            case "joint":
                return entries.ended | observe_joint(entries.ready, self.context, code)
            case "timed":
                return entries.ended | observe_timed(entries.ready, self.context, code)
        raise ValueError(f"node of shape {self.node['shape']!r}, expected single, joint or timed")

    def score(self) -> None:
        """Compute what is missing in ``scores.json``. Raises ValueError where nothing was observed."""
        record = Stored(self.directory).record
        if record is None:
            raise ValueError(f"{self.directory.name} has no run.json to score")
        self.context.samples = None
        with scratch(self.context.attempt) as folder:
            self.context.directory = folder
            score_run(self.directory, self.node, record, self.products, self.context)

    def _check_code(self) -> None:
        """Raises CodeChanged; metrics are checked when they score."""
        check_code(self.node["component"] if self.node["kind"] == "build" else self.node["entries"])

    def _refuse(self, reason: str) -> int:
        """Record that nothing was made, for the next run to try; a finished record stays."""
        print(f"harness: {reason}", file=sys.stderr)
        old = Stored(self.directory).record
        if old is not None and old.key == self.node["key"] and old.state is State.OK:
            return STORAGE
        with self._stage() as stage:
            self._commit(self._record(EntryState(State.INFRASTRUCTURE, one_line(reason))), stage, {})
        return 0

    @contextmanager
    def _stage(self) -> Iterator[Path]:
        """A folder for what will be committed: a full disk shows while the earlier result is still whole."""
        stage = self.context.attempt / "commit"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir()
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def _samples(self, stage: Path) -> list[Path]:
        assert self.context.samples is not None
        path = stage / "samples.arrow"
        return [path] if self.context.samples.write(path) else []

    def _withdraw(self) -> None:
        """Take back an earlier attempt's record and what it committed: the new one is about to replace it."""
        for name in _COMMITTED:
            (self.directory / name).unlink(missing_ok=True)
        shutil.rmtree(self.directory / "scores", ignore_errors=True)

    def _record(self, state: EntryState) -> RunRecord:
        reason = f"{state.reason} ({state.where})" if state.where else state.reason
        return RunRecord(self.node["key"], state.state, reason, self.attempt)

    def _commit(self, record: RunRecord, stage: Path, files: Mapping[str, Path], product: Path | None = None) -> None:
        """Put what lies in ``stage``, and the product, in the place of an earlier attempt's; the record last.

        ``files``: what the record lists, by the names that they will have.
        """
        if self.context.samples is not None and self.context.samples.error is not None:
            raise self.context.samples.error
        record = replace(
            record,
            started=self.started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            seconds=time.perf_counter() - self.clock,
            cpu_seconds=_cpu_seconds() - self.cpu,
            peak_memory=_peak_memory(),
            bytes=_size(self.directory, {"attempts", "scores", "product", *_COMMITTED}) + _size(stage),
            granted=self.grant.to_json(),
            environment=environment(sources(self.node), accelerators=bool(self.grant.devices)),
            files=_listed(files),
        )
        write_json(stage / "run.json", record.to_json())
        self._withdraw()
        if product is not None:
            shutil.rmtree(self.directory / "product", ignore_errors=True)
            os.replace(product, self.directory / "product")
        for path in sorted(stage.iterdir()):
            if path.name != "run.json":
                os.replace(path, self.directory / path.name)
        _flush(self.directory)
        os.replace(stage / "run.json", self.directory / "run.json")
        _flush(self.directory)


def _overall(states: Sequence[EntryState]) -> EntryState:
    """The run's state from its entries': ok if any is, skipped if all are, else as the failures."""
    if any(state.state is State.OK for state in states):
        return EntryState(State.OK)
    failures = [state for state in states if state.state is not State.SKIPPED]
    if not failures:
        return EntryState(State.SKIPPED, states[0].reason if states else "no entries")
    starved = all(state.state is State.OUT_OF_MEMORY for state in failures)
    return EntryState(State.OUT_OF_MEMORY if starved else State.FAILED, failures[0].reason)


def _measured(returned: Any) -> dict[str, float]:
    """What ``make`` returned, as numbers; anything else is left out with a line in the log."""
    if returned is None:
        return {}
    if not isinstance(returned, Mapping):
        raise TypeError(f"make returned {type(returned).__name__}, expected a mapping from names to numbers")
    measured: dict[str, float] = {}
    for name, value in returned.items():
        try:
            measured[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            print(f"warning: measurement {name} left out: {one_line(str(error))}", file=sys.stderr)
    return measured


def _cpu_seconds() -> float:
    mine, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def _peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # the unit differs


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _sync(folder: Path) -> None:
    """Onto the disk with everything, before a record vouches for it."""
    for path in [*_files(folder), *(p for p in folder.rglob("*") if p.is_dir()), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _flush(folder: Path) -> None:
    """The names in a folder onto the disk, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _size(directory: Path, without: Collection[str] = ()) -> int:
    """Bytes of all files but those ``without``."""
    inside = (path for path in directory.iterdir() if path.name not in without)
    return sum(p.lstat().st_size for path in inside for p in (_files(path) if path.is_dir() else [path]))


def _listed(files: Mapping[str, Path]) -> dict[str, str]:
    """Checksum of each file, or "size:N" once a quarter of a gigabyte has been read; many files are summed up."""
    if len(files) > _CHECKSUM_FILES:
        total = sum(path.stat().st_size for path in files.values())
        return {"product/": f"size:{total} in {len(files)} files"}
    listed: dict[str, str] = {}
    left = _CHECKSUM_BYTES
    for name, path in files.items():
        size = path.stat().st_size
        affordable = size <= left
        listed[name] = file_digest(path) if affordable else f"size:{size}"
        left -= size if affordable else 0
    return listed


def command_line(arguments: Sequence[str] | None = None) -> int:
    """``python -m harness.execution.worker DIRECTORY --results R --attempt N [--mode score]``"""
    parser = argparse.ArgumentParser(prog="python -m harness.execution.worker", description=__doc__)
    parser.add_argument("directory", type=Path, help="holds node.json")
    parser.add_argument("--results", type=Path, required=True, help="the results directory, above builds/")
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--mode", choices=("run", "score"), default="run")
    given = parser.parse_args(arguments)
    return main(given.directory, given.results, given.attempt, given.mode)


if __name__ == "__main__":
    sys.exit(command_line())
