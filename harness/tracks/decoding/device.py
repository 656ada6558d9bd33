"""Where a run computes: the threads and the accelerator that it was granted."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

from harness.contract import Context

Precision: TypeAlias = Literal["float32", "bfloat16"]

DTYPES: dict[str, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def claim(context: Context) -> str:
    """Keep to the granted threads; the torch device to use ("cuda" where an accelerator was granted)."""
    torch.set_num_threads(context.cpus)
    return "cuda" if context.devices else "cpu"
