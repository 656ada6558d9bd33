"""How much each device keeps per token: counted on allocated caches."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from harness.contract import Context, Evaluation, Needs, Observations
from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.decoder import Positive
from harness.tracks.decoding.device import DTYPES, Precision
from harness.tracks.decoding.protocol import Attention, Shape

TOKENS = 16


class CacheSize(Evaluation[Attention]):
    """Cache of one layer, per token and device, for ``heads`` query heads of ``head_dim`` numbers.

    The caches are those that decoding uses; that it reads all of them and nothing else of the past is tested.
    """

    name: ClassVar[str] = "cache_size"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))
    deterministic: ClassVar[bool] = True
    items: ClassVar[bool] = False

    heads: Positive = 64
    head_dim: Positive = 128
    tensor_parallel: Positive = 1
    dtype: Precision = "bfloat16"

    def observe(self, method: Attention, context: Context) -> Observations:
        """Arrays ``elements`` and ``bytes``: per token, one number for each device."""
        layout = method.layout(Shape(self.heads * self.head_dim, self.heads, self.head_dim))
        caches = [
            DeviceCache(layout, share, self.head_dim, batch=1, capacity=TOKENS, dtype=DTYPES[self.dtype])
            for share in layout.shares(self.heads, self.tensor_parallel)
        ]
        arrays = {
            "elements": np.array([c.elements() for c in caches]) / TOKENS,
            "bytes": np.array([c.bytes() for c in caches]) / TOKENS,
        }
        return Observations(arrays=arrays, values={"head_dim": self.head_dim})
