"""The training loop: AdamW, warm-up and cosine, checkpoints from which a killed training goes on unchanged."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from harness.contract import Context
from harness.tracks.decoding.decoder import Decoder

CHECKPOINT = "training.safetensors"
CHECKPOINT_SECONDS = 30.0
BETAS = (0.9, 0.95)
EPSILON = 1e-8
CLIP = 1.0
FINAL = 0.1  # of the peak learning rate


@dataclass(frozen=True)
class Recipe:
    """``batch`` in sequences, of which ``micro_batch`` at once; ``warmup`` in steps; ``half``: bfloat16 products."""

    steps: int
    batch: int
    micro_batch: int
    learning_rate: float
    warmup: int
    weight_decay: float
    half: bool = False

    def rate(self, step: int) -> float:
        """Learning rate of a step (from 0): linear warm-up, then a cosine down to a tenth."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * done)))


def train(decoder: Decoder, stream: np.ndarray, recipe: Recipe, context: Context, device: str) -> float:
    """Train in place on windows of a stream; the mean loss (nats per token) of the last tenth of the steps.

    Step s reads windows at places drawn from the stream "data" alone, so rivals of one seed see the same batches, and
    a training that was interrupted sees what it would have seen.
    """
    window = decoder.size.window
    if len(stream) <= window:
        raise ValueError(f"the training text has {len(stream)} tokens: one window needs more than {window}")
    starts = context.rng("data").integers(0, len(stream) - window, size=(recipe.steps, recipe.batch))
    within = np.arange(window + 1)

    def windows(step: int) -> np.ndarray:
        rows: np.ndarray = stream[starts[step][:, None] + within]
        return rows.astype(np.int64)

    return train_on(decoder, windows, recipe, context, device)


def train_on(
    decoder: Decoder, batches: Callable[[int], np.ndarray], recipe: Recipe, context: Context, device: str
) -> float:
    """The same on batches [recipe.batch, time] of int64 ids that depend on the step alone; the mean over all losses
    that the decoder returns for a batch counts.
    """
    decoder.to(device).train()
    optimiser = torch.optim.AdamW(
        decoder.parameters(), betas=BETAS, eps=EPSILON, weight_decay=recipe.weight_decay, fused=True
    )
    path = context.checkpoints / CHECKPOINT
    losses = torch.zeros(recipe.steps)
    first = _resume(path, decoder, optimiser, losses)
    saved = time.monotonic()
    for step in range(first, recipe.steps):
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate(step)
        batch = torch.from_numpy(batches(step)).to(device)
        optimiser.zero_grad()
        for part in torch.split(batch, recipe.micro_batch):
            with torch.autocast(device, torch.bfloat16, enabled=recipe.half):
                each = decoder.losses(part)
                loss = each.sum() / (recipe.batch * each.shape[1])
            torch.autograd.backward(loss)
            losses[step] += loss.detach().cpu()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), CLIP)
        optimiser.step()
        if not math.isfinite(losses[step]):
            raise FloatingPointError(f"the loss is {losses[step].item()} at step {step}")
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            _checkpoint(path, step + 1, decoder, optimiser, losses)
            saved = time.monotonic()
        context.progress(step + 1, recipe.steps, f"loss {losses[step]:.3f}")
    return float(losses[-max(1, recipe.steps // 10) :].mean())


def _checkpoint(path: Path, step: int, decoder: Decoder, optimiser: torch.optim.Optimizer, losses: Tensor) -> None:
    """Everything that the next step depends on, put in place whole."""
    tensors = {f"model.{k}": v for k, v in decoder.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{k}": v for k, v in state.items()}
    tensors["losses"] = losses
    temporary = path.with_suffix(".tmp")
    save_file(tensors, temporary, metadata={"step": str(step)})
    os.replace(temporary, path)


def _resume(path: Path, decoder: Decoder, optimiser: torch.optim.Optimizer, losses: Tensor) -> int:
    """Read a checkpoint back, if there is one; the step to go on with."""
    if not path.exists():
        return 0
    device = next(decoder.parameters()).device
    with safe_open(path, framework="pt", device=str(device)) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        step = int(file.metadata()["step"])
    decoder.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".")
            state.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    losses.copy_(tensors["losses"])
    return step
