"""Per-item values of scores on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.contract import Values
from harness.results.values import checked, read_arrays, write_arrays


def test_only_what_was_given_is_stored(tmp_path: Path) -> None:
    arrays = checked(Values(0.5, items=np.array([0, 1]), units=np.array([3, 4], np.int32)))
    write_arrays(tmp_path, "k" * 64, arrays)
    found = read_arrays(tmp_path, "k" * 64)
    assert {name: (array.tolist(), array.dtype.name) for name, array in found.items()} == {
        "items": ([0.0, 1.0], "float64"),
        "units": ([3, 4], "int64"),
    }
    assert read_arrays(tmp_path, "j" * 64) == {}
    write_arrays(tmp_path, "k" * 64, {})
    assert read_arrays(tmp_path, "k" * 64) == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (Values(1.0, items=np.zeros((2, 2))), "one dimension"),
        (Values(1.0, items=np.zeros(2), units=np.zeros(3, int)), "3 units for 2 items"),
        (Values(1.0, units=np.zeros(3, int)), "3 units for 0 items"),
    ],
)
def test_wrong_shapes_are_refused(values: Values, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked(values)


def test_units_are_whole_numbers() -> None:
    with pytest.raises(TypeError):
        checked(Values(1.0, items=np.zeros(2), units=np.array([0.5, 1.5])))
