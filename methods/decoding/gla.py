"""Grouped latent attention: the latent is cut into parts, each for a group of the heads."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

from harness.contract import Needs
from harness.tracks.decoding.latent import LatentAttention
from harness.tracks.decoding.layout import Layout, latent_layout
from harness.tracks.decoding.protocol import Attention, Shape

LATENT = Fraction(4)  # d_c, all latents together, in units of d_h
ROPE = Fraction(1, 2)  # d_r in units of d_h
QUERY_LATENT = Fraction(1, 3)  # d_q in units of d


class GLA(Attention):
    """Grouped latent attention (arXiv 2505.21487): GLA-2 by default, GLA-4 with ``latents: 4``.

    ``calibrated``: latents are scaled for equal variances, as in arXiv 2603.02188.
    """

    name: ClassVar[str] = "gla"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    latents: Annotated[int, {"minimum": 1}] = 2
    calibrated: bool = True

    def layout(self, shape: Shape) -> Layout:
        """``latents`` latents that can stand on as many devices."""
        return latent_layout(self.latents, LATENT / self.latents, ROPE)

    def module(self, shape: Shape) -> LatentAttention:
        """See :class:`Attention`."""
        query_latent = shape.part(QUERY_LATENT)
        return LatentAttention(shape, self.layout(shape), query_latent, calibrated=self.calibrated, gated=self.gated)
