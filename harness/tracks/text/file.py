"""A corpus of one's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar

from harness.contract import AssetReference, Build, Context
from harness.tracks.text.corpus import Corpus, split


class File(Build[Corpus]):
    """A UTF-8 text file, paragraphs separated by blank lines; about ``held_out`` of them are held out."""

    name: ClassVar[str] = "file"

    source: AssetReference
    held_out: Annotated[float, {"exclusiveMinimum": 0, "exclusiveMaximum": 1}] = 0.05

    def make(self, context: Context) -> dict[str, float]:
        """Write the split; return its sizes."""
        text = context.asset(self.source).read_text(encoding="utf-8")
        paragraphs = [p.strip() for p in re.split(r"\n\s*\n", text) if p.strip()]
        return split(((p, p) for p in paragraphs), self.held_out).save(context.directory)

    def load(self, directory: Path) -> Corpus:
        return Corpus.read(directory)
