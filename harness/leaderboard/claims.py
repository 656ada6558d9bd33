"""Claims judged from the scores. The rules stand in :mod:`harness.leaderboard.verdicts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.contract import Json
from harness.leaderboard import wording
from harness.leaderboard.compare import Contrast, Kind, contrast
from harness.leaderboard.intervals import LEVEL, Interval, interval
from harness.leaderboard.parts import ClaimError, Part, Target, parts
from harness.leaderboard.samples import CellState, Group, Results, Sample, average
from harness.leaderboard.verdicts import Region, Verdict, decide, guarded, half_line, region, worst
from harness.results.score import Score
from harness.spec.study import Claim, Study


@dataclass(frozen=True)
class Evidence:
    """One cell that a claim rests on. ``role``: where, against or control."""

    role: str
    method: str
    evaluation: str
    cell: Mapping[str, Json]
    metric: str
    estimate: float | None
    interval: Interval | None
    n: int
    planned: int
    state: CellState
    reason: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """One part of a claim, measured: a value, a ratio or a difference, and the verdict on it alone.

    ``label`` tells parts apart ("tensor_parallel=4"); empty where there is one. ``reason``: why the verdict is not
    one of the first four.
    """

    label: str
    what: str
    verdict: Verdict
    estimate: float | None
    interval: Interval | None
    basis: str
    reason: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Judgement:
    """What became of a claim. ``measured`` and ``interval`` are those of the part that decided."""

    claim: str
    says: str
    metric: str
    verdict: Verdict
    measured: float | None
    interval: Interval | None
    expected: str
    paper: float | str | None
    text: str
    reason: str
    parts: tuple[Measured, ...]
    control: tuple[Measured, ...]

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """All cells it rests on, the control's last, each once."""
        rows: dict[object, Evidence] = {}
        for part in (*self.parts, *self.control):
            for e in part.evidence:
                rows.setdefault((e.role, e.method, e.evaluation, wording.axes(e.cell)), e)
        return tuple(rows.values())


def judge(study: Study, scores: Sequence[Score]) -> tuple[Judgement, ...]:
    """Every claim of the study, in its order. Raises ValueError for scores that contradict each other."""
    return judged(Results(study, scores))


def judged(results: Results, level: float = LEVEL) -> tuple[Judgement, ...]:
    """As :func:`judge`, from scores that are grouped already."""
    return tuple(_judge(results, claim, level) for claim in results.study.claims)


def _judge(results: Results, claim: Claim, level: float) -> Judgement:
    measured, missing = _measure_all(results, claim, None, level)
    control: tuple[Measured, ...] = ()
    verdict = worst(m.verdict for m in measured) if measured else Verdict.NOT_EVALUATED
    decisive = next((m for m in measured if m.verdict is verdict), None)
    reason = missing if decisive is None else decisive.reason
    if claim.scale == "paper" and results.study.profile != "paper":
        verdict, reason = Verdict.NOT_TESTED, "it is declared for the profile paper"
    elif claim.control is not None:
        control, absent = _measure_all(results, claim, claim.control, level)
        verdict, reason = _with_control(claim, verdict, reason, control, absent)
    return Judgement(
        claim=claim.id,
        says=claim.says,
        metric=claim.metric,
        verdict=verdict,
        measured=decisive.estimate if decisive else None,
        interval=decisive.interval if decisive else None,
        expected=wording.expected(claim.expect),
        paper=claim.paper,
        text=wording.sentence(claim, decisive, verdict, reason, control, len(measured)),
        reason=reason,
        parts=measured,
        control=control,
    )


def _with_control(
    claim: Claim, verdict: Verdict, reason: str, control: Sequence[Measured], absent: str
) -> tuple[Verdict, str]:
    """The verdict once the control has been looked at; see the rules."""
    if verdict in (Verdict.NOT_EVALUATED, Verdict.INVALID):
        return verdict, reason
    if not control or any(m.verdict is Verdict.NOT_EVALUATED for m in control):
        why = absent or next(m.reason for m in control if m.verdict is Verdict.NOT_EVALUATED)
        return Verdict.NOT_EVALUATED, f"control {claim.control}: {why}"
    if any(m.verdict is Verdict.INVALID for m in control):
        return Verdict.INVALID, f"control {claim.control}: {control[0].reason}"
    if any(m.interval is None for m in control) and verdict is Verdict.INCONCLUSIVE:
        return verdict, reason
    if claim.expect.kind == "equivalence":
        passes = not all(m.verdict is Verdict.NOT_REPRODUCED for m in control)
        why = f"the control {claim.control} does not lie outside the margin"
    else:
        passes = worst(m.verdict for m in control) is Verdict.REPRODUCED
        why = f"the control {claim.control} meets the same expectation"
    return (Verdict.INVALID, why) if passes else (verdict, reason)


def _measure_all(results: Results, claim: Claim, control: str | None, level: float) -> tuple[tuple[Measured, ...], str]:
    """All parts, with ``control`` in the method's place if given; or none, and why there are none."""
    try:
        wanted = parts(results.study, claim, control)
        claimed, kind = _region(results, claim)
    except ClaimError as error:
        return (), str(error)
    role = "where" if control is None else "control"
    question = _Question(claim, claimed, kind, role, level, 1 - (1 - level) / len(wanted))
    return tuple(_measure(results, part, question) for part in wanted), ""


@dataclass(frozen=True)
class _Question:
    """What is asked of every part. ``simultaneous``: the level at which all parts' intervals hold at once."""

    claim: Claim
    claimed: Region
    kind: Kind | None
    role: str
    level: float
    simultaneous: float


def _measure(results: Results, part: Part, asked: _Question) -> Measured:
    metric = asked.claim.metric.rpartition(".")[2]
    here = [results.group(t.row, t.cell, metric) for t in part.where]
    there = [results.group(t.row, t.cell, metric) for t in part.against]
    found = _figure(here, there, asked.kind, asked.level)
    verdict, reason = _blocked([*zip(part.where, here, strict=True), *zip(part.against, there, strict=True)])
    if verdict is None:
        verdict, reason = _verdict(found, here, there, asked), found.note
    if verdict is Verdict.INCONCLUSIVE:
        reason = reason or "the interval is too wide to tell"
    evidence = [_evidence(asked, asked.role, t, g) for t, g in zip(part.where, here, strict=True)]
    evidence += [_evidence(asked, "against", t, g) for t, g in zip(part.against, there, strict=True)]
    what = wording.what(asked.claim, part, asked.kind)
    return Measured(part.label, what, verdict, found.estimate, found.interval, found.basis, reason, tuple(evidence))


def _verdict(found: Contrast, here: Sequence[Group], there: Sequence[Group], asked: _Question) -> Verdict:
    if found.estimate is None:
        return Verdict.NOT_EVALUATED
    verdict = decide(asked.claimed, found.interval)
    if asked.simultaneous == asked.level:
        return verdict
    return guarded(verdict, decide(asked.claimed, _figure(here, there, asked.kind, asked.simultaneous).interval))


def _evidence(asked: _Question, role: str, target: Target, group: Group) -> Evidence:
    return Evidence(
        role=role,
        method=target.row.label,
        evaluation=target.cell.name,
        cell=target.cell.cell,
        metric=asked.claim.metric.rpartition(".")[2],
        estimate=group.sample.estimate,
        interval=interval(group.sample, asked.level),
        n=len(group.sample.shown),
        planned=group.planned,
        state=group.state,
        reason=group.reason,
        runs=tuple(dict.fromkeys(s.run for s in group.scores if s.run)),
    )


def _blocked(cells: Sequence[tuple[Target, Group]]) -> tuple[Verdict | None, str]:
    """Why nothing can be said from these cells, if so: a closed gate first, then what is not complete."""
    for target, group in cells:
        if group.gate_closed:
            return Verdict.INVALID, f"{target.row.label}: {group.reason}"
    for target, group in cells:
        if group.state is not CellState.OK:
            state = "" if group.state in (CellState.PARTIAL, CellState.MISSING) else f"{group.state.value}: "
            return Verdict.NOT_EVALUATED, f"{target.row.label}: {state}{group.reason}"
    return None, ""


def _region(results: Results, claim: Claim) -> tuple[Region, Kind | None]:
    """The claimed region, and which contrast it is about; None for a plain value."""
    expect = claim.expect
    if expect.kind == "order":
        adapter = results.study.adapters[_metric_use(results.study, claim)]
        if adapter.direction is None:
            raise ClaimError(f"{claim.metric} has no direction, so no method is better than another")
        kind: Kind = "ratio" if adapter.scale == "log" else "difference"
        none = 1.0 if kind == "ratio" else 0.0
        return half_line("<" if adapter.direction == "min" else ">", none, none), kind
    if expect.kind == "equals":
        return region(expect), None
    if expect.kind == "equivalence":
        return region(expect), "ratio" if expect.relative else "difference"
    return region(expect), expect.kind


def _metric_use(study: Study, claim: Claim) -> str:
    evaluation, _, metric = claim.metric.rpartition(".")
    return study.metric(evaluation, metric).use


def _figure(here: Sequence[Group], there: Sequence[Group], kind: Kind | None, level: float) -> Contrast:
    """The number that is claimed about, from whatever values there are."""
    if any(not len(g.sample.shown) for g in (*here, *there)):
        return Contrast(None, None, "", "no values")
    a = average([g.sample for g in here])
    if kind is not None:
        return contrast(a, average([g.sample for g in there]), kind, level)
    return _value(a, level)


def _value(sample: Sample, level: float) -> Contrast:
    if sample.estimate is None:
        return Contrast(None, None, "", "no seed in common")
    if sample.exact:
        return Contrast(sample.estimate, Interval(sample.estimate, sample.estimate, level, "exact"), "exact")
    made = interval(sample, level)
    n = len(sample.shown)
    note = "" if made else "one seed: no interval"
    return Contrast(sample.estimate, made, f"{n} seeds" if n > 1 else "one seed", note)
