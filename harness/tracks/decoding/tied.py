"""Attention whose cache holds states that are value and key in one: grouped tied attention, GTA (arXiv 2505.21487)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.grouped import spread
from harness.tracks.decoding.kernels import attend
from harness.tracks.decoding.layout import Layout, Share
from harness.tracks.decoding.parts import rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, DeviceDecoder, Shape, heads_of


class TiedAttention(AttentionModule):
    """g states of d_h (g divides h) and one rotary key for all heads.

    A value is its group's state; a key is the first part of that state and the rotary key. Queries come straight from x;
    scale 1/sqrt(key width).
    """

    def __init__(self, shape: Shape, layout: Layout, gated: bool = False) -> None:
        widths = layout.widths(shape.head_dim)
        super().__init__(shape, layout, widths.value, gated)
        self.states = layout.pieces
        self.group = layout.heads_per_piece(shape.heads)
        self.key, self.rope, self.value = widths.key, widths.rope, widths.value
        self.scale = 1 / math.sqrt(self.key + self.rope)
        self.parts = [shape.heads * (self.key + self.rope), self.states * self.value, self.rope]
        self.query_state_rope = nn.Linear(shape.model, sum(self.parts), bias=False)

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`."""
        query, state, rope_key = torch.split(self.query_state_rope(x), self.parts, dim=-1)
        turn = rotary(x.shape[1], self.rope, offset, x)
        query = torch.unflatten(query, -1, (self.shape.heads, -1)).transpose(1, 2)
        query = torch.cat((query[..., : self.key], rotate(query[..., self.key :], *turn)), dim=-1)
        state = torch.unflatten(state, -1, (self.states, -1)).transpose(1, 2)
        rope_key = rotate(rope_key, *turn)[:, None].expand(-1, self.states, -1, -1)
        key = torch.cat((state[..., : self.key], rope_key), dim=-1)
        key, value = spread(key, self.group), spread(state, self.group)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=self.scale)
        return self.project(x, mixed)

    def device(self, share: Share) -> TiedDevice:
        """See :class:`AttentionModule`."""
        return TiedDevice(self, share)


class TiedDevice(DeviceDecoder):
    """States ``share.pieces`` with the query heads that read them there."""

    def __init__(self, module: TiedAttention, share: Share) -> None:
        super().__init__(module, share)
        query, state, rope = torch.split(module.query_state_rope.weight.detach(), module.parts, dim=0)
        query = torch.unflatten(query, 0, (module.shape.heads, -1))[heads_of(share)]  # [pieces, heads, width, d]
        self.query, self.rope_query = query[..., : module.key, :], query[..., module.key :, :]
        self.state = torch.unflatten(state, 0, (module.states, -1))[torch.tensor(share.pieces)]
        self.rope_key = rope
        self.scale = module.scale

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token = x[:, 0]
        turn = rotary(1, self.rope_key.shape[0], cache.length, x)
        cache.append(
            state=torch.einsum("bd,pkd->bpk", token, self.state),
            rope_key=rotate(token @ self.rope_key.T, *turn)[:, None],
        )
        query = torch.einsum("bd,phkd->bphk", token, self.query)
        turned = rotate(torch.einsum("bd,phkd->bphk", token, self.rope_query), *turn)
        mixed = attend(query, cache.keys, cache.values, self.scale, turned, cache.rope_keys)
        return self.project(token, mixed)
