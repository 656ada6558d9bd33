"""Wrong profiles, skips, seeds and resources: every mistake with its place, in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

CASES: list[tuple[str, str | bytes, list[str]]] = [
    (
        "more",
        "limit: 0\nseeds: 0",
        [
            "8:1: limit has no meaning here: no evaluation of this study has items; remove it",
            "8:8: limit is 0, it must be at least 1; change it",
            "9:8: seeds is 0, it must be at least 1; change it",
        ],
    ),
    ("more", "seeds: [1, 1]", ["8:12: seeds has the number 1 twice; remove one"]),
    ("more", "seeds: three", ['8:8: seeds is the text "three", expected an integer or a list']),
    ("more", "limit: 10", ["8:1: limit has no meaning here: no evaluation of this study has items; remove it"]),
    (
        "more",
        "resources: {memory: 2G, timeout: 1:30, gpu: 1}",
        [
            '8:21: resources.memory: "2G" is not clear; write "2GiB" or "2GB"',
            (
                '8:34: resources.timeout: 1:30 may be hours and minutes, or minutes and seconds; write "1h30m" '
                'or "1m30s"'
            ),
            '8:40: resources has no key "gpu"; did you mean "gpus"?',
        ],
    ),
    (
        "more",
        "resources: {memory: 2, timeout: 0, gpus: 1.5, cpus: 0}",
        [
            (
                '8:21: resources.memory is 2, which is too little to run anything; "2GiB" perhaps: a number '
                "alone is bytes"
            ),
            "8:33: resources.timeout is 0, which is too little to run anything; give a longer time",
            "8:53: resources.cpus is 0, it must be at least 1; change it",
        ],
    ),
    ("more", "resources: {time: 10:00:00}", ['8:13: resources has no key "time"; did you mean "timeout"?']),
    (
        "more",
        "profiles: {smoke: {seeds: 1}}\nseeds: 1",
        ["8:20: the profile's entry for seeds changes nothing; remove it"],
    ),
    (
        "more",
        "profiles: {smoke: {methods: {a: {params: {lr: null}}}}}",
        ["8:43: the profile removes methods.a.params.lr, which is not there; remove this entry"],
    ),
    (
        "more",
        "profiles: {smoke: {methods: {a: {}}}}",
        ["8:30: the profile's entry for methods.a is empty; remove it; null removes a key"],
    ),
    ("more", "profiles: {smoke: {methods: {b: {params: {lr: 1}}}}}", ['8:30: method "b" lacks the key "use"; add it']),
    (
        "more",
        "profiles: {smoke: {study: x, x-y: 1}}",
        [
            "8:20: a profile cannot change study; change it in the document itself",
            "8:30: a profile cannot change x-y; change it in the document itself",
        ],
    ),
    (
        "more",
        "profiles: {smoke: }",
        ["8:19: the profile smoke has no value, expected a mapping; remove it or give a value"],
    ),
    ("more", "profiles: [smoke]", ["8:11: profiles is a list, expected a mapping"]),
    (
        "more",
        "profiles: {smoke: {metods: {a: 1}}}",
        ['8:20: unknown key "metods" at the top level; did you mean "methods"?'],
    ),
    (
        "more",
        (
            "skip: [{where: {method: b}, reason: x}, {where: {parallel: 9}, reason: x}, "
            "{where: {paralel: 1}, reason: x}]"
        ),
        [
            '8:25: there is no method "b"; there is a',
            "8:60: parallel of speed has no value 9; there is 1, 2",
            '8:85: what is skipped has no axis "paralel"; did you mean "parallel"?',
        ],
    ),
    (
        "more",
        "skip: [{where: {}, reason: x}, {where: {method: a}}]",
        [
            "8:9: where is empty: this skips everything; say what to skip",
            '8:32: this entry of skip lacks the key "reason"; add it',
        ],
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_mistakes(
    mistakes: Callable[[str, str | bytes], list[str]], kind: str, source: str | bytes, expected: list[str]
) -> None:
    assert mistakes(kind, source) == expected
