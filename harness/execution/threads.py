"""Thread counts from the granted CPUs, for libraries that are loaded already and for those still to come."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import suppress
from typing import Any

VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
"""Read by a library when it is loaded, and never again."""


def set_threads(count: int) -> None:
    """Let numeric libraries use ``count`` threads. To be called again once adapters have loaded theirs."""
    for variable in VARIABLES:
        os.environ[variable] = str(count)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
        with suppress(RuntimeError):  # refused once parallel work has started
            torch.set_num_interop_threads(count)
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.set_cpu_count(count)
    controller().limit(limits=count)


@functools.cache
def controller() -> Any:
    """Finds the BLAS and OpenMP libraries that are loaded now (14 ms); later ones read the variables above."""
    import threadpoolctl  # type: ignore[import-untyped]

    return threadpoolctl.ThreadpoolController()
