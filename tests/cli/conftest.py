"""A workspace with a small study, and the command line run in it as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


class Workspace:
    """A folder with ``toy.yaml`` and its adapters; ``calls`` is what they were made to do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(Path(__file__).with_name("toy"), root, dirs_exist_ok=True)
        self.environment = {**os.environ, "HARNESS_CACHE": str(root / "cache")}

    def harness(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=self.root,
            env={**self.environment, **environment},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """In a session of its own, so that a signal reaches it alone."""
        return subprocess.Popen(
            [sys.executable, "-m", "harness", *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text("utf-8")
        assert old in text
        (self.root / name).write_text(text.replace(old, new), "utf-8")

    def calls(self) -> list[str]:
        """What was done since the last look, sorted."""
        path = self.root / "calls.txt"
        lines = sorted(path.read_text("utf-8").splitlines()) if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
