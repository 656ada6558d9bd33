"""Multi-head latent attention: one latent and one rotary key for all heads."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from harness.contract import Needs
from harness.tracks.decoding.latent import LatentAttention
from harness.tracks.decoding.layout import Layout, latent_layout
from harness.tracks.decoding.protocol import Attention, Shape

LATENT = Fraction(4)  # d_c in units of d_h
ROPE = Fraction(1, 2)  # d_r in units of d_h
QUERY_LATENT = Fraction(1, 2)  # d_q in units of d


class MLA(Attention):
    """Multi-head latent attention (arXiv 2405.04434).

    ``calibrated``: latents are scaled for equal variances, as in arXiv 2603.02188.
    """

    name: ClassVar[str] = "mla"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    calibrated: bool = True

    def layout(self, shape: Shape) -> Layout:
        """One latent, whole on every device."""
        return latent_layout(1, LATENT, ROPE)

    def module(self, shape: Shape) -> LatentAttention:
        """See :class:`Attention`."""
        query_latent = shape.part(QUERY_LATENT)
        return LatentAttention(shape, self.layout(shape), query_latent, calibrated=self.calibrated, gated=self.gated)
