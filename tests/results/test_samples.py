"""Samples: spooled while a run goes on, written as Arrow at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.results import samples
from harness.results.samples import SampleWriter, read_samples


def stored(folder: Path, rows: list[dict[str, Any]]) -> tuple[Any, SampleWriter]:
    writer = SampleWriter(folder / "spool")
    for i, row in enumerate(rows):
        writer.add(f"s{i}", row)
    assert writer.write(folder / "samples.arrow") is bool(rows)
    assert not (folder / "spool").exists()
    return read_samples(folder), writer


def test_columns_have_types_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"n": 1, "x": 0.5, "t": "a", "b": True, "late": None, "list": [1], "mixed": 1, "big": 2**70},
        {"n": np.int64(2), "x": 2, "t": None, "b": False, "new": "only here", "list": {"k": 2}, "mixed": "one"},
    ]
    table, writer = stored(tmp_path, rows)
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "id": "string", "n": "int64", "x": "double", "t": "string", "b": "bool",
        "late": "string", "list": "string", "mixed": "string", "big": "string", "new": "string",
    }  # fmt: skip
    first, second = table.to_pylist()
    assert (first["x"], second["x"], second["n"]) == (0.5, 2.0, 2)
    assert (json.loads(first["mixed"]), json.loads(second["mixed"])) == (1, "one")
    assert json.loads(second["list"]) == {"k": 2}
    assert (first["new"], second["new"]) == (None, "only here")
    assert json.loads(first["big"]) == 2**70
    encoded = {field.name for field in table.schema if field.metadata == {b"encoding": b"json"}}
    assert encoded == {"list", "mixed", "big"}
    assert writer.notes == {}


def test_many_samples_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_BATCH_ROWS", 10)
    table, _ = stored(tmp_path, [{"i": i} for i in range(25)])
    assert table.column("i").to_pylist() == list(range(25))
    assert table.column("i").num_chunks == 3


def test_what_cannot_be_stored_is_named_once(tmp_path: Path) -> None:
    table, writer = stored(tmp_path, [{"ok": 1, "bad": b"x"}, {"ok": 2, "bad": b"y"}])
    assert table.column_names == ["id", "ok"]
    assert list(writer.notes) == ["samples.bad"]
    assert "s0" in writer.notes["samples.bad"]


def test_none_leaves_no_file_of_an_earlier_attempt(tmp_path: Path) -> None:
    (tmp_path / "samples.arrow").touch()
    table, _ = stored(tmp_path, [])
    assert table.num_rows == 0
    assert not (tmp_path / "samples.arrow").exists()


def test_a_failure_to_spool_is_not_forgotten(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path / "missing" / "spool")
    with pytest.raises(FileNotFoundError):
        writer.add("a", {})
    with pytest.raises(FileNotFoundError):
        writer.write(tmp_path / "samples.arrow")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
cells = scalars | st.lists(st.integers())


@given(st.lists(st.dictionaries(st.sampled_from("abc"), cells), min_size=1, max_size=8))
def test_any_mixture_can_be_stored(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    table, _ = stored(tmp_path_factory.mktemp("samples"), rows)
    assert table.num_rows == len(rows)
    assert set(table.column_names) == {"id", *(name for row in rows for name in row)}
