"""That the counted cache is what decoding reads: all of it, and nothing else of the past."""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch

from harness.contract import NotApplicable
from harness.tracks.decoding.cache import DeviceCache
from harness.tracks.decoding.devices import caches_of, device_of, devices_of
from harness.tracks.decoding.protocol import Shape
from methods.decoding.gqa import GQA
from methods.decoding.gta import GTA
from methods.decoding.no_attention import NoAttention

pytestmark = pytest.mark.track_decoding

TABLE = {  # head dimensions per token, layer and device at TP = 1, 2, 4, 8; 64 heads, 8 key/value heads
    "mha": (128, 64, 32, 16),
    "mqa": (2, 2, 2, 2),
    "gqa": (16, 8, 4, 2),
    "gta": (8.5, 4.5, 2.5, 1.5),
    "mfa": (4, 4, 4, 4),
    "tpa": (6, 5, 4.5, 4.25),
    "mla": (4.5, 4.5, 4.5, 4.5),
    "gla-2": (4.5, 2.5, 2.5, 2.5),
    "gla-4": (4.5, 2.5, 1.5, 1.5),
    "mlra-2": (4.5, 2.5, 1.5, 1.5),
    "mlra-4": (4.5, 2.5, 1.5, 1.5),
}
TRAINED = {  # the same for the trained models: 24 heads, 6 key/value heads
    "mha": (48, 24, 12, 6),
    "gqa": (12, 6, 3, 1.5),
    "gta": (6.5, 3.5, 2, 1.25),
    "tpa": (4.75, 4.375, 4.1875, 4.09375),
}
PARAMETERS = {  # of one attention layer in millions at d = 3072, h = 24, d_h = 128, norms aside
    "mha": 37.7,
    "mqa": 19.7,
    "gqa": 23.6,
    "gta": 21.4,
    "mfa": 39.3,
    "tpa": 14.1,
    "mla": 26.1,
    "gla-2": 20.6,
    "gla-4": 19.9,
    "mlra-2": 20.6,
    "mlra-4": 22.2,
}


def filled(module: Any, x: Any, devices: int) -> tuple[list[Any], list[DeviceCache]]:
    """Decoders and caches after all tokens but the last."""
    decoders, caches = devices_of(module, devices), caches_of(module, devices, x.shape[0], x.shape[1], x.dtype)
    for t in range(x.shape[1] - 1):
        for decoder, cache in zip(decoders, caches, strict=True):
            decoder.step(x[:, t : t + 1], cache)
    return decoders, caches


def with_kv_heads(method: Any, kv_heads: int) -> Any:
    return replace(method, kv_heads=kv_heads) if isinstance(method, GQA | GTA) else method


@pytest.mark.parametrize("name", TABLE)
def test_table_of_cache_sizes(name: str, kit: Any) -> None:
    method = with_kv_heads(kit.methods[name], 8)
    shape = Shape(8192, 64, 128)
    layout = method.layout(shape)
    for devices, expected in zip((1, 2, 4, 8), TABLE[name], strict=True):
        caches = [DeviceCache(layout, s, 128, 1, 4, torch.bfloat16) for s in layout.shares(64, devices)]
        assert {c.elements() / 4 / 128 for c in caches} == {expected}
        assert layout.elements_per_token(devices) == expected


@pytest.mark.parametrize("name", TRAINED)
def test_table_of_the_trained_models(name: str, kit: Any) -> None:
    """Pieces are shared out evenly there, six heads on four devices too; such a cache is allocated by nobody here."""
    layout = with_kv_heads(kit.methods[name], 6).layout(Shape(3072, 24, 128))
    for devices, expected in zip((1, 2, 4, 8), TRAINED[name], strict=True):
        pieces = Fraction(layout.pieces, min(devices, layout.pieces) if layout.pieces % devices == 0 else devices)
        assert sum(t.width * (1 if t.shared else pieces) for t in layout.tensors) == expected
        if layout.pieces % devices:
            with pytest.raises(NotApplicable):
                layout.shares(24, devices)
            continue
        caches = [DeviceCache(layout, s, 128, 1, 4, torch.bfloat16) for s in layout.shares(24, devices)]
        assert {c.elements() / 4 / 128 for c in caches} == {expected}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_one_layer(name: str, kit: Any) -> None:
    with torch.device("meta"):
        module = with_kv_heads(kit.methods[name], 6).module(Shape(3072, 24, 128))
    count = sum(p.numel() for n, p in module.named_parameters() if "norm" not in n)
    assert round(count / 1e6, 1) == PARAMETERS[name]


@pytest.mark.parametrize("devices", [1, 4, 8])
def test_every_counted_number_is_read(either: Any, devices: int, kit: Any) -> None:
    """As many sequences as numbers of a token, each with another one lost, and one with none lost."""
    module = kit.randomised(either.module(kit.shape))
    x = kit.tokens(batch=1)
    decoders, caches = filled(module, x, devices)
    for decoder, cache in zip(decoders, caches, strict=True):
        for name, tensor in cache.tensors.items():
            assert cache.filled(name).numel() == tensor.numel() * cache.length // kit.time
            numbers = tensor[0, :, 2].numel()  # of the token at position 2
            poisoned = copy.deepcopy(cache)
            poisoned.tensors = {n: t.repeat(numbers + 1, 1, 1, 1) for n, t in cache.tensors.items()}
            for index in range(numbers):
                piece, feature = divmod(index, tensor.shape[3])
                poisoned.tensors[name][index, piece, 2, feature] = torch.nan
            lost = decoder.step(x[:, -1:].expand(numbers + 1, -1, -1), poisoned).isnan().any(-1)[:, 0]
            assert lost[:numbers].all(), name
            assert not lost[numbers]


def test_nothing_else_of_the_past_is_read(method: Any, kit: Any) -> None:
    """A decoder made afresh, handed the filled parts of the cache alone, gives the very same output."""
    module = kit.randomised(method.module(kit.shape))
    x = kit.tokens()
    decoders, caches = filled(module, x, 4)
    shares = module.layout.shares(kit.shape.heads, 4)
    for decoder, cache, share in zip(decoders, caches, shares, strict=True):
        kept = {name: cache.filled(name).numpy().copy() for name in cache.tensors}
        expected = decoder.step(x[:, -1:], cache)
        reborn = DeviceCache(module.layout, share, kit.shape.head_dim, x.shape[0], kit.time, x.dtype)
        for name, tensor in reborn.tensors.items():
            tensor.fill_(torch.nan)
            tensor[:, :, : kit.time - 1] = torch.from_numpy(kept[name])
        reborn.length = kit.time - 1
        garbage = torch.full_like(x[:, -1:], torch.nan)
        again = device_of(copy.deepcopy(module), share).step(
            torch.where(x[:, -1:] == x[:, -1:], x[:, -1:], garbage), reborn
        )
        assert torch.equal(again, expected)


def test_past_tokens_themselves_are_not_kept(method: Any, kit: Any) -> None:
    module = kit.randomised(method.module(kit.shape))
    x = kit.tokens()
    decoders, caches = filled(module, x, 1)
    twin = copy.deepcopy(caches[0])
    expected = decoders[0].step(x[:, -1:].clone(), caches[0])
    last = x[:, -1:].clone()
    x.fill_(torch.nan)
    assert torch.equal(decoders[0].step(last, twin), expected)


def test_without_attention_there_is_no_cache_and_no_parameter(kit: Any) -> None:
    module = NoAttention().module(kit.shape)
    x = kit.tokens()
    assert not list(module.parameters())
    assert torch.equal(x + module(x), x)
    with pytest.raises(NotApplicable):
        NoAttention().layout(kit.shape)
    for options in ({"gated": True}, {"head_multiple": 2}):
        with pytest.raises(NotApplicable):
            NoAttention(**options).module(kit.shape)
