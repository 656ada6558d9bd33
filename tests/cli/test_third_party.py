"""A package that registers adapters by entry point, as a user would install it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

SPEC = """
harness: 1
study: third
title: Somebody else's method
track: thirdparty
methods:
  one: {use: thirdparty.always}
  two: {use: thirdparty.always, params: {number: 2.5}}
evaluations:
  distance: {use: thirdparty.distance}
"""


@pytest.fixture
def installed(workspace):
    """The package and its metadata, on the path as pip would leave them."""
    site = workspace.root / "site"
    metadata = site / "third_party_methods-1.0.dist-info"
    metadata.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("third_party") / "third_party_methods.py", site)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-methods\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("third_party_methods.py,,\n")
    (metadata / "entry_points.txt").write_text("[harness.adapters]\nthirdparty = third_party_methods\n")
    workspace.environment["PYTHONPATH"] = str(site)
    (workspace.root / "third.yaml").write_text(SPEC)
    return workspace


def test_its_method_joins_the_table(installed):
    assert "thirdparty.always" in installed.harness("list", "methods").stdout
    result = installed.harness("run", "third.yaml")
    assert result.returncode == 0, result.stderr
    board = json.loads(installed.harness("table", "third.yaml", "--json").stdout)
    (column,) = board["evaluations"][0]["columns"]
    assert {c["method"]: c["estimate"] for c in column["cells"]} == {"one": 2.0, "two": 0.5}
    again = installed.harness("plan", "third.yaml")
    assert "2 finished" in again.stdout


def test_without_the_package_the_name_is_unknown(workspace):
    (workspace.root / "third.yaml").write_text(SPEC)
    result = workspace.harness("validate", "third.yaml")
    assert result.returncode == 2
    assert "thirdparty" in result.stdout
