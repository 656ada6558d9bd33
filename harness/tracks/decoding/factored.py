"""Attention whose queries, keys and values are sums of products: tensor product attention, TPA (arXiv 2501.06425)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.layout import Layout, Share
from harness.tracks.decoding.parts import FactorMaps, rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, DeviceDecoder, Shape


class FactoredAttention(AttentionModule):
    """Head i's query is (1/R) sum over r of a_{i,r} b_r with R = ``query_rank``; keys and values likewise.

    Factors a and vectors b [R, d_h] come straight from x; rotary positions on the vectors of queries and keys; scale
    1/sqrt(d_h). Cached are the vectors, one set for all heads, and every head's factors.
    """

    def __init__(self, shape: Shape, layout: Layout, query_rank: int, gated: bool = False) -> None:
        super().__init__(shape, layout, shape.head_dim, gated)
        self.query_rank = query_rank
        self.rank = layout.tensor("key_factor").elements(shape.head_dim)
        self.scale = 1 / math.sqrt(shape.head_dim)
        ranks = (query_rank, self.rank, self.rank)  # of queries, keys, values
        self.factors = FactorMaps(
            shape.model, (*((shape.heads, r) for r in ranks), *((r, shape.head_dim) for r in ranks))
        )

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`."""
        maps = torch.split(self.factors(x), [count * width for count, width in self.factors.sizes], dim=-1)
        parts = [torch.unflatten(m, -1, size) for m, size in zip(maps, self.factors.sizes, strict=True)]
        turn = [t[:, None] for t in rotary(x.shape[1], self.shape.head_dim, offset, x)]  # [time, 1, d_h / 2]
        vectors = (rotate(parts[3], *turn), rotate(parts[4], *turn), parts[5])
        query, key, value = ((a @ b).transpose(1, 2) for a, b in zip(parts[:3], vectors, strict=True))
        # the factors 1/R of query and key go into the scale
        scale = self.scale / (self.query_rank * self.rank)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
        return self.project(x, mixed / self.rank)

    def device(self, share: Share) -> FactoredDevice:
        """See :class:`AttentionModule`."""
        return FactoredDevice(self, share)


class FactoredDevice(DeviceDecoder):
    """Factors of the heads ``share.pieces``, and all vectors."""

    def __init__(self, module: FactoredAttention, share: Share) -> None:
        super().__init__(module, share)
        pieces = torch.tensor(share.pieces)
        parts = [part.detach() for part in module.factors.parts()]
        self.query_factor, self.key_factor, self.value_factor = (part[pieces] for part in parts[:3])
        self.query, self.key, self.value = parts[3:]
        self.scale = module.scale / module.query_rank

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token = x[:, 0]
        turn = rotary(1, self.query.shape[1], cache.length, x)
        factors = [
            torch.einsum("bd,hrd->bhr", token, w) for w in (self.query_factor, self.key_factor, self.value_factor)
        ]
        query, key, value = (torch.einsum("bd,rkd->brk", token, w) for w in (self.query, self.key, self.value))
        cache.append(
            key_factor=factors[1],
            value_factor=factors[2],
            key=rotate(key, *turn).flatten(1)[:, None],
            value=value.flatten(1)[:, None],
        )
        names = ("key_factor", "key", "value_factor", "value")
        mixed = attend_factored(factors[0] @ rotate(query, *turn), *(cache.filled(n) for n in names), self.scale)
        return self.project(token, mixed[:, :, None])


def attend_factored(
    query: Tensor, key_factor: Tensor, key: Tensor, value_factor: Tensor, value: Tensor, scale: float
) -> Tensor:
    """softmax(scale query K^T) V with K = (1/R) key_factor key, V likewise, neither of them made.

    query [batch, heads, d_h]; factors [batch, heads, time, R]; key and value [batch, 1, time, R d_h] ->
    [batch, heads, d_h]. Every query meets the shared vectors first and its own factors then. Softmax in float32 at least.
    """
    rank, width = key_factor.shape[3], query.shape[2]
    vectors = [torch.unflatten(v[:, 0], -1, (rank, width)).flatten(1, 2) for v in (key, value)]  # [batch, time R, d_h]
    products = torch.unflatten(query @ vectors[0].mT, -1, (-1, rank))
    logits = (products * key_factor).sum(-1).to(torch.promote_types(query.dtype, torch.float32))
    weights = torch.softmax(logits * (scale / rank), dim=-1).to(query.dtype)
    return (weights[..., None] * value_factor).flatten(2) @ vectors[1] / rank
