"""A worker that does as its node says, a bench to drive it on, and a driver process that can be killed.

As a script: ``driving.py ROOT STEPS`` drives the steps of a JSON file, with exit status 130 where it was interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.execution.drive import Outcome, Result, Step, drive
from harness.execution.executor import Job
from harness.execution.hostlock import HostLock
from harness.execution.local import LocalExecutor
from harness.execution.process import snapshot
from harness.execution.slots import Slots
from harness.planning.node import Node
from harness.results.files import digest, read_json, write_json
from harness.results.record import RunRecord, State
from harness.results.store import Store, Stored
from harness.spec.study import Resources

GIB = 2**30


def make_node(name: str, *do: str, kind: str = "observation", requires: tuple[str, ...] = (), **rest: Any) -> Node:
    """A node whose worker does ``do``, word by word."""
    document = {"schema_version": 1, "kind": kind, "shape": "single", "name": name, "do": list(do), "metrics": []}
    document.update(rest.pop("document", {}))
    key = digest({"name": name, "do": do})
    return Node(kind, key, name, {**document, "key": key}, requires, rest.pop("resources", Resources()), **rest)


def main(directory: Path, results: Path, attempt: int, mode: str) -> int:
    """The worker: does what node.json says under "do", then writes its record."""
    node = read_json(directory / "node.json")
    with open(results / "executed", "a") as file:
        file.write(f"{node['name']} {os.getpid()} {mode}\n")
    measured = {}
    for word in node["do"]:
        what, _, value = word.partition(":")
        match what:
            case "sleep":
                time.sleep(float(value))
            case "print":
                block = "x" * 99 + "\n"
                for _ in range(int(float(value)) // 100):
                    sys.stdout.write(block)
            case "say":
                print(value)
            case "raise":
                raise RuntimeError(value)
            case "exit":
                os._exit(int(value))
            case "kill":
                sys.stdout.flush()
                os.kill(os.getpid(), int(value))
                time.sleep(10)
            case "child":
                subprocess.Popen(["sleep", value])
            case "daemon":
                daemon(float(value))
            case "bare-daemon":  # forgets its environment, session and parents
                subprocess.run(["env", "-i", "setsid", "sh", "-c", f"sleep {value} > /dev/null 2>&1 &"], check=True)
            case "deaf":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "memory":
                held = bytearray(int(float(value)))
                held[::4096] = b"x" * len(held[::4096])
            case "measure":
                measured["accuracy"] = float(value)
            case "active":
                (directory / "attempts" / str(attempt) / "active").write_text(value)
            case "progress":
                progress = {"done": float(value), "total": 10, "note": "step"}
                write_json(directory / "attempts" / str(attempt) / "progress.json", progress)
            case "skips":
                os.rename(directory / "attempts" / str(attempt) / "skip.json", directory / "skip-seen.json")
            case "half":
                (directory / "output").write_text("hal")
            case "facts":
                facts = {"cpus": sorted(os.sched_getaffinity(0)), "grant": json.loads(os.environ["HARNESS_GRANT"])}
                facts |= {"omp": os.environ["OMP_NUM_THREADS"], "session": os.getsid(0), "pid": os.getpid()}
                facts |= {"torch": "torch" in sys.modules, "attempt": attempt}
                write_json(directory / "facts.json", facts)
            case _:
                raise ValueError(word)
    if mode == "score":
        write_json(directory / "scores.json", scores(node))
        return 0
    record = RunRecord(node["key"], State.OK, attempt=attempt, seconds=0.1, measured=measured or None)
    write_json(directory / "run.json", record.to_json())
    write_json(directory / "scores.json", scores(node))
    return 0


def scores(node: dict[str, Any]) -> dict[str, Any]:
    """A score for every metric that the node names."""
    return {m["score_key"]: {"metric": "m", "entry": m["entry"], "state": "ok", "value": 1.0} for m in node["metrics"]}


def daemon(seconds: float) -> None:
    """A double-forked process in its own session that holds on to nothing but its environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(seconds)
        os._exit(0)
    os.wait()


@dataclass
class Ears:
    """A listener that remembers."""

    heard: list[tuple[str, str]] = field(default_factory=list)

    def planned(self, steps):
        pass

    def queued(self, step):
        self.heard.append(("queued", step.node.name))

    def started(self, step):
        self.heard.append(("started", step.node.name))

    def progress(self, step, done, total, note):
        self.heard.append(("progress", f"{done:g}/{total:g} {note}"))

    def finished(self, step, result: Result):
        self.heard.append(("finished", step.node.name))

    def skipped(self, step, result: Result):
        self.heard.append(("skipped", step.node.name))

    def message(self, text):
        self.heard.append(("message", text))

    def ended(self, outcome):
        pass

    def of(self, kind: str) -> list[str]:
        return [what for how, what in self.heard if how == kind]


class Bench:
    """Two CPUs and plenty of memory, a store, and an executor whose workers do as they are told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results = root / "results"
        self.results.mkdir(exist_ok=True)
        self.store = Store(self.results, "study")
        self.ears = Ears()
        self._executor: LocalExecutor | None = None

    @property
    def executor(self) -> LocalExecutor:
        if self._executor is None:
            self._executor = self.make_executor()
        return self._executor

    def make_executor(self, **options: Any) -> LocalExecutor:
        options = {"slots": Slots((0, 1), 64 * GIB), "worker": "driving:main", "say": self.ears.message} | options
        return LocalExecutor(lock=HostLock(self.root / "lock"), grace=0.5, **options)

    def use(self, **options: Any) -> None:
        self._executor = self.make_executor(**options)

    def drive(self, *steps: Step | Node) -> Outcome:
        made = [Step(step) if isinstance(step, Node) else step for step in steps]
        return drive(made, Store(self.results, "study"), self.executor, self.ears)

    def directory(self, node: Node) -> Path:
        return self.store.shelf(node.kind).root / node.directory_name

    def record(self, node: Node) -> RunRecord | None:
        return Stored(self.directory(node)).record

    def job(self, node: Node) -> Job:
        """Laid out by hand, for the executor alone."""
        directory = self.directory(node)
        (directory / "attempts" / "1").mkdir(parents=True)
        write_json(directory / "node.json", node.document)
        return Job(directory, self.results, node.key, node.name, 1, node.resources, node.exclusive, node.preload)

    def executed(self) -> list[str]:
        """Names of the nodes that workers took up, in order."""
        path = self.results / "executed"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def pids(self) -> list[int]:
        path = self.results / "executed"
        return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []

    def driver(self, *steps: Step | Node) -> subprocess.Popen[str]:
        """A driver in a process of its own."""
        made = [Step(step) if isinstance(step, Node) else step for step in steps]
        path = self.root / "steps.json"
        path.write_text(json.dumps([asdict(step) for step in made]))
        command = [sys.executable, __file__, str(self.root), str(path)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()


def wait_until(condition, seconds: float = 10.0) -> None:
    """Raises AssertionError if it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def sleepers(seconds: float) -> list[int]:
    """Processes ``sleep SECONDS``, which a test has made recognisable by an odd number."""
    words = f"sleep\0{seconds}\0".encode()
    return [pid for pid in snapshot() if words in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _script(root: str, steps: str) -> int:
    bench = Bench(Path(root))
    made = []
    for step in json.loads(Path(steps).read_text()):
        node = step.pop("node")
        node["resources"] = Resources(**node["resources"])
        node["requires"], node["preload"] = tuple(node["requires"]), tuple(node["preload"])
        made.append(Step(Node(**node), **step))
    try:
        outcome = bench.drive(*made)
    finally:
        bench.close()
    messages = bench.ears.of("message")
    reused = sum(result.reused for result in outcome.results.values())
    print(json.dumps({"counts": outcome.counts, "messages": messages, "reused": reused, "error": outcome.error}))
    return 130 if outcome.interrupted else 0


if __name__ == "__main__":
    sys.exit(_script(*sys.argv[1:]))
