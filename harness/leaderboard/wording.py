"""Judgements in words: what was measured, where, and how far from the paper's figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.contract import Json
from harness.leaderboard import format
from harness.leaderboard.parts import Part, Target
from harness.leaderboard.verdicts import Verdict
from harness.spec.study import Claim, Expectation

if TYPE_CHECKING:
    from harness.leaderboard.claims import Measured


def value(json_value: Json) -> str:
    """An axis value as people write it."""
    return json_value if isinstance(json_value, str) else json.dumps(json_value, ensure_ascii=False)


def axes(cell: Mapping[str, Json]) -> str:
    """ "context=1024, tensor_parallel=4"; empty without axes."""
    return ", ".join(f"{k}={value(v)}" for k, v in cell.items())


def expected(expect: Expectation) -> str:
    """The expectation in a few words, from its typed fields."""
    number = format.exact(expect.value)
    match expect.kind:
        case "equals":
            text = f"= {number}"
        case "ratio" | "difference":
            text = f"{expect.kind} {'=' if expect.op == '==' else expect.op} {number}"
        case "order":
            return " before ".join(expect.order)
        case "equivalence":
            margin = expect.margin or 0.0
            return f"within {format.percent(margin) if expect.relative else format.exact(margin)}"
    return f"{text} (tolerance {format.exact(expect.tolerance)})" if expect.tolerance else text


def what(claim: Claim, part: Part, kind: str | None) -> str:
    """ "latency.tokens_per_second of mlra-4 (tensor_parallel=4) over mla (tensor_parallel=1)"."""
    text = f"{claim.metric} of {_side(claim, part.where)}"
    if kind is None:
        return text
    return f"{text} {'over' if kind == 'ratio' else 'minus that of'} {_side(claim, part.against)}"


def _side(claim: Claim, targets: Sequence[Target]) -> str:
    first = targets[0]
    kept = {k: v for k, v in first.cell.cell.items() if len(targets) == 1 or k not in claim.mean}
    places = [axes(kept)] if kept else []
    if len(targets) > 1:
        places.append(f"macro mean over {len(targets)} values of {', '.join(claim.mean)}")
    labels = list(dict.fromkeys(t.row.label for t in targets))
    return f"{', '.join(labels)} ({'; '.join(places)})" if places else ", ".join(labels)


def sentence(
    claim: Claim,
    decisive: Measured | None,
    verdict: Verdict,
    reason: str,
    control: Sequence[Measured],
    parts: int,
) -> str:
    """The whole story of one judgement, in one or two sentences."""
    told = []
    if decisive is None or decisive.estimate is None:
        told.append(f"{decisive.what if decisive else claim.metric}: no figure, claimed {expected(claim.expect)}")
    else:
        figure = format.with_interval(decisive.estimate, decisive.interval)
        basis = f" ({decisive.basis})" if decisive.basis else ""
        told.append(f"{decisive.what}: {figure}{basis}, claimed {expected(claim.expect)}")
        told += _distance(claim, decisive.estimate)
    if parts > 1 and decisive is not None:
        told.append(f"decided by one of {parts} parts")
    for part in control:
        place = f" at {part.label}" if part.label else ""
        told.append(f"control {claim.control}{place}: {format.with_interval(part.estimate, part.interval)}")
    text = "; ".join(told)
    if reason:
        return f"{text}. {verdict.value.capitalize()}: {reason}."
    return f"{text}."


def _distance(claim: Claim, measured: float) -> list[str]:
    """How far from the paper's figure."""
    if claim.paper is None:
        return []
    if isinstance(claim.paper, str):
        return [f"the paper: {claim.paper}"]
    paper = float(claim.paper)
    if measured == paper:
        return [f"the paper's {format.exact(paper)} exactly"]
    if paper == 0:
        return [f"the paper's 0 differs by {format.significant(measured)}"]
    off = (measured - paper) / abs(paper)
    return [f"{format.percent(abs(off))} {'above' if off > 0 else 'below'} the paper's {format.exact(paper)}"]
