"""A tokenizer that others have trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import ClassVar

import tokenizers

from harness.contract import AssetReference, Build, Context, Needs
from harness.tracks.text.bpe import FILE, Tokenizer


class TokenizerFile(Build[Tokenizer]):
    """A byte-level tokenizer from a ``tokenizer.json``, or from a folder that holds one (GPT-2's, for one)."""

    name: ClassVar[str] = "tokenizer_file"
    needs: ClassVar[Needs] = Needs(extras=("decoding",))

    source: AssetReference

    def make(self, context: Context) -> dict[str, float]:
        """Keep a copy; return the size of the vocabulary. Raises ValueError for another kind of tokenizer."""
        found = context.asset(self.source)
        found = found / FILE if found.is_dir() else found
        if not found.is_file():
            raise ValueError(f"{self.source}: there is no {FILE} in it")
        document = json.loads(found.read_text(encoding="utf-8"))
        decoder = (document.get("decoder") or {}).get("type")
        if decoder != "ByteLevel":
            raise ValueError(
                f"{self.source}: its decoder is {decoder}, expected ByteLevel, which gives every "
                "token a length in bytes"
            )
        shutil.copyfile(found, context.directory / FILE)
        return {"vocabulary": self.load(context.directory).vocabulary}

    def load(self, directory: Path) -> Tokenizer:
        return Tokenizer(tokenizers.Tokenizer.from_file(str(directory / FILE)))
