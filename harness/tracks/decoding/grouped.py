"""Attention whose cache holds keys and values of heads.

MHA, GQA (arXiv 2305.13245), MQA (arXiv 1911.02150), and MFA (arXiv 2412.19255), whose heads are wider and whose
queries come by way of a latent.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.tracks.decoding.layout import Layout
from harness.tracks.decoding.parts import RMSNorm, rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, Shape


class GroupedAttention(AttentionModule):
    """h query heads, g key and value heads (g divides h), rotary positions on whole heads, scale 1/sqrt(head width).

    ``query_latent``: queries are W_U RMSNorm(W_D x) with so many numbers between; None: W x.
    """

    def __init__(self, shape: Shape, layout: Layout, *, query_latent: int | None = None, gated: bool = False) -> None:
        super().__init__(shape, layout, gated=gated, head_width=layout.widths(shape.head_dim).value)
        self.kv_heads = layout.pieces
        self.group = layout.heads_per_piece(shape.heads)
        self.scale = 1 / math.sqrt(self.head_width)
        self.queries = query_latent or shape.heads * self.head_width
        self.query_key_value = nn.Linear(shape.model, self.queries + 2 * self.kv_heads * self.head_width, bias=False)
        self.query_norm = None if query_latent is None else RMSNorm(query_latent)
        self.query_up = None
        if query_latent is not None:
            self.query_up = nn.Linear(query_latent, shape.heads * self.head_width, bias=False)

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`."""
        heads, g = self.shape.heads, self.kv_heads
        states = self.query_key_value(x)
        if self.query_norm is not None and self.query_up is not None:
            query, rest = states[..., : self.queries], states[..., self.queries :]
            states = torch.cat((self.query_up(self.query_norm(query)), rest), dim=-1)
        states = torch.unflatten(states, -1, (heads + 2 * g, -1)).transpose(1, 2)
        rotated = rotate(states[:, : heads + g], *rotary(x.shape[1], self.head_width, offset, x))
        query = rotated[:, :heads]
        key, value = (s.repeat_interleave(self.group, dim=1) for s in (rotated[:, heads:], states[:, heads + g :]))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=self.scale)
        return self.project(mixed.transpose(1, 2), x)
