"""Log-likelihoods with a limited window, against sums made token by token."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.tracks.language.scoring import log_likelihoods, rows

pytestmark = pytest.mark.track_decoding

VOCABULARY = 7
TABLE = torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

ids = st.integers(0, VOCABULARY - 1)


def logits(tokens):
    """A model whose predictions depend on all tokens seen: the running sum of table rows."""
    return TABLE[tokens].cumsum(1)


def by_hand(context, continuation, window):
    """Every token on its own, from the rows that say what is seen."""
    tokens = [*context, *continuation]
    total, same, end = 0.0, True, len(tokens)
    while end > len(context):
        start = max(len(context), end - window)
        first = max(0, end - 1 - window)
        for position in range(start, end):
            state = sum(TABLE[token] for token in tokens[first:position])
            total += float(torch.log_softmax(state, -1)[tokens[position]])
            same &= int(state.argmax()) == tokens[position]
        end = start
    return total, same


@given(
    st.lists(st.tuples(st.lists(ids, min_size=1, max_size=9), st.lists(ids, max_size=9)), max_size=6), st.integers(1, 6)
)
def test_batched_equals_by_hand(requests, window):
    found = log_likelihoods(logits, requests, window, batch=3)
    for (total, greedy), request in zip(found, requests, strict=True):
        expected, same = by_hand(*request, window)
        assert total == pytest.approx(expected, abs=1e-4)
        assert greedy == same


@given(st.lists(ids, min_size=1, max_size=20), st.lists(ids, max_size=20), st.integers(1, 8))
def test_rows_predict_every_token_once_from_those_before_it(context, continuation, window):
    made = list(rows(0, context, continuation, window))
    assert [t for row in reversed(made) for t in row.targets] == continuation
    tokens, end = [*context, *continuation], len(context) + len(continuation)
    for row in made:
        assert len(row.targets) <= len(row.inputs) <= window
        assert list(row.inputs) == tokens[end - 1 - len(row.inputs) : end - 1]
        assert len(row.inputs) == min(window, end - 1)  # nothing that fits is left out
        end -= len(row.targets)


def test_the_beginning_is_what_is_lost():
    long, short = [1, 2, 3, 4, 5], [4, 5]
    assert log_likelihoods(logits, [(long, [6])], 2, 1) == log_likelihoods(logits, [(short, [6])], 2, 1)
    assert log_likelihoods(logits, [(long, [6])], 3, 1) != log_likelihoods(logits, [(short, [6])], 3, 1)


def test_nothing_to_predict_is_certain():
    assert log_likelihoods(logits, [([1], []), ([], [])][:1], 4, 2) == [(0.0, True)]


def test_nothing_to_predict_from_is_an_error():
    with pytest.raises(ValueError, match="context of at least one token"):
        log_likelihoods(logits, [([], [1])], 4, 2)
