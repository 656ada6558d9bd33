"""What people see: lines, the live view, every locale."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from driving import make_node

from harness.execution.drive import Outcome, Result, Step
from harness.execution.progress import Pace, Progress
from harness.results.record import State


def play(progress, log=None):
    """A little run: one fine, one failed, one skipped, one not started."""
    steps = [Step(make_node(name), cost=2.0) for name in ("fine", "b\u00e4d+\u6f22\u5b57[x=1]", "blocked", "never")]
    fine, bad, blocked, _ = steps
    progress.planned(steps)
    progress.queued(fine)
    progress.started(fine)
    progress.progress(fine, 3, 10, "layer 3")
    progress.started(bad)
    shown = progress._render() if progress._live is not None else None
    progress.finished(fine, Result(State.OK, seconds=3.25))
    progress.finished(bad, Result(State.FAILED, "killed by SIGSEGV", 1.0, log=log))
    progress.skipped(blocked, Result(State.SKIPPED, "upstream x: broken", blocked=True))
    progress.message("a \u00fcber message\nof two lines")
    results = {step.node.key: Result(State.OK) for step in steps}
    progress.ended(Outcome(results, interrupted=True, seconds=75.0))
    return shown


def test_lines_where_there_is_no_terminal(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(9)))
    out = io.StringIO()
    play(Progress(out), log)
    lines = [re.sub(r"\d+:\d\d", "T", line) for line in out.getvalue().splitlines()]
    assert lines == [
        "[0/4] T  started  fine",
        "[0/4] T  started  b\u00e4d+\u6f22\u5b57[x=1]",
        "[1/4] T  ok       fine  3.25s",
        "[2/4] T  FAILED   b\u00e4d+\u6f22\u5b57[x=1]  1s: killed by SIGSEGV",
        "    | line 5",
        "    | line 6",
        "    | line 7",
        "    | line 8",
        f"    | log: {log}",
        "[3/4] T  skipped  blocked: upstream x: broken",
        "a \u00fcber message of two lines",
        "interrupted: 4 ok in 1m15s",
    ]


def test_the_live_view_shows_what_runs():
    from rich.console import Console

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    view = play(Progress(out, live=True))
    console = Console(file=io.StringIO(), width=100)
    console.print(view)
    text = console.file.getvalue()
    assert re.search(r"running +0:00 +30% +fine  layer 3", text)
    assert "[x=1]" in text
    assert "0/4" in text
    out.seek(0)
    assert "FAILED" in out.read()


def test_every_locale_can_take_it(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_progress as t; "
        "t.play(t.Progress(sys.stdout)); t.play(t.Progress(sys.stdout, live=True))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert "b\\xe4d+\\u6f22\\u5b57[x=1]" in done.stdout.decode("ascii")


def test_pace_goes_by_cost_where_all_are_known():
    steps = [Step(make_node(f"n{i}"), cost=cost) for i, cost in enumerate((30.0, 10.0))]
    pace = Pace(steps)
    assert pace.remaining is None
    pace._began -= 60
    pace.count(steps[0], worked=True)
    assert 19.9 < pace.remaining < 21
    unknown = Pace([Step(make_node("a"), cost=30.0), Step(make_node("b"))])
    unknown._began -= 60
    unknown.count(steps[0], worked=True)
    assert 59.9 < unknown.remaining < 61


def test_work_of_others_says_nothing_about_the_pace():
    steps = [Step(make_node(f"n{i}")) for i in range(4)]
    pace = Pace(steps)
    pace._began -= 60
    for step, worked in zip(steps, (True, False, False), strict=False):
        pace.count(step, worked)
    assert pace.done == 3
    assert 59.9 < pace.remaining < 61
