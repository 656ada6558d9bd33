"""All attention methods, layers with random weights, and attention written out by its definition."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.tracks.decoding.parts import RMSNorm
from harness.tracks.decoding.protocol import Shape
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.gta import GTA
from methods.decoding.mfa import MFA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.mqa import MQA
from methods.decoding.tpa import TPA

SHAPE = Shape(model=24, heads=8, head_dim=4)
TIME = 7

LATENT = {
    "mla": MLA(),
    "gla-2": GLA(),
    "gla-4": GLA(latents=4),
    "mlra-2": MLRA(branches=2),
    "mlra-4": MLRA(),
}
METHODS: dict[str, Any] = {
    "mha": MHA(),
    "mqa": MQA(),
    "gqa": GQA(kv_heads=2),
    "gta": GTA(kv_heads=2),
    "mfa": MFA(),
    "tpa": TPA(),
    **LATENT,
}


def randomised(module: Any, seed: int = 0, dtype: Any = None) -> Any:
    """All weights random, output projection and norms included: with the zeros of the start nothing would show."""
    generator = torch.Generator().manual_seed(seed)
    module = module.to(dtype or torch.float64)
    for part in module.modules():
        for parameter in part.parameters(recurse=False):
            torch.nn.init.normal_(parameter, mean=float(isinstance(part, RMSNorm)), std=0.3, generator=generator)
    return module.requires_grad_(False)


def tokens(batch: int = 2, time: int = TIME, shape: Shape = SHAPE, seed: int = 1, dtype: Any = None) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, time, shape.model, generator=generator, dtype=torch.float64).to(dtype or torch.float64)


def turn(vector: Any, position: int) -> Any:
    """Rotary position: pair i of (first half, second half) is a complex number, turned by position * base^(-2i/n)."""
    half = vector.shape[-1] // 2
    angles = position * 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / max(half, 1))
    turned = torch.complex(vector[:half], vector[half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag))


def norm(vector: Any, weight: Any) -> Any:
    return vector / torch.sqrt((vector**2).mean() + 1e-6) * weight


def softmax_sum(queries: list[Any], keys: list[Any], values: list[Any], scale: float) -> list[Any]:
    """Causal attention of one head, token by token."""
    out = []
    for t, query in enumerate(queries):
        logits = torch.stack([query @ key * scale for key in keys[: t + 1]])
        out.append(sum(w * v for w, v in zip(torch.softmax(logits, 0), values, strict=False)))
    return out


def latent_by_definition(module: Any, x: Any, calibrated: bool) -> Any:
    """x [time, d] -> heads' outputs, one head, branch and token after another (sections 2.1 to 2.5 of the method)."""
    d, h, d_h = module.shape.model, module.shape.heads, module.shape.head_dim
    n, d_b, d_r, d_q = module.latents, module.width, module.rope, module.query_latent
    query_factor, latent_factor, sum_factor = 1.0, 1.0, 1.0
    if calibrated:
        query_factor, latent_factor, sum_factor = math.sqrt(d / d_q), math.sqrt(d / d_b), 1 / math.sqrt(module.branches)
    down = module.down.weight
    query_latents = [norm(down[:d_q] @ v, module.query_norm.weight) * query_factor for v in x]
    rope_keys = [turn(down[d_q + n * d_b :] @ v, t) for t, v in enumerate(x)]
    groups = n // module.branches
    heads = []
    for i in range(h):
        w = module.query_up.weight[i * (d_h + d_r) : (i + 1) * (d_h + d_r)]
        plain = [w @ q for q in query_latents]
        queries = [torch.cat((q[:d_h], turn(q[d_h:], t))) for t, q in enumerate(plain)]
        total = 0
        for branch in range(module.branches):
            b = branch * groups + i // (h // groups)
            local = i % (h // groups)
            w_c = down[d_q + b * d_b : d_q + (b + 1) * d_b]
            latents = [norm(w_c @ v, module.latent_norm.weight[b]) * latent_factor for v in x]
            up = module.up[b][:, local * 2 * d_h : (local + 1) * 2 * d_h]
            keys = [torch.cat((c @ up[:, :d_h], r)) for c, r in zip(latents, rope_keys, strict=True)]
            values = [c @ up[:, d_h:] for c in latents]
            total = total + torch.stack(softmax_sum(queries, keys, values, 1 / math.sqrt(d_h + d_r)))
        heads.append(total * sum_factor)
    return heads


def grouped_by_definition(module: Any, x: Any, width: int) -> Any:
    """x [time, d] -> heads' outputs of ``width``, one head after another."""
    h, g = module.shape.heads, module.kv_heads
    weight = module.query_key_value.weight
    queries_from, sources = weight[: h * width], x
    if module.query_up is not None:
        queries_from = module.query_up.weight
        latent = queries_from.shape[1]
        sources = [norm(weight[:latent] @ v, module.query_norm.weight) for v in x]
    keys_from, values_from = weight[-2 * g * width :].split(g * width)
    heads = []
    for i in range(h):
        kv = slice(i // (h // g) * width, (i // (h // g) + 1) * width)
        queries = [turn(queries_from[i * width : (i + 1) * width] @ v, t) for t, v in enumerate(sources)]
        keys = [turn(keys_from[kv] @ v, t) for t, v in enumerate(x)]
        values = [values_from[kv] @ v for v in x]
        heads.append(torch.stack(softmax_sum(queries, keys, values, 1 / math.sqrt(width))))
    return heads


def tied_by_definition(module: Any, x: Any) -> Any:
    """The state is the value; its first half and the shared rotary key are the key."""
    h, g, d_h = module.shape.heads, module.states, module.shape.head_dim
    half = d_h // 2
    query, state, rope = module.down.weight.split([h * d_h, g * d_h, half])
    rope_keys = [turn(rope @ v, t) for t, v in enumerate(x)]
    heads = []
    for i in range(h):
        group = i // (h // g)
        plain = [query[i * d_h : (i + 1) * d_h] @ v for v in x]
        queries = [torch.cat((q[:half], turn(q[half:], t))) for t, q in enumerate(plain)]
        states = [state[group * d_h : (group + 1) * d_h] @ v for v in x]
        keys = [torch.cat((s[:half], r)) for s, r in zip(states, rope_keys, strict=True)]
        heads.append(torch.stack(softmax_sum(queries, keys, states, 1 / math.sqrt(d_h))))
    return heads


def factored_by_definition(module: Any, x: Any) -> Any:
    """Every head's query, key and value made whole: the mean over ranks of a number times a vector."""
    h, d_h = module.shape.heads, module.shape.head_dim

    def made(a: Any, b: Any, head: int, positions: bool) -> list[Any]:
        rank = a.out_features // h
        out = []
        for t, v in enumerate(x):
            numbers, vectors = (a.weight @ v).view(h, rank)[head], (b.weight @ v).view(rank, d_h)
            terms = [n * (turn(w, t) if positions else w) for n, w in zip(numbers, vectors, strict=True)]
            out.append(torch.stack(terms).mean(0))
        return out

    heads = []
    for i in range(h):
        queries = made(module.query_a, module.query_b, i, True)
        keys = made(module.key_a, module.key_b, i, True)
        values = made(module.value_a, module.value_b, i, False)
        heads.append(torch.stack(softmax_sum(queries, keys, values, 1 / math.sqrt(d_h))))
    return heads


def by_definition(method: Any, module: Any, x: Any) -> Any:
    """x [batch, time, d] -> [batch, time, d]: the method's heads, gated if it is, times the output projection."""
    rows = []
    for row in x:
        if isinstance(method, MLA | GLA | MLRA):
            heads = latent_by_definition(module, row, method.calibrated)
        elif isinstance(method, GTA):
            heads = tied_by_definition(module, row)
        elif isinstance(method, TPA):
            heads = factored_by_definition(module, row)
        else:
            heads = grouped_by_definition(module, row, module.shape.head_dim * (2 if isinstance(method, MFA) else 1))
        concatenated = torch.cat(heads, -1)
        if method.gated:
            concatenated = concatenated / (1 + torch.exp(-row @ module.gate.weight.T))
        rows.append(concatenated @ module.output.weight.T)
    return torch.stack(rows)


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> Any:
    return METHODS[request.param]


@pytest.fixture(params=["", "gated"])
def either(request: pytest.FixtureRequest, method: Any) -> Any:
    """Every method, without and with a gate."""
    return replace(method, gated=bool(request.param))


@pytest.fixture(params=sorted(LATENT))
def latent_method(request: pytest.FixtureRequest) -> Any:
    return LATENT[request.param]


@pytest.fixture
def kit() -> SimpleNamespace:
    """What tests here share: test modules cannot import one another."""
    return SimpleNamespace(
        methods=METHODS, shape=SHAPE, time=TIME, randomised=randomised, tokens=tokens, by_definition=by_definition
    )
