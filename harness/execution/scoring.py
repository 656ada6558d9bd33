"""The scoring half of a run: metrics over stored observations, into ``scores.json`` and ``scores/``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.contract import Context, Metric, NotApplicable, Values
from harness.execution.instantiate import Products, Upstream, instantiate, references, sources
from harness.execution.observe import failure_of, one_line
from harness.planning.digest import DigestError, code_parts
from harness.planning.parts import code_of
from harness.results.files import write_json
from harness.results.observations import read_observations
from harness.results.record import EntryState, RunRecord, ScoreRecord, State
from harness.results.store import Stored
from harness.results.values import checked, write_arrays


class CodeChanged(Exception):
    """An adapter's code is not what the plan hashed: what it gives belongs under another key."""


def check_code(document: Any) -> None:
    """Raises CodeChanged where a reference's code is no longer what the plan found; empty code is not checked."""
    found: dict[str, str] = {}
    for reference in references(document):
        planned, module = reference.get("code"), reference["module"]
        if not planned:
            continue
        place = module.rpartition(":")[0]
        if place not in found:
            try:
                found[place] = code_of(code_parts(module))
            except DigestError:
                found[place] = ""  # gone, or half edited
        if found[place] != planned:
            raise CodeChanged(f"{reference['use']}: its code changed since the plan was made; run again")


def score_run(
    directory: Path, node: Mapping[str, Any], record: RunRecord, products: Products, context: Context
) -> None:
    """Compute the scores that are missing or failed, for entries that are ok; keep the others that are there.

    A metric that raises, or whose code changed, is that score's failure. Raises OSError where scores cannot be written.
    """
    scores = dict(Stored(directory).scores)
    for wanted in node.get("metrics", ()):
        key, entry = wanted["score_key"], wanted["entry"]
        stands = scores.get(key)
        if stands is not None and stands.state in (State.OK, State.SKIPPED):
            continue
        if record.entries.get(entry, EntryState(State.FAILED)).state is State.OK:
            scores[key] = _score(directory, wanted, products, context)
    if scores:
        write_json(directory / "scores.json", {key: asdict(score) for key, score in scores.items()})


def _score(directory: Path, wanted: Mapping[str, Any], products: Products, context: Context) -> ScoreRecord:
    reference, entry = wanted["metric"], wanted["entry"]
    try:
        check_code(reference)
        metric = instantiate(reference, products)
        if not isinstance(metric, Metric):
            raise TypeError(f"{reference['use']} is no Metric")
        values = metric.score(read_observations(directory, entry), wanted.get("parameters", {}), context)
        if not isinstance(values, Values):
            raise TypeError(f"score returned {type(values).__name__}, expected Values")
        arrays = checked(values)
        value, note = _finite(values)
        check_code(reference)
    except KeyboardInterrupt:
        raise
    except CodeChanged as error:
        return ScoreRecord(reference["use"], entry, State.INFRASTRUCTURE, reason=one_line(str(error)))
    except NotApplicable as error:
        return ScoreRecord(reference["use"], entry, State.SKIPPED, reason=one_line(str(error)))
    except Upstream as error:  # failed, so that it is scored once the build is there
        return ScoreRecord(reference["use"], entry, State.FAILED, reason=one_line(str(error)))
    except BaseException as error:
        failure = failure_of(error, sources(wanted))
        reason = f"{failure.reason} ({failure.where})" if failure.where else failure.reason
        return ScoreRecord(reference["use"], entry, failure.state, reason=reason)
    write_arrays(directory, wanted["score_key"], arrays)
    n = len(arrays["items"]) if "items" in arrays else None
    return ScoreRecord(reference["use"], entry, State.OK, value, n, note=note)


def _finite(values: Values) -> tuple[float | None, str]:
    """The value as a number or None, and the note; a value that is not finite is undefined and noted."""
    if values.value is None:
        return None, values.note
    value = float(values.value)
    if math.isfinite(value):
        return value, values.note
    return None, "; ".join(filter(None, [values.note, f"value was {value}"]))
