"""Zero-shot tasks with decoders of this track."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from harness.contract import Context, Evaluation, Needs, Observations, built
from harness.tracks.decoding.decoder import Decoder, Positive, Size
from harness.tracks.decoding.device import Precision, claim
from harness.tracks.decoding.protocol import Attention
from harness.tracks.language.evaluate import Shots, evaluate
from harness.tracks.language.lm import Scorer, harness_model
from harness.tracks.language.tasks import TaskSet
from harness.tracks.text.bpe import Tokenizer
from harness.tracks.text.corpus import Corpus


class Downstream(Evaluation[Attention]):
    """A task of lm-evaluation-harness by likelihood; ``task`` is one name of ``tasks``, best an axis of the matrix.

    ``text``: what tokenizer and decoder are trained on; none where both were trained by others. ``fewshot``: worked
    examples before each question; ``batch``: sequences at once; ``dtype``: of the matrix products. A prompt longer
    than ``size.window`` loses its beginning. ``--limit`` takes the first so many items.
    """

    name: ClassVar[str] = "downstream"
    needs: ClassVar[Needs] = Needs(extras=("decoding", "lm-eval"), preload=("torch",))

    tasks: TaskSet
    task: str
    tokenizer: Tokenizer
    size: Size
    text: Corpus | None = None
    decoder: Decoder = built("decoding.trained")
    fewshot: Shots = 0
    batch: Positive = 16
    dtype: Precision = "float32"

    def observe(self, method: Attention, context: Context) -> Observations:
        """See :func:`evaluate`. Raises ValueError where the tokenizer has tokens that the decoder does not know."""
        device = claim(context)
        decoder = self.decoder.to(device).eval()
        known = decoder.embedding.num_embeddings
        if self.tokenizer.vocabulary > known:
            raise ValueError(
                f"the tokenizer has {self.tokenizer.vocabulary} tokens, the decoder {known}: they are not of one piece"
            )

        def logits(ids: Tensor) -> Tensor:
            with torch.autocast(device, torch.bfloat16, enabled=self.dtype == "bfloat16"):
                scores: Tensor = decoder(ids)
                return scores

        def progress(done: int, total: int) -> None:
            context.progress(done, total, "sequences")

        scorer = Scorer(logits, self.tokenizer, self.size.window, self.batch, device, progress)
        return evaluate(harness_model(scorer), self.tasks, self.task, self.fewshot, context)
