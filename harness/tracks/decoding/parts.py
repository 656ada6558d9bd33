"""Small parts that the attention layers and the decoder share: norm, rotary positions, initialisation."""

from __future__ import annotations

import math

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
    """A linear map back into the residual stream, without bias: starts at zero unless :func:`initialise` is told not."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)


class FactorMaps(nn.Linear):
    """Linear maps of x to matrices of ``sizes`` (count, width), in one weight, without bias, one after another.

    They start as in the code released with arXiv 2603.02188: Xavier's uniform distribution of each map seen as a tensor
    [inputs, count, width], which counts count * width numbers in and inputs * width out.
    """

    def __init__(self, inputs: int, sizes: tuple[tuple[int, int], ...]) -> None:
        super().__init__(inputs, sum(count * width for count, width in sizes), bias=False)
        self.sizes = sizes

    def parts(self) -> list[Tensor]:
        """The weight of each map, [count, width, inputs], as views."""
        rows = torch.split(self.weight, [count * width for count, width in self.sizes])
        return [torch.unflatten(r, 0, size) for r, size in zip(rows, self.sizes, strict=True)]

    def initialise(self, generator: torch.Generator) -> None:
        for part in self.parts():
            count, width, inputs = part.shape
            bound = math.sqrt(6 / ((count + inputs) * width))
            nn.init.uniform_(part.detach(), -bound, bound, generator=generator)


def initialise(module: nn.Module, generator: torch.Generator, std: float, zero_init: bool = True) -> None:
    """N(0, std) for weights, ones for norms, zeros for projections into the residual stream; factor maps see there.

    With the zeros every block starts as the identity; arXiv 2603.02188 finds that better for all variants. Without
    ``zero_init`` these projections start like all other weights.
    """
    for part in module.modules():
        if isinstance(part, FactorMaps):
            part.initialise(generator)
            continue
        for parameter in part.parameters(recurse=False):
            if isinstance(part, RMSNorm):
                nn.init.ones_(parameter)
            elif zero_init and isinstance(part, OutputProjection):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=std, generator=generator)
