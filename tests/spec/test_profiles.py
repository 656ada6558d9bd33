"""Profiles and ``--set``."""

from __future__ import annotations

from typing import Any

import pytest

from harness.spec.errors import Problems
from harness.spec.profiles import choose, form
from harness.spec.text import Fields, parse, plain

DOCUMENT = """\
seeds: 3
methods:
  a: {use: toy.alpha, params: {lr: 1, path: old}}
  llama-3.1: {use: toy.alpha, params: {lr: 2}}
  b: {use: toy.beta}
list: [1, {k: 2}]
"""


def applied(*options: str, profiles: str = "", profile: str | None = None) -> tuple[Any, list[str]]:
    problems = Problems()
    tree = parse((DOCUMENT + profiles).encode(), "s.yaml", problems)
    assert isinstance(tree, Fields)
    result = form(tree, profile, options, problems)
    return plain(result), [str(error) for error in problems.errors]


@pytest.mark.parametrize(
    ("option", "path", "value"),
    [
        ("seeds=1e4", ("seeds",), 1e4),
        ("methods.a.params.path=/a/run=3,b", ("methods", "a", "params", "path"), "/a/run=3,b"),
        ('methods.a.params.stop=["a,b","="]', ("methods", "a", "params", "stop"), ["a,b", "="]),
        ("methods.a.params.path=a: b # c", ("methods", "a", "params", "path"), "a: b # c"),
        ("methods.a.params.path='1'", ("methods", "a", "params", "path"), "1"),
        ("methods.a.params.path=no", ("methods", "a", "params", "path"), "no"),
        ("methods.a.params.path=''", ("methods", "a", "params", "path"), ""),
        ("methods.a.params={x: 1}", ("methods", "a", "params"), {"x": 1}),
        ("methods.llama-3.1.params.lr=3", ("methods", "llama-3.1", "params", "lr"), 3),
        ("methods.b.params.heads=3", ("methods", "b", "params"), {"heads": 3}),
        ("resources.cpus=2", ("resources",), {"cpus": 2}),
        ("list.0=5", ("list", 0), 5),
        ("list.1.k=5", ("list", 1), {"k": 5}),
        ("new=x", ("new",), "x"),
    ],
)
def test_set(option: str, path: tuple[str | int, ...], value: object) -> None:
    document, errors = applied(option)
    assert errors == []
    for key in path:
        document = document[key]
    assert document == value
    assert type(document) is type(value)


def test_null_removes() -> None:
    document, errors = applied("methods.b=null", "list.0=null")
    assert errors == []
    assert sorted(document["methods"]) == ["a", "llama-3.1"]
    assert document["list"] == [{"k": 2}]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("seeds", "expected PATH=VALUE; write for instance: --set seeds=3"),
        ("=3", "expected PATH=VALUE; write for instance: --set seeds=3"),
        ("seeds=", "the value is missing; write null to remove the key, '\"\"' for empty text"),
        ("method.a.use=x", 'the spec has no method; did you mean "methods"?'),
        ("methods.aa.use=x", 'methods has no aa; did you mean "a"?'),
        ("methods.a.parms.lr=x", 'a has no parms; did you mean "params"?'),
        ("methods.a.params.lrr=null", 'params has no lrr; did you mean "lr"?'),
        ("seeds.a=1", "seeds is a single value: it has no a; end the path there"),
        ("list.2=1", "list is a list of 2: it has no 2; write an index from 0 to 1"),
        ("list.x=1", "list is a list of 2: it has no x; write an index from 0 to 1"),
        ("seeds=1e999", "1e999 is no finite number; give a finite value, or quote it if it is text"),
        ("seeds={a: 1, a: 2}", 'the key "a" stands twice: in line 1 and here; remove one of them'),
    ],
)
def test_a_wrong_set_names_itself(option: str, message: str) -> None:
    assert applied(option)[1] == [f"--set {option}: {message}"]


def test_a_value_that_cannot_be_read_names_the_option() -> None:
    (error,) = applied("seeds=[1")[1]
    assert error.startswith("--set seeds=[1: the value [1 cannot be read: a bracket")


def test_a_profile_is_merged_deep() -> None:
    text = "profiles: {p: {methods: {a: {params: {lr: 5, path: null}}, b: null}, seeds: [1]}}"
    document, errors = applied(profiles=text, profile="p")
    assert errors == []
    assert document["methods"]["a"] == {"use": "toy.alpha", "params": {"lr": 5}}
    assert "b" not in document["methods"]
    assert document["seeds"] == [1]
    assert "profiles" not in document


def test_set_comes_after_the_profile() -> None:
    document, errors = applied("seeds=9", profiles="profiles: {p: {seeds: 5}}", profile="p")
    assert (document["seeds"], errors) == (9, [])


def test_one_is_the_same_as_one_point_nought_but_not_as_true() -> None:
    text = "profiles: {p: {methods: {a: {params: {lr: 1.0}}}}, q: {methods: {a: {params: {lr: true}}}}}"
    assert len(applied(profiles=text, profile="p")[1]) == 1
    assert applied(profiles=text, profile="q")[1] == []


def test_an_empty_mapping_may_replace_a_list() -> None:
    document, errors = applied(profiles="profiles: {p: {list: {}}}", profile="p")
    assert (document["list"], errors) == ({}, [])


@pytest.mark.parametrize(
    ("profiles", "profile", "chosen", "errors"),
    [
        ("", None, None, []),
        ("profiles: {smoke: {}}", None, None, []),
        ("profiles: {smoke: {}, laptop: {}}", None, "laptop", []),
        ("profiles: {smoke: {}, laptop: {}}", "smoke", "smoke", []),
        ("profiles: {smoke: {}}", "smoek", None, ['s.yaml:7:1: there is no profile "smoek"; did you mean "smoke"?']),
        (
            "",
            "smoke",
            None,
            ['s.yaml:1:1: there is no profile "smoke"; this spec declares none: leave the profile out'],
        ),
    ],
)
def test_choice_of_the_profile(profiles: str, profile: str | None, chosen: str | None, errors: list[str]) -> None:
    problems = Problems()
    tree = parse((DOCUMENT + profiles).encode(), "s.yaml", problems)
    assert isinstance(tree, Fields)
    assert choose(tree, profile, problems) == chosen
    assert [str(e) for e in problems.errors] == errors


def test_what_an_override_takes_away_may_still_be_named_by_claims(loaded):
    text = """\
harness: 1
study: toys
track: toy
methods: {a: {use: toy.alpha}, b: {use: toy.beta}}
evaluations: {speed: {use: toy.speed}}
claims: [{id: x, says: y, metric: speed.rate, where: {method: b}, expect: {equals: 1}}]
"""
    for override in ("methods.b=null", "evaluations.speed.methods=[a]"):
        study = loaded(text, overrides=[override])
        assert [claim.id for claim in study.claims] == ["x"]
