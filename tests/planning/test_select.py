"""Patterns of --only and --rerun."""

from __future__ import annotations

import pytest

from harness.planning.node import Node
from harness.planning.select import Patterns, split_patterns

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
        ([" , "], ()),
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
