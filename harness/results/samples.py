"""Samples, one row per item, in ``samples.arrow`` (Arrow IPC).

They are spooled as lines of JSON while a run goes on, since the type of a column is known only at the end; both
halves work in batches, so memory stays bounded whatever the number of samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness.contract import Json
from harness.results.files import replacing
from harness.results.observations import note, plain

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1000
_BATCH_BYTES = 8 * 2**20
_INT64 = 2**63


class SampleWriter:
    """Collects the samples of one run in ``spool`` and writes them at the end.

    ``notes`` names the fields that could not be stored. ``error`` keeps the first failure to write, since an
    adapter may have swallowed it.
    """

    def __init__(self, spool: Path) -> None:
        self.spool = spool
        self.notes: dict[str, str] = {}
        self.error: OSError | None = None
        self.count = 0
        self._kinds: dict[str, set[str]] = {}
        self._file: IO[str] | None = None

    def add(self, id: str, fields: Mapping[str, Any]) -> None:
        """Keep one row. Raises OSError when the disk is full."""
        notes: dict[str, str] = {}
        row = plain({"id": str(id), **fields}, "samples", notes)
        assert isinstance(row, Mapping)
        for place, text in notes.items():
            note(self.notes, place, f"{text} (first at sample {id})")
        for name, value in row.items():
            self._kinds.setdefault(name, set()).add(_kind(value))
        try:
            if self._file is None:
                self._file = open(self.spool, "w", encoding="utf-8")  # noqa: SIM115 (open over many calls)
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        except OSError as error:
            self.error = self.error or error
            raise
        self.count += 1

    def write(self, path: Path) -> bool:
        """Write all rows to ``path``; False, and no file there, if there are none. Raises OSError on a full disk."""
        if self._file is not None:
            self._file.close()
        if self.error is not None:
            raise self.error
        if self.count == 0:
            path.unlink(missing_ok=True)
            return False
        import pyarrow as pa

        types = {name: _type(kinds) for name, kinds in self._kinds.items()}
        schema = pa.schema([_field(name, type) for name, type in types.items()])
        with replacing(path) as file, pa.ipc.new_file(file, schema) as writer:
            for rows in _batches(self.spool):
                columns = [
                    pa.array([_cell(row.get(n), t) for row in rows], schema.field(n).type) for n, t in types.items()
                ]
                writer.write_batch(pa.record_batch(columns, schema=schema))
        self.spool.unlink()
        return True


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int" if -_INT64 <= value < _INT64 else "json"
        case float():
            return "float"
        case str():
            return "text"
    return "json"


def _type(kinds: set[str]) -> str:
    """One column's type from the kinds of its values; JSON text where they do not agree."""
    real = kinds - {"null"}
    if real == {"int", "float"}:
        return "float"
    if len(real) > 1:
        return "json"
    return next(iter(real), "text")


def _field(name: str, type: str) -> pa.Field:
    import pyarrow as pa

    types = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    return pa.field(name, types.get(type, pa.string()), metadata={"encoding": "json"} if type == "json" else None)


def _cell(value: Any, type: str) -> Any:
    if value is None:
        return None
    if type == "json":
        return json.dumps(value, ensure_ascii=False)
    return float(value) if type == "float" else value


def _batches(spool: Path) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    with open(spool, encoding="utf-8") as file:
        for line in file:
            rows.append(json.loads(line))
            size += len(line)
            if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows


def read_samples(directory: Path) -> pa.Table:
    """The samples of a run; a table without rows where there are none.

    Columns whose field metadata say ``encoding: json`` hold JSON text: lists, mappings, and mixed types.
    """
    import pyarrow as pa

    path = directory / "samples.arrow"
    if not path.exists():
        return pa.table({"id": pa.array([], pa.string())})
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()
