"""A decoder of ours as a language model of lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.tracks.language.scoring import Logits, log_likelihoods
from harness.tracks.text.bpe import SEPARATOR, Tokenizer

END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True)
class Scorer:
    """A causal model with its tokenizer. ``window``: tokens that it was trained to see; ``batch``: rows at once."""

    logits: Logits
    tokenizer: Tokenizer
    window: int
    batch: int = 16
    device: str = "cpu"
    progress: Callable[[int, int], None] = lambda done, total: None

    def encode(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer.encode_batch([text])[0]]

    @property
    def start(self) -> int:
        """What stands before a text that has no context: the end of another text."""
        ids = self.encode(END_OF_TEXT)
        return ids[0] if len(ids) == 1 else self.encode(SEPARATOR)[-1]

    def score(self, requests: list[tuple[list[int], list[int]]]) -> list[tuple[float, bool]]:
        """See :func:`log_likelihoods`."""
        return log_likelihoods(self.logits, requests, self.window, self.batch, self.device, self.progress)


def harness_model(scorer: Scorer) -> Any:
    """An ``lm_eval.api.model.LM`` that asks ``scorer`` every time. The library is imported here, not before."""
    from lm_eval.api.model import TemplateLM

    class DecoderLM(TemplateLM):  # type: ignore[misc]
        @property
        def eot_token_id(self) -> int:
            return scorer.start

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **keywords: Any) -> list[int]:
            return scorer.encode(string)

        def _loglikelihood_tokens(self, requests: list[Any], **keywords: Any) -> list[tuple[float, bool]]:
            return scorer.score([(context, continuation) for _, context, continuation in requests])

        def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
            texts = [scorer.encode(request.args[0]) for request in requests]
            return [total for total, _ in scorer.score([([scorer.start], ids) for ids in texts])]

        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
            raise NotImplementedError(
                "the decoders of this track are scored by likelihood alone: take tasks of multiple choice, none that "
                "generate text"
            )

    return DecoderLM()
