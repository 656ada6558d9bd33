"""Attention whose cache holds keys and values of heads.

MHA; GQA: arXiv 2305.13245; MQA: arXiv 1911.02150; MFA: arXiv 2412.19255.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.kernels import attend
from harness.tracks.decoding.layout import Layout, Share
from harness.tracks.decoding.parts import RMSNorm, rms_norm, rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, DeviceDecoder, Shape, heads_of


class GroupedAttention(AttentionModule):
    """h query heads, g key and value heads (g divides h), rotary positions on whole heads.

    Heads are as wide as the layout's keys, w; scale 1/sqrt(w). ``query_latent``: queries come from a normed latent of so
    many numbers, not straight from x.
    """

    def __init__(self, shape: Shape, layout: Layout, query_latent: int | None = None, gated: bool = False) -> None:
        self.width = layout.widths(shape.head_dim).key
        super().__init__(shape, layout, self.width, gated)
        self.kv_heads = layout.pieces
        self.group = layout.heads_per_piece(shape.heads)
        self.scale = 1 / math.sqrt(self.width)
        self.query_width = query_latent or shape.heads * self.width
        self.query_key_value = nn.Linear(shape.model, self.query_width + 2 * self.kv_heads * self.width, bias=False)
        self.query_norm = RMSNorm(query_latent) if query_latent else None
        self.query_up = nn.Linear(query_latent, shape.heads * self.width, bias=False) if query_latent else None

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`."""
        heads, g = self.shape.heads, self.kv_heads
        states = self.query_key_value(x)
        if self.query_norm is not None and self.query_up is not None:
            latent, key_value = torch.split(states, [self.query_width, 2 * g * self.width], dim=-1)
            states = torch.cat((self.query_up(self.query_norm(latent)), key_value), dim=-1)
        states = torch.unflatten(states, -1, (heads + 2 * g, -1)).transpose(1, 2)
        rotated = rotate(states[:, : heads + g], *rotary(x.shape[1], self.width, offset, x))
        query = rotated[:, :heads]
        key, value = (spread(s, self.group) for s in (rotated[:, heads:], states[:, heads + g :]))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=self.scale)
        return self.project(x, mixed)

    def device(self, share: Share) -> GroupedDevice:
        """See :class:`AttentionModule`."""
        return GroupedDevice(self, share)


def spread(states: Tensor, group: int) -> Tensor:
    """[batch, g, time, width] -> [batch, g * group, time, width]: each state for so many heads in a row."""
    return states if group == 1 else states.repeat_interleave(group, dim=1)


class GroupedDevice(DeviceDecoder):
    """Key and value heads ``share.pieces`` with the query heads that read them there."""

    def __init__(self, module: GroupedAttention, share: Share) -> None:
        super().__init__(module, share)
        g, width = module.kv_heads, module.width
        query, key_value = torch.split(
            module.query_key_value.weight.detach(), [module.query_width, 2 * g * width], dim=0
        )
        self.query_down = self.query_norm = None
        if module.query_norm is not None and module.query_up is not None:
            self.query_down, self.query_norm = query, module.query_norm.weight.detach()
            query = module.query_up.weight.detach()
        pieces = torch.tensor(share.pieces)
        self.scale = module.scale
        self.query = torch.unflatten(query, 0, (-1, width))[heads_of(share)]  # [pieces, heads, w, d or latent]
        key_value = torch.unflatten(key_value, 0, (2 * g, width))
        self.key, self.value = key_value[pieces], key_value[g + pieces]  # [pieces, w, d]

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token = source = x[:, 0]
        if self.query_down is not None and self.query_norm is not None:
            source = rms_norm(token @ self.query_down.T, self.query_norm)
        turn = rotary(1, self.key.shape[1], cache.length, x)
        query = rotate(torch.einsum("bd,phkd->bphk", source, self.query), *turn)
        key = rotate(torch.einsum("bd,pkd->bpk", token, self.key), *turn)
        cache.append(key=key, value=torch.einsum("bd,pkd->bpk", token, self.value))
        return self.project(token, attend(query, cache.keys, cache.values, self.scale))
