"""The study of multi-head low-rank attention, from its spec to its table, at its smallest size."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.track_decoding

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "specs" / "mlra.yaml"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("mlra")


def harness(place: Path, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments, "--results", str(place)],
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )


@pytest.fixture(scope="module")
def finished(place):
    result = harness(place, "run", str(SPEC), "--profile", "smoke")
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def board(finished, place):
    text = harness(place, "table", str(SPEC), "--profile", "smoke", "--json").stdout
    return json.loads(text, parse_constant=pytest.fail)


def test_it_ends_with_table_and_claims(finished):
    for text in ("cache", "latency", "perplexity", "Claims", "REPRODUCED  cache-mlra-4"):
        assert text in finished.stdout
    assert "FAILED" not in finished.stdout


def test_every_cell_has_a_value_or_a_declared_reason(board):
    cells = [cell for e in board["evaluations"] for column in e["columns"] for cell in column["cells"]]
    assert {cell["state"] for cell in cells} == {"ok", "skipped"}
    assert all(cell["reason"] for cell in cells if cell["state"] == "skipped")


def test_cache_sizes_are_the_papers(board):
    (cache,) = [e for e in board["evaluations"] if e["evaluation"] == "cache"]
    found = {
        (cell["method"], column["cell"]["tensor_parallel"]): cell["estimate"]
        for column in cache["columns"]
        if column["metric"] == "elements_per_token"
        for cell in column["cells"]
    }
    assert found["mla", 1] == found["mla", 4] == 4.5
    assert found["gla-2", 4] == 2.5
    assert found["mlra-4", 4] == 1.5
    assert found["gqa-8", 4] == 4


def test_the_same_command_again_executes_nothing(finished, place):
    plan = json.loads(harness(place, "plan", str(SPEC), "--profile", "smoke", "--json").stdout)[0]
    assert {node["action"] for node in plan["nodes"]} == {"reuse"}


def test_a_changed_constant_makes_exactly_its_runs_and_its_joint_runs_stale(finished, place, tmp_path):
    clone = tmp_path / "clone"
    for folder in ("harness", "methods", "specs"):
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__"))
    module = clone / "methods" / "decoding" / "mlra.py"
    text = module.read_text("utf-8")
    assert "LATENT = Fraction(4)" in text
    module.write_text(text.replace("LATENT = Fraction(4)", "LATENT = Fraction(8)"), "utf-8")
    os.environ["PYTHONPATH"] = str(clone)
    try:
        result = harness(place, "plan", str(clone / "specs" / "mlra.yaml"), "--profile", "smoke", "--json", cwd=clone)
    finally:
        del os.environ["PYTHONPATH"]
    nodes = json.loads(result.stdout)[0]["nodes"]
    stale = {node["name"]: node["reason"] for node in nodes if node["action"] == "stale"}
    joint = {n["name"] for n in nodes if n["name"].startswith(("latency", "kernel", "compute-bound", "parallel"))}
    assert {name for name in stale if "mlra" not in name} == joint
    assert all("methods/decoding/mlra.py changed" in reason for reason in stale.values())
    untouched = [n["action"] for n in nodes if "mlra" not in n["name"] and n["name"] not in joint]
    assert set(untouched) == {"reuse"}
    assert any("perplexity" in name for name in stale)


MINE = """
from fractions import Fraction

from harness.tracks.decoding.latent import LatentAttention
from harness.tracks.decoding.layout import latent_layout
from harness.tracks.decoding.protocol import Attention


class Mine(Attention):
    def layout(self, shape):
        return latent_layout(8, Fraction(1, 2), Fraction(1, 2), 8)

    def module(self, shape):
        return LatentAttention(shape, self.layout(shape), shape.model // 4)
"""


def test_a_method_from_a_single_file_joins_the_table(finished, place, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)

    def write(more):
        (tmp_path / "mine.yaml").write_text(f"include: {SPEC}\nmethods: {{mine: {{use: ./mine.py:Mine}}}}\n{more}")

    options = (str(tmp_path / "mine.yaml"), "--profile", "smoke")
    write("")
    refused = harness(place, "run", *options, "--only", "cache/mine")
    assert refused.returncode == 2
    assert "add it to its methods" in refused.stderr
    write("evaluations: {cache: {methods: [mla, gla-2, gqa-8, mlra-4, mine]}}\n")
    result = harness(place, "run", *options, "--only", "cache/mine")
    assert result.returncode == 0, result.stderr
    board = json.loads(harness(place, "table", *options, "--json").stdout)
    (column,) = [
        column
        for evaluation in board["evaluations"]
        for column in evaluation["columns"]
        if column["metric"] == "elements_per_token" and column["cell"]["tensor_parallel"] == 4
    ]
    assert {c["method"]: c["estimate"] for c in column["cells"] if c["method"] in ("mine", "mlra-4")} == {
        "mine": 1.5,
        "mlra-4": 1.5,
    }
