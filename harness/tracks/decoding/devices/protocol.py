"""What one device of a tensor-parallel group does in decoding."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.protocol import AttentionModule


class DeviceDecoder(ABC):
    """One device's part in decoding: its weights alone; what it knows of the past is in the cache it is given."""

    output: DeviceOutput

    @abstractmethod
    def step(self, x: Tensor, cache: DeviceCache) -> Tensor:
        """One token: x [batch, 1, d] -> this device's addend to the layer's output [batch, 1, d].

        Appends the token's states to the cache; its position is the cache's length before the step.
        """


class DeviceOutput:
    """Gate and output projection of the heads that one device serves, ``heads`` [pieces, heads per piece].

    A head that several pieces serve is summed over them first, and projected once.
    """

    def __init__(self, module: AttentionModule, heads: Tensor) -> None:
        parts = (module.shape.heads, module.head_width)
        served, places = torch.unique(heads, return_inverse=True)
        self._places = places.flatten()
        self._output = torch.unflatten(module.output.weight.detach().T, 0, parts)[served]
        self._gate = None if module.gate is None else torch.unflatten(module.gate.weight.detach(), 0, parts)[served]

    def __call__(self, mixed: Tensor, token: Tensor) -> Tensor:
        """mixed [batch, pieces, heads, head width], token [batch, d] -> the device's addend, [batch, 1, d]."""
        summed = mixed.new_zeros(mixed.shape[0], *self._output.shape[:2])
        summed.index_add_(1, self._places.to(mixed.device), mixed.flatten(1, 2))
        if self._gate is not None:
            summed = summed * torch.sigmoid(torch.einsum("bd,hkd->bhk", token, self._gate))
        return torch.einsum("bhk,hkd->bd", summed, self._output)[:, None]
