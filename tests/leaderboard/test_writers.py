from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.leaderboard.table import build
from harness.leaderboard.verdicts import Verdict
from harness.leaderboard.writers import json as json_writer
from harness.leaderboard.writers import markdown, terminal
from harness.leaderboard.writers.text import VERDICT_MARKS

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def board(lab):
    return build(lab.full_study(), lab.full_scores())


def golden(name, text):
    """The committed file. Refresh with HARNESS_GOLDEN=1 and look at the difference."""
    if os.environ.get("HARNESS_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    return (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "render"), [("board.txt", terminal.render), ("board.md", markdown.render)])
def test_golden_text(board, name, render):
    text = render(board)
    assert text == golden(name, text)


def rounded(value):
    """Without the last digits, which differ between builds of NumPy."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_golden_json(board):
    text = json_writer.render(board)
    assert rounded(json.loads(text)) == rounded(json.loads(golden("board.json", text)))


def test_terminal_keeps_the_width(board):
    from rich.cells import cell_len

    for width in (60, 100, 160):
        lines = terminal.render(board, width=width).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert not any(line.endswith(" ") for line in lines)


def test_failures_and_verdicts_are_words_not_colours(board):
    text = terminal.render(board)
    assert "FAILED (a)" in text
    assert "(a) failed: timeout: 600 s were over" in text
    assert "3 failed" in text
    assert "NOT REPRODUCED  everywhere" in text
    assert "\x1b" not in text
    assert "\x1b[" in terminal.render(board, colour=True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_terminal_stays_within_the_encoding(board, encoding):
    text = terminal.render(board, encoding=encoding)
    text.encode(encoding)  # raises if a character is lacking
    assert "Schr" in text
    assert "(lower is better)" in text
    assert "+ REPRODUCED  cache-tp4" in text


def test_stream_that_is_not_utf8(board):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    terminal.write(board, stream)
    stream.flush()
    assert b"Schr\\xf6dinger" in raw.getvalue()


def test_a_process_in_the_c_locale_prints_it():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import conftest as lab;"
        "from harness.leaderboard.table import build; from harness.leaderboard.writers import terminal;"
        "terminal.write(build(lab.full_study(), lab.full_scores()))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"REPRODUCED  cache-tp4" in done.stdout


def test_json_is_strict_and_unrounded(board):
    def refuse(name):
        raise AssertionError(name)

    document = json.loads(json_writer.render(board), parse_constant=refuse)
    assert document["schema_version"] == 1
    columns = {(c["metric"], json.dumps(c["cell"])): c for e in document["evaluations"] for c in e["columns"]}
    cells = {c["method"]: c for c in columns["loss", "{}"]["cells"]}
    here = {cell.method: cell for column, cell in board.cells() if column.metric == "loss"}
    assert cells["mlra-4"]["estimate"] == here["mlra-4"].estimate
    assert cells["mlra-4"]["interval"]["low"] == here["mlra-4"].interval.low
    assert cells["Schrödinger ± 漢字"]["estimate"] is None
    assert cells["Schrödinger ± 漢字"]["values"] == [None, None, None]
    assert cells["mla"]["state"] == "partial"
    assert document["counts"] == {"planned": 40, "finished": 31, "failed": 3, "skipped": 1, "missing": 5}
    assert [c["verdict"] for c in document["claims"]][:2] == ["reproduced", "reproduced"]


def unescape(cell):
    return re.sub(r"\\(.)", r"\1", cell).replace("&amp;", "&")


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30))
def test_any_name_is_text_in_every_writer(lab_module, name):
    lab = lab_module
    study = lab.one_metric((name, "other" + name), deterministic=True, kind="exact")
    board = build(study, [lab.score(name, "task.accuracy", 1.5, seed=None)])
    rows = [line for line in markdown.render(board).splitlines() if line.startswith("| ")]
    assert all(len(re.split(r"(?<!\\)(?:\\\\)*\|", row)) == 4 for row in rows)
    assert unescape(rows[2].split(" | ")[0][2:]) == " ".join(name.split()) or "|" in name
    assert json.loads(json_writer.render(board))["methods"][0]["label"] == name
    terminal.render(board, encoding="ascii").encode("ascii")
    assert terminal.render(board)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("tokens_per_second", "tokens_per_second"),
        ("_it_", r"\_it\_"),
        ("*x* `y` <b> [l](u)", r"\*x\* \`y\` \<b> \[l\](u)"),
        ("two\nlines & more", "two lines &amp; more"),
        ("back\\slash", r"back\\slash"),
    ],
)
def test_markdown_escapes(text, escaped):
    assert markdown.escape(text) == escaped


def test_empty_studies_render(lab):
    board = build(lab.study((), (), ()), [])
    assert "0 of 0 measurements finished" in terminal.render(board)
    assert markdown.render(board).startswith("# A made-up study")
    assert json.loads(json_writer.render(board))["evaluations"] == []


def test_every_verdict_has_its_own_mark():
    assert len(set(VERDICT_MARKS.values())) == len(Verdict)


def test_leaderboard_imports_nothing_heavy():
    code = (
        "import sys, harness.leaderboard.table, harness.leaderboard.writers.terminal,"
        "harness.leaderboard.writers.markdown, harness.leaderboard.writers.json;"
        "print([m for m in ('scipy', 'pandas', 'rich', 'torch', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
