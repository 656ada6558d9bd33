from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.assets import AssetError, describe, local, resolve, revision


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "_known", {})
    return tmp_path


def age(path: Path, seconds: float = 3600) -> None:
    os.utime(path, (path.stat().st_mtime - seconds,) * 2)


def test_path_is_absolute_and_relative_to_the_current_directory(here: Path) -> None:
    (here / "x.txt").write_bytes(b"1")
    assert resolve("file:x.txt") == here / "x.txt"
    assert describe("file:x.txt").size == 1
    assert describe("file:x.txt").cached


def test_missing(here: Path) -> None:
    (here / "words.txt").touch()
    with pytest.raises(AssetError, match=r"no 'word\.txt' in .*did you mean words\.txt"):
        resolve("file:word.txt")
    with pytest.raises(AssetError, match="no folder"):
        revision("file:nowhere/word.txt")
    assert not describe("file:word.txt").cached


def test_revision_is_the_content(here: Path) -> None:
    path = here / "x"
    path.write_bytes(b"1")
    assert revision("file:x") == "sha256:" + hashlib.sha256(b"1").hexdigest()
    first = revision("file:x")
    path.write_bytes(b"2")  # same size, within one tick of a coarse clock
    assert revision("file:x") != first
    path.write_bytes(b"1")
    path.rename(here / "y")
    assert revision("file:y") == first


def test_an_unchanged_file_is_read_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LARGE", 1)
    monkeypatch.setattr(local, "SETTLED", -1.0)
    (here / "x").write_bytes(b"1")
    first = revision("file:x")
    (here / "x").chmod(0o000)  # the digest must come from memory; changing the mode changes st_ctime
    (here / "x").chmod(0o644)
    assert revision("file:x") == first
    calls: list[object] = []
    monkeypatch.setattr("hashlib.file_digest", lambda *a: calls.append(a))
    assert revision("file:x") == first
    monkeypatch.setattr(local, "_known", {})  # as a new process would start
    assert revision("file:x") == first
    assert calls == []


def test_a_changed_file_is_read_again_whatever_its_time(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SETTLED", -1.0)
    path = here / "x"
    path.write_bytes(b"1")
    first, times = revision("file:x"), path.stat()
    path.write_bytes(b"2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    if path.stat().st_ctime_ns != times.st_ctime_ns:
        assert revision("file:x") != first


def test_a_folder_stands_for_names_and_contents(here: Path) -> None:
    (here / "d/e").mkdir(parents=True)
    (here / "d/a").write_bytes(b"1")
    (here / "d/e/b").write_bytes(b"2")
    first = revision("file:d")
    assert revision("file:d") == first
    (here / "d/e/b").write_bytes(b"3")
    second = revision("file:d")
    (here / "d/e/b").rename(here / "d/e/c")
    third = revision("file:d")
    (here / "d/extra").touch()
    assert len({first, second, third, revision("file:d")}) == 4
    (here / "d/extra").unlink()
    (here / "d/e/c").rename(here / "d/e/b")
    (here / "d/e/b").write_bytes(b"2")
    assert revision("file:d") == first


def test_links_in_a_folder_are_followed_once(here: Path) -> None:
    (here / "d/e").mkdir(parents=True)
    (here / "d/e/b").write_bytes(b"2")
    (here / "d/e/up").symlink_to(here / "d")
    assert sorted(local.files_below(here / "d")) == ["e/b"]


def test_broken_link_is_an_asset_error(here: Path) -> None:
    (here / "d").mkdir()
    (here / "d/a").symlink_to(here / "gone")
    with pytest.raises(AssetError, match="cannot be read"):
        revision("file:d")
