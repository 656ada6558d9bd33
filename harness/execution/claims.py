"""Claim files: drivers that share a results directory agree on who works on what.

``SHELF/.claims/KEY12.json`` comes into being whole (by link) and is gone when its owner lets go. A claim whose owner
is dead, as far as can be told from here, is taken over: at once if its process has ended on this host, else when it
has not been touched for ``STALE`` seconds.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.execution.process import end_marked, marker_prefix, start_of

HEARTBEAT = 10.0
"""Seconds after which a claim is to be touched."""

STALE = 60.0
"""Seconds without a touch after which a claim from elsewhere counts as left behind."""


@dataclass
class Claim:
    """A key that is this driver's. ``message``: from whom it was taken over, if it was."""

    path: Path
    token: str
    message: str | None = None
    _touched: float = field(default_factory=time.monotonic)

    def touch(self) -> None:
        """Say that the owner lives; does nothing if that was said a moment ago."""
        if time.monotonic() - self._touched >= HEARTBEAT:
            self._touched = time.monotonic()
            with suppress(OSError):
                os.utime(self.path)

    def release(self) -> None:
        """Let go; leaves alone what somebody else has taken over meanwhile."""
        holder = read_claim(self.path)
        if holder is not None and holder.get("token") == self.token:
            with suppress(OSError):
                self.path.unlink()


def claim_path(shelf_root: Path, key: str) -> Path:
    return shelf_root / ".claims" / f"{key[:12]}.json"


def read_claim(path: Path) -> Mapping[str, Any] | None:
    """Who holds it: host, pid, start, token; None if nobody does. A file that is no claim counts as an empty one."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def claim(shelf_root: Path, key: str) -> Claim | None:
    """Make the key this driver's, or None while another living driver has it. Raises OSError (no space, no right)."""
    path = claim_path(shelf_root, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(8)
    owner = {"token": token, "key": key, "pid": os.getpid(), "start": start_of(os.getpid()), **_place()}
    temporary = path.with_name(f".{path.name}.{token}")
    try:
        with open(temporary, "x", encoding="ascii") as file:
            json.dump(owner, file)
        if _link(temporary, path):
            return Claim(path, token)
        now = temporary.stat().st_mtime  # by the clock of the file system, as the other's is
        if _abandoned(path, now) is None:
            return None
        with _taking_over(path.parent):
            reason = _abandoned(path, now)  # nobody else can replace it meanwhile
            if reason is None:
                return None
            _clear_up(path)
            os.replace(temporary, path)
            return Claim(path, token, reason)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _link(temporary: Path, path: Path) -> bool:
    """Whether the claim appeared under its name; False if that is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        try:  # a file system without links
            with open(path, "x", encoding="ascii") as file:
                file.write(temporary.read_text(encoding="ascii"))
        except FileExistsError:
            return False
    return True


def _abandoned(path: Path, now: float) -> str | None:
    """Why the claim may be taken over, as a message; None while its owner may be alive, or if it is gone."""
    holder = read_claim(path)
    if holder is None:
        return None
    try:
        age = now - path.stat().st_mtime
    except FileNotFoundError:
        return None
    who = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'unknown host')}"
    place = _place()
    if all(holder.get(name) == place[name] for name in place):
        if start_of(holder["pid"]) == holder["start"]:
            return None
        return f"taking over {path.stem} from {who}, which is dead"
    if age > STALE:
        return f"taking over {path.stem} from {who}, not heard of for {age:.0f} s"
    return None


def _clear_up(path: Path) -> None:
    """What a dead driver of this host has left running must not write beside us."""
    holder, place = read_claim(path), _place()
    if holder and all(holder.get(name) == place[name] for name in place):
        end_marked(marker_prefix(holder["pid"], holder["start"]))


@contextmanager
def _taking_over(directory: Path) -> Iterator[None]:
    """One driver at a time, whichever host it is on; a file system without locks does not stand in the way."""
    with open(directory / ".lock", "w") as lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _place() -> dict[str, str]:
    """Where process ids mean the same: host, boot, and namespace of ids."""
    boot = namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with suppress(OSError):
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return {"host": socket.gethostname(), "boot": boot, "namespace": namespace}
