"""Grouped-tied attention (GTA, arXiv 2505.21487): one cached state per group serves as value and, in part, as key."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.tracks.decoding.layout import Layout
from harness.tracks.decoding.parts import rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, Shape


class TiedAttention(AttentionModule):
    """h query heads on g states of d_h numbers.

    A head's value is its group's state; its key is the first part of the state, without positions, and a rotary key
    that all heads share. Scale of the logits: 1/sqrt(d_h).
    """

    def __init__(self, shape: Shape, layout: Layout, *, gated: bool = False) -> None:
        super().__init__(shape, layout, gated=gated)
        self.widths = layout.widths(shape.head_dim)
        self.states = layout.pieces
        self.group = layout.heads_per_piece(shape.heads)
        self.scale = 1 / math.sqrt(self.widths.key + self.widths.rope)
        self.parts = [
            shape.heads * (self.widths.key + self.widths.rope),
            self.states * self.widths.value,
            self.widths.rope,
        ]
        self.down = nn.Linear(shape.model, sum(self.parts), bias=False)

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`."""
        query, state, rope_key = torch.split(self.down(x), self.parts, dim=-1)
        turn = rotary(x.shape[1], self.widths.rope, offset, x)
        query = torch.unflatten(query, -1, (self.shape.heads, -1)).transpose(1, 2)
        plain = query[..., : self.widths.key]
        query = torch.cat((plain, rotate(query[..., self.widths.key :], *turn)), dim=-1)
        value = torch.unflatten(state, -1, (self.states, -1)).transpose(1, 2).repeat_interleave(self.group, dim=1)
        shared = rotate(rope_key, *turn)[:, None].expand(-1, self.shape.heads, -1, -1)
        key = torch.cat((value[..., : self.widths.key], shared), dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=self.scale)
        return self.project(mixed.transpose(1, 2), x)
