"""Jobs in this very process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.execution.executor import Executor, Job
from harness.execution.inprocess import InProcessExecutor
from harness.results.record import State


def job(bench: Any, directory: Path, key: str) -> Job:
    return Job(directory, bench.results, key, key, 1)


def test_one_job_per_poll(bench: Any, capfd: pytest.CaptureFixture[str]) -> None:
    bench.adapters(bench.plain.replace("called(f", "print('hello'); called(f"))
    first, second = bench.single(name="one"), bench.single(name="two", seed=1)
    executor: Executor = InProcessExecutor()
    executor.submit(job(bench, first, "k1"))
    executor.submit(job(bench, second, "k2"))
    assert [(v.key, v.state) for v in executor.poll(0)] == [("k1", State.OK)]
    assert (first / "run.json").exists()
    assert not (second / "run.json").exists()
    assert [v.key for v in executor.poll(0)] == ["k2"]
    assert list(executor.poll(0)) == []
    assert list(executor.running()) == []
    assert capfd.readouterr().out == "hello\nhello\n"


def test_an_interrupt_passes_and_the_job_is_cancelled(bench: Any) -> None:
    bench.adapters(bench.plain.replace("called(f", "raise KeyboardInterrupt; called(f"))
    executor = InProcessExecutor()
    executor.submit(job(bench, bench.single(), "k1"))
    executor.submit(job(bench, bench.single(name="two", seed=1), "k2"))
    with pytest.raises(KeyboardInterrupt):
        executor.poll(0)
    executor.cancel()
    verdicts = executor.poll(0)
    assert [(v.key, v.state) for v in verdicts] == [("k1", State.CANCELLED), ("k2", State.CANCELLED)]


def test_an_error_of_the_harness_is_told(bench: Any) -> None:
    broken = bench.results / "broken"
    broken.mkdir(parents=True)
    (broken / "node.json").write_text("[")
    executor = InProcessExecutor()
    executor.submit(job(bench, broken, "k"))
    (verdict,) = executor.poll(0)
    assert (verdict.state, verdict.exit) == (State.FAILED, 70)
    executor.close()
