"""The local executor with real processes: ends of all kinds, grants, strays, limits."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from driving import GIB, make_node, sleepers, wait_until

from harness.execution.slots import Slots
from harness.results.files import read_json
from harness.results.record import State
from harness.spec.study import Resources


def run(bench, *nodes, seconds=15.0):
    """Verdicts by name."""
    names = {node.key: node.name for node in nodes}
    for node in nodes:
        bench.executor.submit(bench.job(node))
    verdicts = {}
    deadline = time.monotonic() + seconds
    while len(verdicts) < len(nodes):
        assert time.monotonic() < deadline, verdicts
        verdicts |= {names[v.key]: v for v in bench.executor.poll(0.5)}
    return verdicts


def log_of(bench, node):
    return (bench.directory(node) / "attempts" / "1" / "log").read_text()


def test_a_job_runs_in_a_clean_process_of_its_own(bench):
    first, second = make_node("first", "say:hello \u00fc", "facts"), make_node("second", "facts")
    verdicts = run(bench, first, second)
    assert [v.state for v in verdicts.values()] == [State.OK, State.OK]
    one, two = (read_json(bench.directory(node) / "facts.json") for node in (first, second))
    assert one["pid"] == one["session"] != two["pid"]
    assert sorted(one["cpus"] + two["cpus"]) == [0, 1]
    assert one["grant"] == {"cpus": one["cpus"], "devices": [], "threads": 1}
    assert one["omp"] == "1"
    assert log_of(bench, first) == "hello \u00fc\n"
    verdict = read_json(bench.directory(first) / "attempts" / "1" / "verdict.json")
    assert verdict["state"] == "ok"
    assert verdict["peak_memory"] > 2**20


def pid_of(bench, name):
    return bench.pids()[bench.executed().index(name)]


@pytest.mark.parametrize("fork", [True, False])
def test_ends_of_all_kinds_are_told_apart(bench, fork):
    bench.use(fork=fork)
    nodes = [
        make_node("segv", f"kill:{int(signal.SIGSEGV)}"),
        make_node("killed", f"kill:{int(signal.SIGKILL)}"),
        make_node("three", "exit:3"),
        make_node("silent", "exit:0"),
        make_node("raises", "raise:no good"),
        make_node("disk", f"exit:{os.EX_IOERR}"),
    ]
    told = {name: (v.state, v.reason) for name, v in run(bench, *nodes).items()}
    assert told == {
        "segv": (State.FAILED, "killed by SIGSEGV"),
        "killed": (State.LOST, "killed by signal 9, perhaps out of memory"),
        "three": (State.FAILED, "exit status 3"),
        "silent": (State.OK, None),
        "raises": (State.FAILED, "exit status 1"),
        "disk": (State.INFRASTRUCTURE, f"exit status {os.EX_IOERR}"),
    }
    assert "RuntimeError: no good" in log_of(bench, nodes[4])
    assert "Segmentation fault" in log_of(bench, nodes[0])


@pytest.mark.parametrize("fork", [True, False])
def test_a_timeout_ends_children_that_hold_the_output_open(bench, fork):
    bench.use(fork=fork)
    node = make_node("slow", "child:1001.25", "sleep:1000", resources=Resources(timeout=1.0))
    began = time.monotonic()
    verdict = run(bench, node)["slow"]
    assert (verdict.state, verdict.reason) == (State.TIMEOUT, "after 1s")
    assert time.monotonic() - began < 6
    assert not sleepers(1001.25)


def test_a_worker_deaf_to_sigterm_is_killed_after_the_grace(bench):
    node = make_node("deaf", "deaf", "sleep:1000", resources=Resources(timeout=0.3))
    assert run(bench, node, seconds=6)["deaf"].state is State.TIMEOUT


@pytest.mark.parametrize("kind", ["daemon", "bare-daemon", "child"])
def test_a_slot_is_handed_out_only_when_strays_are_gone(bench, kind):
    bench.use(slots=Slots((0,), GIB * 8))
    stray, after = make_node("stray", f"{kind}:1002.5"), make_node("after", "sleep:0.3")
    bench.executor.submit(bench.job(stray))
    bench.executor.submit(bench.job(after))
    wait_until(lambda: bench.executor.poll(0.02))
    server = bench.executor._launchers[()].process.pid
    assert bench.executed() == ["stray"]
    assert not psutil.Process(server).children(recursive=True)
    assert not sleepers(1002.5)
    wait_until(lambda: bench.executor.poll(0.02))


def test_strays_of_one_job_are_found_while_another_runs(bench):
    other, stray = make_node("other", "sleep:1000"), make_node("stray", "daemon:1000", "child:1002.75")
    bench.executor.submit(bench.job(other))
    bench.executor.submit(bench.job(stray))
    verdicts = []
    wait_until(lambda: verdicts.extend(bench.executor.poll(0.02)) or verdicts)
    assert [v.key for v in verdicts] == [stray.key]
    server = bench.executor._launchers[()].process.pid
    living = [p.pid for p in psutil.Process(server).children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    assert living == [pid_of(bench, "other")]
    assert bench.executor.running() == [other.key]


def test_memory_beyond_the_grant_is_ended_and_said(bench):
    node = make_node("greedy", "memory:3e8", "sleep:100", resources=Resources(memory=200 * 2**20))
    verdict = run(bench, node)["greedy"]
    assert verdict.state is State.OUT_OF_MEMORY
    assert verdict.reason.startswith("used ")
    assert verdict.reason.endswith(" of 200.0 MiB")
    assert verdict.peak_memory > 200 * 2**20


def test_what_cannot_run_here_is_refused_in_a_sentence(bench):
    asks = {"gpu": Resources(gpus=1), "cpus": Resources(cpus=3), "memory": Resources(memory=65 * GIB)}
    verdicts = run(bench, *(make_node(name, resources=resources) for name, resources in asks.items()))
    assert {name: (v.state, v.reason) for name, v in verdicts.items()} == {
        "gpu": (State.FAILED, "asks for 1 GPU, none here"),
        "cpus": (State.FAILED, "asks for 3 CPUs, 2 here"),
        "memory": (State.FAILED, "asks for 65.0 GiB of memory, 64.0 GiB here"),
    }
    assert bench.executed() == []


def test_a_flood_of_output_keeps_head_and_tail_only(bench):
    bench.use(log_limit=1 << 20)
    node = make_node("loud", "say:the beginning", "print:3e7", "say:the end")
    assert run(bench, node)["loud"].state is State.OK
    text = log_of(bench, node)
    assert len(text) < (1 << 20) + 100
    assert text.startswith("the beginning\n")
    assert text.endswith("the end\n")
    assert "bytes left out]" in text


def test_an_exclusive_job_runs_alone(bench):
    nodes = [make_node(f"n{i}", "sleep:0.2", exclusive=i == 1) for i in range(4)]
    for node in nodes:
        bench.executor.submit(bench.job(node))
    seen = []
    ended = 0
    while ended < 4:
        ended += len(bench.executor.poll(0.02))
        seen.append(set(bench.executor.running()))
    assert {nodes[1].key} in seen
    assert not [s for s in seen if nodes[1].key in s and len(s) > 1]
    assert bench.executed() == ["n0", "n1", "n2", "n3"] or bench.executed() == ["n0", "n1", "n3", "n2"]


def test_cancel_ends_everything_at_once(bench):
    nodes = [make_node(f"n{i}", "child:1003.75", "sleep:1000") for i in range(4)]
    for node in nodes:
        bench.executor.submit(bench.job(node))
    wait_until(lambda: bench.executor.poll(0.05) or len(sleepers(1003.75)) == 2)
    bench.executor.cancel()
    verdicts = []
    wait_until(lambda: verdicts.extend(bench.executor.poll(0.2)) or len(verdicts) == 4, 5)
    assert {v.state for v in verdicts} == {State.CANCELLED}
    assert not sleepers(1003.75)


def test_a_killed_server_loses_its_jobs_and_is_replaced(bench):
    node, later = make_node("lost", "child:1004.25", "sleep:1000"), make_node("later")
    bench.executor.submit(bench.job(node))
    wait_until(lambda: bench.executor.poll(0.05) or sleepers(1004.25))
    bench.executor._launchers[()].process.kill()
    verdicts = []
    wait_until(lambda: verdicts.extend(bench.executor.poll(0.2)) or verdicts, 5)
    assert verdicts[0].state is State.LOST
    assert verdicts[0].reason == "the process that starts the workers ended: killed by signal 9"
    assert not sleepers(1004.25)
    assert run(bench, later)["later"].state is State.OK


def test_a_module_that_cannot_be_preloaded_is_said_once(bench):
    nodes = [make_node(f"n{i}", preload=("no_such_module_at_all",)) for i in range(2)]
    assert {v.state for v in run(bench, *nodes).values()} == {State.OK}
    [message] = bench.ears.of("message")
    assert message.startswith("cannot preload no_such_module_at_all: ModuleNotFoundError")


def test_the_server_has_one_thread_and_goes_with_the_executor(bench):
    assert run(bench, make_node("one", preload=("numpy",)))["one"].state is State.OK
    server = bench.executor._launchers["numpy",].process.pid
    assert len(list(Path(f"/proc/{server}/task").iterdir())) == 1
    bench.close()
    assert not psutil.pid_exists(server)


def test_the_driver_stays_small_while_jobs_are_large(bench):
    me = psutil.Process()
    run(bench, make_node("warm"))
    before = me.memory_info().rss
    verdicts = run(bench, *(make_node(f"n{i}", "memory:4e8") for i in range(2)))
    assert all(v.peak_memory > 4e8 for v in verdicts.values())
    assert me.memory_info().rss - before < 5e7
