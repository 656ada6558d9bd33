"""Claim files: one owner, dead owners, owners elsewhere."""

import json
import os
import subprocess
import sys
import threading
import time

from harness.execution.claims import STALE, Claim, claim, claim_path, read_claim
from harness.execution.process import start_of

KEY = "ab" * 32


def owned_by(root, **changes):
    """A claim of another owner; as ours but for ``changes``."""
    made = claim(root, KEY)
    holder = {**read_claim(made.path), "token": "other", **changes}
    made.path.write_text(json.dumps(holder))
    return made.path


def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_key_has_one_owner_until_it_is_let_go(tmp_path):
    first = claim(tmp_path, KEY)
    assert first is not None
    assert claim(tmp_path, KEY) is None
    assert claim(tmp_path, "cd" * 32) is not None
    first.release()
    assert claim(tmp_path, KEY) is not None


def test_of_many_at_once_one_gets_it(tmp_path):
    got = []
    threads = [threading.Thread(target=lambda: got.append(claim(tmp_path, KEY))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(one, Claim) for one in got) == 1
    assert [p.name for p in (tmp_path / ".claims").iterdir()] == [f"{KEY[:12]}.json"]


def test_a_dead_owner_of_this_host_is_replaced_with_a_message(tmp_path):
    pid = dead_pid()
    owned_by(tmp_path, pid=pid, start=1)
    taken = claim(tmp_path, KEY)
    assert f"process {pid} on" in taken.message
    assert taken.message.endswith("which is dead")
    assert claim(tmp_path, KEY) is None


def test_a_process_that_was_given_a_dead_owners_number_is_no_owner(tmp_path):
    owned_by(tmp_path, pid=os.getpid(), start=start_of(os.getpid()) - 1)
    assert claim(tmp_path, KEY).message.endswith("which is dead")


def test_an_owner_elsewhere_is_trusted_while_it_is_heard_of(tmp_path):
    path = owned_by(tmp_path, host="elsewhere", pid=dead_pid())
    assert claim(tmp_path, KEY) is None
    old = time.time() - STALE - 5
    os.utime(path, (old, old))
    assert "elsewhere, not heard of for" in claim(tmp_path, KEY).message


def test_a_broken_claim_is_replaced_when_it_is_old(tmp_path):
    path = claim_path(tmp_path, KEY)
    path.parent.mkdir()
    path.write_text("{")
    assert claim(tmp_path, KEY) is None
    os.utime(path, (1, 1))
    assert claim(tmp_path, KEY) is not None


def test_letting_go_leaves_what_another_took_over(tmp_path):
    first = claim(tmp_path, KEY)
    first.path.write_text(json.dumps({**read_claim(first.path), "token": "other"}))
    first.release()
    assert first.path.exists()


def test_a_touch_is_a_heartbeat(tmp_path):
    held = claim(tmp_path, KEY)
    os.utime(held.path, (1, 1))
    held.touch()
    assert held.path.stat().st_mtime == 1  # said a moment ago
    held._touched -= 60
    held.touch()
    assert time.time() - held.path.stat().st_mtime < 5
