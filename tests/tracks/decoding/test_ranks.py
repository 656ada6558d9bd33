"""Groups of rank processes: what they answer, and how their ends are told."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from harness.tracks.decoding.ranks import RankError, RankGroup, RankOutOfMemory, shared_group

pytestmark = pytest.mark.track_decoding

ASKED = """
import os, signal, sys, time

import torch


def number(rank, factor=1):
    return rank.number * factor


def threads(rank):
    return torch.get_num_threads(), os.getpgrp()


def summed(rank, tensor_parallel):
    tensor = torch.tensor([1.0, 10.0 ** rank.number])
    rank.all_reduce(tensor, tensor_parallel)
    return tensor.tolist()


def gathered(rank):
    return [float(t) for t in rank.gather(torch.tensor(float(rank.number)))]


def killed(rank, which):
    if rank.number == which:
        os.kill(os.getpid(), signal.SIGKILL)
    rank.barrier()


def raises(rank, which, kind=ValueError):
    if rank.number == which:
        raise kind("no such luck")
    rank.barrier()


def leaves(rank, which):
    if rank.number == which:
        sys.exit(3)
    rank.barrier()


def waits(rank):
    if rank.number:
        time.sleep(600)
    rank.barrier()
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Functions in a module that no import finds, as adapters straight from a file are."""
    path = tmp_path_factory.mktemp("asked") / "rank_work.py"
    path.write_text(ASKED)
    spec = importlib.util.spec_from_file_location("a_name_of_its_own", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankGroup]:
    """Two ranks for all tests that leave them whole."""
    group = RankGroup(2, 1, tmp_path_factory.mktemp("pair"))
    yield group
    group.close()


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[RankGroup]:
    """Two ranks that do not outlive the test."""
    group = RankGroup(2, 1, tmp_path)
    yield group
    group.close()


def gone(pids: tuple[int, ...], within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not any(psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE for p in pids):
            return True
        time.sleep(0.02)
    return False


def test_all_ranks_answer_or_those_that_are_asked(pair: RankGroup, asked: Any) -> None:
    assert pair.ask(asked.number) == [0, 1]
    assert pair.ask(asked.number, 5, ranks=[1]) == [5]
    assert len(set(pair.pids)) == 2


def test_they_keep_to_their_threads_and_to_this_session(pair: RankGroup, asked: Any) -> None:
    assert pair.ask(asked.threads) == [(1, os.getpgrp())] * 2


def test_sums_stay_inside_a_replica(pair: RankGroup, asked: Any) -> None:
    assert pair.ask(asked.summed, 2) == [[2, 11], [2, 11]]
    assert pair.ask(asked.summed, 1) == [[1, 1], [1, 10]]
    assert pair.ask(asked.gathered) == [[0, 1], [0, 1]]


def test_two_replicas_of_two(tmp_path: Path, asked: Any) -> None:
    group = RankGroup(4, 1, tmp_path)
    try:
        assert group.ask(asked.summed, 2) == [[2, 11], [2, 11], [2, 1100], [2, 1100]]
    finally:
        group.close()


@pytest.mark.parametrize(
    ("function", "which", "reason"),
    [
        ("killed", 1, "rank 1 of 2: ended by SIGKILL"),
        ("killed", 0, "rank 0 of 2: ended by SIGKILL"),
        ("raises", 1, r"rank 1 of 2: ValueError: no such luck \(rank_work.py:33\)"),
        ("leaves", 0, "rank 0 of 2: ended with status 3"),
    ],
)
def test_a_rank_that_ends_is_told_at_once(
    doomed: RankGroup, asked: Any, function: str, which: int, reason: str
) -> None:
    pids, start = doomed.pids, time.monotonic()
    with pytest.raises(RankError, match=reason):
        doomed.ask(getattr(asked, function), which)
    assert time.monotonic() - start < 3
    assert gone(pids)
    assert not doomed.alive
    with pytest.raises(RankError, match="have been ended"):
        doomed.ask(asked.number)


def test_killed_from_outside_while_its_peer_waits(doomed: RankGroup, asked: Any) -> None:
    threading.Timer(0.5, os.kill, (doomed.pids[1], signal.SIGKILL)).start()
    with pytest.raises(RankError, match="rank 1 of 2: ended by SIGKILL"):
        doomed.ask(asked.waits)
    assert gone(doomed.pids)


def test_want_of_memory_is_told_as_such(doomed: RankGroup, asked: Any) -> None:
    with pytest.raises(RankOutOfMemory):
        doomed.ask(asked.raises, 0, MemoryError)


def test_a_group_is_shared_while_it_is_held_and_whole(make_context: Callable[..., Any]) -> None:
    context = make_context(cpus=2)
    group = shared_group(1, 2, context)
    assert shared_group(1, 2, context) is group
    os.kill(group.pids[0], signal.SIGKILL)
    deadline = time.monotonic() + 5
    while group.alive and time.monotonic() < deadline:
        time.sleep(0.02)
    fresh = shared_group(1, 2, context)
    assert fresh is not group
    pids = fresh.pids
    del fresh
    assert gone(pids)  # nobody holds it


PARENT = """
import importlib.util, sys
from pathlib import Path
from harness.tracks.decoding.ranks import RankGroup
group = RankGroup(2, 1, Path(sys.argv[1]))
print(*group.pids, flush=True)
spec = importlib.util.spec_from_file_location("a_name_of_its_own", sys.argv[2])
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
group.ask(module.waits)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere ranks notice it between two requests only")
def test_no_rank_outlives_its_parent(tmp_path: Path, asked: Any) -> None:
    arguments = [sys.executable, "-c", PARENT, str(tmp_path), asked.__file__]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as parent:
        assert parent.stdout is not None
        pids = tuple(int(pid) for pid in parent.stdout.readline().split())
        time.sleep(0.3)  # they are at work, one of them in a collective
        assert len(pids) == 2
        assert not gone(pids, within=0.1)
        parent.kill()
        assert gone(pids)
