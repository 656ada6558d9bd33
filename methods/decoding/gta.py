"""Grouped tied attention: a group's key and value are one state."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from harness.contract import Needs
from harness.tracks.decoding.layout import Layout, tied_layout
from harness.tracks.decoding.protocol import Attention, Shape
from harness.tracks.decoding.tied import TiedAttention

STATE = Fraction(1)  # in units of d_h
KEY = Fraction(1, 2)  # of the state, from its start
ROPE = Fraction(1, 2)


class GTA(Attention):
    """Grouped tied attention (arXiv 2505.21487). ``kv_heads``, the number of states, must divide the query heads."""

    name: ClassVar[str] = "gta"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    kv_heads: Annotated[int, {"minimum": 1}] = 8

    def layout(self, shape: Shape) -> Layout:
        """``kv_heads`` states, and a rotary key that is whole on every device."""
        return tied_layout(self.kv_heads, STATE, KEY, ROPE)

    def module(self, shape: Shape) -> TiedAttention:
        """See :class:`Attention`."""
        return TiedAttention(shape, self.layout(shape), self.gated)
