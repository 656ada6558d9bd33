"""Zero-shot tasks with pretrained models."""

from __future__ import annotations

from typing import Annotated, ClassVar

from harness.contract import Context, Evaluation, Needs, Observations
from harness.tracks.language.evaluate import Shots, evaluate
from harness.tracks.language.model import LanguageModel
from harness.tracks.language.tasks import TaskSet


class Downstream(Evaluation[LanguageModel]):
    """A task of lm-evaluation-harness by likelihood; ``task`` is one name of ``tasks``, best an axis of the matrix.

    ``fewshot``: worked examples before each question; ``batch``: requests at once. ``--limit`` takes the first so many
    items. Without seeds: nothing is drawn but the worked examples.
    """

    name: ClassVar[str] = "downstream"
    needs: ClassVar[Needs] = Needs(extras=("lm-eval",), preload=("torch",))
    deterministic: ClassVar[bool] = True

    tasks: TaskSet
    task: str
    fewshot: Shots = 0
    batch: Annotated[int, {"minimum": 1}] = 8

    def observe(self, method: LanguageModel, context: Context) -> Observations:
        """See :func:`evaluate`."""
        return evaluate(method.harness_model(self.batch, context), self.tasks, self.task, self.fewshot, context)
