"""The Wikipedia paragraphs of BoolQ, without their questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from harness.contract import Build, Context, Needs
from harness.tracks.text.corpus import Corpus, split

TITLE_END = " -- "


class BoolQParagraphs(Build[Corpus]):
    """About 12,000 paragraphs of English Wikipedia, 7 million characters (BoolQ, arXiv 1905.10044).

    ``held_out``: share of the articles whose paragraphs are held out; paragraphs of one article stay together.
    ``paragraphs``: use the first so many distinct ones (default: all).
    """

    name: ClassVar[str] = "boolq_paragraphs"
    needs: ClassVar[Needs] = Needs(assets=("text.boolq",))

    held_out: Annotated[float, {"exclusiveMinimum": 0, "exclusiveMaximum": 1}] = 0.05
    paragraphs: Annotated[int, {"minimum": 2}] | None = None

    def make(self, context: Context) -> dict[str, float]:
        """Write the split; return its sizes."""
        distinct = list(dict.fromkeys(_titled(context.asset("text.boolq"))))
        return split(distinct[: self.paragraphs], self.held_out).save(context.directory)

    def load(self, directory: Path) -> Corpus:
        return Corpus.read(directory)


def _titled(path: Path) -> Iterator[tuple[str, str]]:
    """(article, paragraph) of every line. Raises ValueError for a line of another shape."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            title, found, text = json.loads(line)["passage"].partition(TITLE_END)
            if not found:
                raise ValueError(f"{path}:{number}: expected 'article{TITLE_END}paragraph' under 'passage'")
            yield title.strip(), text.strip()
