"""``harness plan SPEC...``: each node, what happens to it, why, and what it will cost."""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from typing import TYPE_CHECKING, Any

from harness.cli import options

if TYPE_CHECKING:
    from harness.planning.decide import Plan, Planned


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)
    options.add_selection(parser)
    options.add_results(parser)
    parser.add_argument("--all", action="store_true", help="finished nodes too, one line each")
    parser.add_argument("--json", action="store_true", help="the whole plan as JSON")


def run(arguments: argparse.Namespace) -> int:
    from harness import api

    plans = []
    for spec in arguments.spec:
        study = options.study(arguments, spec)
        plan = api.plan(
            study,
            results=arguments.results,
            only=arguments.only,
            rerun=arguments.rerun,
            retry=arguments.retry,
        )
        plans.append(plan)
    if arguments.json:
        print(json.dumps([_json(plan) for plan in plans], indent=1, ensure_ascii=False))
    else:
        for plan in plans:
            print("\n".join(describe(plan, everything=arguments.all)))
    return 0


def describe(plan: Plan, everything: bool = False) -> list[str]:
    """The plan as lines of text: a summary, then each node that is not simply reused."""
    from harness.planning.decide import Action

    study = plan.compiled.study
    profile = f", profile {study.profile}" if study.profile else ""
    words = {Action.RUN: "to run", Action.RESCORE: "to re-score", Action.REUSE: "finished"}
    counts = ", ".join(f"{n} {words.get(a, a)}" for a, n in plan.counts.items() if n)
    lines = [f"{study.name}{profile}: {counts or 'nothing in it'}{_total(plan)}"]
    shown = [p for p in plan.planned if everything or p.action is not Action.REUSE]
    width = min(max((len(p.node.name) for p in shown), default=0), 60)
    lines += [f"  {p.action:<9} {p.node.kind:<11} {p.node.name:<{width}}  {_cost(p):>7}  {p.reason}" for p in shown]
    reasons = Counter(p.reason for p in plan.planned if p.action is Action.REUSE)
    if not everything:
        lines += [f"  {Action.REUSE:<9} {n} node{'s' if n > 1 else ''}: {reason}" for reason, n in reasons.items()]
    return [*lines, *other_versions(plan)]


def other_versions(plan: Plan) -> list[str]:
    """Libraries of reused records whose version is another one now: recorded and told, but no reason to run again."""
    seen = Counter(pair for p in plan.planned if p.record is not None for pair in p.record.versions.items())
    now = {name: _version(name) for name, _ in seen}
    return [
        f"  note      {n} finished node{'s' if n > 1 else ''} used {name} {version}; it is {now[name]} now"
        for (name, version), n in sorted(seen.items())
        if now[name] not in (version, None)
    ]


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    if name == "python":
        return platform.python_version()
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _total(plan: Plan) -> str:
    costs = [p.cost.seconds for p in plan.work]
    known = [c for c in costs if c is not None]
    if not costs or not known:
        return ""
    unknown = f" and {len(costs) - len(known)} of unknown cost" if len(known) < len(costs) else ""
    sizes = sum(p.cost.bytes or 0 for p in plan.work)
    return f" (about {duration(sum(known))} of one slot, {sizes / 1e6:.1f} MB{unknown})"


def _cost(planned: Planned) -> str:
    return duration(planned.cost.seconds) if planned.cost.seconds is not None else ""


def duration(seconds: float) -> str:
    """Seconds as people read them: 0.4s, 12s, 3m05s, 2h10m."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def _json(plan: Plan) -> dict[str, Any]:
    return {
        "study": plan.compiled.study.name,
        "profile": plan.compiled.study.profile,
        "counts": {str(action): n for action, n in plan.counts.items()},
        "notes": [line.removeprefix("  note").strip() for line in other_versions(plan)],
        "nodes": [
            {
                "name": p.node.name,
                "kind": p.node.kind,
                "key": p.node.key,
                "action": str(p.action),
                "reason": p.reason,
                "seconds": p.cost.seconds,
                "bytes": p.cost.bytes,
                "requires": list(p.node.requires),
            }
            for p in plan.planned
        ],
    }
