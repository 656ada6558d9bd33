"""Multi-query attention: one key and value for all heads."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from harness.contract import Needs
from harness.tracks.decoding.grouped import GroupedAttention
from harness.tracks.decoding.layout import Layout, grouped_layout
from harness.tracks.decoding.protocol import Attention, Shape

KEY = Fraction(1)
VALUE = Fraction(1)


class MQA(Attention):
    """Multi-query attention (arXiv 1911.02150)."""

    name: ClassVar[str] = "mqa"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    def layout(self, shape: Shape) -> Layout:
        """One key and one value, whole on every device."""
        return grouped_layout(1, KEY, VALUE)

    def module(self, shape: Shape) -> GroupedAttention:
        """See :class:`Attention`."""
        return GroupedAttention(shape, self.layout(shape), gated=self.gated)
