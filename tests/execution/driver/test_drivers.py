"""Drivers as processes: sharing, interruption, sudden death."""

import json
import os
import signal
import time

import psutil
from driving import Step, make_node, sleepers, wait_until

from harness.results.record import State


def ended(process, seconds=20):
    """What a driver process said at its end."""
    output, _ = process.communicate(timeout=seconds)
    return json.loads(output.splitlines()[-1])


def test_eight_drivers_share_the_work_and_lose_nothing(bench):
    nodes = [make_node(f"n{i}", "sleep:0.02") for i in range(24)]
    drivers = [bench.driver(*nodes) for _ in range(8)]
    told = [ended(driver, 60) for driver in drivers]
    assert all(one["counts"] == {"ok": 24} for one in told), told
    assert sorted(bench.executed()) == sorted(node.name for node in nodes)
    assert sum(24 - one["reused"] for one in told) == 24
    assert all(bench.record(node).attempt == 1 for node in nodes)


def test_an_interrupt_keeps_what_is_finished_and_is_owned_up_to(bench):
    nodes = [make_node(f"n{i}") for i in range(3)]
    nodes += [make_node(f"n{i}", "child:1005.25", "sleep:1000") for i in range(3, 10)]
    driver = bench.driver(*(Step(node, cost=9.0 - i) for i, node in enumerate(nodes)))
    wait_until(lambda: len(sleepers(1005.25)) == 2, 20)
    driver.send_signal(signal.SIGINT)
    told = ended(driver, 10)
    assert driver.returncode == 130
    assert told["counts"] == {"ok": 3, "cancelled": 7}
    assert [bench.record(node).state for node in nodes[:3]] == [State.OK] * 3
    written = [bench.record(node) for node in nodes[3:]]
    assert {record.state for record in written if record is not None} == {State.CANCELLED}
    assert not sleepers(1005.25)
    assert list((bench.store.runs.root / ".claims").glob("*.json")) == []


def test_a_killed_driver_takes_everything_with_it_and_blocks_nobody(bench):
    stuck = make_node("stuck", "half", "child:1006.5", "daemon:1000", "sleep:1000")
    nodes = [make_node("quick"), stuck]
    driver = bench.driver(*(Step(node, cost=2.0 - i) for i, node in enumerate(nodes)))
    wait_until(lambda: sleepers(1006.5), 20)
    wait_until(lambda: bench.record(nodes[0]) is not None)
    worker = bench.pids()[-1]
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    wait_until(lambda: not psutil.pid_exists(worker) and not sleepers(1006.5), 5)
    assert bench.record(stuck) is None
    assert (bench.store.runs.root / ".claims" / f"{stuck.key[:12]}.json").exists()
    mended = make_node("stuck")
    mended = type(mended)(**{**vars(mended), "key": stuck.key, "document": {**mended.document, "key": stuck.key}})
    outcome = bench.drive(nodes[0], mended)
    assert outcome.counts == {State.OK: 2}
    assert outcome.results[nodes[0].key].reused
    assert sorted(bench.executed()) == ["quick", "stuck", "stuck"]
    assert [m for m in bench.ears.of("message") if "which is dead" in m]


def test_a_driver_and_a_server_killed_together_leave_strays_to_the_next_driver(bench):
    stuck = make_node("stuck", "child:1007.5", "sleep:1000")
    driver = bench.driver(stuck)
    wait_until(lambda: sleepers(1007.5), 20)
    [server] = psutil.Process(driver.pid).children()
    server.suspend()  # it cannot see the driver's end
    os.kill(driver.pid, signal.SIGKILL)
    server.kill()
    driver.wait()
    wait_until(lambda: not psutil.pid_exists(bench.pids()[0]), 5)
    assert sleepers(1007.5)  # an orphan that nobody looks after
    mended = make_node("stuck")
    bench.drive(type(mended)(**{**vars(mended), "key": stuck.key, "document": {**mended.document, "key": stuck.key}}))
    assert not sleepers(1007.5)


def test_a_node_that_another_driver_has_is_waited_for(bench):
    node = make_node("shared", "sleep:1.5")
    driver = bench.driver(node)
    wait_until(bench.executed, 20)
    outcome = bench.drive(node)
    assert ended(driver)["counts"] == {"ok": 1}
    assert outcome.results[node.key].reused
    assert bench.executed() == ["shared"]
    assert bench.ears.of("message") == ["shared: another driver is at it"]


def test_exclusive_jobs_of_two_drivers_do_not_meet(bench):
    timed = make_node("timed", "sleep:1.2", exclusive=True)
    driver = bench.driver(timed)
    wait_until(bench.executed, 20)
    began = time.monotonic()
    other = make_node("other")
    assert bench.drive(other).results[other.key].ok
    assert ended(driver)["counts"] == {"ok": 1}
    assert time.monotonic() - began > 0.8
    assert bench.ears.of("message") == ["waiting for another harness process on this host"]
