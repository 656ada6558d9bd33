"""Attention whose cache holds keys and values of heads: MHA, GQA (arXiv 2305.13245) and MQA (arXiv 1911.02150)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.kernel import attend
from harness.tracks.decoding.layout import Layout, Share
from harness.tracks.decoding.parts import OutputProjection, rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, DeviceDecoder, Shape


class GroupedAttention(AttentionModule):
    """h query heads, g key and value heads (g divides h), rotary positions on whole heads, scale 1/sqrt(d_h)."""

    def __init__(self, shape: Shape, layout: Layout) -> None:
        super().__init__(shape, layout)
        self.kv_heads = layout.pieces
        self.group = layout.heads_per_piece(shape.heads)
        self.scale = 1 / math.sqrt(shape.head_dim)
        self.query_key_value = nn.Linear(shape.model, (shape.heads + 2 * self.kv_heads) * shape.head_dim, bias=False)
        self.output = OutputProjection(shape.heads * shape.head_dim, shape.model)

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`."""
        heads, g = self.shape.heads, self.kv_heads
        states = torch.unflatten(self.query_key_value(x), -1, (heads + 2 * g, -1)).transpose(1, 2)
        rotated = rotate(states[:, : heads + g], *rotary(x.shape[1], self.shape.head_dim, offset, x))
        query = rotated[:, :heads]
        key, value = (s.repeat_interleave(self.group, dim=1) for s in (rotated[:, heads:], states[:, heads + g :]))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=self.scale)
        projected: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return projected

    def device(self, share: Share) -> GroupedDevice:
        """See :class:`AttentionModule`."""
        return GroupedDevice(self, share)


class GroupedDevice(DeviceDecoder):
    """Key and value heads ``share.pieces`` with the query heads that read them there."""

    def __init__(self, module: GroupedAttention, share: Share) -> None:
        shape, g = module.shape, module.kv_heads
        weights = torch.unflatten(module.query_key_value.weight.detach(), 0, (shape.heads + 2 * g, shape.head_dim))
        pieces = torch.tensor(share.pieces)
        heads = torch.tensor([list(r) for r in share.heads])  # [pieces, heads per piece]
        self.scale = module.scale
        self.query = weights[heads]  # [pieces, heads, d_h, d]
        self.key = weights[shape.heads + pieces]  # [pieces, d_h, d]
        self.value = weights[shape.heads + g + pieces]
        self.output = torch.unflatten(module.output.weight.detach().T, 0, (shape.heads, shape.head_dim))[heads]

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token = x[:, 0]
        turn = rotary(1, self.key.shape[1], cache.length, x)
        query = rotate(torch.einsum("bd,phkd->bphk", token, self.query), *turn)
        key = rotate(torch.einsum("bd,pkd->bpk", token, self.key), *turn)
        cache.append(key=key, value=torch.einsum("bd,pkd->bpk", token, self.value))
        mixed = attend(query, cache.keys, cache.values, self.scale)
        return torch.einsum("bphk,phkd->bd", mixed, self.output)[:, None]
