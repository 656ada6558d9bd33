"""Tensor-product attention: the cache holds factors of keys and values."""

from __future__ import annotations

from typing import Annotated, ClassVar

from harness.contract import Needs
from harness.tracks.decoding.factored import FactoredAttention
from harness.tracks.decoding.layout import Layout, factored_layout
from harness.tracks.decoding.protocol import Attention, Shape


class TPA(Attention):
    """Tensor-product attention (arXiv 2501.06425).

    ``query_rank`` outer products make a query, ``rank`` a key or a value.
    """

    name: ClassVar[str] = "tpa"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    query_rank: Annotated[int, {"minimum": 1}] = 6
    rank: Annotated[int, {"minimum": 1}] = 2

    def layout(self, shape: Shape) -> Layout:
        """Factors per head, which devices share out, and factors for all heads, whole on every device."""
        return factored_layout(shape.heads, self.rank, shape.head_dim)

    def module(self, shape: Shape) -> FactoredAttention:
        """See :class:`Attention`."""
        return FactoredAttention(shape, self.layout(shape), self.query_rank, self.rank, gated=self.gated)
