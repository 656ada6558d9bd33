"""Includes: the including file wins, and every file that cannot be read is a mistake where it is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.spec.errors import Problems
from harness.spec.include import read
from harness.spec.text import plain


def found(name: str) -> tuple[object, list[str]]:
    problems = Problems()
    tree = read(Path(name), problems)
    return (plain(tree) if tree is not None else None), [str(e) for e in problems.errors]


def test_mappings_are_merged_deep_and_the_including_file_wins(spec: Callable[..., str]) -> None:
    spec("a: {x: 1, y: 1}\nl: [1, 2]\n", "one.yaml")
    spec("a: {y: 2, z: 2}\n", "two.yaml")
    spec("include: [one.yaml, two.yaml]\na: {z: 3}\nl: [3]\n")
    assert found("s.yaml") == ({"a": {"x": 1, "y": 2, "z": 3}, "l": [3]}, [])


def test_paths_are_relative_to_the_including_file(spec: Callable[..., str]) -> None:
    spec("c: 1\n", "shared/deep/c.yaml")
    spec("include: deep/c.yaml\nb: 1\n", "shared/b.yaml")
    spec("include: shared/b.yaml\n")
    assert found("s.yaml") == ({"c": 1, "b": 1}, [])


def test_the_same_file_twice_is_no_circle(spec: Callable[..., str]) -> None:
    spec("d: 1\n", "d.yaml")
    spec("include: d.yaml\n", "b.yaml")
    spec("include: [b.yaml, d.yaml]\n")
    assert found("s.yaml") == ({"d": 1}, [])


def test_a_circle_names_its_files_where_it_closes(spec: Callable[..., str]) -> None:
    spec("x: 1\ninclude: s.yaml\n", "b.yaml")
    spec("include: b.yaml\n")
    expected = "b.yaml:2:10: includes go round in a circle: s.yaml -> b.yaml -> s.yaml; remove one of them"
    assert found("s.yaml")[1] == [expected]


def test_a_broken_include_is_reported_in_its_own_file(spec: Callable[..., str]) -> None:
    spec("a: b: c\n", "bad.yaml")
    spec("- 1\n", "list.yaml")
    spec("", "empty.yaml")
    spec("include: [bad.yaml, list.yaml, empty.yaml, .]\na: 1\n")
    tree, errors = found("s.yaml")
    assert tree == {"a": 1}
    assert [e.partition(": ")[0] for e in errors] == ["bad.yaml:1:5", "list.yaml:1:1", "empty.yaml:1:1", "s.yaml:1:44"]
    assert "is a directory" in errors[-1]


def test_a_missing_spec_is_one_mistake(spec: Callable[..., str]) -> None:
    spec("x: 1\n")
    assert found("gone.yaml") == (None, ["gone.yaml: cannot be read: no such file or directory"])


def test_doubling_includes_take_no_time(spec: Callable[..., str]) -> None:
    spec("x: 1\n", "f40.yaml")
    for i in range(40):
        spec(f"include: [f{i + 1}.yaml, f{i + 1}.yaml]\n", f"f{i}.yaml")
    assert found("f0.yaml") == ({"x": 1}, [])
