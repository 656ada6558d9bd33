"""A declarative, spec-driven benchmark harness: one YAML file in, a leaderboard that can be trusted out.

The steps of the command line are functions here::

    study = harness.load("specs/mlra.yaml")
    plan = harness.plan(study)
    result = harness.run(study)
    frame = harness.table(study).to_frame()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api import fetch, load, plan, run, samples, table

__version__ = "0.1.0"
__all__ = ["fetch", "load", "plan", "run", "samples", "table"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # imported when asked for: `import harness` is part of every worker's start
        from harness import api

        return getattr(api, name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
