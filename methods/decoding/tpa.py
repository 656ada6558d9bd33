"""Tensor product attention: queries, keys and values are sums of products of factors."""

from __future__ import annotations

from typing import Annotated, ClassVar

from harness.contract import Needs
from harness.tracks.decoding.factored import FactoredAttention
from harness.tracks.decoding.layout import Layout, factored_layout
from harness.tracks.decoding.protocol import Attention, Shape


class TPA(Attention):
    """Tensor product attention (arXiv 2501.06425), of ``rank`` for keys and values, and ``query_rank``.

    The factors' maps start by Xavier's rule, whatever the deviation of other weights.
    """

    name: ClassVar[str] = "tpa"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    query_rank: Annotated[int, {"minimum": 1}] = 6
    rank: Annotated[int, {"minimum": 1}] = 2

    def layout(self, shape: Shape) -> Layout:
        """Vectors that are whole on every device, and factors of each head."""
        return factored_layout(shape.heads, self.rank, shape.head_dim)

    def module(self, shape: Shape) -> FactoredAttention:
        """See :class:`Attention`."""
        return FactoredAttention(shape, self.layout(shape), self.query_rank, self.gated)
