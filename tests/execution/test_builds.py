"""Builds in the worker: products that count, products that do not, and who reads them."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any

import pytest

from harness.execution import worker
from harness.results.observations import read_observations
from harness.results.record import State

# builds

BUILDS = """
class Table(Build[dict]):
    rows: int = 2
    def make(self, context):
        called("make")
        (context.directory / "rows").write_text(str(self.rows))
        (context.directory / "deep").mkdir()
        (context.directory / "deep" / "x").write_text("x")
        return {"accuracy": np.float32(0.5), "odd": "text"}
    def load(self, directory):
        called("load")
        return {"rows": int((directory / "rows").read_text())}
class Uses(Method):
    table: dict
    more: dict
    @property
    def size(self): return self.table["rows"]
"""


def test_a_build_and_a_run_that_reads_it_twice(bench: Any) -> None:
    bench.adapters(bench.plain + BUILDS)
    build = bench.build_node(bench.reference("Table", rows=4), key="ab" * 32)
    record = bench.work(build)
    assert record.state is State.OK
    assert record.measured == {"accuracy": 0.5}
    assert set(record.files) == {"product/rows", "product/deep/x"}
    key = {"$build": "ab" * 32}
    entry = bench.entry("e1", bench.reference("Uses", table=key, more=key), bench.reference("Seen"))
    run = bench.run_node(entry, builds={"ab" * 32: build.name})
    assert bench.work(run).state is State.OK
    assert len(read_observations(run, "e1").arrays["x"]) == 4
    assert bench.calls() == ["make", "load", "observe-4"]


def test_a_build_that_is_made_from_another(bench: Any) -> None:
    bench.adapters(
        bench.plain
        + BUILDS
        + """
class Doubled(Build[dict]):
    table: dict
    def make(self, context):
        (context.directory / "n").write_text(str(2 * self.table["rows"]))
    def load(self, directory):
        return {"rows": int((directory / "n").read_text()) + self.table["rows"]}
"""
    )
    first = bench.build_node(bench.reference("Table"), name="first", key="aa" * 32)
    inner = bench.reference("Doubled", table={"$build": "aa" * 32})
    second = bench.build_node(inner, name="second", key="bb" * 32, builds={"aa" * 32: first.name})
    bench.work(first)
    assert bench.work(second).measured == {}
    key = {"$build": "bb" * 32}
    entry = bench.entry("e1", bench.reference("Uses", table=key, more={}), bench.reference("Seen"))
    run = bench.run_node(entry, builds={"bb" * 32: second.name})
    assert bench.work(run).state is State.OK
    assert len(read_observations(run, "e1").arrays["x"]) == 6


def test_a_failed_build_leaves_no_product_and_skips_its_dependants(bench: Any) -> None:
    bench.adapters(bench.plain + BUILDS.replace('(context.directory / "deep").mkdir()', 'raise ValueError("no rows")'))
    build = bench.build_node(bench.reference("Table"), name="table", key="ab" * 32)
    record = bench.work(build)
    assert (record.state, record.files) == (State.FAILED, {})
    assert record.reason.startswith("ValueError: no rows (adapters.py:")
    assert sorted(p.name for p in build.iterdir()) == ["attempts", "checkpoints", "node.json", "run.json"]
    key = {"$build": "ab" * 32}
    entry = bench.entry("e1", bench.reference("Uses", table=key, more=key), bench.reference("Seen"))
    record = bench.work(bench.run_node(entry, builds={"ab" * 32: build.name}))
    assert record.state is State.SKIPPED
    assert record.reason.startswith("upstream table: ValueError: no rows")


def test_a_build_killed_halfway_does_not_count(bench: Any) -> None:
    bench.adapters(
        bench.plain
        + BUILDS.replace('called("make")', 'called("make"); halfway(context)')
        + """
def halfway(context):
    if len(CALLS.read_text().split()) == 1:
        (context.directory / "rows").write_text("1")
        (context.checkpoints / "step").write_text("5")
        import time; called("halfway"); time.sleep(60)
"""
    )
    build = bench.build_node(bench.reference("Table", rows=4))
    process = subprocess.Popen(bench.command(build))
    while "halfway" not in bench.calls():
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (build / "product").exists()
    assert not (build / "run.json").exists()
    bench.work(build, 2)
    assert (build / "product" / "rows").read_text() == "4"
    assert (build / "checkpoints" / "step").read_text() == "5"
    assert not list(build.glob("product.tmp-*"))


def test_large_products_are_listed_by_size(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CHECKSUM_BYTES", 1)
    bench.adapters(bench.plain + BUILDS)
    record = bench.work(bench.build_node(bench.reference("Table", rows=1234)))
    assert record.files["product/rows"] == "size:4"
    assert record.files["product/deep/x"].startswith("sha256:")
