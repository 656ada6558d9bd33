"""Decoding with key and value heads: MHA, GQA, MQA, MFA."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.devices.protocol import DeviceDecoder, DeviceOutput
from harness.tracks.decoding.grouped import GroupedAttention
from harness.tracks.decoding.kernels import attend
from harness.tracks.decoding.layout import Share
from harness.tracks.decoding.parts import rms_norm, rotary, rotate


class GroupedDevice(DeviceDecoder):
    """Key and value heads ``share.pieces`` with the query heads that read them there."""

    def __init__(self, module: GroupedAttention, share: Share) -> None:
        heads, g, width = module.shape.heads, module.kv_heads, module.head_width
        query, rest = torch.split(module.query_key_value.weight.detach(), [module.queries, 2 * g * width], dim=0)
        key_value = torch.unflatten(rest, 0, (2 * g, width))
        pieces = torch.tensor(share.pieces)
        served = torch.tensor([list(r) for r in share.heads])  # [pieces, heads per piece]
        self.scale = module.scale
        self.query_down = self.query_norm = None
        if module.query_norm is not None and module.query_up is not None:
            self.query_down, self.query_norm = query, module.query_norm.weight.detach()
            query = module.query_up.weight.detach()
        self.query = torch.unflatten(query, 0, (heads, width))[served]  # [pieces, heads, width, d or query latent]
        self.key = key_value[pieces]  # [pieces, width, d]
        self.value = key_value[g + pieces]
        self.output = DeviceOutput(module, served)

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token = x[:, 0]
        turn = rotary(1, self.key.shape[1], cache.length, x)
        source = token
        if self.query_down is not None and self.query_norm is not None:
            source = rms_norm(token @ self.query_down.T, self.query_norm)
        query = rotate(torch.einsum("bd,phkd->bphk", source, self.query), *turn)
        key = rotate(torch.einsum("bd,pkd->bpk", token, self.key), *turn)
        cache.append(key=key, value=torch.einsum("bd,pkd->bpk", token, self.value))
        return self.output(attend(query, cache.keys, cache.values, self.scale), token)
