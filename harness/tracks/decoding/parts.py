"""Small parts that the attention layers and the decoder share: norm, rotary positions, initialisation."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

EPSILON = 1e-6
ROPE_BASE = 10_000.0


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32 at least.

    ``shape`` of the weight may have leading dimensions: one norm per block, as (blocks, width).
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """The norm as a function; ``weight`` broadcasts against x."""
    working = x.to(torch.promote_types(x.dtype, torch.float32))
    normed = working * torch.rsqrt(working.square().mean(-1, keepdim=True) + EPSILON)
    return normed.to(x.dtype) * weight


def rotary(length: int, width: int, offset: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [length, width / 2] of positions ``offset`` ..., frequencies base^(-2i/width)."""
    working = torch.promote_types(like.dtype, torch.float32)
    exponents = torch.arange(0, width, 2, device=like.device, dtype=working) / max(width, 1)
    positions = torch.arange(offset, offset + length, device=like.device, dtype=working)
    angles = positions[:, None] * ROPE_BASE**-exponents
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate the first half of the last dimension against the second; x [..., time, width]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, first * sines + second * cosines), dim=-1)


class OutputProjection(nn.Linear):
    """A linear map back into the residual stream, without bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)


class FactorMap(nn.Linear):
    """A linear map to ``parts`` x ``width`` numbers, factors of a tensor: starts uniform, after Glorot.

    Fans are those of a tensor [inputs, parts, width], as in the code released with arXiv 2603.02188.
    """

    def __init__(self, inputs: int, parts: int, width: int) -> None:
        super().__init__(inputs, parts * width, bias=False)
        self.bound = math.sqrt(6 / ((parts + inputs) * width))


def initialise(module: nn.Module, generator: torch.Generator, std: float, zero_output: bool = True) -> None:
    """N(0, std) for weights, ones for norms, zeros for projections into the residual stream.

    With the zeros every block starts as the identity; ``zero_output=False`` draws them like the rest.
    """
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            if isinstance(part, RMSNorm):
                nn.init.ones_(parameter)
            elif isinstance(part, OutputProjection) and zero_output:
                nn.init.zeros_(parameter)
            elif isinstance(part, FactorMap):
                nn.init.uniform_(parameter, -part.bound, part.bound, generator=generator)
            else:
                nn.init.normal_(parameter, std=std, generator=generator)
