"""Tensor-product attention (TPA, arXiv 2501.06425): queries, keys and values are sums of few outer products.

A head's key is (1/R) sum_r a_r b_r with factors a (a number per head and rank) and b (d_h numbers per rank, the same
for all heads). The cache holds the factors.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from harness.tracks.decoding.layout import Layout
from harness.tracks.decoding.parts import FactorMap, rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, Shape


class FactoredAttention(AttentionModule):
    """Ranks of queries and of keys and values; rotary positions on the b factors; scale 1/sqrt(d_h)."""

    def __init__(self, shape: Shape, layout: Layout, query_rank: int, rank: int, *, gated: bool = False) -> None:
        super().__init__(shape, layout, gated=gated)
        self.query_rank, self.rank = query_rank, rank
        self.scale = 1 / math.sqrt(shape.head_dim)
        self.query_a = FactorMap(shape.model, shape.heads, query_rank)
        self.key_a = FactorMap(shape.model, shape.heads, rank)
        self.value_a = FactorMap(shape.model, shape.heads, rank)
        self.query_b = FactorMap(shape.model, query_rank, shape.head_dim)
        self.key_b = FactorMap(shape.model, rank, shape.head_dim)
        self.value_b = FactorMap(shape.model, rank, shape.head_dim)

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`."""
        turn = rotary(x.shape[1], self.shape.head_dim, offset, x)
        query = self._expanded(self.query_a, self.query_b, self.query_rank, x, turn)
        key = self._expanded(self.key_a, self.key_b, self.rank, x, turn)
        value = self._expanded(self.value_a, self.value_b, self.rank, x)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=self.scale)
        return self.project(mixed.transpose(1, 2), x)

    def _expanded(
        self, a: FactorMap, b: FactorMap, rank: int, x: Tensor, turn: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """The mean over ranks of a x b, [batch, heads, time, d_h]."""
        vectors = torch.unflatten(b(x), -1, (rank, self.shape.head_dim))
        if turn is not None:
            vectors = rotate(vectors.transpose(1, 2), *turn).transpose(1, 2)
        return (torch.unflatten(a(x), -1, (self.shape.heads, rank)) @ vectors).transpose(1, 2) / rank
