"""``python -m harness.spec.describe``: whole packages and single files, over a clean channel."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run(arguments: Sequence[str], folder: Path) -> tuple[int, dict[str, Any], str]:
    command = [sys.executable, "-m", "harness.spec.describe", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=60)
    return done.returncode, json.loads(done.stdout), done.stderr


HEAD = "from harness.contract import *\nfrom harness.contract import Method\n"


def test_packages_are_walked(tmp_path: Path) -> None:
    """Concrete classes of every module, once, where they are defined; what they print stays off the channel."""
    files = {
        "__init__.py": "import os\nprint('hello')\nos.system('echo from below')",
        "base.py": HEAD + "class Base(Method): abstract = True\nclass _Hidden(Base): pass\nclass Plain(Base): pass",
        "sub/__init__.py": "from ..base import Plain",
        "sub/more.py": HEAD + "from ..base import Base, Plain\nclass GLA2(Base): x: int = 1\nclass Not: pass",
        "__main__.py": "raise SystemExit(3)",
    }
    for name, text in files.items():
        (tmp_path / "walked" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "walked" / name).write_text(text)
    code, answer, errors = run(["toy-methods=walked"], tmp_path)
    assert code == 0
    assert [row["name"] for row in answer["adapters"]] == ["toy.gla2", "toy.plain"]
    assert answer["adapters"][0]["bases"] == ["walked.sub.more:GLA2", "walked.base:Base"]
    assert "hello" in errors
    assert "from below" in errors


def test_two_of_one_name_are_an_error(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"clash_{name}.py").write_text(HEAD + "class Same(Method): pass")
    code, answer, _ = run(["toy=clash_one", "toy-more=clash_two"], tmp_path)
    assert code == 1
    assert answer["kind"] == "describe"
    assert answer["error"].startswith("toy.same is both clash_one:Same and clash_two:Same")


def test_failing_imports_say_where(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text("x = 1\nimport not_installed_anywhere\n")
    code, answer, _ = run(["toy=failing"], tmp_path)
    assert (code, answer["kind"]) == (1, "import")
    assert answer["error"].startswith("failing cannot be imported: ")
    assert answer["error"].endswith("failing.py:2: ModuleNotFoundError: No module named 'not_installed_anywhere'")


def test_optional_annotated_types(tmp_path: Path) -> None:
    """Unions cannot hold mappings before Python 3.13: it works nonetheless where annotations are not evaluated."""
    text = "from __future__ import annotations\nfrom typing import Annotated, ClassVar\n"
    text += "Positive = Annotated[int, {'minimum': 1}]\n"
    body = (
        "class Base(Method):\n  n: Annotated[int, {'minimum': 1}] | None = None\n  c: ClassVar[int] = 1\n"
        "class X(Base):\n  Inner = int\n  m: Positive | None = None\n  x: Inner = 1\n"
    )
    (tmp_path / "optional.py").write_text(text + HEAD + body)
    _, answer, _ = run(["optional.py:X"], tmp_path)
    optional = {"type": ["integer", "null"], "minimum": 1}
    assert [p["schema"] for p in answer["adapters"][0]["parameters"]] == [optional, optional, {"type": "integer"}]


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("class Thing: pass")
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\n" + HEAD + "from beside import Thing\nclass Part(Component): pass\n"
        "class Mine(Method):\n  'Mine.'\n  thing: Thing | None = None\n  part: Part | None = None\n"
    )
    code, answer, _ = run(["mine.py:Mine"], tmp_path)
    assert code == 0
    (row,) = answer["adapters"]
    place = f"file:{tmp_path.resolve()}/mine.py"
    assert (row["module"], row["bases"], row["summary"]) == (f"{place}:Mine", [f"{place}:Mine"], "Mine.")
    assert [p["schema"]["x-accepts"] for p in row["parameters"]] == [["beside:Thing"], [f"{place}:Part"]]
    assert sorted(Path(f).name for f in answer["files"]) == ["beside.py", "mine.py"]
