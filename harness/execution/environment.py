"""What a run ran on: Python, machine, imported distributions, commits of the code. No names of users or hosts."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import harness
from harness.contract import Json

_DISTRIBUTION = "methods-harness"
_PACKAGE = Path(harness.__file__).parent
_GIT_PATIENCE = 10.0  # s


def environment(sources: Mapping[str, Path] | None = None, accelerators: bool = False) -> dict[str, Json]:
    """The environment of this process.

    ``sources``: folders or files of adapter code, by name, whose commit is told. ``accelerators``: name the models
    of the machine's accelerators, which takes a moment. Memory in bytes. ``source``: per name
    ``{"commit", "dirty"}``, or "unknown" for what no commit holds.
    """
    places = {"harness": _PACKAGE, **(sources or {})}
    return {
        "harness": distributions().get("harness", {}).get(_DISTRIBUTION, "unknown"),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores": cpu_count(),
        "memory": memory_total(),
        "accelerators": list(device_models()) if accelerators else [],
        "source": {name: commit(path) for name, path in sorted(places.items())},
        "packages": imported(),
    }


def imported() -> dict[str, Json]:
    """Versions of the distributions that this process has imported from."""
    tops = {name.partition(".")[0] for name in list(sys.modules)}
    known = distributions()
    found = {name: version for top in tops & known.keys() for name, version in known[top].items()}
    return dict(sorted(found.items()))


@functools.cache
def distributions() -> Mapping[str, Mapping[str, str]]:
    """Importable name -> distributions and versions. Takes about 0.1 s once: parents of workers call it ahead."""
    found: dict[str, dict[str, str]] = {}
    for distribution in importlib.metadata.distributions():
        text = distribution.read_text("top_level.txt")
        if text is None:
            record = distribution.read_text("RECORD") or ""
            names = set(re.findall(r"^(\w+)(?:/|\.py,|\.[\w.-]*(?:so|pyd),)", record, re.MULTILINE))
        else:
            names = set(text.split())
        for name in names:
            found.setdefault(name, {}).setdefault(distribution.metadata["Name"], distribution.version)
    return found


def commit(path: Path) -> Json:
    """The git commit that holds this file or folder, and whether its tracked files were changed since.

    "unknown" without git, outside a repository, and where the repository around it does not track it (an
    installation inside somebody's project).
    """
    folder, name = (path, "__init__.py") if path.is_dir() else (path.parent, path.name)
    if not _tracked(folder, name):
        return "unknown"
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--", ".")
    lines = (status or "").splitlines()
    heads = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    if not heads or heads[0].startswith("("):  # "(initial)": nothing is committed yet
        return "unknown"
    return {"commit": heads[0], "dirty": any(not line.startswith("#") for line in lines)}


@functools.cache
def _tracked(folder: Path, name: str) -> bool:
    return _git(folder, "ls-files", "--error-unmatch", "--", name) is not None


def _git(folder: Path, *arguments: str) -> str | None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={**variables, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_GIT_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@functools.cache
def cpu_model() -> str:
    """The processor as it calls itself."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine() or "unknown CPU"


def cpu_count() -> int:
    """CPUs of the machine that this process could be given."""
    return os.cpu_count() or 1


def memory_total() -> int:
    """Bytes of memory: the machine's, or the control group's limit where that is less."""
    import psutil

    total = int(psutil.virtual_memory().total)
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no control group, or "max"
            continue
    return total


@functools.cache
def device_models() -> tuple[str, ...]:
    """Models of the accelerators that the driver's tool lists; empty without one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def site_fingerprint() -> str:
    """The machine in a line, part of the key of timed runs: "2x AMD EPYC, 24 GiB", then its accelerators."""
    parts = [f"{cpu_count()}x {cpu_model()}", f"{round(memory_total() / 2**30)} GiB"]
    parts += [f"{count}x {model}" for model, count in sorted(Counter(device_models()).items())]
    return ", ".join(parts)
