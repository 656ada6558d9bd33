from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tracks.text.boolq import BoolQParagraphs
from harness.tracks.text.corpus import Corpus, split
from harness.tracks.text.file import File


def articles(count: int) -> list[tuple[str, str]]:
    return [(f"article {i // 2}", f"paragraph {i}") for i in range(count)]


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1), st.floats(0.1, 0.9))
def test_sides_are_disjoint_and_lose_no_text(pairs: list[tuple[str, str]], held_out: float) -> None:
    try:
        corpus = split(pairs, held_out)
    except ValueError:
        return
    assert not set(corpus.train) & set(corpus.held_out)
    assert set(corpus.train) | set(corpus.held_out) == {text for _, text in pairs}


def test_paragraphs_of_one_article_stay_together() -> None:
    held = set(split(articles(400), 0.2).held_out)
    sides = [(f"paragraph {i}" in held, f"paragraph {i + 1}" in held) for i in range(0, 400, 2)]
    assert all(a == b for a, b in sides)
    assert 0.1 < len(held) / 400 < 0.3


def test_the_split_does_not_depend_on_other_paragraphs() -> None:
    few, many = split(articles(200), 0.2), split(articles(400), 0.2)
    assert set(few.held_out) <= set(many.held_out)
    assert set(few.train) <= set(many.train)


def test_an_empty_side_is_an_error() -> None:
    with pytest.raises(ValueError, match="another fraction"):
        split([("a", "one")], 0.5)


def test_boolq_paragraphs(make_context: Callable[..., Any], tmp_path: Path) -> None:
    source = tmp_path / "boolq.jsonl"
    rows = [{"question": "?", "passage": f"{title} -- {text}"} for title, text in articles(100) for _ in range(2)]
    source.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    build = BoolQParagraphs(held_out=0.3, paragraphs=60)
    context = make_context(assets={"text.boolq": source})
    sizes = build.make(context)
    corpus = build.load(context.directory)
    assert len(corpus.train) + len(corpus.held_out) == 60
    assert sizes["train_paragraphs"] == len(corpus.train)
    assert all(text.startswith("paragraph") for text in corpus.train)  # without the article's name


def test_boolq_of_another_shape_names_the_line(make_context: Callable[..., Any], tmp_path: Path) -> None:
    source = tmp_path / "other.jsonl"
    source.write_text('{"passage": "a -- b"}\n{"passage": "no title"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"other\.jsonl:2"):
        BoolQParagraphs().make(make_context(assets={"text.boolq": source}))


def test_a_file_of_paragraphs(make_context: Callable[..., Any], tmp_path: Path) -> None:
    source = tmp_path / "own.txt"
    source.write_text("\n\n".join(f"line {i}\nsecond line" for i in range(50)) + "\n \n\n", encoding="utf-8")
    build = File(source="file:own.txt", held_out=0.3)
    context = make_context(assets={"file:own.txt": source})
    build.make(context)
    corpus = build.load(context.directory)
    assert len(corpus.train) + len(corpus.held_out) == 50
    assert "line 7\nsecond line" in corpus.train + corpus.held_out


def test_a_corpus_survives_the_disk(tmp_path: Path) -> None:
    corpus = Corpus(("ein Satz",), ("\N{GREEK SMALL LETTER ALPHA} \N{GRINNING FACE}",))
    corpus.save(tmp_path)
    assert Corpus.read(tmp_path) == corpus
