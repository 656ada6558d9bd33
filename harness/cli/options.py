"""Options that several subcommands share, and the study they ask for."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.spec.study import Study


def add_spec(parser: argparse.ArgumentParser, many: bool = True) -> None:
    """SPEC..., and what changes the study before it is validated."""
    parser.add_argument("spec", nargs="+" if many else 1, type=Path, metavar="SPEC", help="a study's YAML file")
    parser.add_argument("--profile", help="profile of the spec (default: laptop, where the spec has it)")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="change a value of the spec")
    parser.add_argument("--seeds", type=count, metavar="N", help="number of seeds instead of the spec's")
    parser.add_argument("--limit", type=count, metavar="N", help="use N items at most; part of the runs' keys")
    parser.add_argument("--no-code", action="store_true", help="refuse adapters taken straight from files")


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", metavar="DIR", help="where records lie (default: $HARNESS_RESULTS, else ./results)"
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="METHOD, EVALUATION or EVALUATION/METHOD; * and ? are wild",
    )
    parser.add_argument("--rerun", action="append", default=[], metavar="PATTERN", help="run again what is finished")
    parser.add_argument(
        "--retry", action="store_true", help="try again what timed out, ran out of memory, or failed inside a joint run"
    )


def study(arguments: argparse.Namespace, spec: Path) -> Study:
    """The study that the options ask for. Raises SpecErrors."""
    from harness import api

    return api.load(
        spec,
        profile=arguments.profile,
        set=arguments.set,
        seeds=arguments.seeds,
        limit=arguments.limit,
        no_code=arguments.no_code,
    )


def count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number from 1 is expected")
    return number
