"""``harness show SPEC``: the resolved spec, runnable as it is."""

from __future__ import annotations

import argparse

from harness.cli import options


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser, many=False)


def run(arguments: argparse.Namespace) -> int:
    from harness.spec.render import render

    print(render(options.study(arguments, arguments.spec[0])), end="")
    return 0
