"""Decoding with latents, the up-projections absorbed: MLA, GLA, MLRA."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.devices.protocol import DeviceDecoder, DeviceOutput
from harness.tracks.decoding.kernels import attend
from harness.tracks.decoding.latent import LatentAttention
from harness.tracks.decoding.layout import Share
from harness.tracks.decoding.parts import rms_norm, rotary, rotate


class LatentDevice(DeviceDecoder):
    """Latents ``share.pieces`` with the query heads that read them there, the up-projections absorbed.

    The key projection is applied to the query and the value projection to the weighted sum, so that the cached
    latent itself is key and value.
    """

    def __init__(self, module: LatentAttention, share: Share) -> None:
        shape, d_h = module.shape, module.shape.head_dim
        pieces = torch.tensor(share.pieces)
        heads = torch.tensor([list(r) for r in share.heads])  # [pieces, heads per piece on this device]
        self.scale, self.query_gain = module.scale, module.query_gain
        self.latent_gain, self.branch_gain = module.latent_gain, module.branch_gain
        parts = [module.query_latent, module.latents * module.width, module.rope]
        query, latent, rope_key = torch.split(module.down.weight.detach(), parts, dim=0)
        self.query_down, self.rope_down = query, rope_key
        self.latent_down = torch.unflatten(latent, 0, (module.latents, module.width))[pieces]
        self.query_norm = module.query_norm.weight.detach()
        self.latent_norm = module.latent_norm.weight.detach()[pieces]
        served, self.places = torch.unique(heads, return_inverse=True)  # a head's query is the same in all branches
        self.query_up = torch.unflatten(module.query_up.weight.detach(), 0, (shape.heads, d_h + module.rope))[served]
        up = torch.unflatten(module.up.detach(), -1, (module.per_piece, 2 * d_h))  # [L, d_b, heads per piece, 2 d_h]
        up = up.transpose(1, 2)[pieces[:, None], heads % module.per_piece]  # [pieces, heads, d_b, 2 d_h]
        self.key_up, self.value_up = up[..., :d_h], up[..., d_h:]
        self.output = DeviceOutput(module, heads)

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token = x[:, 0]
        turn = rotary(1, self.rope_down.shape[0], cache.length, x)
        latent = rms_norm(torch.einsum("bd,pwd->bpw", token, self.latent_down), self.latent_norm)
        cache.append(
            latent=latent * self.latent_gain,
            rope_key=rotate(token @ self.rope_down.T, *turn)[:, None],
        )
        query_latent = rms_norm(token @ self.query_down.T, self.query_norm) * self.query_gain
        query = torch.einsum("bq,hkq->bhk", query_latent, self.query_up)[:, self.places]
        absorbed = torch.einsum("bphk,phwk->bphw", query[..., : self.key_up.shape[-1]], self.key_up)
        turned = rotate(query[..., self.key_up.shape[-1] :], *turn)
        mixed = attend(absorbed, cache.keys, cache.values, self.scale, turned, cache.rope_keys)
        values = torch.einsum("bphw,phwk->bphk", mixed, self.value_up) * self.branch_gain
        return self.output(values, token)
