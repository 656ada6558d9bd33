"""Attention by its definition, all logits at once: the reference for every other kernel."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 65_536
"""Tokens that are widened to the working precision at a time."""


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    rope_query: Tensor | None = None,
    rope_keys: Tensor | None = None,
) -> Tensor:
    """As :func:`harness.tracks.decoding.kernels.attend`; in float32 at least throughout, except for the result."""
    working = torch.promote_types(query.dtype, torch.float32)
    starts = range(0, keys.shape[2], CHUNK)
    logits = []
    for start in starts:
        part = query.to(working) @ keys[:, :, start : start + CHUNK].to(working).mT
        if rope_query is not None and rope_keys is not None:
            part = part + rope_query.to(working) @ rope_keys[:, :, start : start + CHUNK].to(working).mT
        logits.append(part)
    weights = torch.softmax(torch.cat(logits, dim=-1) * scale, dim=-1)
    mixed = torch.zeros(())
    for start in starts:
        mixed = mixed + weights[..., start : start + CHUNK] @ values[:, :, start : start + CHUNK].to(working)
    return mixed.to(query.dtype)
