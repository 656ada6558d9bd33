"""Byte-level byte-pair encoding, learnt from the training part of a corpus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it takes every core, whatever was granted

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from harness.contract import Build, Context, Given, Needs
from harness.tracks.text.corpus import Corpus

FILE = "tokenizer.json"
SEPARATOR = "\n\n"
BATCH = 1024


class Tokenizer:
    """Text to token ids and back, without loss. ``token_bytes``: length in UTF-8 bytes of every token."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        self.vocabulary = inner.get_vocab_size()
        # in a byte-level vocabulary every byte is written as one character
        self.token_bytes = np.array([len(inner.id_to_token(i) or "") for i in range(self.vocabulary)], dtype=np.int64)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Token ids, int32, of each text."""
        return [np.array(e.ids, dtype=np.int32) for e in self._inner.encode_batch_fast(list(texts))]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return str(self._inner.decode([int(i) for i in ids], skip_special_tokens=False))

    def stream(self, paragraphs: Sequence[str]) -> np.ndarray:
        """All paragraphs as one row of token ids, each followed by a blank line."""
        parts = [np.zeros(0, dtype=np.int32)]
        for start in range(0, len(paragraphs), BATCH):
            parts += self.encode_batch([p + SEPARATOR for p in paragraphs[start : start + BATCH]])
        return np.concatenate(parts)


class BPE(Build[Tokenizer]):
    """Byte-pair encoding over bytes (arXiv 1508.07909), the whole alphabet of bytes included: no unknown tokens."""

    name: ClassVar[str] = "bpe"
    needs: ClassVar[Needs] = Needs(extras=("decoding",))

    text: Given[Corpus]
    vocabulary: Annotated[int, {"minimum": 256, "maximum": 1_000_000}] = 2048

    def make(self, context: Context) -> dict[str, float]:
        """Learn the merges; return the size of the vocabulary and the characters per token on the training part."""
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(vocab_size=self.vocabulary, initial_alphabet=alphabet, show_progress=False)
        inner.train_from_iterator((p + SEPARATOR for p in self.text.train), trainer)
        inner.save(str(context.directory / FILE))
        sample = self.text.train[:BATCH]
        tokens = len(Tokenizer(inner).stream(sample))
        return {
            "vocabulary": inner.get_vocab_size(),
            "characters_per_token": sum(len(p + SEPARATOR) for p in sample) / tokens,
        }

    def load(self, directory: Path) -> Tokenizer:
        return Tokenizer(tokenizers.Tokenizer.from_file(str(directory / FILE)))
