"""Text that is no YAML, or no spec: every mistake with its place, in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

CASES: list[tuple[str, str | bytes, list[str]]] = [
    ("more", "evaluation2: 1", ['8:1: unknown key "evaluation2" at the top level; did you mean "evaluations"?']),
    ("text", "", ["1:1: the file is empty; begin with: harness: 1"]),
    ("text", "# nothing\n", ["1:1: the file is empty; begin with: harness: 1"]),
    ("text", "- a\n- b\n", ["1:1: a spec is a mapping, found a list; begin with: harness: 1"]),
    ("text", "text\n", ["1:1: a spec is a mapping, found a single value; begin with: harness: 1"]),
    (
        "text",
        "harness: 2\nmetods: {}\n",
        [
            '1:1: the spec lacks the key "evaluations"; add it',
            '1:1: the spec lacks the key "methods"; add it',
            '1:1: the spec lacks the key "study"; add it',
            '1:1: the spec lacks the key "track"; add it',
            "1:10: harness is the number 2, expected 1",
            '2:1: unknown key "metods" at the top level; did you mean "methods"?',
        ],
    ),
    ("more", "study: twice", ['8:1: the key "study" stands twice: in line 2 and here; remove one of them']),
    ("more", "paper: {a: 1, a: 2}", ['8:15: the key "a" stands twice: in line 8 and here; remove one of them']),
    (
        "more",
        "1: x\ntrue: y\n[a]: z",
        [
            '8:1: the key 1 is no text; quote it: "1"',
            '9:1: the key true is no text; quote it: "true"',
            "10:1: a key must be text, not a list or mapping; quote it if it is text",
        ],
    ),
    (
        "more",
        "paper: {arxiv: 2603.02180}",
        ['8:16: paper.arxiv is the number 2603.02180, expected text; quote it: "2603.02180"'],
    ),
    (
        "more",
        "include: nosuch.yaml",
        [
            (
                "8:10: the included file nosuch.yaml cannot be read: no such file or directory; check the path; "
                "it is relative to the including file"
            )
        ],
    ),
    ("more", "include: s.yaml", ["8:10: includes go round in a circle: s.yaml -> s.yaml; remove one of them"]),
    ("more", "include: 3", ["8:10: include takes a path or a list of paths; write: include: common.yaml"]),
    (
        "text",
        (
            "harness: 1\nstudy: A B\ntrack: tyo\nmethods: {'a[b': {use: toy.alpha}}\nevaluations: "
            "{'s.t': {use: toy.speed}}\n"
        ),
        [
            '2:8: study is "A B"; it must be lower-case letters, digits, and . _ - inside (at most 80)',
            '3:8: there is no track "tyo"; did you mean "toy"?',
            (
                '4:11: the name of a method "a[b" is not allowed; use at most 80 characters, without [ ] | = , * '
                "? / \\ or quotes"
            ),
            (
                '5:15: the name of an evaluation "s.t" is not allowed; use at most 80 characters, without . [ ] '
                "| = , * ? / \\ or quotes"
            ),
        ],
    ),
    (
        "text",
        "harness: 1\nstudy: a\ntrack: toy\nmethods: {}\nevaluations: [1]\n",
        ["4:1: methods is empty; declare one method at least", "5:14: evaluations is a list, expected a mapping"],
    ),
    ("text", "harness: 1\nstudy:\n\tx: 1\n", ["3:1: a tab stands where indentation is expected; indent with spaces"]),
    ("text", "a: 1\n\tb: 2\n", ["2:1: a tab stands where indentation is expected; indent with spaces"]),
    (
        "text",
        "a: [1,\n",
        [("2:1: a bracket is not closed, or a comma is missing; close it; quote text that holds brackets or commas")],
    ),
    (
        "text",
        "a: b: c\n",
        ["1:5: a second colon in one value, or wrong indentation; quote the text, or indent the key"],
    ),
    ("text", "expect: {ratio: >= 2}\n", ['1:17: > begins a block of text; quote it: ">= 2"']),
    ("text", "ratio: >= 2\n", ['1:8: > begins a block of text; quote it: ">= 2"']),
    ("text", "use: @x\n", ["1:6: plain text cannot begin with @; quote it"]),
    (
        "text",
        "harness: 1\nstudy toys\ntrack: toy\n",
        ['3:1: the line before has no colon after its key; write "key: value"'],
    ),
    ("text", "harness: 1\n---\nharness: 1\n", ["2:1: a second document begins here; one file holds one spec"]),
    ("more", "x-a: *nosuch", ["8:6: *nosuch refers to no anchor above it; define it above with &NAME"]),
    ("more", "x-a: &x [1]\nx-b: &x [2]", ["9:6: the anchor &x stands twice; rename one of them"]),
    ("more", "x-a: &x [*x]", ["8:10: *x contains itself; write the inner value out"]),
    (
        "more",
        "x-a: !!python/object:os.system {}\nx-b: !custom 1",
        [
            "8:6: the tag !!python/object:os.system has no meaning here; remove it; quote what is to be text",
            "9:6: the tag !custom has no meaning here; remove it; quote what is to be text",
        ],
    ),
    ("more", "x-a: {<<: 3}", ["8:11: << takes a mapping or a list of mappings; refer to one: <<: *NAME"]),
    ("text", b"harness: 1\nstudy: \xff\n", ["2:8: byte 0xff is not UTF-8; save the file as UTF-8"]),
    (
        "text",
        b"\xef\xbb\xbfharness: 1\n",
        ["1:1: the file begins with a byte-order mark; save it as UTF-8 without BOM"],
    ),
    ("text", b"\xff\xfeh\x00", ["1:1: the file is UTF-16; save it as UTF-8 without BOM"]),
    ("text", "study: a\x00b\n", ["1:9: the character U+0000 is not allowed in YAML; remove it"]),
    ("text", "a: " + "[" * 70 + "]" * 70, ["1:68: nested more than 64 deep; flatten it"]),
    ("text", "a: " + "[" * 5000, ["1:1003: nested more than 64 deep; flatten it"]),
    ("text", "a: 'open\nb: 1\n", ["1:4: the quotes opened here are not closed; close them"]),
    (
        "text",
        "a: {b: 1\nc: [2}\n",
        [
            (
                "2:2: a bracket opened in line 1 is not closed, or a comma is missing; close it; quote text that "
                "holds brackets or commas"
            )
        ],
    ),
    ("text", "- a\nb: 1\n", ["2:1: not YAML: while parsing a block collection: did not find expected '-' indicator"]),
    (
        "more",
        "x-a: &a {k: 1}\nx-b: {<<: *a, k: 2, k: 3}",
        ['9:21: the key "k" stands twice: in line 9 and here; remove one of them'],
    ),
    (
        "more",
        "include: [gone.yaml, also/gone.yaml]",
        [
            (
                "8:11: the included file gone.yaml cannot be read: no such file or directory; check the path; it "
                "is relative to the including file"
            ),
            (
                "8:22: the included file also/gone.yaml cannot be read: no such file or directory; check the "
                "path; it is relative to the including file"
            ),
        ],
    ),
    (
        "more",
        "x-m: {use: 1}\nm-x: 1",
        [
            (
                '9:1: unknown key "m-x" at the top level; the keys here are harness, study, title, paper, track, '
                "include, methods, evaluations, seeds, limit, resources, claims, profiles, skip"
            )
        ],
    ),
    (
        "text",
        (
            "harness: 1\nstudy: t\ntrack: toy\nmethods: {a: {use: toy.alpha}}\nevaluations:\n  q: "
            "{use: toy.quality, params: {text: {use: toy.words}, model: {use: toy.words}}, "
            "metrics: [eror, toy.rate, 3]}\n"
        ),
        [
            "6:71: model: toy.words is no Model; these are: toy.trained",
            '6:94: toy.quality has no metric "eror"; did you mean "error"?',
            "6:100: toy.rate is no metric of toy.quality; there is error",
            '6:110: metric is the number 3, expected text; quote it: "3"',
        ],
    ),
    (
        "text",
        (
            "harness: 1\nstudy: t\ntrack: toy\nmethods: {a: {use: toy.alpha}}\nevaluations:\n  q: "
            "{use: toy.quality, params: {text: {use: toy.words}, model: {use: toy.trained, "
            "params: {method: {}}}}, metrics: [error, toy.error]}\n"
        ),
        [
            "6:93: method of toy.trained is given by the run; remove it",
            "6:125: the metric error stands twice; remove one of them",
        ],
    ),
]


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_mistakes(
    mistakes: Callable[[str, str | bytes], list[str]], kind: str, source: str | bytes, expected: list[str]
) -> None:
    assert mistakes(kind, source) == expected
