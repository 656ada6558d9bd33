"""YAML with places: core-schema scalars, anchors, limits."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.errors import Place, Problems, SpecErrors
from harness.spec.text import MAX_NODES, Fields, Items, Scalar, equal, parse, plain, planted, resolve


def read(text: str) -> Any:
    problems = Problems()
    tree = parse(text.encode("utf-8"), "f.yaml", problems)
    assert not problems.errors
    assert tree is not None
    return plain(tree)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("no", "no"),
        ("NO", "NO"),
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("1e-4", 1e-4),
        ("1e4", 1e4),
        ("1E234", 1e234),
        ("1e+4", 1e4),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1.10", 1.1),
        ("010", 10),
        ("-07", -7),
        ("0o10", 8),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("10:00:00", "10:00:00"),
        ("01:00:00", "01:00:00"),
        ("2024-01-02", "2024-01-02"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("0b1", "0b1"),
        ("=", "="),
        (".", "."),
        ("e5", "e5"),
        ("~", None),
        ("Null", None),
        ("nULL", "nULL"),
        ("True", True),
        ("tRUE", "tRUE"),
        ("123E456x", "123E456x"),
    ],
)
def test_core_scalars(source: str, value: object) -> None:
    found = read(f"a: {source}")["a"]
    assert found == value
    assert type(found) is type(value)


def test_quoted_scalars_are_text() -> None:
    assert read("{a: '1', b: \"true\", c: ''}") == {"a": "1", "b": "true", "c": ""}


def test_keys_like_on_stay_text() -> None:
    assert read("on: 1\nno: 2\n") == {"on": 1, "no": 2}


def test_places_count_from_one_and_in_characters() -> None:
    tree = parse("ä: {k: [ü, é]}\n".encode(), "f.yaml", Problems())
    assert isinstance(tree, Fields)
    inner = tree.entries["ä"].value
    assert isinstance(inner, Fields)
    assert inner.entries["k"].place == Place("f.yaml", 1, 5)
    items = inner.entries["k"].value
    assert isinstance(items, Items)
    assert [item.place.column for item in items.items] == [9, 12]


def test_a_scalar_keeps_how_it_was_written() -> None:
    tree = parse(b"a: 1.10", "f.yaml", Problems())
    assert isinstance(tree, Fields)
    scalar = tree.entries["a"].value
    assert isinstance(scalar, Scalar)
    assert (scalar.source, scalar.value) == ("1.10", 1.1)


def test_merge_keys_may_be_overridden_and_the_first_of_several_wins() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], x: 3}\n"
    assert read(text)["c"] == {"x": 3, "y": 1, "z": 2}


def test_aliases_stand_for_their_anchor() -> None:
    assert read("a: &a [1]\nb: [*a, *a]")["b"] == [[1], [1]]


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    start = time.monotonic()
    with pytest.raises(SpecErrors) as caught:
        read("\n".join(lines))
    assert time.monotonic() - start < 1
    (error,) = caught.value.errors
    assert error.message == f"more than {MAX_NODES} values, aliases written out"
    assert error.line == 5


def test_aliases_cannot_nest_without_end() -> None:
    lines = ["a0: &a0 [[[[[[[[[[1]]]]]]]]]]", *(f"a{i}: &a{i} [[[[[[[[[[*a{i - 1}]]]]]]]]]]" for i in range(1, 20))]
    with pytest.raises(SpecErrors) as caught:
        read("\n".join(lines))
    (error,) = caught.value.errors
    assert (error.line, error.message) == (7, "nested more than 64 deep")


def test_an_integer_of_many_digits_is_refused() -> None:
    problems = Problems()
    parse(b"a: " + b"9" * 5000, "f.yaml", problems)
    assert [e.column for e in problems.errors] == [4]


@given(st.text(max_size=30))
def test_a_plain_scalar_resolves_like_yaml_text_or_a_core_value(text: str) -> None:
    value = resolve(text)
    if isinstance(value, str):
        assert value == text
    else:
        assert isinstance(value, (bool, int, float)) or value is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_planting_is_undone_by_plain(value: object) -> None:
    assert equal(plain(planted(value, Place("f"))), value)


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_are_refused_with_a_place(data: bytes) -> None:
    problems = Problems()
    try:
        parse(data, "f.yaml", problems)
    except SpecErrors as errors:
        problems.errors += errors.errors
    assert all(error.line >= 1 and error.column >= 1 for error in problems.errors)


def test_equal_tells_numbers_from_booleans() -> None:
    assert equal(1, 1.0)
    assert not equal(1, True)
    assert not equal([0], [False])
    assert equal({"a": [None]}, {"a": [None]})


def test_the_c_parser_is_there() -> None:
    assert yaml.__with_libyaml__, "places of syntax errors are tested with libyaml"
