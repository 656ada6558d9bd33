"""Packaged multiple-choice questions: what their rows look like, and how they become items.

Rows hold ``question``, sometimes ``passage``, the options as one text with an option a line ("A. ...") and the right
option repeated as ``answer``; BoolQ's answer is true or false.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OPTION = re.compile(r"^([A-Z])\. (.*?)(?=^[A-Z]\. |\Z)", re.MULTILINE | re.DOTALL)
LETTERS = "ABCDEFGHIJ"
TRUTH = {"false": 0, "true": 1}


@dataclass(frozen=True)
class Source:
    """``asset``: catalogue name; ``prompt``: what comes before an answer, a Jinja template over an item's fields.

    ``metrics``: acc (the likeliest answer is right), acc_norm (the likeliest per character is).
    """

    asset: str
    prompt: str
    metrics: tuple[str, ...] = ("acc", "acc_norm")


_PLAIN = "Question: {{question}}\nAnswer:"
_WITH_PASSAGE = "{{passage}}\nQuestion: {{question}}\nAnswer:"

SOURCES: Mapping[str, Source] = {
    "piqa": Source("questions.piqa", _PLAIN),
    "commonsenseqa": Source("questions.commonsenseqa", _PLAIN),
    "openbookqa": Source("questions.openbookqa", _PLAIN),
    "siqa": Source("questions.siqa", _WITH_PASSAGE),
    "mmlu": Source("questions.mmlu", _PLAIN),
    "boolq": Source("questions.boolq", _WITH_PASSAGE, ("acc",)),
}


class Faulty(ValueError):
    """A row that has no single right answer among its options."""


def read_items(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Items {id, question, passage, choices, gold} of a file of JSON lines, and how many faulty rows were left out.

    ``id`` is the number of the line. Raises ValueError where a line is no such row at all.
    """
    items, faulty = [], 0
    for number, row in _rows(path):
        try:
            items.append({"id": number, **_item(row)})
        except Faulty:
            faulty += 1
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path.name}:{number}: expected a question with its options and answer, found {sorted(row)}"
            ) from error
    return items, faulty


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, json.loads(line)


def _item(row: Mapping[str, Any]) -> dict[str, Any]:
    common = {"question": row["question"].strip(), "passage": row.get("passage", "").strip()}
    if "options" not in row:
        return {**common, "choices": ["no", "yes"], "gold": TRUTH[str(row["answer"]).lower()]}
    found = _OPTION.findall(row["options"].strip())
    choices = [text.strip() for _, text in found]
    answer = _OPTION.match(row["answer"].strip())
    if len(choices) < 2 or "".join(letter for letter, _ in found) != LETTERS[: len(choices)] or not all(choices):
        raise Faulty("the options are not A, B, ...")
    if answer is None or answer[1] not in LETTERS[: len(choices)]:
        raise Faulty("the answer is none of the options")
    gold = LETTERS.index(answer[1])
    if choices[gold] != answer[2].strip() or choices.count(choices[gold]) > 1:
        raise Faulty("the answer is another text than its option, or stands twice")
    return {**common, "choices": choices, "gold": gold}
