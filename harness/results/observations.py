"""Observations on disk: arrays in ``observations.npz``, values and notes in ``observations.json``.

One value that cannot be stored never costs the others: it is left out and named in the entry's notes. No pickles.
"""

from __future__ import annotations

import datetime
import enum
import math
import os
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from harness.contract import Json, Observations
from harness.results.files import read_json, replacing, write_json

Notes = MutableMapping[str, str]
"""What was changed or left out, by place: ``{"values.model": "left out: function is not JSON"}``."""

_DEEPEST = 64  # nesting of values; what goes deeper is most likely a cycle
_MOST_NOTES = 100


def note(notes: Notes, place: str, text: str) -> None:
    """Add a note; after a hundred only that there are more (a list of a million NaN makes no million notes)."""
    if len(notes) < _MOST_NOTES:
        notes.setdefault(place, text)
    else:
        notes["..."] = "and more"


class _LeftOut(Exception):
    """The value has no JSON form; the message says what it is."""


@dataclass(frozen=True)
class Seen:
    """The storable part of one entry's observations, and notes about the rest."""

    observations: Observations
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """There are arrays, and none has an item."""
        arrays = self.observations.arrays
        return bool(arrays) and all(a.size == 0 for a in arrays.values())


def storable(observations: Observations) -> Seen:
    """Arrays as plain numpy arrays and values as JSON; what has no such form is left out and noted."""
    notes: dict[str, str] = {}
    arrays: dict[str, np.ndarray] = {}
    for name, value in observations.arrays.items():
        try:
            arrays[str(name)] = _array(value)
        except Exception as error:  # third-party conversions raise anything
            note(notes, f"arrays.{name}", f"left out: {error}")
    values = plain(dict(observations.values), "values", notes)
    assert isinstance(values, Mapping)
    return Seen(Observations(arrays, values), notes)


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a tensor, possibly on a device and in a graph
        value = value.detach().cpu()
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"array of dtype {array.dtype} would need pickle")
    return array


def plain(value: Any, place: str, notes: Notes) -> Json:
    """The value as strict JSON. Parts without a JSON form are left out (null inside lists); ``notes`` names them."""
    try:
        return _plain(value, place, notes, 0)
    except _LeftOut as error:
        note(notes, place, f"left out: {error}")
        return None


def _plain(value: Any, place: str, notes: Notes, depth: int) -> Json:
    if depth > _DEEPEST:
        raise _LeftOut(f"nested deeper than {_DEEPEST} levels")
    if isinstance(value, enum.Enum):
        return _plain(value.value, place, notes, depth + 1)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(float(value), place, notes)
    if isinstance(value, (str, PurePath)):
        return os.fspath(value).encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no UTF-8 form
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return _mapping(value, place, notes, depth)
    if isinstance(value, (set, frozenset)):
        return _list(_sorted(value), place, notes, depth)
    if isinstance(value, (list, tuple)):
        return _list(value, place, notes, depth)
    return _converted(value, place, notes, depth)


def _number(value: float, place: str, notes: Notes) -> float | None:
    if math.isfinite(value):
        return value
    note(notes, place, f"{value} is stored as null")
    return None


def _mapping(value: Mapping[Any, Any], place: str, notes: Notes, depth: int) -> Json:
    kept: dict[str, Json] = {}
    for key, item in value.items():
        name = str(key).encode("utf-8", "replace").decode("utf-8")
        try:
            kept[name] = _plain(item, f"{place}.{name}", notes, depth + 1)
        except _LeftOut as error:
            note(notes, f"{place}.{name}", f"left out: {error}")
    return kept


def _list(value: Sequence[Any], place: str, notes: Notes, depth: int) -> Json:
    kept: list[Json] = []
    for i, item in enumerate(value):
        try:
            kept.append(_plain(item, f"{place}[{i}]", notes, depth + 1))
        except _LeftOut as error:
            note(notes, f"{place}[{i}]", f"null instead: {error}")
            kept.append(None)  # the others keep their places
    return kept


def _sorted(value: set[Any] | frozenset[Any]) -> list[Any]:
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=lambda item: (type(item).__name__, str(item)))


def _converted(value: Any, place: str, notes: Notes, depth: int) -> Json:
    """Scalars and arrays of numpy, torch and the like, by what they offer rather than by what they are."""
    kind = type(value).__name__
    if not hasattr(value, "item") or not hasattr(value, "ndim"):
        raise _LeftOut(f"{kind} is not JSON")
    try:
        inner = value.item() if value.ndim == 0 else value.tolist()
        if type(inner) is type(value):  # numpy.longdouble gives itself
            inner = float(inner)
    except Exception as error:
        raise _LeftOut(f"{kind}: {error}") from error
    return _plain(inner, place, notes, depth + 1)


def write_observations(directory: Path, seen: Mapping[str, Seen], notes: Mapping[str, str]) -> list[Path]:
    """Write both files whole; returns those written. ``notes`` concern the run (its samples)."""
    arrays = {f"{id}/{name}": a for id, entry in seen.items() for name, a in entry.observations.arrays.items()}
    written = []
    if arrays:
        with replacing(directory / "observations.npz") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        written.append(directory / "observations.npz")
    entries = {id: {"values": entry.observations.values, "notes": entry.notes} for id, entry in seen.items()}
    write_json(directory / "observations.json", {"schema_version": 1, "entries": entries, "notes": notes})
    return [*written, directory / "observations.json"]


def read_observations(directory: Path, entry: str) -> Observations:
    """What one entry of a run saw.

    Raises FileNotFoundError where nothing is stored or the arrays are gone, KeyError for another entry.
    """
    document = read_json(directory / "observations.json")
    values = document["entries"][entry]["values"]
    arrays: dict[str, np.ndarray] = {}
    path = directory / "observations.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as stored:
            names = [name for name in stored.files if name.startswith(f"{entry}/")]
            arrays = {name.removeprefix(f"{entry}/"): stored[name] for name in names}
    elif path.name in _committed(directory):
        raise FileNotFoundError(f"{path} is gone, though run.json lists it; measure again with --rerun")
    return Observations(arrays, values)


def _committed(directory: Path) -> Mapping[str, str]:
    try:
        files: Mapping[str, str] = read_json(directory / "run.json").get("files", {})
    except FileNotFoundError:
        return {}
    return files


def read_notes(directory: Path) -> dict[str, str]:
    """Notes of a run and of its entries, by place; empty where nothing is stored."""
    try:
        document = read_json(directory / "observations.json")
    except FileNotFoundError:
        return {}
    notes = dict(document.get("notes", {}))
    for id, entry in document["entries"].items():
        notes |= {f"{id}.{place}": text for place, text in entry.get("notes", {}).items()}
    return notes
