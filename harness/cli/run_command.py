"""``harness run SPEC...``: do what the plan says, with progress; then the table and the claims."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import options

if TYPE_CHECKING:
    from harness.execution.drive import Listener, Outcome
    from harness.execution.executor import Executor
    from harness.planning.decide import Plan

INTERRUPTED = 130
SHOWN = 12
"""Open nodes that are named at the end."""


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)
    options.add_selection(parser)
    options.add_results(parser)
    parser.add_argument("--jobs", type=options.count, metavar="N", help="CPUs to use at most (default: all)")
    parser.add_argument(
        "--in-process", action="store_true", help="run in this process, one after another, for a debugger"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, only the table")


def run(arguments: argparse.Namespace) -> int:
    worst = 0
    for spec in arguments.spec:
        worst = max(worst, _run(spec, arguments))
        if worst == INTERRUPTED:
            break
    return worst


def _run(spec: Path, arguments: argparse.Namespace) -> int:
    from harness import api
    from harness.execution.progress import Progress, QuietListener
    from harness.leaderboard.writers import terminal

    study = options.study(arguments, spec)
    selection = {"only": arguments.only, "results": arguments.results}
    plan = api.plan(study, rerun=arguments.rerun, retry=arguments.retry, **selection)
    if not plan.planned:
        print(f"harness: nothing to run in {spec}: every combination is skipped", file=sys.stderr)
        return 1
    listener = QuietListener() if arguments.quiet else Progress()
    result = api.run(plan, executor=_executor(arguments, listener), listener=listener)
    terminal.write(result.leaderboard)
    if result.outcome.interrupted:
        return INTERRUPTED
    if result.outcome.error:
        print(f"harness: stopped: {result.outcome.error}", file=sys.stderr)
        return 1
    return _report(api.plan(study, **selection), result.outcome)


def _executor(arguments: argparse.Namespace, listener: Listener) -> Executor:
    if arguments.in_process:
        from harness.execution.inprocess import InProcessExecutor

        return InProcessExecutor()
    from harness.execution.local import LocalExecutor

    return LocalExecutor(arguments.jobs, say=listener.message)


def _report(after: Plan, outcome: Outcome) -> int:
    """Name what is still open, with the log of what failed just now, on standard error. 1 if anything is."""
    left = [planned for planned in after.planned if planned.open]
    for planned in left[:SHOWN]:
        ended = outcome.results.get(planned.node.key)
        reason = planned.reason if ended is None else f"{ended.state}: {ended.reason or planned.reason}"
        log = f"; log: {ended.log}" if ended is not None and ended.log is not None and not ended.ok else ""
        print(f"harness: {planned.node.name}: {reason}{log}", file=sys.stderr)
    if len(left) > SHOWN:
        print(f"harness: and {len(left) - SHOWN} more; `harness plan` lists them", file=sys.stderr)
    return 1 if left else 0
