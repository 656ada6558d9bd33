"""Values to JSON, and observations on disk."""

from __future__ import annotations

import datetime
import enum
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contract import Observations
from harness.results.files import write_json
from harness.results.observations import plain, read_notes, read_observations, storable, write_observations


class Colour(enum.Enum):
    RED = "red"


class Scalar:
    """Like a tensor without dimensions."""

    ndim = 0

    def item(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array(2.5), 2.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.longdouble(1.5), 1.5),
        (Scalar(), 7),
        (Path("a/b"), "a/b"),
        ({3, 1, 2}, [1, 2, 3]),
        ({1, "a"}, [1, "a"]),
        (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC), "2026-01-02T03:04:00+00:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (Colour.RED, "red"),
        ((1, None, True), [1, None, True]),
        ({1: {"x": np.float64(0.1)}}, {"1": {"x": 0.1}}),
        ("\ud800", "?"),
        (2**70, 2**70),
    ],
)
def test_converted(value: Any, expected: Any) -> None:
    notes: dict[str, str] = {}
    assert plain(value, "v", notes) == expected
    assert type(plain(value, "v", notes)) is type(expected)
    assert notes == {}


@pytest.mark.parametrize("offender", [b"bytes", len, object(), 1j, np.complex64(1j)])
def test_the_offender_is_named_and_the_others_are_kept(offender: Any) -> None:
    notes: dict[str, str] = {}
    assert plain({"a": {"bad": offender, "good": 1}, "list": [1, offender]}, "v", notes) == {
        "a": {"good": 1},
        "list": [1, None],
    }
    assert set(notes) == {"v.a.bad", "v.list[1]"}


def test_cycles_and_floods_end() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    notes: dict[str, str] = {}
    json.dumps(plain({"cycle": cycle, "ok": 1}, "v", notes))
    assert len(notes) == 1
    plain([float("nan")] * 10_000, "v", notes)
    assert len(notes) == 101
    assert notes["..."] == "and more"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_is_json_stays_as_it_is(value: Any) -> None:
    notes: dict[str, str] = {}
    assert plain(value, "v", notes) == value
    assert notes == {}


def test_observations_are_read_as_they_were_written(tmp_path: Path) -> None:
    first = storable(
        Observations({"x": np.array([1.0, np.nan]), "file": np.arange(3)}, {"n": 2, "bad": b"", "inf": np.inf})
    )
    second = storable(Observations({"o": np.array([{}], object), "e": np.empty((0, 3))}))
    assert not first.empty
    assert second.empty
    write_observations(tmp_path, {"a": first, "ab": second}, {"samples.y": "left out"})
    seen = read_observations(tmp_path, "a")
    assert set(seen.arrays) == {"x", "file"}
    np.testing.assert_array_equal(seen.arrays["x"], [1.0, np.nan])
    assert seen.values == {"n": 2, "inf": None}
    assert read_observations(tmp_path, "ab").arrays["e"].shape == (0, 3)
    assert set(read_notes(tmp_path)) == {"samples.y", "a.values.bad", "a.values.inf", "ab.arrays.o"}
    with pytest.raises(KeyError):
        read_observations(tmp_path, "b")


def test_values_alone_need_no_arrays(tmp_path: Path) -> None:
    seen = storable(Observations(values={"n": 1}))
    assert not seen.empty
    assert [p.name for p in write_observations(tmp_path, {"a": seen}, {})] == ["observations.json"]
    assert read_observations(tmp_path, "a") == Observations({}, {"n": 1})
    assert read_notes(tmp_path / "nothing") == {}


def test_arrays_that_are_gone_are_missed(tmp_path: Path) -> None:
    written = write_observations(tmp_path, {"a": storable(Observations({"x": np.arange(2)}))}, {})
    write_json(tmp_path / "run.json", {"files": {path.name: "" for path in written}})
    assert read_observations(tmp_path, "a").arrays["x"].tolist() == [0, 1]
    (tmp_path / "observations.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"observations\.npz is gone.*--rerun"):
        read_observations(tmp_path, "a")
