"""Decoding with factors of keys and values: TPA."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.devices.protocol import DeviceDecoder, DeviceOutput
from harness.tracks.decoding.factored import FactoredAttention
from harness.tracks.decoding.layout import Share
from harness.tracks.decoding.parts import rotary, rotate


class FactoredDevice(DeviceDecoder):
    """The a factors of the heads ``share.pieces``, and all b factors. Keys and values of the past stay factored."""

    def __init__(self, module: FactoredAttention, share: Share) -> None:
        shape = module.shape
        heads = torch.tensor([list(r) for r in share.heads])  # [pieces, 1]: a head is a piece
        mine = heads[:, 0]
        self.scale, self.rank, self.query_rank, self.head_dim = (
            module.scale,
            module.rank,
            module.query_rank,
            shape.head_dim,
        )
        self.query_a = torch.unflatten(module.query_a.weight.detach(), 0, (shape.heads, module.query_rank))[mine]
        self.key_a = torch.unflatten(module.key_a.weight.detach(), 0, (shape.heads, module.rank))[mine]
        self.value_a = torch.unflatten(module.value_a.weight.detach(), 0, (shape.heads, module.rank))[mine]
        self.query_b, self.key_b = module.query_b.weight.detach(), module.key_b.weight.detach()
        self.value_b = module.value_b.weight.detach()
        self.output = DeviceOutput(module, heads)

    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """See :class:`DeviceDecoder`."""
        token, d_h = x[:, 0], self.head_dim
        turn = rotary(1, d_h, cache.length, x)
        key_b = rotate(torch.unflatten(token @ self.key_b.T, -1, (self.rank, d_h)), *turn)
        cache.append(
            key_a=torch.einsum("bd,prd->bpr", token, self.key_a),
            value_a=torch.einsum("bd,prd->bpr", token, self.value_a),
            key_b=key_b.flatten(1)[:, None],
            value_b=(token @ self.value_b.T)[:, None],
        )
        query_b = rotate(torch.unflatten(token @ self.query_b.T, -1, (self.query_rank, d_h)), *turn)
        query = torch.einsum("bd,prd->bpr", token, self.query_a) @ query_b / self.query_rank  # [batch, pieces, d_h]
        return self.output(self._attend(query, cache)[:, :, None], token)

    def _attend(self, query: Tensor, cache: DeviceCache) -> Tensor:
        """[batch, pieces, d_h] -> the same. Logits are sums over ranks of a (q b), values sums of (p a) b."""
        rows = (self.rank, self.head_dim)
        key_b, value_b = (torch.unflatten(cache.filled(n)[:, 0], -1, rows) for n in ("key_b", "value_b"))
        products = torch.einsum("bpk,btrk->bptr", query, key_b)
        logits = (products * cache.filled("key_a")).sum(-1) * (self.scale / self.rank)
        working = torch.promote_types(query.dtype, torch.float32)
        weights = torch.softmax(logits.to(working), dim=-1).to(query.dtype)
        return torch.einsum("bptr,btrk->bpk", weights[..., None] * cache.filled("value_a"), value_b) / self.rank
