"""Wrong claims: every mistake with its place, in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

CASES: list[tuple[str, str | bytes, list[str]]] = [
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: sped.rate, where: {method: a, parallel: 1}, expect: {equals: 1}}"),
        ['9:28: there is no evaluation "sped"; did you mean "speed"?'],
    ),
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: speed.rat, where: {method: a, parallel: 1}, expect: {equals: 1}}"),
        ['9:28: evaluation speed has no metric "rat"; did you mean "rate"?'],
    ),
    (
        "more",
        "claims:\n- {id: c, says: s, metric: rate, where: {method: a, parallel: 1}, expect: {equals: 1}}",
        ['9:28: the metric "rate" names no evaluation; write EVALUATION.METRIC'],
    ),
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: speed.rate, where: {method: aa, parallel: 1}, expect: {equals: 1}}"),
        ['9:56: there is no method "aa"; did you mean "a"?'],
    ),
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 4}, expect: {equals: 1}}"),
        ["9:69: parallel of speed has no value 4; there is 1, 2"],
    ),
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, paralel: 1}, expect: {equals: 1}}"),
        ['9:59: evaluation speed with method a has no axis "paralel"; did you mean "parallel"?'],
    ),
    (
        "more",
        "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a}, expect: {equals: 1}}",
        ["9:40: where leaves parallel of speed open (1, 2); say which, or every: parallel, or mean: parallel"],
    ),
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a}, every: parallell, expect: {equals: 1}}"),
        ['9:67: evaluation speed has no axis "parallell"; did you mean "parallel"?'],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "every: parallel, expect: {equals: 1}}"
        ),
        ["9:59: parallel has a value here, and is in every too; remove one of them"],
    ),
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, expect: {ratio: '>= 2'}}"),
        ["9:73: ratio compares with nothing; add against: {method: ...}"],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "against: {parallel: 2}, expect: {ratio: 2}}"
        ),
        ['9:113: ratio is 2.0, expected an operator and a number; write for instance ">= 2.0"'],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "against: {parallel: 2}, expect: {ratio: 'twice'}}"
        ),
        ['9:113: ratio is twice, expected an operator and a number; write for instance ">= 2.8"'],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "against: {parallel: 2}, expect: {equals: 2}}"
        ),
        ["9:73: equals takes no against; remove it"],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "against: {parallel: 2}, expect: {equivalence: 0}}"
        ),
        ["9:119: equivalence is 0.0, expected a margin above 0; write for instance 2% or 0.02"],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "expect: {equals: 2, ratio: '> 1'}}"
        ),
        ["9:73: expect says equals and ratio at once; give one of equals, ratio, difference, order, equivalence"],
    ),
    (
        "more",
        "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, expect: {}}",
        [("9:73: expect says nothing that can be judged; give one of equals, ratio, difference, order, equivalence")],
    ),
    (
        "more",
        "claims:\n- {id: c, says: s, metric: speed.size, where: {parallel: 1}, expect: {order: [a, a]}}",
        ['9:82: order has the text "a" twice; remove one'],
    ),
    (
        "more",
        "claims:\n- {id: c, says: s, metric: speed.rate, where: {parallel: 1}, expect: {equals: 1}}",
        ["9:40: where names no method; add where: {method: ...}"],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "expect: {equals: 1}, control: zz}\n- {id: c, says: s, metric: speed.rate, where: "
            "{method: a, parallel: 1}, expect: {equals: 1}}"
        ),
        [
            '9:103: there is no method "zz"; there is a',
            '10:8: the claim "c" stands twice: in line 9 and here; give each claim an id of its own',
        ],
    ),
    ("more", "claims: {id: c}", ["8:9: claims is a mapping, expected a list; write it as a list"]),
    (
        "more",
        "claims:\n- {id: c, say: s, metric: speed.rate}",
        [
            '9:3: this claim lacks the key "expect"; add it',
            '9:3: this claim lacks the key "says"; add it',
            '9:11: unknown key "say" in this claim; did you mean "says"?',
        ],
    ),
    (
        "more",
        ("claims:\n- {id: c, says: s, metric: speed.size, where: {method: a, parallel: 1}, expect: {order: [a, b]}}"),
        [
            "9:28: toy.size has no direction: no order is best first; claim a difference instead",
            "9:48: order names its methods itself; remove method from where",
            '9:93: there is no method "b"; there is a',
        ],
    ),
    (
        "more",
        (
            "claims:\n- {id: c, says: s, metric: speed.rate, where: {method: a, parallel: 1}, "
            "expect: {equals: 1, absolute: true}, scale: big, every: [parallel]}"
        ),
        [
            "9:59: parallel has a value here, and is in every too; remove one of them",
            "9:93: absolute has no meaning with equals; remove it",
            '9:117: scale is the text "big", expected here or paper',
        ],
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_mistakes(
    mistakes: Callable[[str, str | bytes], list[str]], kind: str, source: str | bytes, expected: list[str]
) -> None:
    assert mistakes(kind, source) == expected
