"""Log-likelihoods of continuations under a causal language model whose window is limited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Logits = Callable[[Tensor], Tensor]
"""[batch, time] token ids -> [batch, time, vocabulary], each position from itself and those before it."""


@dataclass(frozen=True)
class Row:
    """One pass through the model: of ``inputs`` the last positions predict ``targets``. ``request``: whose it is."""

    request: int
    inputs: tuple[int, ...]
    targets: tuple[int, ...]


def rows(request: int, context: Sequence[int], continuation: Sequence[int], window: int) -> Iterator[Row]:
    """Rows of at most ``window`` inputs that predict each token of the continuation once.

    What is too long loses its beginning; a continuation longer than the window is predicted in parts, each from
    the tokens before it. Raises ValueError for an empty context: the first token would have nothing to come from.
    """
    if not context:
        raise ValueError("a continuation needs a context of at least one token")
    tokens = (*context, *continuation)
    end = len(tokens)
    while end > len(context):
        start = max(len(context), end - window)
        yield Row(request, tokens[max(0, end - 1 - window) : end - 1], tokens[start:end])
        end = start


def log_likelihoods(
    logits: Logits,
    requests: Sequence[tuple[Sequence[int], Sequence[int]]],
    window: int,
    batch: int,
    device: str = "cpu",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[tuple[float, bool]]:
    """Per request (context ids, continuation ids): the sum of log p in nats, and whether greedy decoding says the same.

    (0, True) for an empty continuation. Rows go through the model longest first, padded on the right.
    """
    sums, greedy = [0.0] * len(requests), [True] * len(requests)
    todo = [row for i, (context, continuation) in enumerate(requests) for row in rows(i, context, continuation, window)]
    todo.sort(key=lambda row: len(row.inputs), reverse=True)
    with torch.inference_mode():
        for first in range(0, len(todo), batch):
            part = todo[first : first + batch]
            ids = torch.zeros(len(part), len(part[0].inputs), dtype=torch.int64)
            for i, row in enumerate(part):
                ids[i, : len(row.inputs)] = torch.tensor(row.inputs)
            scores = logits(ids.to(device))
            for i, row in enumerate(part):
                targets = torch.tensor(row.targets, device=scores.device)
                own = scores[i, len(row.inputs) - len(row.targets) : len(row.inputs)].float().log_softmax(-1)
                sums[row.request] += float(own.gather(1, targets[:, None]).double().sum())
                greedy[row.request] &= bool((own.argmax(-1) == targets).all())
            progress(first + len(part), len(todo))
    return list(zip(sums, greedy, strict=True))
