from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.tracks.decoding.decoder import Decoder, Size, count_parameters
from harness.tracks.decoding.protocol import Shape
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.gta import GTA
from methods.decoding.mfa import MFA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.mqa import MQA
from methods.decoding.no_attention import NoAttention
from methods.decoding.tpa import TPA

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
    "gta": 9960,
    "mfa": 8024,
    "tpa": 10760,
    "mlra-4-gated": 8856,
}


def rivals(kit: Any, kv_heads: int) -> dict[str, Any]:
    several = {"gqa": GQA(kv_heads=kv_heads), "gta": GTA(kv_heads=kv_heads), "mlra-4-gated": MLRA(gated=True)}
    return {**kit.methods, **several}


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


def test_rivals_start_from_one_embedding_and_one_loss(kit: Any) -> None:
    window = torch.arange(20).view(2, 10)
    start, losses = [], []
    for method in (*rivals(kit, 2).values(), NoAttention()):
        decoder = Decoder(method, SMALL, 64)
        decoder.initialise(7, 0.1)
        start.append(decoder.embedding.weight)
        losses.append(decoder.losses(window))
    assert all(torch.equal(s, start[0]) for s in start)
    assert all(torch.equal(loss, losses[0]) for loss in losses)
    assert float(start[0].detach().std()) == pytest.approx(0.1, rel=0.05)


def test_projections_into_the_stream_start_like_the_rest_if_wanted(method: Any) -> None:
    decoder = Decoder(replace(method, zero_init=False), SMALL, 64)
    decoder.initialise(7, 0.1)
    for block in decoder.blocks:
        for part in (block.attention.output, block.ffn.down):
            assert float(part.weight.detach().std()) == pytest.approx(0.1, rel=0.05)
    decoder = Decoder(method, SMALL, 64)
    decoder.initialise(7, 0.1)
    assert not any(part.weight.any() for b in decoder.blocks for part in (b.attention.output, b.ffn.down))


def test_factor_maps_start_by_their_own_rule() -> None:
    """Uniform, bounded by sqrt(6 / (fan in + fan out)) of tensors [d, parts, width], whatever ``init_std``."""
    decoder = Decoder(TPA(), SMALL, 64)
    decoder.initialise(7, 0.1)
    attention = decoder.blocks[0].attention
    for part, parts, width in ((attention.query_a, 4, 6), (attention.key_b, 2, 16), (attention.query_b, 6, 16)):
        bound = (6 / (parts * width + 64 * width)) ** 0.5
        assert 0.95 * bound < part.weight.abs().max() <= bound
        assert float(part.weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.05)


@pytest.mark.parametrize(
    "method", [MQA(), GQA(kv_heads=2), GTA(kv_heads=2), MFA(), MLA(), GLA(), MLRA(), MLRA(gated=True)]
)
def test_more_heads_at_equal_parameters_and_cache(method: Any) -> None:
    more = replace(method, head_multiple=2)
    plain, doubled = Decoder(method, SMALL, 512), Decoder(more, SMALL, 512)
    attention = doubled.blocks[0].attention
    assert attention.shape == Shape(64, 8, 16)
    assert attention.output.in_features == 2 * plain.blocks[0].attention.output.in_features
    assert attention.layout == plain.blocks[0].attention.layout
    assert doubled.blocks[0].ffn.down.in_features < plain.blocks[0].ffn.down.in_features
    assert count_parameters(doubled) == pytest.approx(count_parameters(plain), rel=0.005)
    assert doubled(torch.arange(6).view(1, 6)).shape == (1, 6, 512)


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
