"""Two holders of one host. Locks belong to open files, so that one process can play both."""

import pytest

from harness.execution.hostlock import HostLock


@pytest.fixture
def two(tmp_path):
    locks = HostLock(tmp_path), HostLock(tmp_path)
    yield locks
    for lock in locks:
        lock.close()


def test_ordinary_jobs_share_the_host(two):
    one, other = two
    assert one.take("shared")
    assert other.take("shared")


def test_an_exclusive_job_has_it_alone(two):
    one, other = two
    assert one.take("exclusive")
    assert not other.take("shared")
    assert not other.take("exclusive")
    one.release()
    assert other.take("shared")


def test_who_waits_for_the_host_gets_a_turn(two):
    one, other = two
    assert one.take("shared")
    assert not other.take("exclusive")
    assert not one.take("shared")  # nothing new starts meanwhile
    one.release()
    assert not one.take("shared")
    assert other.take("exclusive")
    other.release()
    assert one.take("shared")


def test_giving_up_waiting_lets_the_others_go_on(two):
    one, other = two
    assert one.take("shared")
    assert not other.take("exclusive")
    other.release()
    assert one.take("shared")


def test_a_lock_ends_with_its_holder(two):
    one, other = two
    assert one.take("exclusive")
    one.close()
    assert other.take("exclusive")
