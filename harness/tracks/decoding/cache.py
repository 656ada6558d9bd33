"""The cache of one device: real tensors, token after token, the only memory of the past that decoding has."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.tracks.decoding.layout import Layout, Share


class DeviceCache:
    """Tensors [batch, pieces, capacity, width], of which the first ``length`` tokens are filled.

    A token's numbers lie together: a kernel that goes over the cache once reads one stream, whatever the capacity.
    ``empty``: what gives the memory, with the arguments of ``torch.empty``.
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
        empty: Callable[..., Tensor] = torch.empty,
    ) -> None:
        self.layout = layout
        self.widths = layout.widths(head_dim)
        self.length = 0
        self.tensors: dict[str, Tensor] = {
            t.name: empty(
                batch, 1 if t.shared else len(share.pieces), capacity, t.elements(head_dim), dtype=dtype, device=device
            )
            for t in layout.tensors
        }

    def append(self, **states: Tensor) -> None:
        """Add one token: each state is [batch, pieces, width]."""
        for name, state in states.items():
            self.tensors[name][:, :, self.length] = state
        self.length += 1

    def filled(self, name: str) -> Tensor:
        """The filled part of a tensor, [batch, pieces, length, width], as a view."""
        return self.tensors[name][:, :, : self.length]

    @property
    def keys(self) -> Tensor:
        """[batch, pieces, length, key width]: a view into the values where these hold the keys."""
        return self.filled(self.layout.key)[..., : self.widths.key]

    @property
    def values(self) -> Tensor:
        """[batch, pieces, length, value width]."""
        return self.filled(self.layout.value)

    @property
    def rope_keys(self) -> Tensor | None:
        """[batch, 1, length, rope width], or None where the layout has none."""
        return None if self.layout.rope is None else self.filled(self.layout.rope)

    def elements(self) -> int:
        """Numbers held, counted on the tensors."""
        return sum(t.numel() for t in self.tensors.values())

    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors.values())
