"""A study from the command line: run, resume, change, interrupt, kill."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

EVERYTHING = [
    "draws 0",
    "draws 1",
    "observe Mean 0",
    "observe Mean 1",
    "observe Median 0",
    "observe Median 1",
    *["score"] * 4,
]


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


@pytest.fixture
def finished(workspace):
    result = workspace.harness("run", "toy.yaml")
    assert result.returncode == 0, result.stderr
    assert workspace.calls() == EVERYTHING
    return workspace


def test_a_study_ends_with_its_table_and_claims(workspace):
    result = workspace.harness("run", "toy.yaml")
    assert result.returncode == 0
    assert "Two ways to predict a number" in result.stdout
    assert "REPRODUCED  same" in result.stdout
    assert "[6/6]" in result.stderr


def test_the_same_command_again_executes_nothing(finished):
    result = finished.harness("run", "toy.yaml")
    assert result.returncode == 0
    assert finished.calls() == []
    assert "quality" in result.stdout


def test_order_labels_comments_and_layout_change_nothing(finished):
    finished.edit("toy.yaml", '  mean: {use: "./toy.py:Mean", role: baseline}\n', "")
    finished.edit("toy.yaml", "evaluations:", '  # last now\n  average:   {use:   "./toy.py:Mean"}\nevaluations:')
    finished.edit("toy.yaml", "against: {method: mean}", "against: {method: average}")
    finished.edit("toy.py", "class Mean(Model):", "# a comment\n\n\nclass Mean(Model):")
    finished.edit("toy.py", '"""The mean, and something added."""', '"""Another docstring."""')
    result = finished.harness("run", "toy.yaml")
    assert (result.returncode, finished.calls()) == (0, [])
    assert "average" in result.stdout


def test_a_changed_metric_only_scores_again(finished):
    finished.edit("metrics.py", 'errors"].max()', 'errors"].max() + 1')
    plan = finished.harness("plan", "toy.yaml")
    assert "4 to re-score" in plan.stdout
    assert finished.harness("run", "toy.yaml").returncode == 0
    assert finished.calls() == []  # neither a method nor the other metric


def test_changed_code_is_stale_and_named(finished):
    finished.edit("toy.py", "+ self.shift", "+ self.shift + 0.5")
    plan = finished.harness("plan", "toy.yaml")
    assert "toy.py changed" in plan.stdout
    assert " stale " in plan.stdout


def test_a_further_method_runs_alone(finished):
    finished.edit("toy.yaml", "evaluations:", '  more: {use: "./toy.py:Mean", params: {shift: 1}}\nevaluations:')
    assert finished.harness("run", "toy.yaml").returncode == 0
    assert finished.calls() == ["observe Mean 0", "observe Mean 1", "score", "score"]


def items(workspace, *options: str) -> set[int]:
    """How many items a seed has in the cells of the table."""
    board = json.loads(workspace.harness("table", "toy.yaml", "--json", *options).stdout, parse_constant=pytest.fail)
    columns = [column for evaluation in board["evaluations"] for column in evaluation["columns"]]
    return {cell["items"] for column in columns if column["metric"] == "Error" for cell in column["cells"]}


def test_limited_runs_are_kept_apart_from_whole_ones(workspace):
    for options, n in ((["--limit", "10"], 10), ([], 50)):
        assert workspace.harness("run", "toy.yaml", *options).returncode == 0
        assert len([c for c in workspace.calls() if c.startswith("observe")]) == 4
        assert items(workspace, *options) == {n}
    assert workspace.harness("run", "toy.yaml", "--limit", "10").returncode == 0
    assert workspace.calls() == []
    assert items(workspace, "--limit", "10") == {10}


def test_one_failure_stops_no_other_and_is_shown(workspace):
    workspace.edit("toy.yaml", "evaluations:", '  broken: {use: "./toy.py:Broken"}\nevaluations:')
    result = workspace.harness("run", "toy.yaml")
    assert result.returncode == 1
    assert len([c for c in workspace.calls() if c == "score"]) == 4
    assert "FAILED" in result.stdout
    assert "ValueError: broken on purpose" in result.stdout
    assert "broken on purpose" in result.stderr
    workspace.edit("toy.py", 'raise ValueError("broken on purpose")', "return 0.0")
    workspace.calls()
    assert workspace.harness("run", "toy.yaml").returncode == 0
    logs = [p.read_text() for p in workspace.root.glob("results/toy/runs/*/attempts/*/log")]
    assert any("broken on purpose" in log for log in logs)


def test_a_method_that_does_not_apply_is_skipped_with_its_reason(workspace):
    row = '  odd: {use: "./toy.py:Broken", params: {skip: true}}\nevaluations:'
    workspace.edit("toy.yaml", "evaluations:", row)
    result = workspace.harness("run", "toy.yaml")
    assert result.returncode == 0
    assert "nothing for it here" in result.stdout


def test_empty_data_are_no_success(workspace):
    result = workspace.harness("run", "toy.yaml", "--set", "evaluations.quality.params.data.params.n=0")
    assert result.returncode == 1
    assert "0 samples" in result.stdout


def test_rerun_and_only(finished):
    assert finished.harness("run", "toy.yaml", "--rerun", "quality/mean").returncode == 0
    assert finished.calls() == ["observe Mean 0", "observe Mean 1", "score", "score"]
    result = finished.harness("run", "toy.yaml", "--only", "medain")
    assert result.returncode == 2
    assert "median" in result.stderr


@pytest.mark.parametrize("where", ["build", "observation"])
def test_killed_in_the_middle_the_same_command_does_what_is_missing(workspace, where):
    (workspace.root / "slow").write_text(where)
    process = workspace.start("run", "toy.yaml")
    wait_for((workspace.root / "reached").exists)
    process.kill()
    process.wait()
    worker = int((workspace.root / "reached").read_text())
    wait_for(lambda: not Path(f"/proc/{worker}").exists())
    (workspace.root / "slow").unlink()
    before = workspace.calls()
    result = workspace.harness("run", "toy.yaml")
    assert result.returncode == 0, result.stderr
    again = workspace.calls()
    assert sorted(set(before + again)) == sorted(set(EVERYTHING))
    done_before = [p for p in before if p.startswith("draws")]
    if where == "observation":
        assert not [c for c in again if c in done_before]  # finished builds are kept
    assert not list(workspace.root.glob("results/builds/*/product/half-*"))


def test_interrupted_it_keeps_what_is_finished_and_says_so(workspace):
    (workspace.root / "slow").write_text("observation")
    process = workspace.start("run", "toy.yaml")
    wait_for((workspace.root / "reached").exists)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "of 4" in out or "of 8" in out  # a partial table
    worker = int((workspace.root / "reached").read_text())
    assert not Path(f"/proc/{worker}").exists()
    (workspace.root / "slow").unlink()
    built = [c for c in workspace.calls() if c.startswith("draws")]
    assert workspace.harness("run", "toy.yaml").returncode == 0
    assert not set(workspace.calls()) & set(built)


def test_a_locale_without_unicode_and_a_pipe_are_no_obstacle(workspace):
    workspace.edit("toy.yaml", "median: {use", '"Schrödinger ± 漢字": {use')
    workspace.edit("toy.yaml", "where: {method: median}", 'where: {method: "Schrödinger ± 漢字"}')
    result = workspace.harness("run", "toy.yaml", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="")
    assert result.returncode == 0, result.stderr
    assert "UnicodeError" not in result.stderr
    assert "Schr" in result.stdout


def test_results_may_lie_elsewhere_and_an_unknown_variable_is_named(workspace):
    result = workspace.harness("run", "toy.yaml", "--only", "mean", HARNESS_RESULTS="elsewhere", HARNESS_RESULT="x")
    assert result.returncode == 0
    assert (workspace.root / "elsewhere/toy/runs").is_dir()
    assert "HARNESS_RESULT means nothing; did you mean HARNESS_RESULTS?" in result.stderr


def test_the_recorded_commit_is_not_that_of_the_current_directory(workspace):
    for command in ("git init -q", "git add toy.yaml", "git -c user.name=a -c user.email=a@b commit -qm x"):
        assert os.system(f"cd {workspace.root} && {command}") == 0
    here = os.popen(f"git -C {workspace.root} rev-parse HEAD").read().strip()
    assert workspace.harness("run", "toy.yaml", "--only", "mean", "--seeds", "1").returncode == 0
    (run,) = workspace.root.glob("results/toy/runs/*/run.json")
    environment = json.dumps({k: v for k, v in json.loads(run.read_text())["environment"].items() if k != "sources"})
    assert len(here) == 40
    assert f'"harness": "{here}' not in environment


def test_other_library_versions_are_told_and_no_reason_to_run(finished):
    for path in (finished.root / "results/toy/runs").glob("*.mean.*/run.json"):
        record = json.loads(path.read_text())
        record["environment"]["packages"]["numpy"] = "1.0"
        path.write_text(json.dumps(record))
    plan = finished.harness("plan", "toy.yaml")
    assert "2 finished nodes used numpy 1.0; it is" in plan.stdout
    assert "made with numpy 1.0" in finished.harness("table", "toy.yaml").stdout
    assert finished.harness("run", "toy.yaml").returncode == 0
    assert finished.calls() == []


def test_in_process(workspace):
    assert workspace.harness("run", "toy.yaml", "--in-process", "--quiet").returncode == 0
    assert workspace.calls() == EVERYTHING


def test_spec_errors_end_with_two(workspace):
    workspace.edit("toy.yaml", "methods:", "metods:")
    for command in ("validate", "plan", "run", "show", "table"):
        result = workspace.harness(command, "toy.yaml")
        assert result.returncode == 2, command
        assert "toy.yaml:6:1" in result.stdout + result.stderr
        assert "methods" in result.stdout + result.stderr
    assert workspace.calls() == []


def test_show_can_be_run_with_the_same_keys(finished):
    shown = finished.harness("show", "toy.yaml")
    assert shown.returncode == 0
    (finished.root / "shown.yaml").write_text(shown.stdout, "utf-8")
    assert finished.harness("run", "shown.yaml").returncode == 0
    assert finished.calls() == []


def test_no_code_refuses_classes_from_files(workspace):
    result = workspace.harness("validate", "toy.yaml", "--no-code")
    assert result.returncode == 2
    assert "no-code" in result.stdout + result.stderr


def test_markdown_and_json_tables(finished):
    assert "| method" in finished.harness("table", "toy.yaml", "--format", "markdown").stdout
    board = json.loads(finished.harness("table", "toy.yaml", "--json").stdout, parse_constant=pytest.fail)
    assert board["study"] == "toy"
