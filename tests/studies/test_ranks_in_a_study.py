"""A study whose entries run on two ranks, one of which is killed in the middle of one method's step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import harness

pytestmark = pytest.mark.track_decoding

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

MORTAL = """
import os
import signal

from harness.tracks.decoding.devices import device_of
from harness.tracks.decoding.devices.latent import LatentDevice
from harness.tracks.decoding.latent import LatentAttention
from methods.decoding.mla import MLA


class Device(LatentDevice):
    def __init__(self, module, share):
        super().__init__(module, share)
        self.number = share.rank

    def step(self, x, cache):
        if self.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(x, cache)


class Module(LatentAttention):
    pass


device_of.register(Module, Device)


class Mortal(MLA):
    def module(self, shape):
        return Module(shape, self.layout(shape), 16)
"""

SPEC = """
harness: 1
study: ranks
title: Two ranks
track: decoding
methods:
  mla: {use: decoding.mla}
  mortal: {use: "./mortal.py:Mortal"}
evaluations:
  throughput:
    use: decoding.throughput
    params: {devices: 2, batch: 2, context: 256, heads: 4, head_dim: 16, rounds: 3, min_time: 0.001}
    matrix: {tensor_parallel: [1, 2], part: [step, shard, all_reduce]}
    metrics: [decoding.tokens_per_second, decoding.microseconds_per_step]
seeds: 1
resources: {cpus: 2, memory: 4GiB, timeout: 3m}
"""


@pytest.mark.skipif(CPUS < 2, reason="two ranks at once need two CPUs")
def test_a_killed_rank_ends_its_entry_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mortal.py").write_text(MORTAL)
    (tmp_path / "ranks.yaml").write_text(SPEC)
    study = harness.load(tmp_path / "ranks.yaml")
    result = harness.run(study, results=tmp_path / "results")
    frame = harness.table(study, results=tmp_path / "results").to_frame()
    frame = frame[frame["metric"] == "microseconds_per_step"]
    states: dict[Any, Any] = {}
    for row in frame.to_dict("records"):
        states[row["method"], row["tensor_parallel"], row["part"]] = row
    assert len(states) == 12
    for (method, tensor_parallel, part), row in states.items():
        if part == "all_reduce" and tensor_parallel == 1:
            assert (row["state"], "nothing to reduce" in row["reason"]) == ("skipped", True)
        elif method == "mortal" and tensor_parallel == 2 and part == "step":
            assert row["state"] == "failed"
            assert "rank 1 of 2: ended by SIGKILL" in row["reason"]
        else:
            assert row["state"] == "ok", row
            assert row["estimate"] > 0
    assert result.outcome.counts == {"ok": 1}
