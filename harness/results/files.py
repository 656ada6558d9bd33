"""Strict JSON and whole-or-nothing files: temporary, fsync, rename."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


class RecordError(ValueError):
    """A file of ours that cannot be read: names the file and what to do."""


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes ``path``'s place when the block ends well, and leaves nothing behind otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    with suppress(OSError):  # not every file system can
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, document: Any) -> None:
    """Strict JSON, atomically. Raises ValueError naming the place of a value that JSON cannot hold."""
    text = json.dumps(finite(document), allow_nan=False, ensure_ascii=False, indent=1)
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))  # a lone surrogate becomes its JSON escape


def read_json(path: Path) -> Any:
    """Raises FileNotFoundError, or RecordError for a file that is not JSON."""
    data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error}); move it away to have it made again") from error


def finite(value: Any) -> Any:
    """The value with non-finite numbers as null, as strict JSON wants them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return value


def canonical(value: Any) -> bytes:
    """Canonical JSON: equal values give equal bytes. Integral floats keep their point, so 1 and 1.0 differ."""
    return _CANONICAL.encode(value).encode("utf-8")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def file_digest(path: Path) -> str:
    """ "sha256:..." of a file's bytes."""
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def last_attempt(directory: Path) -> int:
    """The number of the latest attempt in a run's directory; 0 if there is none."""
    numbers: Sequence[int] = [int(p.name) for p in (directory / "attempts").glob("*") if p.name.isdigit()]
    return max(numbers, default=0)
