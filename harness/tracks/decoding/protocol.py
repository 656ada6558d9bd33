"""What an attention method of this track says: what it caches, and the module that trains and decodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from harness.contract import Method
from harness.tracks.decoding.layout import Layout
from harness.tracks.decoding.parts import OutputProjection


@dataclass(frozen=True)
class Shape:
    """Sizes that all rivals share: model width d, query heads h, head dimension d_h."""

    model: int
    heads: int
    head_dim: int

    def part(self, fraction: Fraction) -> int:
        """A fraction of the model width, rounded to a multiple of 8 (at least 8)."""
        return max(8, round(fraction * self.model / 8) * 8)


class AttentionModule(nn.Module, ABC):
    """One layer of causal self-attention. How it decodes is told by :mod:`harness.tracks.decoding.devices`."""

    def __init__(self, shape: Shape, layout: Layout, *, gated: bool = False, head_width: int | None = None) -> None:
        """``head_width``: numbers that a head puts out, by default d_h."""
        super().__init__()
        self.shape = shape
        self.layout = layout
        self.head_width = head_width or shape.head_dim
        heads = shape.heads * self.head_width
        self.output = OutputProjection(heads, shape.model)
        self.gate = nn.Linear(shape.model, heads, bias=False) if gated else None

    def project(self, mixed: Tensor, x: Tensor) -> Tensor:
        """What the heads put out, [batch, time, heads, head width], gated by the input x -> [batch, time, d]."""
        flat = mixed.flatten(2)
        if self.gate is not None:
            flat = torch.sigmoid(self.gate(x)) * flat
        projected: Tensor = self.output(flat)
        return projected

    @abstractmethod
    def forward(self, x: Tensor, offset: int = 0, causal: bool = True) -> Tensor:
        """x [batch, time, d] -> [batch, time, d]; positions count from ``offset``."""


class Attention(Method):
    """A causal attention layer.

    ``gated``: what the heads put out is multiplied by sigmoid(x W_G), elementwise, before the output projection.
    ``zero_init``: the projections into the residual stream start at zero; else like all other weights.
    ``head_multiple``: trained decoders have so many query heads per head of their shape; what is cached stays the same
    where it does not depend on the heads.
    """

    abstract: ClassVar[bool] = True

    gated: bool = False
    zero_init: bool = True
    head_multiple: Annotated[int, {"minimum": 1}] = 1

    def layout(self, shape: Shape) -> Layout:
        """What is cached. Raises NotApplicable for a shape that the method cannot take."""
        raise NotImplementedError(f"{type(self).__name__} must define layout(self, shape) -> Layout")

    def module(self, shape: Shape) -> nn.Module:
        """The layer, uninitialised: an :class:`AttentionModule` if the method caches anything."""
        raise NotImplementedError(f"{type(self).__name__} must define module(self, shape) -> AttentionModule")
