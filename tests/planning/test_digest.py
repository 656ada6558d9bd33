"""Which files an adapter's code reaches, and when its digest changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.planning.digest import DigestError, code_digest, code_parts, siblings


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


PACKAGE = {
    "reach_one/__init__.py": "from reach_one.used import used",
    "reach_one/method.py": "from __future__ import annotations\nimport math\nfrom . import layout\n"
    "from .sub import deep, NAME\nfrom harness.contract import Method\nclass A(Method): n = 1",
    "reach_one/layout.py": "def f():\n    from ..reach_one.late import x\n    import reach_one.dotted.leaf",
    "reach_one/late.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from reach_one import typed\n"
    "from reach_one import method",
    "reach_one/typed.py": "",
    "reach_one/used.py": "",
    "reach_one/unused.py": "",
    "reach_one/dotted/__init__.py": "",
    "reach_one/dotted/leaf.py": "",
    "reach_one/sub/__init__.py": "from .inner import NAME",
    "reach_one/sub/inner.py": "NAME = 1",
    "reach_one/sub/deep.py": "import numpy",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return write(tmp_path, PACKAGE)


def test_reach(package: Path) -> None:
    """Imports in functions and relative ones count, type checkers' do not, parents where code can name them."""
    parts = code_parts("reach_one.method:A")
    assert list(parts) == [
        "reach_one/__init__.py",
        "reach_one/dotted/__init__.py",
        "reach_one/dotted/leaf.py",
        "reach_one/late.py",
        "reach_one/layout.py",
        "reach_one/method.py",
        "reach_one/sub/__init__.py",
        "reach_one/sub/deep.py",
        "reach_one/sub/inner.py",
        "reach_one/used.py",
    ]
    assert all(len(digest) == 64 for digest in parts.values())


def test_nothing_is_imported(package: Path) -> None:
    before = set(sys.modules)
    code_parts("reach_one.method:A")
    assert not {m for m in set(sys.modules) - before if m.startswith("reach_one")}


def test_names_from_a_package_itself_bring_its_init(package: Path) -> None:
    (package / "reach_one/unused.py").write_text("from reach_one import used, something")
    assert list(code_parts("reach_one.unused:A")) == [
        "reach_one/__init__.py",
        "reach_one/unused.py",
        "reach_one/used.py",
    ]


def test_a_dotted_import_brings_the_inits_of_its_parents(package: Path) -> None:
    (package / "reach_one/unused.py").write_text("import reach_one.sub.deep\nreach_one.sub.NAME")
    assert list(code_parts("reach_one.unused:A")) == [
        "reach_one/__init__.py",
        "reach_one/sub/__init__.py",
        "reach_one/sub/deep.py",
        "reach_one/sub/inner.py",
        "reach_one/unused.py",
        "reach_one/used.py",
    ]
    before = code_digest("reach_one.unused:A")
    (package / "reach_one/sub/__init__.py").write_text("from .inner import NAME\nNAME += 1")
    assert code_digest("reach_one.unused:A") != before


def test_only_what_is_reached_matters(package: Path) -> None:
    before = code_digest("reach_one.method:A")
    (package / "reach_one/unused.py").write_text("x = 1")
    (package / "reach_one/typed.py").write_text("x = 1")
    assert code_digest("reach_one.method:A") == before


def test_comments_change_nothing_and_a_constant_changes_its_part_alone(package: Path) -> None:
    before = code_parts("reach_one.method:A")
    path = package / "reach_one/sub/inner.py"
    path.write_text('"""What it is."""\n\nNAME = (  # one\n    1\n)\n')
    assert code_parts("reach_one.method:A") == before
    path.write_text("NAME = 2")
    after = code_parts("reach_one.method:A")
    assert {name for name in after if after[name] != before[name]} == {"reach_one/sub/inner.py"}


def test_where_the_distribution_lies_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = []
    for place in ("here", "there"):
        with monkeypatch.context() as patch:
            folder = write(tmp_path / place, {"reach_moved/a.py": "from . import b", "reach_moved/b.py": "x = 1"})
            patch.syspath_prepend(str(folder))
            digests.append(code_parts("reach_moved.a:A"))
    assert digests[0] == digests[1]
    assert set(digests[0]) == {"reach_moved/a.py", "reach_moved/b.py"}


def test_other_distributions_are_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write(
        tmp_path,
        {
            "reach_two/a.py": "import reach_three.b, harness.spec.adapter\nfrom reach_three import b",
            "reach_three/b.py": "",
            "reach_two/__init__.py": "",
        },
    )
    assert list(code_parts("reach_two.a:A")) == ["reach_two/a.py"]


def test_our_tracks_and_methods_count_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file and of another distribution alike, named and digested as for our own adapters."""
    monkeypatch.syspath_prepend(str(tmp_path))
    source = (
        "import harness.tracks.decoding.layout, harness.spec.adapter, harness.contract\nfrom harness import results\n"
        "from harness.assets import fetch\nfrom methods.decoding.mla import MLA\nclass X(MLA): ..."
    )
    write(tmp_path, {"reach_six/a.py": source, "reach_seven.py": source})
    ours = code_parts("methods.decoding.mla:MLA")
    for module, name in (("reach_six.a:X", "reach_six/a.py"), (f"file:{tmp_path}/reach_seven.py:X", "reach_seven.py")):
        parts = code_parts(module)
        assert {"methods/decoding/mla.py", "harness/tracks/decoding/latent.py", name} <= set(parts)
        assert ours.items() <= parts.items()
        assert all(part == name or part.startswith(("harness/tracks/", "methods/")) for part in parts)


def test_a_changed_base_class_of_ours_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(
        tmp_path / "ours",
        {"methods/__init__.py": "", "methods/base.py": "from harness.tracks import t\nclass B: n = 1"},
    )
    write(folder, {"harness/tracks/__init__.py": "", "harness/tracks/t.py": "x = 1"})
    monkeypatch.setattr("harness.planning.digest._location", lambda top: folder / top)
    file = write(tmp_path / "mine", {"own.py": "from methods.base import B\nclass X(B): ..."}) / "own.py"
    before = code_parts(f"file:{file}:X")
    assert list(before) == ["harness/tracks/t.py", "methods/base.py", "own.py"]
    write(folder, {"methods/base.py": "from harness.tracks import t\nclass B: n = 2"})
    after = code_parts(f"file:{file}:X")
    assert {name for name in after if after[name] != before[name]} == {"methods/base.py"}


def test_siblings(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "mine.py": "import helper, math\nfrom tools import knife\nfrom methods.decoding.mla import MLA",
            "helper.py": "def f(): import mine",
            "tools/knife.py": "",
            "other.py": "",
        },
    )
    assert siblings(tmp_path / "mine.py") == {
        "helper": tmp_path / "helper.py",
        "mine": tmp_path / "mine.py",
        "tools": None,
        "tools.knife": tmp_path / "tools/knife.py",
    }


def test_registered_distributions_are_one_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write(
        tmp_path,
        {
            "reach_four/a.py": "from reach_five import b",
            "reach_five/b.py": "",
            "reach_four-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: reach-four\nVersion: 1.0\n",
            "reach_four-1.0.dist-info/entry_points.txt": "[harness.adapters]\nreach = reach_four\n",
            "reach_four-1.0.dist-info/top_level.txt": "reach_four\nreach_five\n",
        },
    )
    assert list(code_parts("reach_four.a:A")) == ["reach_five/b.py", "reach_four/a.py"]


def test_our_own_modules_end_at_the_contract() -> None:
    """An engine module stands in for an adapter here: what matters is where the walk ends."""
    parts = code_parts("harness.spec.rows:to_json")
    assert list(parts) == ["harness/spec/adapter.py", "harness/spec/rows.py"]


def test_a_file_and_the_modules_beside_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "mine.py": "import helper, math\nfrom tools import knife\nfrom harness.tracks.some import T\nclass X: ...",
            "helper.py": "def f(): import deeper",
            "deeper.py": "",
            "other.py": "",
            "tools/knife.py": "from . import fork",
            "tools/fork.py": "",
            "harness/tracks/some.py": "a checkout is not part of a file in its root",
        },
    )
    parts = code_parts(f"file:{tmp_path}/mine.py:X")
    assert list(parts) == ["deeper.py", "helper.py", "mine.py", "tools/fork.py", "tools/knife.py"]
    before = code_digest(f"file:{tmp_path}/mine.py:X")
    (tmp_path / "other.py").write_text("x = 2")
    assert code_digest(f"file:{tmp_path}/mine.py:X") == before
    (tmp_path / "deeper.py").write_text("x = 2")
    assert code_digest(f"file:{tmp_path}/mine.py:X") != before


def test_an_edit_of_equal_length_within_the_same_moment_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "quick.py"
    seen = set()
    for number in range(9):
        path.write_text(f"x = {number}")
        seen.add(code_digest(f"file:{path}:X"))
    assert len(seen) == 9


def test_errors_say_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path, {"broken.py": "x = 1\n\ndef f(:\n", "uses.py": "import broken", "nul.py": "x = 1\0"})
    with pytest.raises(DigestError, match=r"broken\.py:3: "):
        code_parts(f"file:{tmp_path}/uses.py:X")
    with pytest.raises(DigestError, match=r"nul\.py"):
        code_parts(f"file:{tmp_path}/nul.py:X")
    with pytest.raises(DigestError, match=r"gone\.py: cannot be read: No such file"):
        code_parts(f"file:{tmp_path}/gone.py:X")
    with pytest.raises(DigestError, match=r"no module reach_nowhere\.at_all; is its distribution installed\?"):
        code_parts("reach_nowhere.at_all:X")
    with pytest.raises(DigestError, match=r"no module harness\.not_there"):
        code_parts("harness.not_there:X")


def test_a_hundred_adapters_are_digested_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured: 0.1 s of processor time; the bound is for a busy machine."""
    monkeypatch.syspath_prepend(str(tmp_path))
    body = "\n".join(
        f"    def f{i}(self, x): return [x, {i} * x, f'{{x}} of {{self.n}}', {{'a': {i}}}]" for i in range(15)
    )
    files = {f"reach_many/m{i}.py": f"from . import base\nclass M:\n    n = {i}\n{body}\n" for i in range(100)}
    write(tmp_path, {**files, "reach_many/base.py": f"class Base:\n{body}\n"})
    start = time.process_time()
    digests = {code_digest(f"reach_many.m{i}:M") for i in range(100)}
    assert len(digests) == 100
    assert time.process_time() - start < 1.0
    start = time.process_time()
    assert {code_digest(f"reach_many.m{i}:M") for i in range(100)} == digests
    assert time.process_time() - start < 0.3
