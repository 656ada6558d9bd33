"""A small decoder-only language model around any attention of this track, its parameters matched across rivals."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.contract import Component, Needs
from harness.tracks.decoding.parts import OutputProjection, RMSNorm, initialise
from harness.tracks.decoding.protocol import Attention, Shape

Positive = Annotated[int, {"minimum": 1}]


class Size(Component):
    """Sizes of a decoder.

    ``ffn``: feed-forward width that multi-head attention would get; rivals get what makes the parameters equal, rounded
    to a multiple of ``ffn_multiple``. ``window``: tokens per training sequence and per evaluated window.
    """

    name: ClassVar[str] = "size"
    needs: ClassVar[Needs] = Needs(extras=("decoding",))

    model: Positive = 128
    layers: Positive = 2
    heads: Positive = 4
    head_dim: Positive = 32
    ffn: Positive = 344
    ffn_multiple: Positive = 8
    window: Positive = 256

    def shape(self) -> Shape:
        return Shape(self.model, self.heads, self.head_dim)


def matched_ffn(size: Size, attention_parameters: int) -> int:
    """Feed-forward width that gives a layer the parameters it has with multi-head attention and ``size.ffn``.

    Rounded to ``size.ffn_multiple``; with 8, at the sizes of arXiv 2603.02188, this gives the widths used there.
    """
    multi_head = 4 * size.model * size.heads * size.head_dim
    exact = size.ffn + (multi_head - attention_parameters) / (3 * size.model)
    return max(1, round(exact / size.ffn_multiple)) * size.ffn_multiple


class FeedForward(nn.Module):
    """SwiGLU (arXiv 2002.05202)."""

    def __init__(self, model: int, width: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(model, 2 * width, bias=False)
        self.down = OutputProjection(width, model)

    def forward(self, x: Tensor) -> Tensor:
        """[..., d] -> [..., d]."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        projected: Tensor = self.down(functional.silu(gate) * up)
        return projected


class Block(nn.Module):
    """Pre-norm residual block."""

    def __init__(self, attention: nn.Module, size: Size) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(size.model)
        self.attention = attention
        self.ffn_norm = RMSNorm(size.model)
        self.ffn = FeedForward(size.model, matched_ffn(size, count_parameters(attention)))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, time, d] -> the same."""
        x = x + self.attention(self.attention_norm(x))
        normed: Tensor = self.ffn(self.ffn_norm(x))
        return x + normed


class Decoder(nn.Module):
    """Embedding, blocks, norm; the output layer is the embedding itself."""

    def __init__(self, method: Attention, size: Size, vocabulary: int) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(vocabulary, size.model)
        shape = replace(size.shape(), heads=size.heads * method.head_multiple)
        self.blocks = nn.ModuleList(Block(method.module(shape), size) for _ in range(size.layers))
        self.zero_output = method.zero_init
        self.norm = RMSNorm(size.model)

    def initialise(self, seed: int, std: float) -> None:
        """Draw all weights; the embedding first, so that rivals start from the same one."""
        initialise(self, torch.Generator().manual_seed(seed), std, self.zero_output)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, time] ids -> logits [batch, time, vocabulary]."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.embedding.weight)

    def losses(self, windows: Tensor) -> Tensor:
        """[batch, time + 1] ids -> negative log-likelihood in nats of each next token, [batch, time]."""
        logits = self(windows[:, :-1])
        flat = functional.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten(), reduction="none")
        return flat.view(windows[:, 1:].shape)


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
