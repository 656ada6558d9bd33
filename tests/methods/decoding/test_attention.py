"""That the layers compute what the methods define, train, decode and shard alike. All in float64 unless said."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch

from harness.contract import NotApplicable
from harness.tracks.decoding.devices import caches_of, devices_of
from harness.tracks.decoding.latent import LatentAttention
from harness.tracks.decoding.layout import latent_layout, tied_layout
from harness.tracks.decoding.protocol import Shape
from harness.tracks.decoding.tied import TiedAttention
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.gta import GTA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.mqa import MQA
from methods.decoding.tpa import TPA

pytestmark = pytest.mark.track_decoding

HALF = Fraction(1, 2)


def close(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    assert found.shape == expected.shape
    assert expected.abs().max() > 1e-3  # zeros would show nothing
    assert float((found - expected).abs().max()) < tolerance * max(1.0, float(expected.abs().max()))


def decoded(module: Any, x: Any, devices: int) -> Any:
    """Token by token, the devices' addends summed."""
    caches = caches_of(module, devices, x.shape[0], x.shape[1], x.dtype)
    decoders = devices_of(module, devices)
    steps = [sum(d.step(x[:, t : t + 1], c) for d, c in zip(decoders, caches, strict=True)) for t in range(x.shape[1])]
    return torch.cat(steps, dim=1)


def test_forward_is_the_definition(either: Any, kit: Any) -> None:
    module = kit.randomised(either.module(kit.shape))
    x = kit.tokens()
    close(module(x), kit.by_definition(either, module, x))


def test_without_calibration_forward_is_the_plain_definition(latent_method: Any, kit: Any) -> None:
    plain = replace(latent_method, calibrated=False)
    module = kit.randomised(plain.module(kit.shape))
    x = kit.tokens()
    close(module(x), kit.by_definition(plain, module, x))
    close(decoded(module, x, 2), module(x), 1e-10)
    assert (module(x) - kit.randomised(latent_method.module(kit.shape))(x)).abs().max() > 1e-3


@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_devices_decode_what_forward_gives(either: Any, devices: int, kit: Any) -> None:
    module = kit.randomised(either.module(kit.shape))
    x = kit.tokens()
    close(decoded(module, x, devices), module(x), 1e-10)


def test_decoding_in_single_precision(method: Any, kit: Any) -> None:
    module = kit.randomised(method.module(kit.shape), dtype=torch.float32)
    x = kit.tokens(dtype=torch.float32)
    close(decoded(module, x, 4), module(x), 1e-5)


def test_one_device_alone_is_not_the_whole(kit: Any) -> None:
    module = kit.randomised(MLRA().module(kit.shape))
    x = kit.tokens()
    first, cache = devices_of(module, 4)[0], caches_of(module, 4, 2, kit.time, x.dtype)[0]
    assert (first.step(x[:, :1], cache) - module(x)[:, :1]).abs().max() > 1e-2


def test_a_closed_gate_lets_nothing_out(method: Any, kit: Any) -> None:
    module = kit.randomised(replace(method, gated=True).module(kit.shape))
    x = kit.tokens()
    ones = torch.cat((x[..., :-1], torch.ones_like(x[..., :1])), -1)
    with torch.no_grad():
        module.gate.weight.zero_()
        module.gate.weight[:, -1] = -1e3  # sigmoid(-1000) = 0
    assert module(ones).abs().max() == 0
    with torch.no_grad():
        module.gate.weight[:, -1] = 1e3
    open_module = kit.randomised(method.module(kit.shape))
    open_module.load_state_dict({k: v for k, v in module.state_dict().items() if k != "gate.weight"})
    close(module(ones), open_module(ones))


def test_causality(method: Any, kit: Any) -> None:
    module = kit.randomised(method.module(kit.shape))
    x = kit.tokens()
    changed = x.clone()
    changed[:, 4] += 1
    difference = (module(changed) - module(x)).abs().amax((0, 2))
    assert difference[:4].max() == 0
    assert difference[4:].min() > 1e-6


def test_positions_are_relative(method: Any, kit: Any) -> None:
    module = kit.randomised(method.module(kit.shape))
    x = kit.tokens()
    close(module(x, offset=1000), module(x), 1e-10)
    assert (module(x.flip(1)).flip(1) - module(x)).abs().max() > 1e-3


def test_without_rotary_part_and_mask_order_does_not_matter(kit: Any) -> None:
    layout = latent_layout(4, Fraction(1), Fraction(0), branches=4)
    module = kit.randomised(LatentAttention(kit.shape, layout, 8))
    x, order = kit.tokens(), torch.tensor([3, 0, 6, 1, 5, 2, 4])
    close(module(x[:, order], causal=False), module(x, causal=False)[:, order])


def test_one_branch_over_one_latent_is_mla(kit: Any) -> None:
    shape = kit.shape
    mla = kit.randomised(MLA().module(shape))
    layout = MLRA(branches=1, latents=1).layout(shape)
    assert layout == MLA().layout(shape)
    close(kit.randomised(LatentAttention(shape, layout, mla.query_latent))(kit.tokens()), mla(kit.tokens()))


def test_one_latent_of_gla_is_mla(kit: Any) -> None:
    assert GLA(latents=1).layout(kit.shape) == MLA().layout(kit.shape)


def test_tied_states_without_ties_are_grouped_queries(kit: Any) -> None:
    """The whole state as key, and no rotary key, at position 0: grouped queries whose keys are their values."""
    tied = kit.randomised(TiedAttention(kit.shape, tied_layout(2, Fraction(1), Fraction(1), Fraction(0))))
    grouped = kit.randomised(GQA(kv_heads=2).module(kit.shape))
    query, state = tied.down.weight.split([32, 8])
    with torch.no_grad():
        grouped.query_key_value.weight.copy_(torch.cat((query, state, state)))
        grouped.output.weight.copy_(tied.output.weight)
    x = kit.tokens(time=1)
    close(tied(x), grouped(x))


def test_factors_that_pick_one_vector_are_multi_query(kit: Any) -> None:
    """Rank 1 and every head's factor 1: one key and one value for all heads, and one query."""
    d, d_h = kit.shape.model, kit.shape.head_dim
    factored = kit.randomised(TPA(query_rank=1, rank=1).module(kit.shape))
    single = kit.randomised(MQA().module(kit.shape))
    with torch.no_grad():
        for part in (factored.query_a, factored.key_a, factored.value_a):
            part.weight.zero_()
            part.weight[:, -1] = 1
        vectors = [factored.query_b.weight] * kit.shape.heads + [factored.key_b.weight, factored.value_b.weight]
        single.query_key_value.weight.copy_(torch.cat(vectors))
        single.output.weight.copy_(factored.output.weight)
    x = kit.tokens()
    x[..., -1] = 1
    assert single.query_key_value.weight.shape == ((kit.shape.heads + 2) * d_h, d)
    close(factored(x), single(x))


def test_grouped_queries_between_their_extremes(kit: Any) -> None:
    x = kit.tokens()
    for grouped, extreme in ((GQA(kv_heads=8), MHA()), (GQA(kv_heads=1), MQA())):
        close(kit.randomised(grouped.module(kit.shape))(x), kit.randomised(extreme.module(kit.shape))(x))


def test_blocks_concatenated_give_the_keys_and_values_of_mla(kit: Any) -> None:
    """c W = sum over b of c_b W_b: cutting the latent changes nothing before norms and softmaxes do."""
    blocks = kit.randomised(MLRA().module(kit.shape))
    whole = kit.randomised(LatentAttention(kit.shape, MLA().layout(kit.shape), blocks.query_latent))
    with torch.no_grad():
        whole.up.copy_(blocks.up.reshape(whole.up.shape))
    latent = torch.randn(5, whole.width, dtype=torch.float64)
    parts = latent.reshape(5, 4, blocks.width).transpose(0, 1) @ blocks.up
    close(parts.sum(0), latent @ whole.up[0])


def test_equal_branches_add_up_to_sqrt_of_their_number(kit: Any) -> None:
    shape = kit.shape
    module = kit.randomised(MLRA().module(shape))
    single = kit.randomised(LatentAttention(shape, latent_layout(1, Fraction(1), HALF), module.query_latent))
    q, d_b = module.query_latent, module.width
    with torch.no_grad():
        module.down.weight[q : q + 4 * d_b] = single.down.weight[q : q + d_b].repeat(4, 1)
        module.down.weight[:q] = single.down.weight[:q]
        module.down.weight[q + 4 * d_b :] = single.down.weight[q + d_b :]
        for name in ("query_norm.weight", "query_up.weight", "output.weight"):
            module.get_parameter(name).copy_(single.get_parameter(name))
        module.latent_norm.weight.copy_(single.latent_norm.weight.expand(4, -1))
        module.up.copy_(single.up.expand(4, -1, -1))
    x = kit.tokens()
    close(module(x), 2 * single(x))


def without_values(module: Any, latents: list[int]) -> Any:
    up = module.up.unflatten(-1, (module.per_piece, 2, module.shape.head_dim))
    with torch.no_grad():
        up[latents, :, :, 1] = 0
    return module


def with_latents(module: Any, of: Any, latents: list[int]) -> Any:
    """``module`` with the weights of another one, of whose latents it takes these."""
    q, d_b, n = of.query_latent, of.width, of.latents
    rows = [
        *range(q),
        *(q + b * d_b + i for b in latents for i in range(d_b)),
        *range(q + n * d_b, len(of.down.weight)),
    ]
    with torch.no_grad():
        module.down.weight.copy_(of.down.weight[rows])
        module.latent_norm.weight.copy_(of.latent_norm.weight[latents])
        module.up.copy_(of.up[latents])
        for name in ("query_norm.weight", "query_up.weight", "output.weight"):
            module.get_parameter(name).copy_(of.get_parameter(name))
    return module


def test_mlra_4_with_one_live_branch_is_half_of_it(kit: Any) -> None:
    module = without_values(kit.randomised(MLRA().module(kit.shape)), [1, 2, 3])
    single = (
        LatentAttention(kit.shape, latent_layout(1, Fraction(1), HALF), module.query_latent)
        .double()
        .requires_grad_(False)
    )
    x = kit.tokens()
    close(module(x), with_latents(single, module, [0])(x) / 2)


def test_mlra_2_with_one_live_branch_is_gla_2_over_sqrt_2(kit: Any) -> None:
    module = without_values(kit.randomised(MLRA(branches=2).module(kit.shape)), [2, 3])
    pair = (
        LatentAttention(kit.shape, latent_layout(2, Fraction(1), HALF), module.query_latent)
        .double()
        .requires_grad_(False)
    )
    x = kit.tokens()
    close(module(x), with_latents(pair, module, [0, 1])(x) / math.sqrt(2))


def test_uniform_attention_averages_the_values(kit: Any) -> None:
    module = kit.randomised(MLRA().module(kit.shape))
    with torch.no_grad():
        module.query_up.weight.zero_()
    x = kit.tokens(batch=1)
    _, latent, _ = module.states(x, 0)
    values = torch.einsum("btlw,lwn->lbtn", latent, module.up).unflatten(-1, (8, 2, 4))[..., 1, :]
    means = values.cumsum(2) / torch.arange(1, kit.time + 1)[:, None, None]
    close(module(x), module.output(means.sum(0).flatten(2) / 2))


def test_every_weight_gets_its_gradient(either: Any, kit: Any) -> None:
    shape = Shape(model=8, heads=4, head_dim=4)
    module = kit.randomised(either.module(shape))
    x = kit.tokens(1, 3, shape).requires_grad_()
    names, weights = zip(*module.named_parameters(), strict=True)

    def run(x: Any, *weights: Any) -> Any:
        return torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x,))

    leaves = [w.detach().clone().requires_grad_() for w in weights]
    assert torch.autograd.gradcheck(run, (x, *leaves), fast_mode=True)
    run(x, *leaves).square().sum().backward()
    assert all(w.grad is not None and w.grad.abs().max() > 0 for w in leaves)


@pytest.mark.parametrize(
    ("method", "ratio", "branches"), [(MLA(), 6, 1), (GLA(), 12, 1), (GLA(latents=4), 24, 1), (MLRA(), 24, 4)]
)
def test_variances_at_the_start(method: Any, ratio: int, branches: int) -> None:
    """d = 3072, std 0.02: rotary keys 1.2288, the rest of the keys as much; without calibration a ratio-th of it."""
    shape = Shape(3072, 24, 128)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 256, shape.model, generator=generator)
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    calibrated, plain = method.module(shape), replace(method, calibrated=False).module(shape)
    with torch.no_grad():
        for weight in (calibrated.down.weight, calibrated.up):
            weight.normal_(std=0.02, generator=generator)
        plain.load_state_dict(calibrated.state_dict())
        states = {m: m.states(x, 0)[1][0].transpose(0, 1) @ m.up for m in (calibrated, plain)}
        rotary = calibrated.states(x, 0)[2]
    assert rotary.var() == pytest.approx(1.2288, rel=0.03)
    assert states[calibrated].var() == pytest.approx(1.2288, rel=0.03)
    assert states[plain].var() == pytest.approx(1.2288 / ratio, rel=0.03)
    assert rotary.var() / states[plain].var() == pytest.approx(ratio, rel=0.03)
    for module, gain in ((calibrated, 1), (plain, branches)):
        summed = states[module].unflatten(0, (branches, -1)).sum(0) * module.branch_gain
        assert summed.var() / states[module].var() == pytest.approx(gain, rel=0.03)


@pytest.mark.parametrize("heads", [6, 9])
def test_heads_that_do_not_come_out_even(heads: int) -> None:
    for method in (GQA(kv_heads=4), GTA(kv_heads=4), GLA(latents=4)):
        with pytest.raises(NotApplicable):
            method.module(Shape(24, heads, 4))
