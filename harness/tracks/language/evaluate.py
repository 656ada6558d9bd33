"""One task of lm-evaluation-harness with one model, item by item."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np

from harness.contract import Context, Json, Observations
from harness.tracks.language.tasks import TaskSet, quiet

METRICS = ("acc", "acc_norm")

Shots: TypeAlias = Annotated[int, {"minimum": 0}]


def evaluate(model: Any, tasks: TaskSet, task: str, fewshot: int, context: Context) -> Observations:
    """Ask ``model``, an lm-eval LM, all items of a task (``--limit``: so many at most).

    Arrays ``acc`` and ``acc_norm`` (0 or 1 per item, those of them that the task has) and ``choices`` (how many there
    were); values ``harness`` (lm-eval's own aggregates and standard errors by metric), versions, and the digest of the
    items. No answer of an earlier run is used. Raises ValueError for a task that has neither metric.
    """
    import lm_eval

    quiet()
    loaded = tasks.load(task, context.directory / "datasets")
    loaded.set_config(key="num_fewshot", value=fewshot)
    loaded.set_fewshot_seed(seed=context.seed_for("fewshot") % 2**32)
    seed_all(context)
    found = lm_eval.evaluate(
        lm=model,
        task_dict={task: loaded},
        limit=context.limit,
        cache_requests=False,
        bootstrap_iters=100,  # standard errors of means are exact; a bootstrap is for other aggregates
        log_samples=True,
    )
    samples = found["samples"][task]
    arrays = item_scores(samples, task)
    arrays["choices"] = np.array([len(sample["arguments"]) for sample in samples])
    for index, sample in enumerate(samples):
        _keep(context, task, sample, {name: float(arrays[name][index]) for name in arrays})
    digest = hashlib.sha256("".join(sample["doc_hash"] for sample in samples).encode()).hexdigest()
    values: dict[str, Json] = {
        "task": task,
        "harness": own_figures(found["results"][task]),
        "lm_eval": lm_eval.__version__,
        "task_version": _plain(found["versions"].get(task)),
        "fewshot": _plain(found["n-shot"].get(task)),
        "items": len(samples),
        "items_digest": digest,
    }
    return Observations(arrays=arrays, values=values)


def seed_all(context: Context) -> None:
    """The generators that tasks and models may draw from."""
    import torch

    random.seed(context.seed_for("random"))
    np.random.seed(context.seed_for("numpy") % 2**32)
    torch.manual_seed(context.seed_for("torch"))


def item_scores(samples: Sequence[Mapping[str, Any]], task: str) -> dict[str, np.ndarray]:
    """The metrics that the task has, one number per item. Raises ValueError where it has none of them."""
    if not samples:
        raise ValueError(f"the task {task} has no items")
    have = [name for name in METRICS if name in samples[0]]
    if not have:
        raise ValueError(
            f"the task {task} is scored by {', '.join(samples[0]['metrics'])}: this evaluation takes tasks of multiple "
            f"choice, scored by {' or '.join(METRICS)}"
        )
    return {name: np.array([float(sample[name]) for sample in samples]) for name in have}


def own_figures(results: Mapping[str, Any]) -> dict[str, Json]:
    """lm-eval's aggregates as {metric: {value, stderr}}; a standard error that it does not have ("N/A") is None."""
    figures: dict[str, Json] = {}
    for metric in METRICS:
        value = results.get(f"{metric},none")
        error = results.get(f"{metric}_stderr,none")
        if value is not None:
            stderr = float(error) if isinstance(error, (int, float)) and np.isfinite(error) else None
            figures[metric] = {"value": float(value), "stderr": stderr}
    return figures


def _keep(context: Context, task: str, sample: Mapping[str, Any], scores: Mapping[str, float]) -> None:
    """Numbers alone: the questions' texts have licences of their own."""
    likelihoods = [float(response[0][0]) for response in sample["resps"]]
    target = sample["target"]
    context.sample(
        f"{task}-{sample['doc_id']}",
        item=sample["doc_hash"],
        gold=target if isinstance(target, int) else str(target),
        choice=int(np.argmax(likelihoods)),
        log_likelihoods=likelihoods,
        **scores,
    )


def _plain(value: Any) -> Json:
    return value if isinstance(value, (int, float, str)) else None if value is None else str(value)
