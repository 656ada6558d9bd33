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

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.kernel import attend
from harness.tracks.decoding.layout import Layout, Share
from harness.tracks.decoding.parts import OutputProjection, RMSNorm, rms_norm, rotary, rotate
from harness.tracks.decoding.protocol import AttentionModule, DeviceDecoder, Shape


class LatentAttention(AttentionModule):
    """Queries by way of a latent of ``query_latent`` numbers; keys of d_h + d_r, values of d_h, from the latents.

    Latents are normed one by one and scaled by sqrt(d / width), which gives the parts of query and key that come from
    latents the variance of those that come straight from x. Scale of the logits: 1/sqrt(d_h + d_r).
    """

    def __init__(self, shape: Shape, layout: Layout, query_latent: int) -> None:
        super().__init__(shape, layout)
        self.latents, self.branches, self.groups = layout.pieces, layout.branches, layout.groups
        self.per_piece = layout.heads_per_piece(shape.heads)
        self.width = layout.tensor("latent").elements(shape.head_dim)
        self.rope = layout.tensor("rope_key").elements(shape.head_dim)
        self.query_latent = query_latent
        self.scale = 1 / math.sqrt(shape.head_dim + self.rope)
        self.down = nn.Linear(shape.model, query_latent + self.latents * self.width + self.rope, bias=False)
        self.query_norm = RMSNorm(query_latent)
        self.latent_norm = RMSNorm(self.latents, self.width)
        self.query_up = nn.Linear(query_latent, shape.heads * (shape.head_dim + self.rope), bias=False)
        # per latent and head: the key part, then the value part
        self.up = nn.Parameter(torch.empty(self.latents, self.width, self.per_piece * 2 * shape.head_dim))
        self.output = OutputProjection(shape.heads * shape.head_dim, shape.model)

    def states(self, x: Tensor, offset: int) -> tuple[Tensor, Tensor, Tensor]:
        """Query latents [b, t, d_q], latents [b, t, L, d_b], both normed and scaled, rotated keys [b, t, d_r]."""
        parts = [self.query_latent, self.latents * self.width, self.rope]
        query, latent, rope_key = torch.split(self.down(x), parts, dim=-1)
        query = self.query_norm(query) * math.sqrt(self.shape.model / self.query_latent)
        latent = self.latent_norm(torch.unflatten(latent, -1, (self.latents, self.width)))
        latent = latent * math.sqrt(self.shape.model / self.width)
        return query, latent, rotate(rope_key, *rotary(x.shape[1], self.rope, offset, x))

    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """See :class:`AttentionModule`. Expands keys and values; every branch's heads stand in one call."""
        batch, time, _ = x.shape
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
        mixed = torch.unflatten(mixed[..., :d_h], 1, (self.branches, heads)).sum(1) / math.sqrt(self.branches)
        projected: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, time, heads * d_h))
        return projected

    def device(self, share: Share) -> LatentDevice:
        """See :class:`AttentionModule`."""
        return LatentDevice(self, share)


class LatentDevice(DeviceDecoder):
    """Latents ``share.pieces`` with the query heads that read them there, the up-projections absorbed.

    The key projection is applied to the query and the value projection to the weighted sum, so that the cached
    latent itself is key and value.
    """

    def __init__(self, module: LatentAttention, share: Share) -> None:
        shape, d_h = module.shape, module.shape.head_dim
        pieces = torch.tensor(share.pieces)
        heads = torch.tensor([list(r) for r in share.heads])  # [pieces, heads per piece on this device]
        self.scale, self.model, self.branches = module.scale, shape.model, module.branches
        parts = [module.query_latent, module.latents * module.width, module.rope]
        query, latent, rope_key = torch.split(module.down.weight.detach(), parts, dim=0)
        self.query_down, self.rope_down = query, rope_key
        self.latent_down = torch.unflatten(latent, 0, (module.latents, module.width))[pieces]
        self.query_norm = module.query_norm.weight.detach()
        self.latent_norm = module.latent_norm.weight.detach()[pieces]
        query_up = torch.unflatten(module.query_up.weight.detach(), 0, (shape.heads, d_h + module.rope))[heads]
        self.query_up, self.rope_up = query_up[..., :d_h, :], query_up[..., d_h:, :]
        up = torch.unflatten(module.up.detach(), -1, (module.per_piece, 2 * d_h))  # [L, d_b, heads per piece, 2 d_h]
        up = up.transpose(1, 2)[pieces[:, None], heads % module.per_piece]  # [pieces, heads, d_b, 2 d_h]
        self.key_up, self.value_up = up[..., :d_h], up[..., d_h:]
        self.output = torch.unflatten(module.output.weight.detach().T, 0, (shape.heads, d_h))[heads]

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token = x[:, 0]
        turn = rotary(1, self.rope_down.shape[0], cache.length, x)
        latent = rms_norm(torch.einsum("bd,pwd->bpw", token, self.latent_down), self.latent_norm)
        cache.append(
            latent=latent * math.sqrt(self.model / latent.shape[-1]),
            rope_key=rotate(token @ self.rope_down.T, *turn)[:, None],
        )
        query_latent = rms_norm(token @ self.query_down.T, self.query_norm)
        query_latent = query_latent * math.sqrt(self.model / query_latent.shape[-1])
        query = torch.einsum("bq,phkq->bphk", query_latent, self.query_up)
        absorbed = torch.einsum("bphk,phwk->bphw", query, self.key_up)
        turned = rotate(torch.einsum("bq,phrq->bphr", query_latent, self.rope_up), *turn)
        mixed = attend(absorbed, cache.keys, cache.values, self.scale, turned, cache.rope_keys)
        values = torch.einsum("bphw,phwk->bphk", mixed, self.value_up) / math.sqrt(self.branches)
        return torch.einsum("bphk,phkd->bd", values, self.output)[:, None]
