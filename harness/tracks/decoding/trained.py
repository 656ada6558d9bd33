"""The build of a trained decoder, one for every method and seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from safetensors.torch import load_file, save_file

from harness.contract import Build, Context, Given, Needs
from harness.tracks.decoding.decoder import Decoder, Positive, Size, count_parameters
from harness.tracks.decoding.device import Precision, claim
from harness.tracks.decoding.protocol import Attention
from harness.tracks.decoding.training import Recipe, train
from harness.tracks.text.bpe import Tokenizer
from harness.tracks.text.corpus import Corpus

FILE = "model.safetensors"


class Trained(Build[Decoder]):
    """A decoder trained from scratch on the training part of a corpus, by one recipe for all methods.

    ``batch`` sequences of ``size.window`` tokens a step, ``micro_batch`` of them at once (default: all); ``warmup``
    steps; ``init_std`` of the initial weights; ``dtype`` of the matrix products.
    """

    name: ClassVar[str] = "trained"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch", "torch._dynamo"))
    seeded: ClassVar[bool] = True

    method: Given[Attention]
    text: Given[Corpus]
    tokenizer: Given[Tokenizer]
    size: Given[Size]
    steps: Positive = 150
    batch: Positive = 16
    micro_batch: Positive | None = None
    learning_rate: Annotated[float, {"exclusiveMinimum": 0}] = 3e-3
    warmup: Annotated[int, {"minimum": 0}] = 20
    weight_decay: Annotated[float, {"minimum": 0}] = 0.1
    init_std: Annotated[float, {"exclusiveMinimum": 0}] = 0.02
    dtype: Precision = "float32"

    def make(self, context: Context) -> dict[str, float]:
        """Train and save; return the last training loss (nats per token) and the number of parameters."""
        device = claim(context)
        decoder = self._decoder()
        decoder.initialise(context.seed_for("init"), self.init_std)
        recipe = Recipe(
            steps=self.steps,
            batch=self.batch,
            micro_batch=self.micro_batch or self.batch,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            half=self.dtype == "bfloat16",
        )
        loss = train(decoder, self.tokenizer.stream(self.text.train), recipe, context, device)
        save_file({k: v.cpu() for k, v in decoder.state_dict().items()}, context.directory / FILE)
        return {"training_loss": loss, "parameters": count_parameters(decoder)}

    def load(self, directory: Path) -> Decoder:
        decoder = self._decoder()
        decoder.load_state_dict(load_file(directory / FILE))
        return decoder.eval()

    def _decoder(self) -> Decoder:
        return Decoder(self.method, self.size, self.tokenizer.vocabulary)
