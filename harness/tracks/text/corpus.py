"""A text corpus: paragraphs to learn from and paragraphs held out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "corpus.json"


@dataclass(frozen=True)
class Corpus:
    """``train`` and ``held_out``: disjoint paragraphs, in the order of their source."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]

    def save(self, directory: Path) -> dict[str, float]:
        """Write the corpus; return its sizes in paragraphs and characters."""
        (directory / FILE).write_text(json.dumps(asdict(self), ensure_ascii=False), encoding="utf-8")
        return {
            "train_paragraphs": len(self.train),
            "train_characters": sum(map(len, self.train)),
            "held_out_paragraphs": len(self.held_out),
            "held_out_characters": sum(map(len, self.held_out)),
        }

    @staticmethod
    def read(directory: Path) -> Corpus:
        document = json.loads((directory / FILE).read_text(encoding="utf-8"))
        return Corpus(tuple(document["train"]), tuple(document["held_out"]))


def split(paragraphs: Iterable[tuple[str, str]], held_out: float) -> Corpus:
    """Hold out about ``held_out`` of the (group, text) pairs, whole groups at a time; repeated texts are dropped.

    A group's side is decided by a hash of its name alone, so it stays where it is when other paragraphs come or go.
    Raises ValueError where one side stays empty.
    """
    train: dict[str, None] = {}
    held: dict[str, None] = {}
    for group, text in paragraphs:
        (held if _fraction(group) < held_out else train)[text] = None
    train = {text: None for text in train if text not in held}
    if not train or not held:
        raise ValueError(
            f"holding out {held_out:g} leaves {len(train)} paragraphs to train on and {len(held)} held out: "
            "give more text or another fraction"
        )
    return Corpus(tuple(train), tuple(held))


def _fraction(name: str) -> float:
    """A number in [0, 1) that depends on the name alone."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "big") / 2**64
