"""The observing half of a run: entries made, observed alone or together, and their failures told apart."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import harness
from harness.contract import Entry, Failure, JointEvaluation, NotApplicable, Observations
from harness.execution.context import RunContext
from harness.execution.instantiate import Products, Upstream, instantiate, sources
from harness.results.files import read_json
from harness.results.observations import Seen, storable
from harness.results.record import NO_SAMPLES, EntryState, State

_REASON_LENGTH = 500
_ENGINE = Path(harness.__file__).parent
_NO_FAULT = (State.OK, State.SKIPPED, State.CANCELLED, State.PREEMPTED, State.INFRASTRUCTURE)


@dataclass(frozen=True)
class Outcome:
    """How one entry ended, and what it saw if it ended well."""

    state: EntryState
    seen: Seen | None = None


@dataclass
class Entries:
    """The entries of a node: those that could be made, and how the others ended."""

    ready: list[Entry[Any]] = field(default_factory=list)
    ended: dict[str, Outcome] = field(default_factory=dict)


def failure_of(error: BaseException, code: Mapping[str, Path]) -> EntryState:
    """What a record says of an exception; its traceback goes to the attempt's log.

    ``code``: where the adapters' own code lies (:func:`sources`). ``where`` is the deepest line inside it.
    """
    if isinstance(error, Upstream):
        return EntryState(State.SKIPPED, one_line(str(error)), upstream=True)
    if isinstance(error, NotApplicable):
        return EntryState(State.SKIPPED, one_line(str(error)) or "not applicable")
    traceback.print_exception(error, file=sys.stderr)
    reason = one_line(f"{type(error).__name__}: {error}".removesuffix(": "))
    return EntryState(State.OUT_OF_MEMORY if _out_of_memory(error) else State.FAILED, reason, _where(error, code))


def one_line(text: str) -> str:
    """The text without line breaks and lone surrogates, at most 500 characters of it."""
    text = " ".join(text.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"


def _out_of_memory(error: BaseException) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    # torch reports the CPU's memory as a plain RuntimeError, known by its words alone
    return bool(names & {"MemoryError", "OutOfMemoryError"}) or "can't allocate memory" in str(error)


def _where(error: BaseException, code: Mapping[str, Path]) -> str | None:
    lines = [(_own(frame.f_code.co_filename, code), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [f"{name}:{line}" for name, line in lines if name is not None]
    return own[-1] if own else None


def _own(file: str, code: Mapping[str, Path]) -> str | None:
    """The file relative to what it is distributed in; None where it is no adapter's."""
    path = Path(file)
    if path.is_relative_to(_ENGINE) and path.relative_to(_ENGINE).parts[0] != "tracks":
        return None
    for place in code.values():
        folder = place.parent
        inside = path.is_relative_to(place if place.is_dir() else folder)
        if inside and "site-packages" not in path.relative_to(folder).parts:
            return path.relative_to(folder).as_posix()
    return None


def make_entries(
    node: Mapping[str, Any], products: Products, context: RunContext, blamed: Mapping[str, str]
) -> Entries:
    """Methods and evaluations of all entries. One that cannot be made is its own failure; see :func:`blamed`."""
    entries = Entries()
    for given in sorted(node["entries"], key=lambda entry: str(entry["id"])):
        id = given["id"]
        if id in blamed:
            entries.ended[id] = Outcome(EntryState(State.FAILED, one_line(blamed[id])))
            continue
        try:
            if node["shape"] == "single":
                entry = _make(given, products)
            else:
                with context.measuring(id):
                    entry = _make(given, products)
            entries.ready.append(entry)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # adapters raise SystemExit and worse
            entries.ended[id] = Outcome(failure_of(error, sources(given)))
    return entries


def _make(given: Mapping[str, Any], products: Products) -> Entry[Any]:
    method = instantiate(given["method"], products)
    return Entry(given["id"], method, instantiate(given["evaluation"], products), given.get("cell", {}))


def observe_single(entry: Entry[Any], context: RunContext, code: Mapping[str, Path]) -> Outcome:
    """One method, one evaluation."""
    try:
        context.seed_globals()
        seen = entry.evaluation.observe(entry.method, context)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Outcome(failure_of(error, code))
    return outcome_of(seen)


def observe_joint(entries: Sequence[Entry[Any]], context: RunContext, code: Mapping[str, Path]) -> dict[str, Outcome]:
    """All entries in one call. What it does not speak of has failed; if it raises, all have."""
    evaluation = entries[0].evaluation
    try:
        context.seed_globals()
        if not isinstance(evaluation, JointEvaluation):
            raise TypeError(f"{type(evaluation).__name__} is no JointEvaluation")
        results = evaluation.observe_all(Watched(entries, context), context)
        if not isinstance(results, Mapping):
            raise TypeError(f"observe_all returned {type(results).__name__}, expected a mapping from entry ids")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        state = failure_of(error, code)
        return {entry.id: Outcome(state) for entry in entries}
    silent = Failure("observe_all returned nothing for this entry")
    return {entry.id: outcome_of(results.get(entry.id, silent)) for entry in entries}


def outcome_of(result: Any) -> Outcome:
    """From what an evaluation returned for one entry."""
    if isinstance(result, Failure):
        state = State.SKIPPED if result.skipped else State.FAILED
        return Outcome(EntryState(state, one_line(result.reason), result.where))
    if not isinstance(result, Observations):
        found = type(result).__name__
        return Outcome(EntryState(State.FAILED, f"TypeError: observe returned {found}, expected Observations"))
    try:
        seen = storable(result)
    except Exception as error:
        return Outcome(failure_of(error, {}))
    if seen.empty:
        return Outcome(EntryState(State.SKIPPED, NO_SAMPLES), seen)
    return Outcome(EntryState(State.OK), seen)


class Watched(Sequence[Entry[Any]]):
    """Entries that name themselves as active while a loop is at them, so that a crash there finds its culprit."""

    def __init__(self, entries: Sequence[Entry[Any]], context: RunContext) -> None:
        self._entries = entries
        self._context = context

    def __iter__(self) -> Iterator[Entry[Any]]:
        for entry in self._entries:
            with self._context.measuring(entry.id):
                yield entry

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Entry[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry[Any]]: ...
    def __getitem__(self, index: int | slice) -> Entry[Any] | Sequence[Entry[Any]]:
        return self._entries[index]


def blamed(attempts: Path, attempt: int) -> dict[str, str]:
    """Entries that were active when an earlier attempt's process ended by itself: id -> reason.

    They are not measured again: the others would never come to their turn.
    """
    found: dict[str, str] = {}
    for number in range(1, attempt):
        folder = attempts / str(number)
        try:
            entry = (folder / "active").read_text(encoding="utf-8")
            verdict = read_json(folder / "verdict.json")
            state = State(verdict["state"])
        except (OSError, ValueError, KeyError):  # no culprit, or an end that nobody saw
            continue
        if entry and state not in _NO_FAULT:
            found.setdefault(entry, f"ended the process in attempt {number}: {verdict.get('reason') or state}")
    return found
