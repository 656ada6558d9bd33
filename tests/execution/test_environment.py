"""What is recorded of the machine and of the code's commits."""

from __future__ import annotations

import getpass
import json
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.execution.environment import commit, environment, imported, memory_total, site_fingerprint


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").touch()
    (folder / "mine.py").write_text("x = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
def test_the_commit_is_that_of_the_code_wherever_one_stands(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "other")
    monkeypatch.chdir(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))  # as inside a hook
    assert commit(repository / "package") == {"commit": head, "dirty": False}
    assert commit(repository / "mine.py") == {"commit": head, "dirty": False}
    (repository / "mine.py").write_text("x = 2\n")
    assert commit(repository / "mine.py") == {"commit": head, "dirty": True}


@needs_git
def test_no_commit_is_told_for_what_none_holds(repository: Path, tmp_path: Path) -> None:
    installed = repository / "venv" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    assert commit(installed) == "unknown"  # inside a repository, and not part of it
    (tmp_path / "loose.py").touch()
    assert commit(tmp_path / "loose.py") == "unknown"


def test_without_git_it_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(Path(harness.__file__).parent) == "unknown"


def test_the_environment_names_versions_and_no_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_TOKEN", "hunter2-hunter2")
    (tmp_path / "mine.py").touch()
    found = environment({"mine.py": tmp_path / "mine.py"})
    text = json.dumps(found)
    assert found["python"] == platform.python_version()
    assert found["source"]["mine.py"] == "unknown"  # type: ignore[index,call-overload]
    assert imported()["numpy"] == np.__version__
    assert "hunter2" not in text
    assert str(tmp_path) not in text
    for name in (platform.node(), getpass.getuser()):
        assert f'"{name}"' not in text


def test_the_fingerprint_is_stable_and_tells_cpus_and_memory() -> None:
    site = site_fingerprint()
    assert site == site_fingerprint()
    assert f"{round(memory_total() / 2**30)} GiB" in site
    assert site.partition("x ")[0].isdigit()
