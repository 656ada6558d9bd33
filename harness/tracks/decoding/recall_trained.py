"""The build of a decoder trained on associative recall, one for every method and seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from safetensors.torch import load_file, save_file

from harness.contract import Build, Context, Given, Needs
from harness.tracks.decoding.decoder import Positive, Size, count_parameters
from harness.tracks.decoding.device import claim
from harness.tracks.decoding.protocol import Attention
from harness.tracks.decoding.recall import RecallDecoder, RecallTask
from harness.tracks.decoding.training import Recipe, train_on

FILE = "model.safetensors"


class RecallTrained(Build[RecallDecoder]):
    """A decoder trained from scratch on generated sequences, by one recipe for all methods.

    ``batch`` sequences a step; ``warmup`` in steps; ``init_std`` of the initial weights. Rivals of one seed see the
    same batches. ``size.window`` has no effect: the task says how long its sequences are.
    """

    name: ClassVar[str] = "recall_trained"
    needs: ClassVar[Needs] = Needs(extras=("decoding",), preload=("torch", "torch._dynamo"))
    seeded: ClassVar[bool] = True

    method: Given[Attention]
    task: Given[RecallTask]
    size: Given[Size]
    steps: Positive = 1000
    batch: Positive = 32
    learning_rate: Annotated[float, {"exclusiveMinimum": 0}] = 6e-3
    warmup: Annotated[int, {"minimum": 0}] = 50
    weight_decay: Annotated[float, {"minimum": 0}] = 0.1
    init_std: Annotated[float, {"exclusiveMinimum": 0}] = 0.139

    def make(self, context: Context) -> dict[str, float]:
        """Train and save; return the last training loss (nats per answer) and the number of parameters."""
        device = claim(context)
        decoder = self._decoder()
        decoder.initialise(context.seed_for("init"), self.init_std)
        recipe = Recipe(
            steps=self.steps,
            batch=self.batch,
            micro_batch=self.batch,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            weight_decay=self.weight_decay,
        )
        seed = context.seed_for("recall-train")
        loss = train_on(decoder, lambda step: self.task.batch(seed, step, self.batch), recipe, context, device)
        save_file({k: v.cpu() for k, v in decoder.state_dict().items()}, context.directory / FILE)
        return {"training_loss": loss, "parameters": count_parameters(decoder)}

    def load(self, directory: Path) -> RecallDecoder:
        decoder = self._decoder()
        decoder.load_state_dict(load_file(directory / FILE))
        return decoder.eval()

    def _decoder(self) -> RecallDecoder:
        return RecallDecoder(self.method, self.size, self.task.vocabulary)
