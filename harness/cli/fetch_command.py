"""``harness fetch SPEC...``: assets into the cache, ahead of a run without network."""

from __future__ import annotations

import argparse

from harness.cli import options


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import api

    studies = [options.study(arguments, spec) for spec in arguments.spec]
    references = list(dict.fromkeys(r for study in studies for r in api.asset_references(study)))
    if not references:
        print("no assets needed")
    for reference in references:
        from harness.assets.fetch import fetch_all

        for fetched in fetch_all([reference]):
            print(f"{reference}: {fetched.path}")
    return 0
