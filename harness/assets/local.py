"""Local files and folders, and the digests that stand for their content in keys."""

from __future__ import annotations

import difflib
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness.assets import cache
from harness.assets.reference import AssetError, FileReference

SETTLED = 2.0
"""Seconds: a file changed more recently may change again within one tick of the file system's clock."""
LARGE = 2**22
"""Bytes: digests of smaller files are not worth a file in the cache."""

_known: dict[tuple[str, int, int, int], str] = {}


def resolve(reference: FileReference) -> Path:
    """The absolute path. Raises AssetError, with the nearest names, where nothing is."""
    path = reference.path.absolute()
    if path.exists():
        return path
    parent = path.parent
    if not parent.is_dir():
        raise AssetError(f"{reference}: there is no folder {parent}: correct the path (it starts at {Path.cwd()})")
    near = difflib.get_close_matches(path.name, [p.name for p in parent.iterdir()], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"correct the path (it starts at {Path.cwd()})"
    raise AssetError(f"{reference}: there is no {path.name!r} in {parent}: {hint}")


def revision(reference: FileReference) -> str:
    """ "sha256:..." of a file's bytes, or of a folder's sorted listing (path and digest of every file below it)."""
    path = resolve(reference)
    try:
        if path.is_file():
            return f"sha256:{digest(path)}"
        listing = hashlib.sha256()
        for name in sorted(files_below(path)):
            listing.update(f"{digest(path / name)}  {name}\n".encode("utf-8", "surrogateescape"))
        return f"sha256:{listing.hexdigest()}"
    except OSError as error:
        raise AssetError(f"{reference} cannot be read ({error}): make it readable, or correct the path") from error


def files_below(folder: Path) -> Iterator[str]:
    """Relative paths, with slashes, of all files; links to folders are followed, once each."""
    entered: set[tuple[int, int]] = set()
    for base, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        status = Path(base).stat()
        if (status.st_dev, status.st_ino) in entered:
            folders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        folders.sort()
        for name in names:
            yield (Path(base) / name).relative_to(folder).as_posix()


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    return path.stat().st_size if path.is_file() else sum((path / n).stat().st_size for n in files_below(path))


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read again only when its size or its times have changed."""
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    settled = time.time() - max(status.st_mtime, status.st_ctime) > SETTLED
    if settled and (found := _known.get(key) or _remembered(key)):
        return found
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if settled:
        _known[key] = found
        if status.st_size >= LARGE:
            _remember(key, found)
    return found


def _remembered(key: tuple[str, int, int, int]) -> str | None:
    from harness.results.files import RecordError, read_json

    try:
        note = read_json(_note(key[0]))
        return str(note["sha256"]) if note["of"] == list(key) else None
    except (OSError, RecordError, KeyError, TypeError):
        return None


def _remember(key: tuple[str, int, int, int], found: str) -> None:
    from harness.results.files import write_json

    with suppress(OSError, ValueError):  # it only saves time; a name that is no text is ValueError
        _note(key[0]).parent.mkdir(parents=True, exist_ok=True)
        write_json(_note(key[0]), {"of": list(key), "sha256": found})


def _note(path: str) -> Path:
    return cache.root() / "digests" / f"{cache.short(path)}.json"


def _raise(error: OSError) -> None:
    raise error
