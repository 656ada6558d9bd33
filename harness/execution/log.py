"""What a job prints, kept in a file of bounded size."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

LIMIT = 64 * 2**20
"""Bytes of a log: a worker that prints without end must not fill the disk."""


class Log:
    """Takes what a job prints into a file of bounded size: the beginning, and the last part.

    ``descriptor`` is the writing end, for the job; :meth:`handed_over` says that the job has it.
    """

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self._path, self._limit = path, limit
        self._tail_limit = min(1 << 20, limit // 4)
        self._source, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._drain, name="log", daemon=True)
        self._thread.start()

    def handed_over(self) -> None:
        os.close(self.descriptor)

    def finish(self) -> None:
        """Wait until all is in the file, which is when the last process has closed its end."""
        self._thread.join(5)

    def _drain(self) -> None:
        written, tail, left_out = 0, bytearray(), 0
        room = self._limit - self._tail_limit
        with open(self._source, "rb", buffering=0) as source, suppress(OSError), open(self._path, "ab", 0) as file:
            while data := source.read(1 << 16):
                head, rest = data[: max(0, room - written)], data[max(0, room - written) :]
                with suppress(OSError):  # no space: the job must be able to go on
                    file.write(head)
                written += len(head)
                tail += rest
                if len(tail) > 2 * self._tail_limit:
                    left_out += len(tail) - self._tail_limit
                    del tail[: -self._tail_limit]
            over = max(0, len(tail) - self._tail_limit)
            if left_out + over:
                file.write(f"\n[{left_out + over} bytes left out]\n".encode())
            file.write(tail[over:])


def last_lines(path: Path, count: int = 5) -> list[str]:
    """The last lines of a log that hold anything; none where there is no log."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16384))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]
