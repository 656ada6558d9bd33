"""Wrong values of methods, parameters, components and axes: every mistake with its place, in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

CASES: list[tuple[str, str | bytes, list[str]]] = [
    (
        "method",
        "{use: toy.gamma, params: {corpus: {use: toy.mixed, resources: {cpus: 2}}}, resources: {cpus: 2}}",
        ["5:57: corpus: toy.mixed is no build, it has no resources of its own; remove it"],
    ),
    (
        "method",
        "{use: toy.alpha, params: {revision: 1e10}}",
        ['5:42: revision is the number 1e10, expected text; quote it: "1e10"'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {revision: 12345e6}}",
        ['5:42: revision is the number 12345e6, expected text; quote it: "12345e6"'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {revision: 1.10}}",
        ['5:42: revision is the number 1.10, expected text; quote it: "1.10"'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {revision: 0123}}",
        ['5:42: revision is the number 0123, expected text; quote it: "0123"'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {revision: true}}",
        ['5:42: revision is true, expected text; quote it: "true"'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {revision: }}",
        ["5:42: revision has no value, expected text; remove it or give a value"],
    ),
    (
        "method",
        "{use: toy.alpha, params: {languages: [en, 1, null]}}",
        [
            '5:48: languages[1] is the number 1, expected text; quote it: "1"',
            "5:51: languages[2] has no value, expected text; remove it or give a value",
        ],
    ),
    (
        "method",
        "{use: toy.alpha, params: {languages: en}}",
        ['5:43: languages is the text "en", expected a list; write [en]'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {lr: 1_000}}",
        ['5:36: lr is the text "1_000", expected a number; write 1000'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {lr: '1e-4'}}",
        ['5:36: lr is the text "1e-4", expected a number; remove the quotes'],
    ),
    ("method", "{use: toy.alpha, params: {lr: fast}}", ['5:36: lr is the text "fast", expected a number']),
    (
        "method",
        "{use: toy.alpha, params: {lr: .inf}}",
        ["5:36: .inf is no finite number; give a finite value, or quote it if it is text"],
    ),
    (
        "method",
        "{use: toy.alpha, params: {lr: 1e999}}",
        ["5:36: 1e999 is no finite number; give a finite value, or quote it if it is text"],
    ),
    ("method", "{use: toy.alpha, params: {lr: true}}", ["5:36: lr is true, expected a number"]),
    ("method", "{use: toy.alpha, params: {layers: 2.5}}", ["5:40: layers is the number 2.5, expected an integer"]),
    ("method", "{use: toy.alpha, params: {layers: 0}}", ["5:40: layers is 0, it must be at least 1; change it"]),
    (
        "method",
        "{use: toy.alpha, params: {flag: no}}",
        ['5:38: flag is the text "no", expected true or false; write false'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {kind: fats}}",
        ['5:38: kind is the text "fats", expected slow or fast; did you mean "fast"?'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {window: wide}}",
        ['5:40: window is the text "wide", expected an integer or null'],
    ),
    (
        "method",
        "{use: toy.alpha, params: {learning_rate: 1, layer: 3}}",
        [
            (
                '5:32: toy.alpha has no parameter "learning_rate"; there is flag, kind, languages, layers, lr, '
                "revision, window"
            ),
            '5:50: toy.alpha has no parameter "layer"; did you mean "layers"?',
        ],
    ),
    ("method", "{use: toy.alpha, params: 3}", ["5:31: params is the number 3, expected a mapping"]),
    (
        "method",
        "{use: toy.alpha, lr: 0.1}",
        ['5:23: unknown key "lr" in method "a"; it is a parameter of toy.alpha: put it under params'],
    ),
    (
        "method",
        "{use: toy.alpha, seed: 3}",
        ['5:23: unknown key "seed" in method "a"; did you mean "seeds"? It belongs at the top level'],
    ),
    (
        "method",
        "{use: toy.alpha, timeout: 3}",
        ['5:23: unknown key "timeout" in method "a"; it belongs under resources'],
    ),
    ("method", "{use: toy.alhpa}", ['5:12: there is no adapter "toy.alhpa"; did you mean "toy.alpha"?']),
    (
        "method",
        "{use: toy.speed}",
        ["5:12: toy.speed is an evaluation, not a method; there is toy.alpha, toy.beta, toy.gamma, toy.stranger"],
    ),
    ("method", "{params: {lr: 1}}", ['5:3: method "a" lacks the key "use"; add it']),
    ("method", "null", ['5:6: method "a" has no value, expected a mapping; remove it or give a value']),
    ("method", "[1]", ['5:6: method "a" is a list, expected a mapping']),
    (
        "method",
        "{use: toy.alpha, role: chmapion}",
        ['5:29: role is the text "chmapion", expected proposed, baseline, rival or control'],
    ),
    (
        "method",
        "{use: ./none.py:Mine}",
        [
            (
                '5:12: there is no adapter "./none.py:Mine"; there is other.words, toy.alpha, toy.beta, '
                "toy.chars, toy.error, toy.gamma, toy.mixed, toy.quality, toy.rate, toy.size, ..."
            )
        ],
    ),
    (
        "method",
        "{use: toy.stranger}",
        [
            (
                '5:12: toy.stranger is no Learner, which evaluation "speed" (toy.speed) takes; leave it '
                "out of the methods of speed, or use another method"
            )
        ],
    ),
    (
        "method",
        "{use: toy.alpha, gate: {x: '> 1'}}",
        ['5:23: method "a": toy.alpha is no build, it has no gate of its own; remove it'],
    ),
    ("method", "{use: toy.gamma}", ['5:12: toy.gamma needs the parameter "corpus"; add it: params: {corpus: ...}']),
    (
        "method",
        "{use: toy.gamma, params: {corpus: toy.words}}",
        [
            (
                '5:40: corpus is the text "toy.words", expected a component {use: NAME, params: {...}}; write '
                "{use: toy.words}"
            )
        ],
    ),
    (
        "method",
        "{use: toy.gamma, params: {corpus: {use: toy.alpha}}}",
        ["5:46: corpus: toy.alpha is no Corpus; these are: other.words, toy.chars, toy.mixed, toy.words"],
    ),
    (
        "method",
        "{use: toy.gamma, params: {corpus: {use: toy.wrods}}}",
        ['5:46: there is no adapter "toy.wrods"; did you mean "toy.words"?'],
    ),
    (
        "method",
        "{use: toy.gamma, params: {corpus: {use: toy.words, params: {sizes: 1}}}}",
        ['5:66: toy.words has no parameter "sizes"; did you mean "size"?'],
    ),
    (
        "method",
        (
            "{use: toy.gamma, params: {corpus: {use: toy.mixed, params: {parts: [{use: "
            "toy.words, params: {size: big}}, 4]}}}}"
        ),
        [
            '5:106: size is the text "big", expected an integer',
            "5:113: parts[1] is the number 4, expected a component {use: NAME, params: {...}}; name one with use:",
        ],
    ),
    (
        "method",
        "{use: toy.gamma, params: {corpus: {use: toy.chars, gate: {qualty: '>= 1', quality: high}}}}",
        [
            '5:64: toy.chars has no threshold on qualty; did you mean "quality"?',
            (
                '5:89: the threshold on quality is "high", expected an operator and a number; write for instance '
                '">= 0.9"'
            ),
        ],
    ),
    (
        "method",
        "{use: toy.gamma, params: {corpus: {use: toy.words, resources: {cpus: 2}}}}",
        ["5:57: corpus: toy.words is no build, it has no resources of its own; remove it"],
    ),
    (
        "method",
        "{use: toy.alpha, matrix: {layer: [1]}}",
        ['5:32: toy.alpha has no parameter "layer"; did you mean "layers"?'],
    ),
    (
        "method",
        "{use: toy.alpha, matrix: {layers: 1}}",
        ["5:40: the axis layers is 1, expected a list of values; write [1]"],
    ),
    (
        "method",
        "{use: toy.alpha, matrix: {layers: []}}",
        ["5:40: the axis layers is an empty list, expected a list of values; give it values"],
    ),
    (
        "method",
        "{use: toy.alpha, matrix: {layers: [1, 1.0]}}",
        ["5:44: 1 stands twice on the axis layers: equal cells; remove one of them"],
    ),
    ("method", "{use: toy.alpha, matrix: {layers: [1, x]}}", ['5:44: layers is the text "x", expected an integer']),
    (
        "method",
        "{use: toy.alpha, params: {layers: 1}, matrix: {layers: [1]}}",
        ["5:32: layers stands in params and in matrix; remove one of them"],
    ),
    (
        "method",
        "{use: toy.alpha, vary: {layers: [1]}, matrix: {layers: [1]}}",
        ["5:30: layers stands in matrix and in vary; remove one of them"],
    ),
    (
        "method",
        "{use: toy.gamma, vary: {corpus: [{use: toy.words}]}}",
        ['5:12: toy.gamma needs the parameter "corpus"; add it: params: {corpus: ...}'],
    ),
    (
        "method",
        "{use: toy.alpha, matrix: {layers: [1, 2]}, exclude: [{layers: 3}, {lr: 1}]}",
        ["5:68: layers of a has no value 3; there is 1, 2", '5:73: method a has no axis "lr"; there is layers'],
    ),
    (
        "method",
        "{use: toy.alpha, matrix: {layers: [1]}, exclude: [{layers: 1}]}",
        ["5:46: exclude leaves nothing over; remove an entry"],
    ),
    (
        "method",
        "{use: toy.alpha, matrix: {layers: [1]}, exclude: {layers: 1}}",
        ["5:55: exclude is a mapping, expected a list; write it as a list"],
    ),
    (
        "method",
        "{use: toy.alpha, skip: [{where: {method: b}, reason: x}]}",
        ["5:39: this skip is for a already; remove this key"],
    ),
    ("method", "{use: toy.alpha, skip: 3}", ["5:29: skip is the number 3, expected text or a list"]),
    (
        "method",
        "{use: toy.words}",
        ["5:12: toy.words is a component, not a method; there is toy.alpha, toy.beta, toy.gamma, toy.stranger"],
    ),
    (
        "method",
        "{use: toy.alpha, params: {mehtod: 1}, resources: {timeout: 10 minutes}}",
        [
            ('5:32: toy.alpha has no parameter "mehtod"; there is flag, kind, languages, layers, lr, revision, window'),
            (
                '5:65: resources.timeout: "10 minutes" is no time; write seconds (90), "90s", "10m", "1h30m", '
                '"2d", 10:00:00 (hours:minutes:seconds) or 1-00:00:00 (days)'
            ),
        ],
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_mistakes(
    mistakes: Callable[[str, str | bytes], list[str]], kind: str, source: str | bytes, expected: list[str]
) -> None:
    assert mistakes(kind, source) == expected
