"""Patterns of --only and --rerun."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.planning.node import Node
from harness.planning.select import PatternError, Patterns, hint, split_patterns
from harness.spec.study import Use

NODE = Node(
    "observation", "k" * 64, "latency-context=8", {}, labels={"e1": (("gqa[kv_heads=2]", "latency[context=8]"),)}
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a,b"], ("a", "b")),
        (["a", "b"], ("a", "b")),
        (["a, b"], ("a", "b")),
        (["m[x=1,2],b"], ("m[x=1,2]", "b")),
        ("a,b", ("a", "b")),
        ([], ()),
    ],
)
def test_commas_and_repeats_mean_the_same(given, expected):
    assert split_patterns(given) == expected


@pytest.mark.parametrize(
    "pattern",
    ["latency", "gqa", "gqa[kv_heads=2]", "lat*", "latency/gqa", "latency[context=8]/gqa*", "latency?context=8"],
)
def test_matches(pattern):
    assert Patterns([pattern]).match(NODE)


@pytest.mark.parametrize("pattern", ["mla", "latency/mla", "gq", "gqa[kv_heads=8]", "[lg]*"])
def test_matches_not(pattern):
    patterns = Patterns([pattern])
    assert not patterns.match(NODE)
    assert patterns.unused == {pattern}


@pytest.mark.parametrize("given", [[""], [" , "], ["a,,b"], "a,"])
def test_an_empty_pattern_does_not_mean_everything(given):
    with pytest.raises(PatternError, match="empty pattern"):
        split_patterns(given)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("medain", "try median"),
        ("quality/medain", "try quality/median"),
        ("median/quality", "write EVALUATION/METHOD, quality/median"),
        ("nothing like it", "try quality, mean, median"),
    ],
)
def test_a_pattern_that_means_nothing_gets_a_hint(study, row, cell, pattern, says):
    small = study(
        [row("mean", "toy.mean"), row("median", "toy.median")],
        [cell("quality", "toy.quality", text=Use("toy.words", {}))],
    )
    assert says in hint(pattern, small)


def test_a_method_that_an_evaluation_is_not_done_with(study, row, cell):
    quality = replace(cell("quality", "toy.quality", text=Use("toy.words", {})), methods=("mean",))
    small = study([row("mean", "toy.mean"), row("median", "toy.median")], [quality])
    assert "quality is done with mean; add it to its methods" in hint("quality/median", small)
    assert hint("quality/mean", small).endswith("it is skipped")
