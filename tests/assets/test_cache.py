from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.assets import cache


def test_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", "here")
    assert cache.root() == tmp_path / "here" / "assets"
    monkeypatch.delenv("HARNESS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.root().is_relative_to(tmp_path)
    assert cache.root().parts[-2:] == ("methods-harness", "assets")
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_is_gone_afterwards_also_after_an_error() -> None:
    def fail() -> None:
        with cache.workspace() as work:
            (work / "deep").mkdir()
            (work / "deep/x").touch()
            raise KeyError(work)

    with pytest.raises(KeyError) as caught:
        fail()
    assert not caught.value.args[0].exists()


def test_leftovers_go_when_they_are_old() -> None:
    old, fresh = cache.root() / "tmp/old", cache.root() / "tmp/fresh"
    for left in (old, fresh):
        left.mkdir(parents=True)
        (left / "part").touch()
    os.utime(old, (old.stat().st_mtime - cache.LEFTOVER - 60,) * 2)
    with cache.workspace() as work:
        assert work.is_dir()
    assert not old.exists()
    assert (fresh / "part").exists()


def test_the_lock_may_be_taken_again_and_needs_no_writable_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for _ in range(2):
        with cache.one_at_a_time("x"):
            pass
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    with cache.one_at_a_time("x"):
        pass
    assert (tmp_path / "file").read_bytes() == b""
