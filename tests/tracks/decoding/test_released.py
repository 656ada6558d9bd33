"""Released checkpoints: their names and order of weights, against their formulae written out one head at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from harness.assets import resolve
from harness.tracks.decoding.decoder import Size, matched_ffn
from harness.tracks.decoding.released import Released
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.gta import GTA
from methods.decoding.mfa import MFA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.mqa import MQA
from methods.decoding.tpa import TPA

pytestmark = pytest.mark.track_decoding

D, HEADS, D_H, LAYERS, VOCABULARY = 32, 4, 8, 2, 40
ROPE, LATENT = D_H // 2, 4 * D_H
SIZE = Size(model=D, layers=LAYERS, heads=HEADS, head_dim=D_H, ffn=40, window=16)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Case:
    """``pairs``: (latent, its head in it) that head i adds up; ``form``: how the checkpoint writes the weights."""

    method: object
    kv_heads: int = 0
    latents: int = 0
    branches: int = 1
    form: str = ""
    query: int = 8
    gated: bool = False

    def pairs(self, head: int) -> list[tuple[int, int]]:
        groups = self.latents // self.branches
        per_group = HEADS // groups
        return [(b * groups + head // per_group, head % per_group) for b in range(self.branches)]


CASES = {
    "mha": Case(MHA(), kv_heads=4),
    "gqa": Case(GQA(kv_heads=2), kv_heads=2),
    "mqa": Case(MQA(), kv_heads=1),
    "mla": Case(MLA(), latents=1, form="linear", query=16),
    "gla-2": Case(GLA(latents=2), latents=2, form="numbered"),
    "gla-4": Case(GLA(latents=4), latents=4, form="tensor"),
    "mlra-2": Case(MLRA(branches=2), latents=4, branches=2, form="tensor"),
    "mlra-4": Case(MLRA(branches=4), latents=4, branches=4, form="tensor"),
    "mlra-4-gated": Case(MLRA(branches=4, gated=True), latents=4, branches=4, form="tensor", gated=True),
    "gqa-gated": Case(GQA(kv_heads=2, gated=True), kv_heads=2, gated=True),
    "gta": Case(GTA(kv_heads=2), kv_heads=2, form="tied"),
    "mfa": Case(MFA(), kv_heads=1, form="wide", query=24),
    "tpa": Case(TPA(query_rank=3, rank=2), form="factors"),
}
QUERY_RANK, RANK = 3, 2


def gate_name(case: Case) -> str:
    return "gated_proj.weight" if case.latents else "c_gated.weight"


def layer_weights(case: Case, draw) -> dict[str, Tensor]:
    """The attention of one layer as the release names it."""
    weights = {"c_proj.weight": draw(D, HEADS * D_H)}
    if case.gated:
        weights[gate_name(case)] = draw(HEADS * D_H, D)
    if case.form == "factors":
        ranks = {"q": QUERY_RANK, "k": RANK, "v": RANK}
        weights |= {f"c_qkv.W_A_{n}.weight": draw(HEADS * r, D) for n, r in ranks.items()}
        return weights | {f"c_qkv.W_B_{n}.weight": draw(r * D_H, D) for n, r in ranks.items()}
    if case.form == "tied":
        weights |= {"c_q.weight": draw(HEADS * D_H, D), "W_rope_k.weight": draw(D_H // 2, D)}
        return weights | {"kv_proj.weight": draw(case.kv_heads * D_H, D)}
    if case.form == "wide":
        weights = {"c_proj.weight": draw(D, HEADS * 2 * D_H), "c_q.weight": draw(case.query, D)}
        weights |= {"q_layernorm.weight": draw(case.query), "w_q.weight": draw(HEADS * 2 * D_H, case.query)}
        return weights | {f"c_{x}.weight": draw(2 * D_H, D) for x in "kv"}
    if case.kv_heads:
        weights["c_q.weight"] = draw(HEADS * D_H, D)
        return weights | {f"c_{x}.weight": draw(case.kv_heads * D_H, D) for x in "kv"}
    width, up = LATENT // case.latents, HEADS // (case.latents // case.branches) * 2 * D_H
    weights |= {
        "q_a_proj.weight": draw(case.query, D),
        "q_a_layernorm.weight": draw(case.query),
        "q_b_proj.weight": draw(HEADS * (D_H + ROPE), case.query),
        "kv_a_proj_with_mqa.weight": draw(LATENT + ROPE, D),
    }
    if case.form == "linear":
        return weights | {"kv_a_layernorm.weight": draw(width), "kv_b_proj.weight": draw(up, width)}
    if case.form == "numbered":
        norms = {f"kv_a_layernorm_{i + 1}.weight": draw(width) for i in range(case.latents)}
        return weights | norms | {f"kv_b_proj_{i + 1}.weight": draw(up, width) for i in range(case.latents)}
    norms = {f"kv_a_layernorms.{i}.weight": draw(width) for i in range(case.latents)}
    return weights | norms | {"kv_b_proj": draw(case.latents, width, up)}


def checkpoint(case: Case, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * 0.4

    embedding = draw(VOCABULARY, D)
    made = {"transformer.wte.weight": embedding, "lm_head.weight": embedding.clone(), "layernorm.weight": draw(D)}
    for layer in range(LAYERS):
        attention = layer_weights(case, draw)
        width = matched_ffn(SIZE, sum(t.numel() for t in attention.values()))
        parts = {f"attn.{name}": tensor for name, tensor in attention.items()} | {
            "mlp.c_fc1.weight": draw(width, D),
            "mlp.c_fc2.weight": draw(width, D),
            "mlp.c_proj.weight": draw(D, width),
            "input_layernorm.weight": draw(D),
            "post_attention_layernorm.weight": draw(D),
        }
        made |= {f"transformer.h.{layer}.{name}": tensor for name, tensor in parts.items()}
    return made


def norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def turn(x: Tensor) -> Tensor:
    """Complex numbers made of the first and the second half, multiplied by e^(i t theta)."""
    half = x.shape[-1] // 2
    theta = 10_000.0 ** (-torch.arange(half) / half)
    angle = torch.arange(len(x))[:, None] * theta
    turned = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((turned.real, turned.imag), -1)


def softmax_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.T / math.sqrt(query.shape[-1])
    future = torch.ones(len(query), len(query)).triu(1).bool()
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ value


def attention(case: Case, w: dict[str, Tensor], x: Tensor) -> Tensor:
    """[time, d] -> [time, d], head by head (sections 2.1 to 2.5 of arXiv 2603.02188's method)."""
    outputs = []
    for head in range(HEADS):
        own = slice(head * D_H, (head + 1) * D_H)
        if case.form in OTHERS:
            outputs.append(OTHERS[case.form](case, w, x, head))
            continue
        if case.kv_heads:
            group = head // (HEADS // case.kv_heads)
            kv = slice(group * D_H, (group + 1) * D_H)
            key, value = (x @ w[f"c_{n}.weight"][kv].T for n in "kv")
            outputs.append(softmax_attention(turn(x @ w["c_q.weight"][own].T), turn(key), value))
            continue
        wide = D_H + ROPE
        c_q = norm(x @ w["q_a_proj.weight"].T, w["q_a_layernorm.weight"]) * math.sqrt(D / case.query)
        query = c_q @ w["q_b_proj.weight"][head * wide : (head + 1) * wide].T
        query = torch.cat((query[:, :D_H], turn(query[:, D_H:])), -1)
        all_latents = x @ w["kv_a_proj_with_mqa.weight"].T
        rope_key, width = turn(all_latents[:, LATENT:]), LATENT // case.latents
        total = torch.zeros(len(x), D_H)
        for latent, place in case.pairs(head):
            scale, up = latent_weights(case, w, latent)
            c = norm(all_latents[:, latent * width : (latent + 1) * width], scale) * math.sqrt(D / width)
            both = c @ up[:, place * 2 * D_H : (place + 1) * 2 * D_H]
            total += softmax_attention(query, torch.cat((both[:, :D_H], rope_key), -1), both[:, D_H:])
        outputs.append(total / math.sqrt(case.branches))
    mixed = torch.cat(outputs, -1)
    if case.gated:
        mixed = mixed / (1 + torch.exp(-x @ w[gate_name(case)].T))
    return mixed @ w["c_proj.weight"].T


def tied_head(case: Case, w: dict[str, Tensor], x: Tensor, head: int) -> Tensor:
    """The first half of the group's state is key and value, one rotary key is the key's other half."""
    group, half = head // (HEADS // case.kv_heads), D_H // 2
    query = x @ w["c_q.weight"][head * D_H : (head + 1) * D_H].T
    state = x @ w["kv_proj.weight"][group * D_H : (group + 1) * D_H].T
    key = torch.cat((state[:, :half], turn(x @ w["W_rope_k.weight"].T)), -1)
    return softmax_attention(torch.cat((query[:, :half], turn(query[:, half:])), -1), key, state)


def wide_head(case: Case, w: dict[str, Tensor], x: Tensor, head: int) -> Tensor:
    """Queries by way of a normed latent; one key and one value of twice the width."""
    latent = norm(x @ w["c_q.weight"].T, w["q_layernorm.weight"])
    query = latent @ w["w_q.weight"][head * 2 * D_H : (head + 1) * 2 * D_H].T
    return softmax_attention(turn(query), turn(x @ w["c_k.weight"].T), x @ w["c_v.weight"].T)


def factored_head(case: Case, w: dict[str, Tensor], x: Tensor, head: int) -> Tensor:
    """Mean over ranks of a number of the head times a vector of all heads."""
    states = []
    for n, ranks in (("q", QUERY_RANK), ("k", RANK), ("v", RANK)):
        total = torch.zeros(len(x), D_H)
        for rank in range(ranks):
            vector = x @ w[f"c_qkv.W_B_{n}.weight"][rank * D_H : (rank + 1) * D_H].T
            number = x @ w[f"c_qkv.W_A_{n}.weight"][head * ranks + rank]
            total += number[:, None] * (vector if n == "v" else turn(vector)) / ranks
        states.append(total)
    return softmax_attention(*states)


OTHERS = {"tied": tied_head, "wide": wide_head, "factors": factored_head}


def latent_weights(case: Case, w: dict[str, Tensor], latent: int) -> tuple[Tensor, Tensor]:
    """Norm [d_b] and up-projection [d_b, heads of this latent * 2 d_h]."""
    if case.form == "linear":
        return w["kv_a_layernorm.weight"], w["kv_b_proj.weight"].T
    if case.form == "numbered":
        return w[f"kv_a_layernorm_{latent + 1}.weight"], w[f"kv_b_proj_{latent + 1}.weight"].T
    return w[f"kv_a_layernorms.{latent}.weight"], w["kv_b_proj"][latent]


def by_hand(case: Case, weights: dict[str, Tensor], ids: list[int]) -> Tensor:
    """Logits [time, vocabulary]."""
    x = weights["transformer.wte.weight"][ids]
    for layer in range(LAYERS):
        start = f"transformer.h.{layer}."
        w = {k.removeprefix(start): v for k, v in weights.items() if k.startswith(start)}
        own = {k.removeprefix("attn."): v for k, v in w.items() if k.startswith("attn.")}
        x = x + attention(case, own, norm(x, w["input_layernorm.weight"]))
        y = norm(x, w["post_attention_layernorm.weight"])
        gate = y @ w["mlp.c_fc1.weight"].T
        x = x + (gate * torch.sigmoid(gate) * (y @ w["mlp.c_fc2.weight"].T)) @ w["mlp.c_proj.weight"].T
    return norm(x, weights["layernorm.weight"]) @ weights["transformer.wte.weight"].T


def load(case: Case, make_context, **assets):
    build = Released(method=case.method, size=SIZE, weights=tuple(assets))
    context = make_context(assets=assets)
    counts = build.make(context)
    assert counts["vocabulary"] == VOCABULARY
    return build.load(context.directory)


@pytest.mark.parametrize("name", CASES)
def test_a_released_model_computes_what_its_formulae_say(name, make_context, tmp_path):
    case = CASES[name]
    weights = checkpoint(case)
    save_file(weights, tmp_path / "model.safetensors")
    model = load(case, make_context, **{"file:model.safetensors": tmp_path / "model.safetensors"})
    ids = [3, 17, 5, 5, 39, 0, 21]
    with torch.inference_mode():
        torch.testing.assert_close(model(torch.tensor([ids]))[0], by_hand(case, weights, ids), atol=1e-4, rtol=1e-4)


def test_weights_in_several_pickled_files(make_context, tmp_path):
    weights = checkpoint(CASES["gqa"])
    names = sorted(weights)
    torch.save({n: weights[n] for n in names[::2]}, tmp_path / "pytorch_model-1.bin")
    torch.save({n: weights[n] for n in names[1::2]}, tmp_path / "pytorch_model-2.bin")
    parts = {f"file:{i}": tmp_path / f"pytorch_model-{i}.bin" for i in (1, 2)}
    for model in (load(CASES["gqa"], make_context, **parts), load(CASES["gqa"], make_context, **{"file:m": tmp_path})):
        torch.testing.assert_close(model.embedding.weight.data, weights["lm_head.weight"])


def test_a_pickle_that_is_more_than_tensors_is_not_opened(make_context, tmp_path):
    torch.save({"x": Case(None)}, tmp_path / "m.pt")
    with pytest.raises(Exception, match=r"(?i)weights"):
        load(CASES["gqa"], make_context, **{"file:m.pt": tmp_path / "m.pt"})


def test_through_the_hub_cache(make_context, tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    folder = tmp_path / "hub" / "models--org--decoders"
    snapshot = folder / "snapshots" / COMMIT / "main"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    save_file(checkpoint(CASES["mlra-4"]), snapshot / "model.safetensors")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    reference = f"hub:org/decoders@{COMMIT}/main/model.safetensors"
    load(CASES["mlra-4"], make_context, **{reference: resolve(reference)})


def test_all_that_does_not_fit_is_named(make_context, tmp_path):
    weights = checkpoint(CASES["mla"])
    del weights["transformer.h.1.attn.q_b_proj.weight"]
    weights["transformer.h.0.mlp.c_proj.weight"] = torch.zeros(D, 3)
    weights["transformer.h.0.attn.extra"] = torch.zeros(2)
    save_file(weights, tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="not those of this method and size") as caught:
        load(CASES["mla"], make_context, **{"file:m": tmp_path / "m.safetensors"})
    said = str(caught.value)
    assert "transformer.h.0.mlp.c_proj.weight of (32, 3) gives blocks.0.ffn.down.weight (32, 3), expected (32, " in said
    assert "blocks.1.attention.query_up.weight has no source (transformer.h.1.attn.q_b_proj.weight or " in said
    assert "transformer.h.0.attn.extra (2,) is not wanted" in said


def test_weights_of_another_variant(make_context, tmp_path):
    save_file(checkpoint(CASES["mlra-4"]), tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=r"and \d+ more|is not wanted|expected"):
        load(CASES["gqa"], make_context, **{"file:m": tmp_path / "m.safetensors"})
    save_file({"x": torch.zeros(1)}, tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match=r"none of transformer\.wte\.weight, lm_head\.weight: found x"):
        load(CASES["gqa"], make_context, **{"file:n": tmp_path / "none.safetensors"})
