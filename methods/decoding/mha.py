"""Multi-head attention: every head caches its own key and value."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from harness.contract import Needs
from harness.tracks.decoding.grouped import GroupedAttention
from harness.tracks.decoding.layout import Layout, grouped_layout
from harness.tracks.decoding.protocol import Attention, Shape

KEY = Fraction(1)
VALUE = Fraction(1)


class MHA(Attention):
    """Multi-head attention with rotary positions (arXiv 1706.03762)."""

    name: ClassVar[str] = "mha"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    def layout(self, shape: Shape) -> Layout:
        """h keys and values."""
        return grouped_layout(shape.heads, KEY, VALUE)

    def module(self, shape: Shape) -> GroupedAttention:
        """See :class:`Attention`."""
        return GroupedAttention(shape, self.layout(shape), gated=self.gated)
