"""Multi-head low-rank attention: attention over each part of the latent, the outputs added."""

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


class MLRA(Attention):
    """Multi-head low-rank attention (arXiv 2603.02188): MLRA-4 by default, MLRA-2 with ``branches: 2``.

    With as many branches as latents every head attends to every latent; with fewer, each branch spreads its latents
    over groups of the heads. ``calibrated``: latents and the sum over branches are scaled for equal variances.
    """

    name: ClassVar[str] = "mlra"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    branches: Annotated[int, {"minimum": 1}] = 4
    latents: Annotated[int, {"minimum": 1}] = 4
    calibrated: bool = True

    def layout(self, shape: Shape) -> Layout:
        """``latents`` latents that can stand on as many devices."""
        return latent_layout(self.latents, LATENT / self.latents, ROPE, self.branches)

    def module(self, shape: Shape) -> LatentAttention:
        """See :class:`Attention`."""
        query_latent = shape.part(QUERY_LATENT)
        return LatentAttention(shape, self.layout(shape), query_latent, calibrated=self.calibrated, gated=self.gated)
