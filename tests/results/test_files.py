"""Strict JSON and whole-or-nothing files."""

from __future__ import annotations

import json
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.results.files import RecordError, canonical, digest, file_digest, read_json, replacing, write_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_canonical_json_reads_back_and_ignores_the_order_of_keys(value):
    assert json.loads(canonical(value)) == value
    if isinstance(value, dict):
        assert canonical(dict(reversed(value.items()))) == canonical(value)


def test_one_and_one_point_zero_differ():
    assert digest({"x": 1}) != digest({"x": 1.0})


def test_non_finite_numbers_become_null(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": math.nan, "b": [math.inf, -math.inf, 1.5], "größe": "µ"})
    assert json.loads(path.read_text("utf-8"), parse_constant=pytest.fail) == {
        "a": None,
        "b": [None, None, 1.5],
        "größe": "µ",
    }


def test_a_lone_surrogate_is_kept_as_its_escape(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"bad \udcff": "bad \udcff"})
    assert read_json(path) == {"bad \udcff": "bad \udcff"}
    assert path.read_bytes().count(rb"\udcff") == 2


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, {"x": object()})
    with pytest.raises(RuntimeError), replacing(path) as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError
    assert read_json(path) == 1
    assert os.listdir(tmp_path) == ["x.json"]


def test_a_file_that_is_not_json_is_named(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(RecordError, match=r"x\.json: not JSON"):
        read_json(tmp_path / "x.json")


def test_file_digest(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert file_digest(tmp_path / "x") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
