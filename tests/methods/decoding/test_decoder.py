from __future__ import annotations

from typing import Any

import pytest
import torch

from harness.tracks.decoding.decoder import Decoder, Size, count_parameters
from methods.decoding.gqa import GQA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.no_attention import NoAttention

pytestmark = pytest.mark.track_decoding

SMALL = Size(model=64, heads=4, head_dim=16, ffn=176, ffn_multiple=2, window=64)
PUBLISHED = Size(model=3072, layers=24, heads=24, head_dim=128, ffn=8192, window=2048)
WIDTHS = {  # feed-forward widths of arXiv 2603.02188
    "mha": 8192,
    "mqa": 10152,
    "gqa": 9728,
    "mla": 9448,
    "gla-2": 10048,
    "gla-4": 10136,
    "mlra-2": 10048,
    "mlra-4": 9880,
}


def rivals(kit: Any, kv_heads: int) -> dict[str, Any]:
    return {**kit.methods, "gqa": GQA(kv_heads=kv_heads)}


@pytest.mark.parametrize("name", WIDTHS)
def test_published_widths_and_totals(name: str, kit: Any) -> None:
    with torch.device("meta"):
        decoder = Decoder(rivals(kit, 6)[name], PUBLISHED, 50_304)
    assert decoder.blocks[0].ffn.down.in_features == WIDTHS[name]
    assert 2.872 <= round(count_parameters(decoder) / 1e9, 3) <= 2.873


def test_parameters_agree_at_small_size(kit: Any) -> None:
    methods = {**rivals(kit, 2), "none": NoAttention()}
    totals = {name: count_parameters(Decoder(method, SMALL, 512)) for name, method in methods.items()}
    target = totals["mha"]
    assert all(abs(total / target - 1) < 0.005 for total in totals.values()), totals


def test_it_starts_as_a_model_of_single_tokens() -> None:
    """With zero projections into the residual stream, attention and feed-forward add nothing yet."""
    decoder = Decoder(MLA(), SMALL, 512)
    decoder.initialise(0, 0.02)
    ids = torch.arange(12).view(1, 12)
    alone = torch.cat([decoder(ids[:, i : i + 1]) for i in range(12)], dim=1)
    torch.testing.assert_close(decoder(ids), alone)


def test_rivals_start_from_one_embedding() -> None:
    start = []
    for method in (MHA(), MLRA()):
        decoder = Decoder(method, SMALL, 64)
        decoder.initialise(7, 0.1)
        start.append(decoder.embedding.weight)
    assert torch.equal(*start)
    assert float(start[0].detach().std()) == pytest.approx(0.1, rel=0.05)


def test_losses_are_those_of_the_next_token() -> None:
    decoder = Decoder(MHA(), SMALL, 32)
    decoder.initialise(0, 0.5)
    window = torch.tensor([[3, 5, 7, 9]])
    logits = decoder(window[:, :3])
    expected = [-torch.log_softmax(logits[0, i], -1)[window[0, i + 1]] for i in range(3)]
    torch.testing.assert_close(decoder.losses(window)[0], torch.stack(expected))


def test_without_attention_only_the_last_token_counts() -> None:
    decoder = Decoder(NoAttention(), SMALL, 32)
    decoder.initialise(0, 0.1)
    torch.nn.init.normal_(decoder.blocks[0].ffn.down.weight)
    first, second = decoder(torch.tensor([[1, 2, 3]])), decoder(torch.tensor([[9, 8, 3]]))
    torch.testing.assert_close(first[:, 2], second[:, 2])
    assert not torch.allclose(first[:, 0], second[:, 0])
