from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.assets import AssetError, describe, resolve, revision

WORDS = b"one\ntwo\n"


def reference(sha: str, member: str = "toy/data/words.txt", version: str = "1.0") -> str:
    return f"package:toy=={version}/{member}#sha256={sha}"


def test_wheel(shelf: Any) -> None:
    text = reference(shelf.wheel())
    path = resolve(text)
    assert path.is_absolute()
    assert path.read_bytes() == WORDS
    assert path.as_posix().endswith("/toy/data/words.txt")
    assert path.parent.parent.parent.name.startswith("toy-1.0-")
    assert revision(text) == text


def test_only_what_is_named_stays(shelf: Any, own_surroundings: Path) -> None:
    resolve(reference(shelf.wheel()))
    kept = [p for p in own_surroundings.rglob("*") if p.is_file() and p.suffix not in {".lock", ".json"}]
    assert [p.name for p in kept] == ["words.txt"]


def test_sdist(shelf: Any) -> None:
    assert resolve(reference(shelf.sdist(), "toy-1.0/toy/data/words.txt")).read_bytes() == WORDS


def test_the_checksum_chooses_among_the_files_of_a_release(shelf: Any) -> None:
    shelf.wheel({"toy/x": b"this platform"})
    other = shelf.wheel({"toy/x": b"that platform"}, tag="cp27-cp27m-win32")
    source = shelf.sdist({"toy/x": b"source"})
    assert resolve(reference(other, "toy/x")).read_bytes() == b"that platform"
    assert resolve(reference(source, "toy-1.0/toy/x")).read_bytes() == b"source"


def test_folder_after_one_of_its_files(shelf: Any) -> None:
    sha = shelf.wheel()
    deep = resolve(reference(sha, "toy/data/deep"))
    assert [p.name for p in deep.iterdir()] == ["more.txt"]
    whole = resolve(reference(sha, "toy/data"))
    assert sorted(p.name for p in whole.iterdir()) == ["deep", "words.txt"]


def test_from_the_cache_without_any_index(shelf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = reference(shelf.wheel())
    first = resolve(text)
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf.folder / "gone"))
    assert resolve(text, fetch=False) == resolve(text) == first


@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_a_damaged_cache_is_made_again(shelf: Any, damage: str) -> None:
    text = reference(shelf.wheel())
    path = resolve(text)
    path.write_bytes(b"one") if damage == "truncate" else path.unlink()
    assert not describe(text).cached
    assert resolve(text).read_bytes() == WORDS


def test_not_fetched_unless_allowed(shelf: Any) -> None:
    text = reference(shelf.wheel())
    with pytest.raises(AssetError, match="harness fetch") as caught:
        resolve(text, fetch=False)
    assert text in str(caught.value)
    assert not describe(text).cached


def test_wrong_checksum_shows_both(shelf: Any) -> None:
    found = shelf.wheel()
    with pytest.raises(AssetError, match="wrong checksum") as caught:
        resolve(reference("0" * 64))
    assert found in str(caught.value)
    assert "the reference says " + "0" * 64 in str(caught.value)


def test_wrong_version_lists_those_there_are(shelf: Any) -> None:
    shelf.wheel(version="1.0")
    shelf.wheel(version="1.1")
    with pytest.raises(AssetError, match=r"has toy==2\.0, only 1\.0, 1\.1"):
        resolve(reference("0" * 64, version="2.0"))
    with pytest.raises(AssetError, match="no file of that package at all"):
        resolve("package:toi==1.0/x#sha256=" + "0" * 64)


def test_equal_versions_may_be_written_differently(shelf: Any) -> None:
    assert resolve(reference(shelf.wheel(version="1.0.0"), version="1.0")).read_bytes() == WORDS


def test_member_missing(shelf: Any) -> None:
    with pytest.raises(AssetError, match=r"no file 'toy/word\.txt': did you mean .*toy/data/words\.txt"):
        resolve(reference(shelf.wheel(), "toy/word.txt"))


def test_traversal_in_the_archive(shelf: Any, own_surroundings: Path) -> None:
    sha = shelf.wheel({"toy/data/x": b"1", "toy/data/../../../../../evil": b"2"})
    with pytest.raises(AssetError, match="leads elsewhere"):
        resolve(reference(sha, "toy/data"))
    assert not list(own_surroundings.parent.rglob("evil"))


def test_http_index_streams_with_progress(index: Any, stocked: str) -> None:
    sha = stocked
    seen: list[tuple[int, int | None, str]] = []
    assert resolve(reference(sha), progress=lambda *step: seen.append(step)).read_bytes() == WORDS
    size = (index.folder / "toy-1.0-py3-none-any.whl").stat().st_size
    assert seen[-1] == (size, size, "toy 1.0")


def test_stated_checksums_spare_the_download(index: Any, stocked: str) -> None:
    found = stocked
    with pytest.raises(AssetError, match="wrong checksum") as caught:
        resolve(reference("0" * 64))
    assert found in str(caught.value)
    assert index.downloads == []


def test_unstated_checksums_are_found_by_downloading(index: Any, stocked: str) -> None:
    index.state_hashes = False
    sha = stocked
    with pytest.raises(AssetError, match="wrong checksum"):
        resolve(reference("0" * 64))
    assert resolve(reference(sha)).read_bytes() == WORDS
    assert len(index.downloads) == 2


def test_truncated_download_leaves_nothing_and_can_be_repeated(index: Any, stocked: str) -> None:
    text = reference(stocked)
    index.cut = 50
    with pytest.raises(AssetError, match=r"download of .*toy-1\.0.* failed .*run it again"):
        resolve(text)
    assert not describe(text).cached
    index.cut = None
    assert resolve(text).read_bytes() == WORDS


@pytest.mark.parametrize("status", [401, 503])
def test_an_index_that_answers_with_an_error(index: Any, status: int) -> None:
    index.status = status
    with pytest.raises(AssetError, match=f"could not be reached .*{status}.*harness fetch"):
        resolve(reference("0" * 64))


def test_one_index_out_of_reach_does_not_hide_another(
    index: Any, stocked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{index.url}/simple")
    assert resolve(reference(stocked)).read_bytes() == WORDS


def test_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:geheim@127.0.0.1:9/simple")
    with pytest.raises(AssetError) as caught:
        resolve(reference("0" * 64))
    message = str(caught.value)
    assert "not in the cache, and the package index could not be reached" in message
    assert "run `harness fetch SPEC` where there is network" in message
    assert "PIP_FIND_LINKS" in message
    assert "geheim" not in message
    assert "\n" not in message


def test_cache_that_cannot_be_written(shelf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-file").touch()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "a-file"))
    with pytest.raises(AssetError, match=r"cannot be written .*HARNESS_CACHE"):
        resolve(reference(shelf.wheel()))


SCRIPT = """
import contextlib, sys
from harness.assets import cache, resolve
if sys.argv[2] == "without-lock":
    cache.one_at_a_time = lambda name: contextlib.nullcontext()
print(resolve(sys.argv[1]))
"""


@pytest.mark.parametrize(("lock", "downloads"), [("with-lock", 1), ("without-lock", 2)])
def test_two_processes_at_once(index: Any, stocked: str, lock: str, downloads: int) -> None:
    text = reference(stocked, "toy/data")
    if lock == "with-lock":
        index.pause = 1.0
    else:
        index.together = threading.Barrier(2)
    calls = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, text, lock], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = {call.communicate(timeout=60)[0].strip() for call in calls}
    assert [call.returncode for call in calls] == [0, 0]
    assert said == {str(resolve(text, fetch=False))}
    assert len(index.downloads) == downloads
    assert (resolve(text) / "words.txt").read_bytes() == WORDS


def test_any_locale(shelf: Any) -> None:
    text = reference(shelf.wheel({"toy/x": "größer".encode()}), "toy/x")
    code = f"import harness.assets as a; print(a.resolve({text!r}), a.describe('text.boolq').licence)"
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    said = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True).stdout
    assert Path(said.split()[0]).read_bytes() == "größer".encode()
    assert said.split()[1] == "CC-BY-SA-3.0"


@pytest.mark.slow
def test_for_real() -> None:
    """20 MB from the index that this machine's pip is configured with."""
    rows = [json.loads(line) for line in resolve("text.boolq").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 15_942
    assert len({row["passage"] for row in rows}) == 12_271
