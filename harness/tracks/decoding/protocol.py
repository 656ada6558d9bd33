"""What an attention method of this track says: what it caches, and the module that trains and decodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import torch
from torch import Tensor, nn

from harness.contract import Method
from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.layout import Layout, Share


@dataclass(frozen=True)
class Shape:
    """Sizes that all rivals share: model width d, query heads h, head dimension d_h."""

    model: int
    heads: int
    head_dim: int

    def part(self, fraction: Fraction) -> int:
        """A fraction of the model width, rounded to a multiple of 8 (at least 8)."""
        return max(8, round(fraction * self.model / 8) * 8)


class DeviceDecoder(ABC):
    """One device's part in decoding: its weights alone; what it knows of the past is in the cache it is given."""

    @abstractmethod
    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """One token: x [batch, 1, d] -> this device's addend to the layer's output [batch, 1, d].

        Appends the token's states to the cache; its position is the cache's length before the step.
        """


class AttentionModule(nn.Module, ABC):
    """One layer of causal self-attention that trains (``forward``) and decodes (``device``)."""

    def __init__(self, shape: Shape, layout: Layout) -> None:
        super().__init__()
        self.shape = shape
        self.layout = layout

    @abstractmethod
    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """x [batch, time, d] -> [batch, time, d]; positions count from ``offset``."""

    @abstractmethod
    def device(self, share: Share) -> DeviceDecoder:
        """The decoder of one device. The sum over all devices of ``layout.shares`` equals the module."""

    def devices(self, tensor_parallel: int) -> list[DeviceDecoder]:
        return [self.device(share) for share in self.layout.shares(self.shape.heads, tensor_parallel)]

    def caches(self, tensor_parallel: int, batch: int, capacity: int, dtype: torch.dtype) -> list[DeviceCache]:
        """Empty caches, one per device, in the order of :meth:`devices`."""
        shares = self.layout.shares(self.shape.heads, tensor_parallel)
        return [DeviceCache(self.layout, share, self.shape.head_dim, batch, capacity, dtype) for share in shares]


class Attention(Method):
    """A causal attention layer."""

    abstract: ClassVar[bool] = True

    def layout(self, shape: Shape) -> Layout:
        """What is cached. Raises NotApplicable for a shape that the method cannot take."""
        raise NotImplementedError(f"{type(self).__name__} must define layout(self, shape) -> Layout")

    def module(self, shape: Shape) -> nn.Module:
        """The layer, uninitialised: an :class:`AttentionModule` if the method caches anything."""
        raise NotImplementedError(f"{type(self).__name__} must define module(self, shape) -> AttentionModule")
