"""What one decoding step of a layer must read and compute on one device: counted on tensors that hold no memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.contract import NotApplicable
from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.devices import DeviceDecoder, device_of
from harness.tracks.decoding.devices.protocol import DeviceOutput
from harness.tracks.decoding.layout import Share
from harness.tracks.decoding.protocol import Attention, AttentionModule, Shape


@dataclass(frozen=True)
class Amounts:
    """Of one step of ``batch`` sequences on one device. ``weights``: numbers held; the rest in bytes and FLOP.

    ``output_weights``: those of ``weights`` that are in the output projection and its gate.
    """

    weights: int
    output_weights: int
    weight_bytes: int
    cache_bytes: int
    projection_flops: int
    attention_flops: int

    @property
    def bytes(self) -> int:
        return self.weight_bytes + self.cache_bytes

    @property
    def flops(self) -> int:
        return self.projection_flops + self.attention_flops


def layer(method: Attention, shape: Shape, device: str) -> AttentionModule:
    """The method's layer on ``device`` ("meta": sizes without memory). Raises NotApplicable where it caches nothing."""
    with torch.device(device):
        module = method.module(shape)
    if not isinstance(module, AttentionModule):
        raise NotApplicable("a decoder without attention caches nothing")
    return module.requires_grad_(False)


def held(decoder: DeviceDecoder | DeviceOutput) -> list[Tensor]:
    """The weights of one device, as its decoder holds them."""
    return [tensor for tensor in _tensors(decoder) if tensor.is_floating_point()]


def _tensors(holder: object) -> Iterator[Tensor]:
    for value in vars(holder).values():
        if isinstance(value, Tensor):
            yield value
        elif hasattr(value, "__dict__"):
            yield from _tensors(value)


def amounts(module: AttentionModule, share: Share, batch: int, context: int, dtype: torch.dtype) -> Amounts:
    """Every weight is read once and multiplied once per sequence; every cached number is read once.

    ``module`` on the meta device; ``share``: one of its layout's.
    """
    head_dim, layout = module.shape.head_dim, module.layout
    decoder = device_of(module, share)
    weights = sum(t.numel() for t in held(decoder))
    widths = layout.widths(head_dim)
    readers = sum(len(heads) for heads in share.heads)
    per_token = 2 * readers * (widths.key + widths.rope + widths.value)
    cache = DeviceCache(layout, share, head_dim, batch, context, dtype, device="meta")
    return Amounts(
        weights=weights,
        output_weights=sum(t.numel() for t in held(decoder.output)),
        weight_bytes=weights * dtype.itemsize,
        cache_bytes=cache.bytes(),
        projection_flops=2 * weights * batch,
        attention_flops=per_token * context * batch,
    )
