"""All attention methods, layers with random weights, and attention written out by its definition."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.tracks.decoding.parts import RMSNorm
from harness.tracks.decoding.protocol import Shape
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.mqa import MQA

SHAPE = Shape(model=24, heads=8, head_dim=4)
TIME = 7

LATENT = {
    "mla": MLA(),
    "gla-2": GLA(),
    "gla-4": GLA(latents=4),
    "mlra-2": MLRA(branches=2),
    "mlra-4": MLRA(),
}
METHODS: dict[str, Any] = {"mha": MHA(), "mqa": MQA(), "gqa": GQA(kv_heads=2), **LATENT}


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


def latent_by_definition(module: Any, x: Any) -> Any:
    """x [time, d] -> [time, d], one head, branch and token after another (sections 2.1 to 2.5 of the method)."""
    d, h, d_h = module.shape.model, module.shape.heads, module.shape.head_dim
    n, d_b, d_r, d_q = module.latents, module.width, module.rope, module.query_latent
    down = module.down.weight
    query_latents = [norm(down[:d_q] @ v, module.query_norm.weight) * math.sqrt(d / d_q) for v in x]
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
            latents = [norm(w_c @ v, module.latent_norm.weight[b]) * math.sqrt(d / d_b) for v in x]
            up = module.up[b][:, local * 2 * d_h : (local + 1) * 2 * d_h]
            keys = [torch.cat((c @ up[:, :d_h], r)) for c, r in zip(latents, rope_keys, strict=True)]
            values = [c @ up[:, d_h:] for c in latents]
            total = total + torch.stack(softmax_sum(queries, keys, values, 1 / math.sqrt(d_h + d_r)))
        heads.append(total / math.sqrt(module.branches))
    return torch.cat(heads, -1) @ module.output.weight.T


def grouped_by_definition(module: Any, x: Any) -> Any:
    """x [time, d] -> [time, d], one head after another."""
    h, g, d_h = module.shape.heads, module.kv_heads, module.shape.head_dim
    w = module.query_key_value.weight.split(d_h)
    heads = []
    for i in range(h):
        kv = i // (h // g)
        queries = [turn(w[i] @ v, t) for t, v in enumerate(x)]
        keys = [turn(w[h + kv] @ v, t) for t, v in enumerate(x)]
        values = [w[h + g + kv] @ v for v in x]
        heads.append(torch.stack(softmax_sum(queries, keys, values, 1 / math.sqrt(d_h))))
    return torch.cat(heads, -1) @ module.output.weight.T


def by_definition(module: Any, x: Any) -> Any:
    """x [batch, time, d] -> [batch, time, d]."""
    definition = latent_by_definition if hasattr(module, "latents") else grouped_by_definition
    return torch.stack([definition(module, row) for row in x])


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> Any:
    return METHODS[request.param]


@pytest.fixture(params=sorted(LATENT))
def latent_method(request: pytest.FixtureRequest) -> Any:
    return LATENT[request.param]


@pytest.fixture
def kit() -> SimpleNamespace:
    """What tests here share: test modules cannot import one another."""
    return SimpleNamespace(
        methods=METHODS, shape=SHAPE, time=TIME, randomised=randomised, tokens=tokens, by_definition=by_definition
    )
