"""Joint runs from the command line: entries that wait for a build, and gates that close and open."""

from __future__ import annotations

GATE = '{use: "./duel.py:Fit", params: {value: 2}}'


def test_an_entry_waits_for_its_build_and_the_run_is_repeated_once_it_is_there(workspace):
    (workspace.root / "unfit").write_text("2")
    first = workspace.harness("run", "duel.yaml")
    assert first.returncode == 1
    assert "RuntimeError: unfit" in first.stdout
    assert workspace.calls() == ["duel of 1"]
    again = workspace.harness("run", "duel.yaml")  # still unfit: its rival is not measured again
    assert again.returncode == 1
    assert workspace.calls() == []
    (workspace.root / "unfit").unlink()
    mended = workspace.harness("run", "duel.yaml")
    assert mended.returncode == 0, mended.stderr
    assert workspace.calls() == ["duel of 2"]
    assert "REPRODUCED  better" in mended.stdout
    assert workspace.harness("run", "duel.yaml").returncode == 0
    assert workspace.calls() == []


def test_a_gate_closes_and_opens(workspace):
    workspace.edit("duel.yaml", GATE, GATE.replace("}}", '}, gate: {value: ">= 5"}}'))
    shut = workspace.harness("run", "duel.yaml")
    assert shut.returncode == 1
    assert "value 2, wanted >= 5" in shut.stdout
    assert "INVALID  better" in shut.stdout
    assert workspace.calls() == ["duel of 1"]
    assert workspace.harness("run", "duel.yaml").returncode == 1
    assert workspace.calls() == []
    workspace.edit("duel.yaml", ">= 5", ">= 2")
    assert workspace.harness("run", "duel.yaml").returncode == 0
    assert workspace.calls() == ["duel of 2"]
    workspace.edit("duel.yaml", ">= 2", ">= 7")
    closed = workspace.harness("run", "duel.yaml")
    assert closed.returncode == 1
    assert "INVALID  better" in closed.stdout
    assert workspace.calls() == []
