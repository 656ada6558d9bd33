"""``harness table SPEC``: the leaderboard and the judged claims from what is finished so far."""

from __future__ import annotations

import argparse
import sys

from harness.cli import options

FORMATS = ("terminal", "markdown", "json")


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)
    options.add_results(parser)
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def run(arguments: argparse.Namespace) -> int:
    from harness import api
    from harness.leaderboard.writers import json, markdown, terminal

    for spec in arguments.spec:
        board = api.table(options.study(arguments, spec), results=arguments.results)
        if arguments.format == "terminal":
            terminal.write(board)
        else:
            text = (json if arguments.format == "json" else markdown).render(board)
            sys.stdout.buffer.write(text.encode("utf-8"))  # files, whatever the locale
    return 0
