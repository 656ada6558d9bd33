"""Per-item values of one score on disk: ``scores/KEY12.npz``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.contract import Values
from harness.results.files import replacing


def checked(values: Values) -> dict[str, np.ndarray]:
    """The arrays of a metric's result: "items" [n] and "replicates" [b] float64, "units" [n] int64; those given.

    Raises ValueError where a shape is wrong, or units do not belong to items.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, kind in (("items", np.float64), ("units", np.int64), ("replicates", np.float64)):
        given = getattr(values, name)
        if given is None:
            continue
        array = np.asarray(given).astype(kind, casting="same_kind" if name == "units" else "unsafe")
        if array.ndim != 1:
            raise ValueError(f"{name} of shape {array.shape}, expected one dimension")
        arrays[name] = array
    if "units" in arrays and len(arrays["units"]) != len(arrays.get("items", ())):
        raise ValueError(f"{len(arrays['units'])} units for {len(arrays.get('items', ()))} items, expected as many")
    return arrays


def write_arrays(directory: Path, score_key: str, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays of one score of the run in ``directory``, or remove what is there if there are none."""
    path = _path(directory, score_key)
    if not arrays:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_arrays(directory: Path, score_key: str) -> dict[str, np.ndarray]:
    """The stored arrays of one score: "items", "units", "replicates", each only if stored."""
    path = _path(directory, score_key)
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _path(directory: Path, score_key: str) -> Path:
    return directory / "scores" / f"{score_key[:12]}.npz"
