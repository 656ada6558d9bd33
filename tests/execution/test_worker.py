"""One run's process: builds, single and joint runs, failures, commits, scores."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.execution import worker
from harness.execution.worker import main
from harness.planning.digest import code_parts
from harness.planning.parts import code_of
from harness.results import files
from harness.results.observations import read_notes, read_observations
from harness.results.record import State
from harness.results.samples import read_samples


def observing(bench: Any, body: str, head: str = "") -> Any:
    """The record of a run whose ``observe`` has this body."""
    observe = f"    def observe(self, method, context):\n        {body}\n"
    bench.adapters(f"{head}\nclass Ours(Method): pass\nclass Seen(Evaluation[Ours]):\n{observe}")
    return bench.work(bench.single())


def test_a_run_leaves_its_record_and_observations(bench: Any) -> None:
    bench.adapters(bench.plain)
    directory = bench.single(seed=7, limit=5)
    record = bench.work(directory)
    assert record.state is State.OK
    assert record.entries["e1"].state is State.OK
    seen = read_observations(directory, "e1")
    assert seen.arrays["x"].tolist() == [0, 1, 2]
    assert seen.values == {"seed": 7, "limit": 5}
    assert set(record.files) == {"observations.npz", "observations.json"}
    assert record.files["observations.npz"] == files.file_digest(directory / "observations.npz")
    assert record.seconds > 0
    assert record.started.endswith("Z")
    assert record.peak_memory is not None
    assert record.peak_memory > 2**20
    assert record.bytes is not None
    assert record.bytes > 0
    assert record.granted["threads"] == 1
    assert record.environment["python"]
    assert not (directory / "attempts" / "1" / "scratch").exists()


def test_the_command_line_does_the_same_and_writes_nothing_into_the_current_directory(
    bench: Any, tmp_path: Path
) -> None:
    bench.adapters(bench.plain)
    directory = bench.single()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(bench.command(directory), cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((directory / "run.json").read_text())["state"] == "ok"
    assert list(elsewhere.iterdir()) == []


def test_two_methods_are_each_asked(bench: Any) -> None:
    bench.adapters(bench.plain)
    for size in (2, 4):
        entry = bench.entry("e1", bench.reference("Ours", size=size), bench.reference("Seen"))
        directory = bench.run_node(entry, name=f"run{size}")
        bench.work(directory)
        assert len(read_observations(directory, "e1").arrays["x"]) == size
    assert bench.calls() == ["observe-2", "observe-4"]


@pytest.mark.parametrize(
    ("body", "state", "reason"),
    [
        ("raise TypeError('no\\n such  thing')", State.FAILED, "TypeError: no such thing"),
        ("raise KeyError('x')", State.FAILED, "KeyError: 'x'"),
        ("raise ValueError('y' * 900)", State.FAILED, "ValueError: " + "y" * 487 + "…"),
        ("raise RuntimeError", State.FAILED, "RuntimeError"),
        ("raise SystemExit(3)", State.FAILED, "SystemExit: 3"),
        ("raise MemoryError('12 GiB')", State.OUT_OF_MEMORY, "MemoryError: 12 GiB"),
        ("raise type('OutOfMemoryError', (RuntimeError,), {})('CUDA')", State.OUT_OF_MEMORY, "OutOfMemoryError: CUDA"),
        ("raise NotApplicable('no cache to shard')", State.SKIPPED, "no cache to shard"),
        ("return {'x': 1}", State.FAILED, "TypeError: observe returned dict, expected Observations"),
        ("return Observations({'x': np.empty(0)}, {'n': 0})", State.SKIPPED, "0 samples"),
    ],
)
def test_states_and_reasons(bench: Any, body: str, state: State, reason: str) -> None:
    record = observing(bench, body)
    assert (record.state, record.reason) == (state, reason)
    assert record.entries["e1"].state is state


def test_where_is_the_deepest_line_of_the_adapters_own_code(bench: Any, capfd: pytest.CaptureFixture[str]) -> None:
    (bench.root / "sibling.py").write_text("import json\ndef broken():\n    return json.loads('{')\n")
    record = observing(bench, "return sibling.broken()", head="import sibling")
    assert record.entries["e1"].where == "sibling.py:3"
    assert record.reason.startswith("JSONDecodeError: ")
    assert "Traceback" in capfd.readouterr().err
    del sys.modules["sibling"]


def test_an_interrupt_is_no_failure_and_leaves_no_record(bench: Any) -> None:
    bench.adapters(bench.plain.replace("called(f", "raise KeyboardInterrupt; called(f"))
    directory = bench.single()
    with pytest.raises(KeyboardInterrupt):
        main(directory, bench.results, 1)
    assert not (directory / "run.json").exists()


def test_a_class_that_is_gone_is_named(bench: Any) -> None:
    bench.adapters(bench.plain)
    record = bench.work(bench.single(evaluation="Sean"))
    assert record.state is State.FAILED
    assert "has no class Sean" in record.reason


def test_a_failed_run_is_tried_again_and_its_log_stays(bench: Any) -> None:
    bench.adapters(
        bench.plain.replace("called(f", "called('observe') if CALLS.exists() else broken(); called(f")
        + "\ndef broken():\n    called('broken'); raise RuntimeError('first time')\n"
    )
    directory = bench.single()
    assert bench.work(directory, 1).state is State.FAILED
    (directory / "attempts" / "1" / "log").write_text("Traceback")
    record = bench.work(directory, 2)
    assert (record.state, record.attempt) == (State.OK, 2)
    assert (directory / "attempts" / "1" / "log").read_text() == "Traceback"


def test_values_without_a_json_form_cost_only_themselves(bench: Any) -> None:
    bench.adapters(bench.plain.replace('{"seed"', '{"bad": len, "nan": float("nan"), "f": np.float32(0.5), "seed"'))
    directory = bench.single()
    assert bench.work(directory).state is State.OK
    assert read_observations(directory, "e1").values == {"nan": None, "f": 0.5, "seed": 0, "limit": None}
    assert set(read_notes(directory)) == {"e1.values.bad", "e1.values.nan"}


def test_rivals_see_the_same_random_numbers(bench: Any) -> None:
    bench.adapters("""
        import random
        class A(Method): draws: int = 0
        class B(A): pass
        class Seen(Evaluation[A]):
            def observe(self, method, context):
                context.rng("own").random(method.draws)
                return Observations({"data": context.rng("data").random(4), "own": context.rng("own").random(4),
                    "global": np.array([random.random(), np.random.random()])}, {"init": context.seed_for("init")})
    """)
    seen = {}
    for method, draws, seed in [("A", 0, 0), ("B", 9, 0), ("A", 0, 1), ("A", 0, None)]:
        entry = bench.entry("e1", bench.reference(method, draws=draws), bench.reference("Seen"))
        directory = bench.run_node(entry, seed=seed, name=f"{method}{seed}")
        bench.work(directory)
        found = read_observations(directory, "e1")
        seen[method, seed] = {**{k: v.tolist() for k, v in found.arrays.items()}, **found.values}
    assert seen["A", 0] == seen["B", 0]
    for name in ("data", "own", "global", "init"):
        assert seen["A", 0][name] != seen["A", 1][name]
        assert seen["A", 0][name] != seen["A", None][name]
    assert seen["A", 0]["data"] != seen["A", 0]["own"]
    assert 0 <= seen["A", 0]["init"] < 2**63


def test_samples_and_progress(bench: Any) -> None:
    bench.adapters(
        bench.plain.replace(
            "called(f",
            "[context.sample(f's{i}', right=i % 2 == 0) for i in range(3)]; "
            "context.progress(1, 2, 'half'); context.progress(2, 2); called(f",
        )
    )
    directory = bench.single()
    record = bench.work(directory)
    assert read_samples(directory).to_pylist() == [{"id": f"s{i}", "right": i % 2 == 0} for i in range(3)]
    assert "samples.arrow" in record.files
    progress = json.loads((directory / "attempts" / "1" / "progress.json").read_text())
    assert (progress["done"], progress["total"], progress["note"]) == (1, 2, "half")  # at most four a second


def test_a_full_disk_is_not_a_result(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bench.adapters(bench.plain)
    directory = bench.single()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    assert main(directory, bench.results, 1) == worker.STORAGE
    assert "No space left" in capfd.readouterr().err
    monkeypatch.undo()
    assert sorted(p.name for p in directory.iterdir()) == ["attempts", "checkpoints", "node.json"]


@pytest.mark.parametrize("kind", ["run", "build"])
def test_a_full_disk_leaves_an_earlier_result_whole(bench: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    bench.adapters(f"""{bench.plain}
class Mean(Metric):
    of = ("seen",)
    def score(self, seen, parameters, context):
        return Values(1.0, items=seen.arrays["x"])
class Made(Build[int]):
    def make(self, context):
        (context.directory / "x").write_text(str(context.attempt.name))
    def load(self, directory):
        return 1
""")
    metric = {"score_key": "a1" * 32, "entry": "e1", "metric": bench.reference("Mean"), "parameters": {}}
    directory = bench.single(metrics=[metric]) if kind == "run" else bench.build_node(bench.reference("Made"))
    bench.work(directory)

    def content() -> dict[Path, bytes]:
        found = (p for p in directory.rglob("*") if p.is_file() and "attempts" not in p.parts)
        return {path: path.read_bytes() for path in found}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = content()
    assert len(before) == (6 if kind == "run" else 3)
    for place in ("write_json", "write_observations" if kind == "run" else "_sync"):
        monkeypatch.setattr(worker, place, full)
        assert main(directory, bench.results, 2) == worker.STORAGE
        assert content() == before
        assert not (directory / "attempts" / "2" / "commit").exists()
        monkeypatch.undo()
    assert bench.work(directory, 3).attempt == 3


def test_a_name_that_is_no_text_costs_no_run(bench: Any) -> None:
    record = observing(bench, "raise FileNotFoundError('bad \\udcff')")
    assert (record.state, record.reason) == (State.FAILED, "FileNotFoundError: bad \\udcff")


def coded(bench: Any, name: str) -> dict[str, Any]:
    """A reference as the plan writes it, with the code as it is now."""
    reference = bench.reference(name)
    return {**reference, "code": code_of(code_parts(reference["module"]))}


CHANGED = "its code changed since the plan was made; run again"


@pytest.mark.parametrize("kind", ["run", "nested", "build"])
def test_code_that_changed_since_the_plan_gives_no_result(bench: Any, kind: str) -> None:
    source = bench.plain + (
        "class Made(Build[int]):\n    inner: object = None\n"
        "    def make(self, context): called('made')\n    def load(self, directory): return 1\n"
    )
    bench.adapters(source)
    inner = coded(bench, "Ours")
    if kind == "build":
        directory = bench.build_node({**bench.reference("Made"), "params": {"inner": inner}})
    elif kind == "nested":
        evaluation = bench.reference("Seen", inner=[inner])
        directory = bench.run_node(bench.entry("e1", bench.reference("Ours"), evaluation))
    else:
        directory = bench.run_node(bench.entry("e1", inner, coded(bench, "Seen")))
    bench.adapters(source + "LATER = 1\n")
    record = bench.work(directory)
    assert (record.state, record.reason) == (State.INFRASTRUCTURE, f"./adapters.py:Ours: {CHANGED}")
    assert bench.calls() == []
    assert {p.name for p in directory.iterdir()} == {"attempts", "checkpoints", "node.json", "run.json"}
    if kind != "nested":
        bench.adapters(source + "# as planned\n")
        assert bench.work(directory, 2).state is State.OK
        before = {p: p.read_bytes() for p in directory.iterdir() if p.is_file()}
        bench.file.unlink()
        assert main(directory, bench.results, 3) == worker.STORAGE
        assert before == {p: p.read_bytes() for p in directory.iterdir() if p.is_file()}


def test_code_that_changes_during_the_run_gives_no_result(bench: Any) -> None:
    edit = "open(__file__, 'a').write('LATER = 1\\n'); called(f"
    bench.adapters(bench.plain.replace("called(f", edit))
    directory = bench.run_node(bench.entry("e1", coded(bench, "Ours"), bench.reference("Seen")))
    record = bench.work(directory)
    assert (record.state, record.reason) == (State.INFRASTRUCTURE, f"./adapters.py:Ours: {CHANGED}")
    assert not (directory / "observations.npz").exists()


def test_a_node_that_is_missing_or_broken_is_the_harness_own_error(bench: Any) -> None:
    directory = bench.results / "nothing"
    directory.mkdir(parents=True)
    assert main(directory, bench.results, 1) == worker.STORAGE
    (directory / "node.json").write_text("{")
    assert main(directory, bench.results, 1) == worker.INTERNAL


def test_threads_follow_the_grant(bench: Any) -> None:
    bench.adapters("""
        import os, threadpoolctl
        class Ours(Method): pass
        class Seen(Evaluation[Ours]):
            def observe(self, method, context):
                pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
                return Observations(values={"pools": pools, "omp": os.environ["OMP_NUM_THREADS"],
                    "cpus": context.cpus, "devices": context.devices, "memory": context.memory})
    """)
    directory = bench.single()
    grant = json.dumps({"cpus": [0], "devices": ["GPU-1"], "threads": 1})
    environment = {**os.environ, "HARNESS_GRANT": grant, "OMP_NUM_THREADS": "7", "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run(bench.command(directory), env=environment, check=True)
    values = read_observations(directory, "e1").values
    assert set(values.pop("pools")) == {1}  # type: ignore[attr-defined]
    assert values == {"omp": "1", "cpus": 1, "devices": ["GPU-1"], "memory": 2**30}


def test_arrays_that_would_need_pickle_are_left_out(bench: Any) -> None:
    bench.adapters(bench.plain.replace('{"x"', '{"o": np.array([{}, None], object), "nan": np.array([np.nan]), "x"'))
    directory = bench.single()
    assert bench.work(directory).state is State.OK
    seen = read_observations(directory, "e1")
    assert set(seen.arrays) == {"x", "nan"}
    assert np.isnan(seen.arrays["nan"]).all()
    assert "e1.arrays.o" in read_notes(directory)
