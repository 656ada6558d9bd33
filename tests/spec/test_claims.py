"""Claims: names resolved to labels, axes closed, expectations read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.spec.errors import SpecErrors
from harness.spec.study import Claim, Expectation, Study

Loaded = Callable[..., Study]
TEMPLATE = """\
harness: 1
study: toys
track: toy
methods:
  a: {{use: toy.alpha}}
  g: {{use: toy.beta, matrix: {{heads: [2, 8]}}}}
evaluations:
  speed: {{use: toy.speed, matrix: {{parallel: [1, 4], context: [8]}}}}
  vary: {{use: toy.speed, vary: {{parallel: [4], context: [16]}}}}
claims:
- {{id: c, says: s, {claim}}}
profiles:
  paper:
    evaluations: {{speed: {{matrix: {{context: [8, 64], parallel: [1, 16]}}}}}}
    methods: {{big: {{use: toy.beta}}}}
"""


def claim(loaded: Loaded, text: str, profile: str | None = None) -> Claim:
    (found,) = loaded(TEMPLATE.format(claim=text), profile=profile).claims
    return found


def refused(loaded: Loaded, text: str, profile: str | None = None) -> list[str]:
    with pytest.raises(SpecErrors) as caught:
        claim(loaded, text, profile)
    return [e.message for e in caught.value.errors]


EQUALS = "expect: {equals: 1}"


@pytest.mark.parametrize(
    ("where", "method"),
    [
        ("{method: a, parallel: 1}", "a"),
        ("{method: 'g[heads=2]', parallel: 1}", "g[heads=2]"),
        ("{method: g, heads: 8, parallel: 1}", "g[heads=8]"),
        ("{method: g, heads: 8.0, parallel: 1.0}", "g[heads=8]"),
    ],
)
def test_methods_resolve_to_labels_and_single_values_are_filled_in(loaded: Loaded, where: str, method: str) -> None:
    found = claim(loaded, f"metric: speed.rate, where: {where}, {EQUALS}")
    assert found.where == {"method": method, "parallel": 1, "context": 8}


def test_an_axis_that_varies_is_closed_by_the_others(loaded: Loaded) -> None:
    found = claim(loaded, f"metric: vary.rate, where: {{method: a, parallel: 4}}, {EQUALS}")
    assert found.where == {"method": "a", "parallel": 4, "context": 8}
    assert (
        "leaves context of vary open"
        in refused(loaded, f"metric: vary.rate, where: {{method: a, parallel: 1}}, {EQUALS}")[0]
    )


def test_against_inherits_what_it_does_not_state(loaded: Loaded) -> None:
    found = claim(
        loaded,
        "metric: speed.rate, where: {method: a, parallel: 4}, against: {method: g, heads: 2}, expect: {ratio: '>=2.8'}",
    )
    assert found.against == {"method": "g[heads=2]", "parallel": 4, "context": 8}
    other = claim(
        loaded, "metric: speed.rate, where: {method: a, parallel: 4}, against: {parallel: 1}, expect: {ratio: '> 1'}"
    )
    assert other.against == {"method": "a", "parallel": 1, "context": 8}


def test_every_and_mean_leave_axes_open(loaded: Loaded) -> None:
    found = claim(loaded, f"metric: speed.rate, where: {{method: a}}, every: parallel, mean: [context], {EQUALS}")
    assert (found.where, found.every, found.mean) == ({"method": "a"}, ("parallel",), ("context",))


def test_a_method_of_several_rows_must_be_told_apart(loaded: Loaded) -> None:
    assert refused(loaded, f"metric: speed.rate, where: {{method: g, parallel: 1}}, {EQUALS}") == [
        '"g" is 2 rows of the table'
    ]
    said_twice = f"metric: speed.rate, where: {{method: 'g[heads=2]', heads: 2, parallel: 1}}, {EQUALS}"
    assert refused(loaded, said_twice) == ["the label g[heads=2] already says heads"]


@pytest.mark.parametrize(
    ("expect", "expected"),
    [
        (
            "{equals: 2, tolerance: 0.5}",
            Expectation("equals", "==", 2.0, tolerance=0.5, text="equals: 2, tolerance: 0.5"),
        ),
        ("{order: [a, 'g[heads=2]']}", Expectation("order", order=("a", "g[heads=2]"), text="order: [a, g[heads=2]]")),
    ],
)
def test_expectations_of_one(loaded: Loaded, expect: str, expected: Expectation) -> None:
    method = "" if "order" in expect else "method: a, "
    found = claim(loaded, f"metric: speed.rate, where: {{{method}parallel: 1}}, expect: {expect}")
    assert found.expect == expected


@pytest.mark.parametrize(
    ("expect", "expected"),
    [
        ("{ratio: '>= 2.8'}", Expectation("ratio", ">=", 2.8, text="ratio: >= 2.8")),
        (
            "{ratio: '== 2', tolerance: 0.1}",
            Expectation("ratio", "==", 2.0, tolerance=0.1, text="ratio: == 2, tolerance: 0.1"),
        ),
        ("{difference: '< -1e-3'}", Expectation("difference", "<", -0.001, text="difference: < -0.001")),
        ("{equivalence: 2%}", Expectation("equivalence", margin=0.02, relative=True, text="equivalence: 2%")),
        ("{equivalence: 0.02}", Expectation("equivalence", margin=0.02, relative=True, text="equivalence: 2%")),
        ("{equivalence: 3, absolute: true}", Expectation("equivalence", margin=3.0, text="equivalence: 3, absolute")),
    ],
)
def test_expectations_of_two(loaded: Loaded, expect: str, expected: Expectation) -> None:
    found = claim(
        loaded, f"metric: speed.rate, where: {{method: a, parallel: 1}}, against: {{parallel: 4}}, expect: {expect}"
    )
    assert found.expect == expected


@pytest.mark.parametrize(
    "expect",
    [
        "{ratio: 2}",
        "{ratio: about 2}",
        "{ratio: '> nan'}",
        "{ratio: '> 1', tolerance: 1}",
        "{equivalence: 0}",
        "{equivalence: -1%}",
        "{equivalence: two}",
        "{equivalence: 2%, absolute: true}",
        "{order: [a]}",
    ],
)
def test_refused_expectations(loaded: Loaded, expect: str) -> None:
    text = f"metric: speed.rate, where: {{method: a, parallel: 1}}, against: {{parallel: 4}}, expect: {expect}"
    assert len(refused(loaded, text)) == 1


def test_an_order_needs_a_direction(loaded: Loaded) -> None:
    text = "metric: speed.size, where: {parallel: 1}, expect: {order: [a, 'g[heads=2]']}"
    assert refused(loaded, text) == ["toy.size has no direction: no order is best first"]


def test_the_rest_is_kept(loaded: Loaded) -> None:
    found = claim(
        loaded,
        f"metric: speed.rate, where: {{method: a, parallel: 1}}, {EQUALS}, "
        "control: g[heads=2], paper: 2.9, scale: paper, note: n".replace("g[heads=2]", "'g[heads=2]'"),
    )
    assert (found.control, found.paper, found.scale, found.note) == ("g[heads=2]", 2.9, "paper", "n")


@pytest.mark.parametrize(
    "text",
    [
        f"metric: speed.rate, where: {{method: a, parallel: 16, context: 64}}, {EQUALS}",
        f"metric: speed.rate, where: {{method: big, parallel: 1, context: 8}}, {EQUALS}",
    ],
)
def test_a_claim_may_name_what_only_another_profile_has(loaded: Loaded, text: str) -> None:
    here, there = claim(loaded, text), claim(loaded, text, "paper")
    assert here.where == there.where


def test_what_no_profile_has_is_a_mistake_in_each(loaded: Loaded) -> None:
    text = f"metric: speed.rate, where: {{method: a, parallel: 5, context: 8}}, {EQUALS}"
    for profile in (None, "paper"):
        assert refused(loaded, text, profile) == ["parallel of speed has no value 5"]


def test_an_axis_left_open_in_one_profile_is_a_mistake_there_alone(loaded: Loaded) -> None:
    text = f"metric: speed.rate, where: {{method: a, parallel: 1}}, {EQUALS}"
    assert claim(loaded, text).where["context"] == 8
    assert refused(loaded, text, "paper") == ["where leaves context of speed open (8, 64)"]


def test_a_claim_about_a_broken_method_adds_no_second_mistake(loaded: Loaded) -> None:
    text = TEMPLATE.format(claim=f"metric: speed.rate, where: {{method: a, parallel: 1}}, {EQUALS}")
    with pytest.raises(SpecErrors) as caught:
        loaded(text.replace("toy.alpha", "toy.aalpha"))
    assert [e.message for e in caught.value.errors] == ['there is no adapter "toy.aalpha"']
