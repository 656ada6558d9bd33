"""Slots and the order in which jobs get them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.execution.executor import Job
from harness.execution.slots import OVERTAKEN, Queue, Slots, duration, size, this_machine
from harness.spec.study import Resources

GIB = 2**30


def job(name, cpus=1, memory=GIB, exclusive=False):
    return Job(Path(), Path(), name, name, 1, Resources(cpus=cpus, memory=memory), exclusive)


jobs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 8), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30
)


@given(jobs, st.none() | st.integers(1, 4))
def test_all_jobs_start_and_never_more_than_there_is(wanted, limit):
    slots, queue, running = Slots((0, 1, 2, 5), 8 * GIB, jobs=limit), Queue(), []
    for number, (cpus, memory, exclusive, _) in enumerate(wanted):
        queue.add(job(str(number), cpus, memory * GIB, exclusive))
    started = 0
    while len(queue):
        found = queue.next(slots)
        if found is None:
            assert running  # with nothing running the head always starts
            slots.give_back(running.pop(wanted[started % len(wanted)][3] % len(running))[1])
            continue
        running.append(found)
        started += 1
        cpus = [cpu for _, grant in running for cpu in grant.cpus]
        assert len(cpus) == len(set(cpus)) == sum(j.resources.cpus for j, _ in running)
        assert sum(j.resources.memory for j, _ in running) <= 8 * GIB
        assert len(running) <= (limit or 4)
        assert len(running) == 1 or not any(j.exclusive for j, _ in running)
    assert started == len(wanted)


def test_a_big_job_is_overtaken_so_often_and_no_more():
    slots, queue = Slots((0, 1), 99 * GIB), Queue()
    queue.add(job("first"))
    _, held = queue.next(slots)
    queue.add(job("big", cpus=2))
    for number in range(20):
        queue.add(job(f"small{number}"))
    started = 0
    while (found := queue.next(slots)) is not None:
        slots.give_back(found[1])
        started += 1
    assert started == OVERTAKEN
    slots.give_back(held)
    assert queue.next(slots)[0].key == "big"


def test_an_exclusive_job_at_the_head_is_not_overtaken():
    slots, queue = Slots((0, 1), 99 * GIB), Queue()
    for one in (job("first"), job("alone", exclusive=True), job("later")):
        queue.add(one)
    _, held = queue.next(slots)
    assert queue.next(slots) is None
    slots.give_back(held)
    assert queue.next(slots)[0].key == "alone"
    assert queue.next(slots) is None


def test_a_job_for_more_memory_than_is_free_runs_alone():
    slots = Slots((0, 1), 2 * GIB, total=8 * GIB)
    big = Resources(memory=6 * GIB)
    assert slots.refusal(big) is None
    small = slots.take(Resources(memory=GIB))
    assert slots.take(big) is None
    slots.give_back(small)
    assert slots.take(big) is not None
    assert slots.take(Resources(memory=GIB)) is None


def test_this_machine_has_something():
    assert this_machine().refusal(Resources(memory=2**20)) is None
    assert this_machine().refusal(Resources(memory=2**60)) is not None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "0.25s"), (2, "2s"), (90, "1m30s"), (600, "10m"), (7500, "2h5m"), (7200, "2h")]
)
def test_durations_for_people(seconds, text):
    assert duration(seconds) == text


def test_sizes_for_people():
    assert [size(n) for n in (12, 2048, 2.5 * GIB, 2**41)] == ["12 bytes", "2.0 KiB", "2.5 GiB", "2.0 TiB"]
