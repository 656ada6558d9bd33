"""Attention whose cache holds latents and one shared rotary key: MLA, GLA and MLRA in one class.

MLA: arXiv 2405.04434; GLA: arXiv 2505.21487; MLRA and the variance calibration used for all: arXiv 2603.02188.
L latents of width d_b form B branches of L/B head groups. In every branch a head attends to its group's latent with a
softmax of its own, and the branches' outputs are added and divided by sqrt(B). B = L = 1 is MLA, B = 1 is GLA with L
groups, B = L is MLRA with every head on every latent.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.tracks.decoding.layout import Layout
from harness.tracks.decoding.parts import RMSNorm, rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, Shape


class LatentAttention(AttentionModule):
    """Queries by way of a latent of ``query_latent`` numbers; keys of d_h + d_r, values of d_h, from the latents.

    Latents are normed one by one. ``calibrated``: they are then scaled by sqrt(d / width), which gives the parts of
    query and key that come from latents the variance of those that come straight from x, and the sum of B branches is
    divided by sqrt(B). (The released code without calibration has none of the three.) Scale of the logits:
    1/sqrt(d_h + d_r).
    """

    def __init__(
        self, shape: Shape, layout: Layout, query_latent: int, *, calibrated: bool = True, gated: bool = False
    ) -> None:
        super().__init__(shape, layout, gated=gated)
        self.latents, self.branches, self.groups = layout.pieces, layout.branches, layout.groups
        self.per_piece = layout.heads_per_piece(shape.heads)
        self.width = layout.tensor("latent").elements(shape.head_dim)
        self.rope = layout.tensor("rope_key").elements(shape.head_dim)
        self.query_latent = query_latent
        self.scale = 1 / math.sqrt(shape.head_dim + self.rope)
        self.query_gain = math.sqrt(shape.model / query_latent) if calibrated else 1.0
        self.latent_gain = math.sqrt(shape.model / self.width) if calibrated else 1.0
        self.branch_gain = 1 / math.sqrt(self.branches) if calibrated else 1.0
        self.down = nn.Linear(shape.model, query_latent + self.latents * self.width + self.rope, bias=False)
        self.query_norm = RMSNorm(query_latent)
        self.latent_norm = RMSNorm(self.latents, self.width)
        self.query_up = nn.Linear(query_latent, shape.heads * (shape.head_dim + self.rope), bias=False)
        # per latent and head: the key part, then the value part
        self.up = nn.Parameter(torch.empty(self.latents, self.width, self.per_piece * 2 * shape.head_dim))

    def states(self, x: Tensor, offset: int) -> tuple[Tensor, Tensor, Tensor]:
        """Query latents [b, t, d_q], latents [b, t, L, d_b], both normed and scaled, rotated keys [b, t, d_r]."""
        parts = [self.query_latent, self.latents * self.width, self.rope]
        query, latent, rope_key = torch.split(self.down(x), parts, dim=-1)
        query = self.query_norm(query) * self.query_gain
        latent = self.latent_norm(torch.unflatten(latent, -1, (self.latents, self.width))) * self.latent_gain
        return query, latent, rotate(rope_key, *rotary(x.shape[1], self.rope, offset, x))

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`. Expands keys and values; every branch's heads stand in one call."""
        time = x.shape[1]
        d_h, heads = self.shape.head_dim, self.shape.heads
        query_latent, latent, rope_key = self.states(x, offset)
        query = torch.unflatten(self.query_up(query_latent), -1, (heads, d_h + self.rope)).transpose(1, 2)
        turned = rotate(query[..., d_h:], *rotary(time, self.rope, offset, x))
        query = torch.cat((query[..., :d_h], turned), dim=-1).repeat(1, self.branches, 1, 1)
        expanded = torch.unflatten(latent.transpose(1, 2) @ self.up, -1, (self.per_piece, 2 * d_h))
        expanded = expanded.transpose(2, 3).flatten(1, 2)  # [b, branches * heads, t, 2 d_h]
        shared = rope_key[:, None].expand(-1, expanded.shape[1], -1, -1)
        key = torch.cat((expanded[..., :d_h], shared), dim=-1)
        # values as wide as keys: fused kernels want one width
        value = functional.pad(expanded[..., d_h:], (0, self.rope))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=self.scale)
        mixed = torch.unflatten(mixed[..., :d_h], 1, (self.branches, heads)).sum(1) * self.branch_gain
        return self.project(mixed.transpose(1, 2), x)
