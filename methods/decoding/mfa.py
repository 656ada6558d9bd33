"""Multi-matrix factorisation attention: one wide key and value for all heads, queries of low rank."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from harness.contract import Needs
from harness.tracks.decoding.grouped import GroupedAttention
from harness.tracks.decoding.layout import Layout, grouped_layout
from harness.tracks.decoding.protocol import Attention, Shape

KEY = Fraction(2)  # heads are twice as wide as the shape's
VALUE = Fraction(2)
QUERY_LATENT = Fraction(2, 3)  # in units of d


class MFA(Attention):
    """Multi-matrix factorisation attention (arXiv 2412.19255), sized as a rival in arXiv 2603.02188."""

    name: ClassVar[str] = "mfa"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    def layout(self, shape: Shape) -> Layout:
        """One key and one value, whole on every device."""
        return grouped_layout(1, KEY, VALUE)

    def module(self, shape: Shape) -> GroupedAttention:
        """See :class:`Attention`."""
        return GroupedAttention(shape, self.layout(shape), query_latent=shape.part(QUERY_LATENT), gated=self.gated)
