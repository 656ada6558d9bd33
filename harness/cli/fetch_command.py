"""``harness fetch SPEC...``: assets into the cache, ahead of a run without network."""

from __future__ import annotations

import argparse
import sys

from harness.cli import options


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)


def run(arguments: argparse.Namespace) -> int:
    from harness import api
    from harness.assets.fetch import fetch_all

    studies = [options.study(arguments, spec) for spec in arguments.spec]
    references = dict.fromkeys(r for study in studies for r in api.asset_references(study))
    fetched = fetch_all(references)
    for asset in fetched:
        if asset.path is None:
            print(f"harness: {asset.error}", file=sys.stderr)
        else:
            how = "fetched" if asset.downloaded else "already there"
            print(f"{asset.reference}: {how}, {asset.size / 1e6:.1f} MB{', ' if asset.note else ''}{asset.note}")
    if not fetched:
        print("no assets needed")
    return 1 if any(asset.path is None for asset in fetched) else 0
