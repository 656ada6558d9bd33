from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.assets import archive
from harness.assets.archive import extract
from harness.assets.reference import AssetError


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    return path


def tarred(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as opened:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            opened.addfile(entry, io.BytesIO(data))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            opened.addfile(entry)
    return path


Maker = Callable[[Path, dict[str, bytes]], Path]
MAKERS = pytest.mark.parametrize("make", [zipped, tarred])


@MAKERS
def test_file_and_folder(tmp_path: Path, make: Maker) -> None:
    made = make(tmp_path / "a", {"p/x.txt": b"1", "p/q/y.txt": b"2", "p/qq.txt": b"3", "other": b"4"})
    got = extract(made, ["p/x.txt", "p/q", "p"], tmp_path / "out")
    assert got.missing == {}
    assert got.files["p/x.txt"] == ["p/x.txt"]
    assert got.files["p/q"] == ["p/q/y.txt"]
    assert sorted(got.files["p"]) == ["p/q/y.txt", "p/qq.txt", "p/x.txt"]
    assert (tmp_path / "out/p/q/y.txt").read_bytes() == b"2"
    assert not (tmp_path / "out/other").exists()


@MAKERS
def test_missing_member_names_the_nearest(tmp_path: Path, make: Maker) -> None:
    made = make(tmp_path / "a", {"p/data/words.txt": b"1", "p/else.txt": b"2"})
    got = extract(made, ["p/words.txt", "p/dat", "p/else.txt"], tmp_path / "out")
    assert list(got.files) == ["p/else.txt"]
    assert "did you mean p/data/words.txt?" in got.missing["p/words.txt"]
    assert "p/data" in got.missing["p/dat"]


@MAKERS
@pytest.mark.parametrize("name", ["p/../../evil", "p/..\\evil", "p//evil"])
def test_members_that_lead_elsewhere_are_refused(tmp_path: Path, make: Maker, name: str) -> None:
    made = make(tmp_path / "a", {"p/x": b"1", name: b"2"})
    with pytest.raises(AssetError, match="leads elsewhere"):
        extract(made, ["p"], tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("*evil*"))


def test_links_are_refused(tmp_path: Path) -> None:
    made = tarred(tmp_path / "a", {"p/x": b"1"}, links={"p/link": "/etc/passwd"})
    with pytest.raises(AssetError, match="link"):
        extract(made, ["p/link"], tmp_path / "out")
    info = zipfile.ZipInfo("p/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "b", "w") as opened:
        opened.writestr(info, "/etc/passwd")
    with pytest.raises(AssetError, match="link"):
        extract(tmp_path / "b", ["p"], tmp_path / "out")


@MAKERS
def test_bombs_are_refused(tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MIN_BOUND", 2**20)
    made = make(tmp_path / "a", {"p/zeros": bytes(8 * 2**20)})
    assert archive.MAX_RATIO * made.stat().st_size < 8 * 2**20
    with pytest.raises(AssetError, match="unpacks to"):
        extract(made, ["p/zeros"], tmp_path / "out")


def test_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    made = zipped(tmp_path / "a", {f"p/{i}": b"" for i in range(4)})
    with pytest.raises(AssetError, match="over 3 files"):
        extract(made, ["p"], tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"neither zip nor tar", b"\x1f\x8b\x08\x00 a broken gzip"])
def test_what_is_no_archive(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.whl").write_bytes(data)
    with pytest.raises(AssetError, match=r"a\.whl cannot be read as an archive"):
        extract(tmp_path / "a.whl", ["p"], tmp_path / "out")
