"""The control: a decoder whose tokens do not see one another."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from harness.contract import Needs, NotApplicable
from harness.tracks.decoding.layout import Layout
from harness.tracks.decoding.protocol import Attention, Shape


class Nothing(nn.Module):
    """Adds nothing to the residual stream and has no parameters."""

    def forward(self, x: Tensor) -> Tensor:
        """Zeros of x's shape."""
        return x.new_zeros(())


class NoAttention(Attention):
    """No attention at all; its parameters go into the feed-forward layers like every other difference."""

    name: ClassVar[str] = "no_attention"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    def layout(self, shape: Shape) -> Layout:
        """Raises NotApplicable: there is no cache."""
        raise NotApplicable("a decoder without attention caches nothing")

    def module(self, shape: Shape) -> Nothing:
        """Raises NotApplicable for options of heads, of which it has none."""
        if self.gated or self.head_multiple != 1:
            raise NotApplicable("a decoder without attention has no heads to gate or to multiply")
        return Nothing()
