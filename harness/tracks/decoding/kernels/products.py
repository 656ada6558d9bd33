"""The same attention by torch's matrix products: what a kernel of our own is measured against."""

from __future__ import annotations

import torch
from torch import Tensor


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    rope_query: Tensor | None = None,
    rope_keys: Tensor | None = None,
) -> Tensor:
    """Two matrix products and a softmax between them, in the cache's precision. Shapes as of ``kernels.attend``."""
    batch, pieces, heads, _ = query.shape
    logits = (query * scale).flatten(0, 1) @ keys.flatten(0, 1).mT
    if rope_query is not None and rope_keys is not None:
        flat = (rope_query * scale).reshape(batch, pieces * heads, -1)
        logits.view(batch, pieces * heads, -1).baddbmm_(flat, rope_keys[:, 0].mT)
    weights = torch.softmax(logits, dim=-1)
    return (weights @ values.flatten(0, 1)).view(batch, pieces, heads, -1)
