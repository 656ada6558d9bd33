"""Attention of the query heads of one step to a long cache: one function, by the best kernel for what it is given."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from torch import Tensor

from harness.tracks.decoding.kernels import chunked, compiled


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    rope_query: Tensor | None = None,
    rope_keys: Tensor | None = None,
) -> Tensor:
    """softmax(scale (query keys^T + rope_query rope_keys^T)) values.

    query [batch, pieces, heads, width], keys [batch, pieces, time, width], values [batch, pieces, time, value width],
    rope_query [batch, pieces, heads, rope], rope_keys [batch, 1, time, rope] -> [batch, pieces, heads, value width].
    The softmax is in float32 at least.
    """
    return kernel_for(query, keys, values, rope_keys)(query, keys, values, scale, rope_query, rope_keys)


def kernel_for(query: Tensor, keys: Tensor, values: Tensor, rope_keys: Tensor | None = None) -> Callable[..., Tensor]:
    """The kernel that :func:`attend` takes: compiled on the processor, whatever the number of heads, Triton's on CUDA.

    What these do not take (float64, widths of no whole vectors, no Triton) goes in chunks.
    """
    if compiled.fits(query, keys, values, rope_keys):
        return compiled.attend
    if query.is_cuda and importlib.util.find_spec("triton") is not None:
        from harness.tracks.decoding.kernels import split_kv

        if query.dtype in split_kv.DTYPES:
            return split_kv.attend
    return chunked.attend
