"""Grouped-tied attention: groups of query heads share one state that is value and key in one."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from harness.contract import Needs
from harness.tracks.decoding.layout import Layout, tied_layout
from harness.tracks.decoding.protocol import Attention, Shape
from harness.tracks.decoding.tied import TiedAttention

STATE = Fraction(1)  # in units of d_h
KEY = Fraction(1, 2)  # part of the state that is key too
ROPE = Fraction(1, 2)  # d_r in units of d_h


class GTA(Attention):
    """Grouped-tied attention (arXiv 2505.21487). ``kv_heads`` must divide the query heads."""

    name: ClassVar[str] = "gta"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    kv_heads: Annotated[int, {"minimum": 1}] = 8

    def layout(self, shape: Shape) -> Layout:
        """``kv_heads`` states, and a rotary key on every device."""
        return tied_layout(self.kv_heads, STATE, KEY, ROPE)

    def module(self, shape: Shape) -> TiedAttention:
        """See :class:`Attention`."""
        return TiedAttention(shape, self.layout(shape), gated=self.gated)
