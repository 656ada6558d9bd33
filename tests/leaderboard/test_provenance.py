from __future__ import annotations

from dataclasses import replace

from harness.leaderboard.provenance import Provenance, provenance
from harness.leaderboard.table import build
from harness.leaderboard.writers import json, markdown
from harness.results.record import RunRecord, State


def finished(lab, method, **more):
    return replace(lab.score(method, "task.accuracy", 1.0, seed=None), **more)


def test_each_value_once_and_only_of_what_finished(lab):
    scores = [
        finished(lab, "a", hardware="CPU", commit="aaa", started="2026-05-02T10:00:00Z", versions={"python": "3.11"}),
        finished(lab, "b", hardware="CPU", commit="bbb", started="2026-05-01T10:00:00Z", versions={"python": "3.12"}),
        finished(lab, "c", state=State.FAILED, hardware="GPU", commit="ccc", started="2026-05-09T10:00:00Z"),
    ]
    found = provenance(scores)
    assert found == Provenance(("2026-05-01", "2026-05-02"), ("CPU",), ("aaa", "bbb"), (("python", ("3.11", "3.12")),))
    assert found.lines() == (
        "Measured: 2026-05-01 to 2026-05-02 on CPU",
        "Harness: commit aaa, commit bbb",
        "Libraries: python 3.11 and 3.12",
    )


def test_nothing_finished_says_nothing(lab):
    board = build(lab.one_metric(("a",)), [])
    assert board.provenance.lines() == ()
    assert "Provenance" not in markdown.render(board)


def test_documents_have_it(lab):
    study = lab.one_metric(("a",), deterministic=True, kind="exact")
    board = build(study, [finished(lab, "a", hardware="C*PU", commit="abc", started="2026-05-02T10:00:00Z")])
    assert json.document(board)["provenance"]["commits"] == ["abc"]
    assert "- Measured: 2026-05-02 on C\\*PU\n- Harness: commit abc\n" in markdown.render(board)


def test_a_commit_says_whether_files_differed():
    def commit(source):
        return RunRecord(key="k", state=State.OK, environment={"source": {"harness": source}}).commit

    assert commit({"commit": "0123456789abcdef", "dirty": False}) == "0123456789ab"
    assert commit({"commit": "0123456789abcdef", "dirty": True}) == "0123456789ab with changes"
    assert commit("unknown") == ""
