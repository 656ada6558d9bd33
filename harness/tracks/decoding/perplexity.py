"""How well trained decoders predict text that they have not seen."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from harness.contract import Context, Evaluation, Needs, Observations, built
from harness.tracks.decoding.decoder import Decoder, Size, count_parameters
from harness.tracks.decoding.device import claim
from harness.tracks.decoding.protocol import Attention
from harness.tracks.text.bpe import Tokenizer
from harness.tracks.text.corpus import Corpus

BATCH = 16


class Perplexity(Evaluation[Attention]):
    """Negative log-likelihood of the held-out text in consecutive windows of ``size.window`` tokens.

    Every window starts without context. ``--limit`` takes the first so many windows.
    """

    name: ClassVar[str] = "perplexity"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch",))

    text: Corpus
    tokenizer: Tokenizer
    size: Size
    decoder: Decoder = built("decoding.trained")

    def observe(self, method: Attention, context: Context) -> Observations:
        """Arrays ``nats`` (mean over the tokens of each window) and ``bytes`` (of the text that it predicts)."""
        device = claim(context)
        window = self.size.window
        stream = self.tokenizer.stream(self.text.held_out)
        count = (len(stream) - 1) // window
        if not count:
            raise ValueError(f"the held-out text has {len(stream)} tokens: one window needs {window + 1}")
        count = count if context.limit is None else min(count, context.limit)
        rows = np.arange(count)[:, None] * window + np.arange(window + 1)
        windows = stream[rows].astype(np.int64)
        nats = []
        decoder = self.decoder.to(device)
        with torch.inference_mode():
            for start in range(0, count, BATCH):
                batch = torch.from_numpy(windows[start : start + BATCH]).to(device)
                nats.append(decoder.losses(batch).mean(dim=1).cpu().double().numpy())
                context.progress(min(start + BATCH, count), count, "windows")
        arrays = {"nats": np.concatenate(nats), "bytes": self.tokenizer.token_bytes[windows[:, 1:]].sum(axis=1)}
        for index in range(count):
            context.sample(f"window-{index}", nats=float(arrays["nats"][index]), bytes=int(arrays["bytes"][index]))
        return Observations(
            arrays=arrays,
            values={"window": window, "tokens": count * window, "parameters": count_parameters(decoder)},
        )
