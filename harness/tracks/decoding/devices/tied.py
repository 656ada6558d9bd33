"""Decoding with tied states: GTA."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.devices.protocol import DeviceDecoder, DeviceOutput
from harness.tracks.decoding.kernels import attend
from harness.tracks.decoding.layout import Share
from harness.tracks.decoding.parts import rotary, rotate
from harness.tracks.decoding.tied import TiedAttention


class TiedDevice(DeviceDecoder):
    """States ``share.pieces`` with the query heads that read them there, and the shared rotary key."""

    def __init__(self, module: TiedAttention, share: Share) -> None:
        query, state, rope_key = torch.split(module.down.weight.detach(), module.parts, dim=0)
        heads = torch.tensor([list(r) for r in share.heads])  # [pieces, heads per piece]
        query = torch.unflatten(query, 0, (module.shape.heads, -1))[heads]
        self.scale = module.scale
        self.query, self.rope_query = query[:, :, : module.widths.key], query[:, :, module.widths.key :]
        self.state = torch.unflatten(state, 0, (module.states, -1))[torch.tensor(share.pieces)]
        self.rope_key = rope_key
        self.output = DeviceOutput(module, heads)

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
        return self.output(mixed, token)
