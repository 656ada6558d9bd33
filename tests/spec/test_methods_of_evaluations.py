"""An evaluation that is done with some of the methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = """\
harness: 1
study: toys
track: toy
methods:
  a: {use: toy.alpha, matrix: {layers: [1, 2]}}
  b: {use: toy.beta}
  odd: {use: toy.stranger}
evaluations:
  speed: {use: toy.speed, methods: [METHODS]}
"""


def mistakes_of(mistakes: Callable[[str, str], list[str]], methods: str, more: str = "") -> list[str]:
    return mistakes("text", SPEC.replace("METHODS", methods) + more)


def test_those_that_are_listed_are_taken_with_all_their_rows(loaded: Callable[..., Any]) -> None:
    study = loaded(SPEC.replace("METHODS", "a"))
    (cell,) = study.evaluations
    assert [row.label for row in study.methods if cell.takes(row)] == ["a[layers=1]", "a[layers=2]"]
    assert study.document["evaluations"]["speed"]["methods"] == ["a"]


def test_by_default_all_are_taken(loaded: Callable[..., Any]) -> None:
    study = loaded(SPEC.replace(", methods: [METHODS]", "").replace("  odd: {use: toy.stranger}\n", ""))
    assert all(study.evaluations[0].takes(row) for row in study.methods)
    assert "methods" not in study.document["evaluations"]["speed"]


def test_a_method_that_does_not_fit_may_be_left_out_but_not_listed(mistakes: Callable[..., list[str]]) -> None:
    assert mistakes_of(mistakes, "a, b") == []
    (error,) = mistakes_of(mistakes, "a, odd")
    assert error.startswith("7:14: toy.stranger is no Learner")


def test_names_are_checked_with_a_suggestion(mistakes: Callable[..., list[str]]) -> None:
    assert mistakes_of(mistakes, "a, bb") == ['9:40: there is no method "bb"; did you mean "b"?']
    assert mistakes_of(mistakes, "a, a") != []
    assert mistakes_of(mistakes, "") != []
    assert mistakes_of(mistakes, '"a[layers=1]"') != []


def test_a_method_of_another_profile_may_be_listed(mistakes: Callable[..., list[str]]) -> None:
    more = "profiles:\n  large: {methods: {c: {use: toy.beta}}}\n"
    assert mistakes_of(mistakes, "a, c", more) == []


def test_no_claim_about_a_method_that_is_not_taken(mistakes: Callable[..., list[str]]) -> None:
    claim = "claims:\n  - {id: x, says: y, metric: speed.rate, where: {method: b}, expect: {equals: 1}}\n"
    assert mistakes_of(mistakes, "b", claim) == []
    (error,) = mistakes_of(mistakes, "a", claim)
    assert error.endswith("evaluation speed is not done with b; it is done with a")
