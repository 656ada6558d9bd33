"""Packaged questions: rows, faulty rows, prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from harness.assets import AssetError, resolve
from harness.tracks.language.questions import SOURCES, read_items
from harness.tracks.language.tasks import LocalTasks, TaskFolder

GOOD = {"question": " What? ", "options": "\nA. one\nB. two, or\nmore\nC. three", "answer": "B. two, or\nmore"}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_options_are_split_at_their_letters(tmp_path):
    items, faulty = read_items(write(tmp_path / "rows.jsonl", GOOD))
    assert items == [
        {"id": 1, "question": "What?", "passage": "", "choices": ["one", "two, or\nmore", "three"], "gold": 1}
    ]
    assert faulty == 0


@pytest.mark.parametrize(
    "change",
    [
        {"options": "C. one\nD. two", "answer": "D. two"},
        {"options": "A. one", "answer": "A. one"},
        {"answer": "B. two"},
        {"answer": "D. four"},
        {"answer": "two"},
        {"options": "A. same\nB. same", "answer": "B. same"},
    ],
)
def test_rows_without_one_right_answer_are_counted(tmp_path, change):
    items, faulty = read_items(write(tmp_path / "rows.jsonl", {**GOOD, **change}, GOOD))
    assert [item["id"] for item in items] == [2]
    assert faulty == 1


def test_truth_is_yes(tmp_path):
    rows = [{"question": "is it", "passage": "It is.", "answer": answer} for answer in ("True", "False", True)]
    items, _ = read_items(write(tmp_path / "rows.jsonl", *rows))
    assert [item["choices"][item["gold"]] for item in items] == ["yes", "no", "yes"]


def test_another_file_is_refused_by_line(tmp_path):
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: expected a question .* found \['text'\]"):
        read_items(write(tmp_path / "rows.jsonl", GOOD, {"text": "no question"}))


def test_the_build_writes_a_task_for_every_source(tmp_path, make_context):
    truth = {"question": "is it", "passage": "It is.", "answer": "True"}
    assets = {
        source.asset: write(tmp_path / f"{name}.jsonl", truth if name == "boolq" else GOOD)
        for name, source in SOURCES.items()
    }
    context = make_context(assets=assets)
    counts = LocalTasks().make(context)
    assert {counts[f"{name}_items"] for name in SOURCES} == {1}
    assert set(LocalTasks.needs.assets) == set(assets)
    config = yaml.safe_load((context.directory / "boolq.yaml").read_text())
    assert [m["metric"] for m in config["metric_list"]] == ["acc"]
    assert LocalTasks().load(context.directory).folder() == context.directory


def test_a_folder_needs_task_files_and_no_foreign_code(tmp_path, make_context):
    folder = tmp_path / "own"
    folder.mkdir()
    context = make_context(assets={"file:own": folder, "hub:a/b@main": folder})
    with pytest.raises(ValueError, match="expected a folder with lm-eval task files"):
        TaskFolder(source="file:own").make(context)
    (folder / "t.yaml").write_text("task: t\n")
    (folder / "code.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match="holds Python"):
        TaskFolder(source="hub:a/b@main").make(context)
    assert TaskFolder(source="file:own").make(context) == {"files": 1}


@pytest.mark.slow
def test_the_packaged_files_have_the_rows_that_were_counted(make_context):
    try:
        assets = {source.asset: resolve(source.asset) for source in SOURCES.values()}
    except AssetError as error:
        pytest.skip(str(error))
    counts = LocalTasks().make(make_context(assets=assets))
    items = {name: counts[f"{name}_items"] for name in SOURCES}
    assert items == {"piqa": 1500, "commonsenseqa": 1211, "openbookqa": 500, "siqa": 1953, "mmlu": 2850, "boolq": 3270}
