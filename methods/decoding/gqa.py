"""Grouped-query attention: groups of query heads share a key and a value."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from harness.contract import Needs
from harness.tracks.decoding.grouped import GroupedAttention
from harness.tracks.decoding.layout import Layout, grouped_layout
from harness.tracks.decoding.protocol import Attention, Shape

KEY = Fraction(1)
VALUE = Fraction(1)


class GQA(Attention):
    """Grouped-query attention (arXiv 2305.13245). ``kv_heads`` must divide the query heads."""

    name: ClassVar[str] = "gqa"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    kv_heads: Annotated[int, {"minimum": 1}] = 8

    def layout(self, shape: Shape) -> Layout:
        """``kv_heads`` keys and values."""
        return grouped_layout(self.kv_heads, KEY, VALUE)

    def module(self, shape: Shape) -> GroupedAttention:
        """See :class:`Attention`."""
        return GroupedAttention(shape, self.layout(shape), gated=self.gated)
