"""Sets of tasks of lm-evaluation-harness: its own, packaged questions, and the user's."""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from harness.contract import AssetReference, Build, Component, Context, Needs
from harness.tracks.language.questions import SOURCES, Source, read_items

EXTRA = "lm-eval"


class TaskSet(Component):
    """Where tasks are looked up by name."""

    abstract: ClassVar[bool] = True

    def folder(self) -> Path | None:
        """A folder of task files, to which their data files are relative; None for lm-eval's own tasks."""
        raise NotImplementedError(f"{type(self).__name__} must define folder(self) -> Path | None")

    def load(self, name: str, scratch: Path) -> Any:
        """The lm-eval task of that name. ``scratch``: where data of a folder are kept in lm-eval's format.

        Raises ValueError with the nearest names.
        """
        from lm_eval.tasks import TaskManager

        folder = self.folder()
        manager = TaskManager(include_path=folder, include_defaults=folder is None)
        known = manager.all_subtasks
        if name not in known:
            raise ValueError(_unknown(name, known, manager.all_tasks))
        with _beside(folder, scratch) if folder is not None else contextlib.nullcontext():
            return manager.load([name])["tasks"][name]


def _unknown(name: str, known: list[str], all_names: list[str]) -> str:
    if name in all_names:
        return f"{name!r} is a group of tasks: name single tasks, one a value of the axis task"
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known[:12]) or 'none at all'}"
    return f"there is no task {name!r} in this set: {hint}"


@contextlib.contextmanager
def _beside(folder: Path, scratch: Path) -> Iterator[None]:
    """Relative paths start in ``folder``, and what the datasets library keeps goes to ``scratch``.

    Its cache is not shared: it knows a file by place and time, not by content.
    """
    import datasets
    from datasets.utils.logging import disable_progress_bar

    disable_progress_bar()
    scratch.mkdir(parents=True, exist_ok=True)
    kept, datasets.config.HF_DATASETS_CACHE = datasets.config.HF_DATASETS_CACHE, scratch
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        datasets.config.HF_DATASETS_CACHE = kept


class HubTasks(TaskSet):
    """All tasks that lm-evaluation-harness registers; their data come from the hub, or from its cache.

    Data sets are taken at the revision that the task names, or the newest: their digest is in the observations.
    """

    name: ClassVar[str] = "hub_tasks"
    needs: ClassVar[Needs] = Needs(extras=(EXTRA,))

    def folder(self) -> Path | None:
        """None."""
        return None


class TaskFiles(TaskSet):
    """Task files in the folder ``path``."""

    abstract: ClassVar[bool] = True

    path: str

    def folder(self) -> Path | None:
        """``path``."""
        return Path(self.path)


class LocalTasks(Build[TaskFiles]):
    """Real questions without the hub: piqa, commonsenseqa, openbookqa, siqa, mmlu (50 of each subject) and boolq.

    Prompts are "Question: ... Answer:" (after the passage where there is one), answers the texts of the options.
    They differ from lm-eval's prompts in places: compare with figures made here.
    """

    name: ClassVar[str] = "local_tasks"
    needs: ClassVar[Needs] = Needs(
        extras=(EXTRA,),
        assets=(
            "questions.piqa",
            "questions.commonsenseqa",
            "questions.openbookqa",
            "questions.siqa",
            "questions.mmlu",
            "questions.boolq",
        ),
    )

    def make(self, context: Context) -> dict[str, float]:
        """Write items and task files; return the numbers of items and of faulty rows of each."""
        counts: dict[str, float] = {}
        for name, source in SOURCES.items():
            items, faulty = read_items(context.asset(source.asset))
            write_task(context.directory, name, source, items)
            counts |= {f"{name}_items": len(items), f"{name}_faulty": faulty}
        return counts

    def load(self, directory: Path) -> TaskFiles:
        return TaskFiles(path=str(directory))


def write_task(folder: Path, name: str, source: Source, items: list[dict[str, Any]]) -> None:
    """One task as lm-eval reads it: ``name.jsonl`` and ``name.yaml`` (JSON, which is YAML)."""
    with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
    config = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"{name}.jsonl"}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": source.prompt,
        "doc_to_target": "gold",
        "doc_to_choice": "choices",
        "metric_list": [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in source.metrics],
        "metadata": {"version": 1.0},
    }
    (folder / f"{name}.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")


class TaskFolder(Build[TaskFiles]):
    """A folder of your own with lm-eval task files (YAML); the data files that they name are relative to it.

    Python in it (``!function``) is run: it must be a local folder.
    """

    name: ClassVar[str] = "task_folder"
    needs: ClassVar[Needs] = Needs(extras=(EXTRA,))

    source: AssetReference

    def make(self, context: Context) -> dict[str, float]:
        """Copy the folder. Raises ValueError where it has no task file, or holds code that came from elsewhere."""
        folder = context.asset(self.source)
        tasks = sorted(folder.rglob("*.yaml")) if folder.is_dir() else []
        if not tasks:
            raise ValueError(f"{self.source}: expected a folder with lm-eval task files (*.yaml), found none")
        if not self.source.startswith("file:") and any(folder.rglob("*.py")):
            raise ValueError(f"{self.source} holds Python, which a task may run: read it, keep a copy, write file:PATH")
        shutil.copytree(folder, context.directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        return {"files": len(tasks)}

    def load(self, directory: Path) -> TaskFiles:
        return TaskFiles(path=str(directory))


def quiet() -> None:
    """lm-eval's and its libraries' chatter down to warnings."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
