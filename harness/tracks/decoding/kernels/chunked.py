"""The kernel for any device and precision: one pass in chunks with a running softmax.

The weighted sum of a chunk follows at once on its logits, so that a latent, which is key and value in one, comes from
memory once. The running maximum and normaliser are Milakov and Gimelshein's online softmax (arXiv 1805.02867).
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 8192
"""Tokens per chunk: enough to drown the cost of a call, few enough for a last-level cache of some megabytes."""


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    rope_query: Tensor | None = None,
    rope_keys: Tensor | None = None,
    chunk: int | None = None,
) -> Tensor:
    """As :func:`harness.tracks.decoding.kernels.attend`.

    ``chunk``: tokens at a time, by default :data:`CHUNK` on the processor. An accelerator's caches are too small for
    a chunk, and its calls too dear for many: it gets all at once.
    """
    batch, pieces, heads, _ = query.shape
    if chunk is None:
        chunk = CHUNK if query.device.type == "cpu" else keys.shape[2]
    working = torch.promote_types(query.dtype, torch.float32)
    flat_query = (query * scale).flatten(0, 1)
    flat_rope = None if rope_query is None else (rope_query * scale).reshape(batch, pieces * heads, -1)
    flat_keys, flat_values = keys.flatten(0, 1), values.flatten(0, 1)
    largest = query.new_full((batch * pieces, heads, 1), -torch.inf, dtype=working)
    total = torch.zeros_like(largest)
    weighted = query.new_zeros((batch * pieces, heads, values.shape[3]), dtype=working)
    for start in range(0, keys.shape[2], chunk):
        stop = start + chunk
        logits = torch.bmm(flat_query, flat_keys[:, start:stop].mT)
        if flat_rope is not None and rope_keys is not None:
            logits.view(batch, pieces * heads, -1).baddbmm_(flat_rope, rope_keys[:, 0, start:stop].mT)
        weights = logits.to(working)
        new = torch.maximum(largest, weights.amax(-1, keepdim=True))
        weights.sub_(new).exp_()
        decay = (largest - new).exp_()
        total.mul_(decay).add_(weights.sum(-1, keepdim=True))
        part = flat_values[:, start:stop]
        weighted.mul_(decay)
        if part.dtype == working:
            weighted.baddbmm_(weights, part)
        else:
            weighted.add_(torch.bmm(weights.to(part.dtype), part))
        largest = new
    return (weighted / total).to(query.dtype).view(batch, pieces, heads, -1)
