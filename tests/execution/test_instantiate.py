"""References to objects: imports, files, typed parameters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from harness.contract import Component
from harness.execution.instantiate import MissingClass, Products, Upstream, instantiate, load_class, references, sources

SOURCE = """
from __future__ import annotations
from collections.abc import Mapping
from typing import TYPE_CHECKING
from harness.contract import Component, Given, Method
if TYPE_CHECKING:
    from elsewhere import Unknown
class Inner(Component):
    size: int = 1
class Outer(Component):
    shape: tuple[int, ...] = ()
    pairs: tuple[tuple[int, str], ...] | None = None
    names: list[str] | None = None
    table: Mapping[str, tuple[float, ...]] | None = None
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    what: Given[Inner] | None = None
class Later(Outer):
    unknown: Unknown | None = None
    more: tuple[str, ...] = ()
"""


def refused(key: str) -> Any:
    raise AssertionError(f"build {key} was loaded")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "parts.py"
    path.write_text(SOURCE)
    return path


def reference(file: Path, name: str, **params: Any) -> dict[str, Any]:
    return {"use": name, "module": f"file:{file}:{name}", "code": "", "params": params}


def test_lists_become_tuples_where_the_fields_want_them(file: Path) -> None:
    made = instantiate(
        reference(
            file,
            "Outer",
            shape=[1, 2],
            pairs=[[1, "a"]],
            names=["x"],
            table={"t": [1.0]},
            inner=reference(file, "Inner", size=3),
            inners=[reference(file, "Inner"), reference(file, "Inner", size=2)],
        ),
        refused,
    )
    assert made.shape == (1, 2)
    assert made.pairs == ((1, "a"),)
    assert made.names == ["x"]
    assert made.table == {"t": (1.0,)}
    assert made.inner.size == 3
    assert [inner.size for inner in made.inners] == [1, 2]
    assert isinstance(made.inners, tuple)


def test_a_hint_known_to_type_checkers_alone_costs_the_others_nothing(file: Path) -> None:
    made = instantiate(reference(file, "Later", unknown=5, more=["a"], shape=[1]), refused)
    assert (made.unknown, made.more, made.shape) == (5, ("a",), (1,))


def test_products_stand_anywhere(file: Path) -> None:
    loaded: list[str] = []

    def load(key: str) -> str:
        loaded.append(key)
        return key.upper()

    made = instantiate(reference(file, "Outer", inner={"$build": "k"}, table={"a": {"$build": "l"}}), load)
    assert (made.inner, made.table, loaded) == ("K", {"a": "L"}, ["l", "k"][::-1])


def test_one_module_per_content(file: Path) -> None:
    first = load_class(f"file:{file}:Inner")
    assert load_class(f"file:{file}:Inner") is first
    assert issubclass(first, Component)
    file.write_text(SOURCE.replace("size: int = 1", "size: int = 5"))
    assert load_class(f"file:{file}:Inner")().size == 5
    assert first().size == 1


def test_what_is_gone_is_named(file: Path) -> None:
    with pytest.raises(MissingClass, match="has no class Nobody"):
        load_class(f"file:{file}:Nobody")
    with pytest.raises(MissingClass, match=r"cannot read the adapter file .*: No such file"):
        load_class(f"file:{file}.gone:Inner")
    with pytest.raises(MissingClass, match=r"harness\.contract has no class CONTRACT_VERSION"):
        load_class("harness.contract:CONTRACT_VERSION")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load_class("no_such_package.mod:X")


def test_a_file_that_fails_to_import_is_not_kept(file: Path) -> None:
    file.write_text("raise ValueError('half')")
    before = set(sys.modules)
    for _ in range(2):
        with pytest.raises(ValueError, match="half"):
            load_class(f"file:{file}:X")
    assert {name for name in set(sys.modules) - before if "parts" in name} == set()


def two(tmp_path: Path, source: str, name: str) -> list[Path]:
    """The same adapter in two folders, each with a module ``name`` of its own beside it."""
    files = []
    for folder in ("one", "two"):
        path = tmp_path / folder / f"{folder}_adapter.py"
        beside = path.parent / f"{name}.py"
        beside.parent.mkdir(parents=True)
        beside.write_text(f"WHO = {folder!r}")
        path.write_text(source)
        files.append(path)
    return files


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("beside_a", "import beside_a\nclass X: who = beside_a.WHO"),
        ("beside_b/deep", "from beside_b import deep\nclass X: who = deep.WHO"),
        (
            "beside_c",
            "class X:\n    @property\n    def who(self):\n        import beside_c\n        return beside_c.WHO",
        ),
    ],
    ids=["module", "package", "imported later"],
)
def test_modules_of_one_name_beside_two_files_are_refused(tmp_path: Path, name: str, source: str) -> None:
    one, other = two(tmp_path, source, name)
    first = load_class(f"file:{one}:X")
    for _ in range(2):
        with pytest.raises(ImportError, match="rename one of them") as caught:
            load_class(f"file:{other}:X")
        for folder in ("one", "two"):
            assert str(tmp_path / folder / f"{name}.py") in str(caught.value)
    assert first().who == "one"
    one.write_text(f"{source}\nY = 1")
    assert load_class(f"file:{one}:X")().who == "one"  # its own module is no other's


def test_a_sibling_that_only_lies_there_does_not_matter(tmp_path: Path) -> None:
    """And a file's own folder stands first, whatever was loaded in between."""
    one, other = two(tmp_path, "class X: ...", "beside_d")
    assert load_class(f"file:{one}:X") is not load_class(f"file:{other}:X")
    one.write_text("import math, time, beside_d\nfrom harness.contract import Method\nclass X: who = beside_d.WHO")
    assert load_class(f"file:{one}:X").who == "one"


def test_references_and_their_sources(file: Path, tmp_path: Path) -> None:
    inner = {"use": "x.y", "module": "harness.contract:Component", "params": {}}
    document = {"entries": [{"method": reference(file, "Outer", inners=[inner])}]}
    assert [found["use"] for found in references(document)] == ["Outer", "x.y"]
    found = sources(document)
    assert found["parts.py"] == file
    assert found["harness"].name == "harness"


def test_a_method_that_a_build_makes_is_its_product() -> None:
    assert instantiate({"$build": "k"}, lambda key: f"product of {key}") == "product of k"


def test_a_build_of_another_name_is_still_named_in_the_reason(tmp_path: Path) -> None:
    products = Products(tmp_path, {"k": "fit--0123"})
    with pytest.raises(Upstream, match=r"^upstream fit: not made yet$"):
        products("k")
