"""``harness``: one module per subcommand; errors of the user's making end with status 2 and one clear text."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "validate": "check specs: every error as file:line:column",
    "show": "the resolved spec, runnable as it is",
    "plan": "what a run would do with each node, why, and what it costs",
    "run": "do what the plan says, then print the table and the claims",
    "table": "the leaderboard from what is finished so far",
    "fetch": "get the assets that specs need ahead of a run",
    "list": "methods, evaluations, metrics, builds, components, tracks, studies or assets",
}
"""Subcommand -> what it does; ``harness.cli.NAME`` has ``add(parser)`` and ``run(arguments) -> exit status``."""

VARIABLES = ("HARNESS_CACHE", "HARNESS_RESULTS", "HARNESS_GRANT", "HARNESS_NODE")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 all well; 1 a run failed; 2 the spec or the call is wrong; 130 interrupted."""
    _tolerate_encoding()
    _warn_about_variables()
    arguments = _parser(argv).parse_args(argv)
    module = importlib.import_module(f"harness.cli.{arguments.command}_command")
    try:
        status: int = module.run(arguments)
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `harness table | head`
        sys.stderr.close()
        return 0
    except Exception as error:
        if not _is_users(error):
            raise
        print(f"harness: {error}", file=sys.stderr)
        return 2


def _parser(argv: Sequence[str] | None) -> argparse.ArgumentParser:
    from harness import __version__

    parser = argparse.ArgumentParser(
        prog="harness", description="Does this method really work? One spec, one trusted table."
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    words = list(sys.argv[1:] if argv is None else argv)
    for name, what in COMMANDS.items():
        sub = commands.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        if name in words:  # the others' modules need not be imported
            importlib.import_module(f"harness.cli.{name}_command").add(sub)
    return parser


def _is_users(error: Exception) -> bool:
    from harness.assets import AssetError
    from harness.planning.digest import DigestError
    from harness.planning.parts import PlanError
    from harness.planning.select import PatternError
    from harness.results.files import RecordError
    from harness.spec.describe import DescribeError
    from harness.spec.errors import SpecErrors
    from harness.spec.registry import RegistryError

    spec = (SpecErrors, RegistryError, DescribeError)
    return isinstance(error, (*spec, PlanError, PatternError, AssetError, DigestError, RecordError))


def _tolerate_encoding() -> None:
    """Names may hold any character; a stream that cannot show one shows an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _warn_about_variables() -> None:
    for name in os.environ:
        if name.startswith("HARNESS_") and name not in VARIABLES:
            near = difflib.get_close_matches(name, VARIABLES[:2], 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(VARIABLES[:2])}"
            print(f"harness: environment variable {name} means nothing{hint}", file=sys.stderr)
