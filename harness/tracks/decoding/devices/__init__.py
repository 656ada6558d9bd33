"""Attention modules taken apart for decoding: one decoder and one cache per device of a tensor-parallel group.

Apart from the modules themselves, so that a kernel may change without a trained decoder going stale.
"""

from __future__ import annotations

from functools import singledispatch

import torch

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.devices.factored import FactoredDevice
from harness.tracks.decoding.devices.grouped import GroupedDevice
from harness.tracks.decoding.devices.latent import LatentDevice
from harness.tracks.decoding.devices.protocol import DeviceDecoder
from harness.tracks.decoding.devices.tied import TiedDevice
from harness.tracks.decoding.factored import FactoredAttention
from harness.tracks.decoding.grouped import GroupedAttention
from harness.tracks.decoding.latent import LatentAttention
from harness.tracks.decoding.layout import Share
from harness.tracks.decoding.protocol import AttentionModule
from harness.tracks.decoding.tied import TiedAttention

__all__ = ["DeviceDecoder", "caches_of", "device_of", "devices_of"]


@singledispatch
def device_of(module: AttentionModule, share: Share) -> DeviceDecoder:
    """The decoder of one device. The sum over all devices of ``layout.shares`` equals the module.

    A further module class registers its decoder: ``device_of.register(MyAttention, MyDevice)``. Raises TypeError for
    one that did not.
    """
    raise TypeError(f"{type(module).__name__} has no device decoder: register one with device_of.register(...)")


device_of.register(GroupedAttention, GroupedDevice)
device_of.register(LatentAttention, LatentDevice)
device_of.register(TiedAttention, TiedDevice)
device_of.register(FactoredAttention, FactoredDevice)


def devices_of(module: AttentionModule, tensor_parallel: int) -> list[DeviceDecoder]:
    """The decoders of all devices of a group."""
    return [device_of(module, share) for share in module.layout.shares(module.shape.heads, tensor_parallel)]


def caches_of(
    module: AttentionModule, tensor_parallel: int, batch: int, capacity: int, dtype: torch.dtype
) -> list[DeviceCache]:
    """Empty caches, one per device, in the order of :func:`devices_of`."""
    shares = module.layout.shares(module.shape.heads, tensor_parallel)
    return [DeviceCache(module.layout, share, module.shape.head_dim, batch, capacity, dtype) for share in shares]
