"""The cache of one device: real tensors, feature-major, the only memory of the past that decoding has."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.tracks.decoding.layout import Layout, Share


class DeviceCache:
    """Tensors [batch, pieces, width, capacity], of which the first ``length`` tokens are filled.

    Tokens lie along the last dimension: the logits of many tokens are then sums of long contiguous rows, and the
    weighted sum a product of long rows, which a memory-bound machine streams best.
    """

    def __init__(
        self,
        layout: Layout,
        share: Share,
        head_dim: int,
        batch: int,
        capacity: int,
        dtype: torch.dtype,
        device: str = "cpu",
    ) -> None:
        self.layout = layout
        self.length = 0
        self.tensors: dict[str, Tensor] = {
            t.name: torch.empty(
                batch, 1 if t.shared else len(share.pieces), t.elements(head_dim), capacity, dtype=dtype, device=device
            )
            for t in layout.tensors
        }

    def append(self, **states: Tensor) -> None:
        """Add one token: each state is [batch, pieces, width]."""
        for name, state in states.items():
            self.tensors[name][..., self.length] = state
        self.length += 1

    def filled(self, name: str) -> Tensor:
        """The filled part of a tensor, [batch, pieces, width, length], as a view."""
        return self.tensors[name][..., : self.length]

    @property
    def keys(self) -> Tensor:
        return self.filled(self.layout.key)

    @property
    def values(self) -> Tensor:
        return self.filled(self.layout.value)

    @property
    def rope_keys(self) -> Tensor | None:
        return None if self.layout.rope is None else self.filled(self.layout.rope)

    def elements(self) -> int:
        """Numbers held, counted on the tensors."""
        return sum(t.numel() for t in self.tensors.values())

    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors.values())
