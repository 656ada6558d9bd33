"""Ending whole trees."""

import os
import subprocess
import sys
import time

import psutil
from driving import sleepers, wait_until

from harness.execution.process import (
    MARKER,
    MARKER_LENGTH,
    Tree,
    end_marked,
    end_tree,
    marker_prefix,
    memory,
    new_marker,
    snapshot,
    start_of,
)


def start(code, marker):
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, MARKER: marker}, start_new_session=True)


def test_markers_are_unique_of_one_length_and_tell_their_driver():
    first, second = new_marker("ab" * 32, 1), new_marker("ab" * 32, 1)
    assert first != second
    assert len(first) == len(second) == MARKER_LENGTH
    assert first.startswith(marker_prefix(os.getpid()))


def test_a_tree_is_ended_with_what_left_it():
    marker = new_marker("ab" * 32, 1)
    code = """
import subprocess, time
subprocess.Popen(["sleep", "1008.5"], start_new_session=True)
subprocess.Popen(["sh", "-c", "sleep 1008.5 & sleep 1008.5 & wait"])
subprocess.run(["sh", "-c", "setsid sh -c 'sleep 1008.5 &'"])
time.sleep(1000)
"""
    process = start(code, marker)
    wait_until(lambda: len(sleepers(1008.5)) == 4)
    began = time.monotonic()
    end_tree(process.pid, marker)
    assert not sleepers(1008.5)
    assert time.monotonic() - began < 1.5
    assert process.wait() < 0


def test_what_is_deaf_is_killed_after_the_grace():
    marker = new_marker("ab" * 32, 1)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, MARKER: marker}, stdout=subprocess.PIPE)
    process.stdout.readline()
    began = time.monotonic()
    end_tree(process.pid, marker, grace=0.4)
    assert 0.4 <= time.monotonic() - began < 2
    assert process.wait() == -9
    process.stdout.close()


def test_one_that_cleaned_its_environment_after_it_was_seen_is_known():
    marker = new_marker("ab" * 32, 1)
    code = "import os, time; time.sleep(0.4); os.execvpe('sleep', ['sleep', '1009.5'], {})"
    process = start(code, marker)
    tree = Tree(marker)
    wait_until(lambda: tree.refresh(snapshot()) == [process.pid])
    wait_until(lambda: sleepers(1009.5))
    assert snapshot()[process.pid].marker is None
    assert tree.refresh(snapshot()) == [process.pid]
    process.kill()
    process.wait()


def test_what_a_dead_driver_left_is_found_by_its_prefix():
    process = start("import time; time.sleep(1000)", new_marker("ab" * 32, 3, pid=os.getppid()))
    other = start("import time; time.sleep(1000)", "someone-else")
    wait_until(lambda: end_marked(marker_prefix(os.getppid())) == 1)
    assert process.wait() == -9
    assert other.poll() is None
    other.kill()
    other.wait()


def test_memory_counts_whole_trees_and_shared_pages_once():
    me = os.getpid()
    assert memory([me], 1 << 60) > 2**20
    assert abs(memory([me, me], 1 << 60) - 2 * memory([me], 1 << 60)) < 2**22
    assert 0 < memory([me], 0) <= memory([me], 1 << 60) * 1.05


def test_a_process_that_is_gone_never_started():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert start_of(process.pid) == 0
    assert process.pid not in snapshot()
    assert os.getpid() in snapshot()
    assert snapshot()[os.getpid()].parent == psutil.Process().ppid()
