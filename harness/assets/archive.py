"""Take named members out of a wheel, zip or tar archive. Nothing in it is run, no link in it is followed."""

from __future__ import annotations

import difflib
import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from harness.assets.reference import AssetError, is_safe

MIN_BOUND = 256 * 2**20
"""Bytes that any archive may unpack to."""
MAX_RATIO = 200
"""A larger archive may unpack to so many times its own size; text reaches about 10, a zip bomb 1,000."""
MAX_FILES = 100_000

_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # unknown compression
    RuntimeError,  # encrypted
    ValueError,  # names that cannot be decoded
)


@dataclass(frozen=True)
class _Member:
    name: str
    kind: Literal["file", "folder", "link"]
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class Extracted:
    """``files``: paths written for each member that was found; ``missing``: a sentence for each that was not."""

    files: Mapping[str, Sequence[str]]
    missing: Mapping[str, str]


def extract(archive: Path, members: Sequence[str], into: Path) -> Extracted:
    """Write the files that ``members`` name, or that lie below them, to ``into``, under their paths in the archive.

    Raises AssetError for a member that would land outside ``into`` or is a link, and for an archive that is broken
    or unpacks to too much.
    """
    found: dict[str, list[str]] = {m: [] for m in members}
    bound = max(MIN_BOUND, MAX_RATIO * archive.stat().st_size)
    seen: list[str] = []
    written = 0
    try:
        for item in _read(archive, bound):
            seen.append(item.name)
            if len(seen) > MAX_FILES:
                raise AssetError(f"{archive.name} holds over {MAX_FILES} files: it is not used")
            owners = [m for m in members if item.name == m or item.name.startswith(f"{m}/")]
            if not owners or item.kind == "folder":
                continue
            _check(archive, item)
            written += _copy(item, into / item.name, bound - written, archive)
            for owner in owners:
                found[owner].append(item.name)
    except _BROKEN as error:
        raise AssetError(f"{archive.name} cannot be read as an archive ({error}): it is not used") from error
    missing = {m: f"{archive.name} has no file {m!r}{_nearest(m, seen)}" for m, files in found.items() if not files}
    return Extracted({m: files for m, files in found.items() if files}, missing)


def _read(archive: Path, bound: int) -> Iterator[_Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                link = stat.S_ISLNK(info.external_attr >> 16)
                kind: Literal["file", "folder", "link"] = "link" if link else "folder" if info.is_dir() else "file"
                yield _Member(info.filename.removeprefix("./"), kind, lambda info=info: opened.open(info))  # type: ignore[misc]
        return
    with tarfile.open(archive) as tape:
        for entry in tape:
            if entry.offset_data + entry.size > bound:
                raise AssetError(f"{archive.name} unpacks to over {bound} bytes: it is not used")
            kind = "file" if entry.isreg() else "folder" if entry.isdir() else "link"
            yield _Member(entry.name.removeprefix("./"), kind, lambda entry=entry: _stream(tape, entry))  # type: ignore[misc]


def _stream(tape: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    stream = tape.extractfile(entry)
    assert stream is not None  # a regular file has one
    return stream


def _check(archive: Path, item: _Member) -> None:
    if not is_safe(item.name):
        raise AssetError(f"{archive.name} holds {item.name!r}, a path that leads elsewhere: it is not used")
    if item.kind == "link":
        raise AssetError(f"{item.name!r} in {archive.name} is a link or a device, no plain file: name another member")


def _copy(item: _Member, target: Path, left: int, archive: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with item.open() as source, open(target, "wb") as file:
        while block := source.read(2**20):
            written += len(block)
            if written > left:
                raise AssetError(f"{archive.name} unpacks to more than is sane for its size: it is not used")
            file.write(block)
        file.flush()
        os.fsync(file.fileno())  # a receipt must not outlive the bytes that it speaks of
    return written


def _nearest(member: str, names: Sequence[str]) -> str:
    last = member.rsplit("/", 1)[-1]
    folders = {name.rsplit("/", depth)[0] for name in names for depth in range(1, name.count("/") + 1)}
    known = sorted({n.rstrip("/") for n in names} | folders)
    near = [n for n in known if n.rsplit("/", 1)[-1] == last][:3]
    near = near or difflib.get_close_matches(member, known[:20_000], n=3)
    if near:
        return f": did you mean {' or '.join(near)}?"
    return f": it holds {len(names)} files, such as {', '.join(sorted(names)[:3])}; paths are as in the archive"
