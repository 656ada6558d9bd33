from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.tracks.text.bpe import BPE, SEPARATOR, Tokenizer
from harness.tracks.text.corpus import Corpus

pytestmark = pytest.mark.track_decoding

CORPUS = Corpus(tuple(f"the cat number {i} sat on the mat" for i in range(50)), ("zebra quiz",))


@pytest.fixture
def tokenizer(make_context: Callable[..., Any]) -> Tokenizer:
    context = make_context()
    build = BPE(text=CORPUS, vocabulary=300)
    assert build.make(context)["vocabulary"] == 300
    return build.load(context.directory)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_text_comes_back_unchanged(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode_batch([text])[0]
    assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes[ids].sum() == len(text.encode())


def test_merges_are_learnt_from_the_training_part_alone(tokenizer: Tokenizer) -> None:
    seen, unseen = tokenizer.encode_batch(["the cat", "zebra q"])
    assert len(seen) <= 2
    assert len(unseen) > len(seen)


def test_a_stream_holds_all_paragraphs(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream(CORPUS.train)
    assert stream.dtype == np.int32
    assert tokenizer.decode(stream) == "".join(p + SEPARATOR for p in CORPUS.train)


def test_learning_twice_gives_the_same(make_context: Callable[..., Any]) -> None:
    texts = []
    for name in ("a", "b"):
        context = make_context(name)
        BPE(text=CORPUS, vocabulary=280).make(context)
        texts.append((context.directory / "tokenizer.json").read_bytes())
    assert texts[0] == texts[1]
