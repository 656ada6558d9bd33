"""Which tensors of the released checkpoints make up which of ours: a table.

The release names its layers ``transformer.h.N``; query, key and value have matrices of their own, the latent variants
number their norms and up-projections in three ways. Ours keep what is multiplied with the same input in one matrix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

EMBEDDINGS = ("transformer.wte.weight", "lm_head.weight")
"""One tensor under two names."""


def concatenate(tensors: Sequence[Tensor]) -> Tensor:
    """Row blocks of one matrix; a single tensor stays what it is."""
    return torch.cat(list(tensors))


def stack(tensors: Sequence[Tensor]) -> Tensor:
    """One per latent, with a new first dimension."""
    return torch.stack(list(tensors))


def stack_transposed(tensors: Sequence[Tensor]) -> Tensor:
    """Weights of linear layers, one per latent, as [latent, input, output]."""
    return torch.stack([t.T for t in tensors])


@dataclass(frozen=True)
class Option:
    """One way to make a tensor of ours: ``join`` of the tensors that match ``patterns`` (``#`` is any number)."""

    patterns: tuple[str, ...]
    join: Callable[[Sequence[Tensor]], Tensor] = concatenate

    def names(self, present: Collection[str]) -> list[str]:
        """The tensors that it takes, in order of their numbers; empty where one is missing."""
        found = [_matching(pattern, present) for pattern in self.patterns]
        return [name for names in found for name in names] if all(found) else []

    def __str__(self) -> str:
        return " and ".join(self.patterns)


def _matching(pattern: str, present: Collection[str]) -> list[str]:
    if "#" not in pattern:
        return [pattern] if pattern in present else []
    form = re.compile(re.escape(pattern).replace(r"\#", r"(\d+)"))
    numbered = [(int(match[1]), name) for name in present if (match := form.fullmatch(name))]
    return [name for _, name in sorted(numbered)]


_WHOLE: Mapping[str, tuple[Option, ...]] = {
    "embedding.weight": tuple(Option((name,)) for name in EMBEDDINGS),
    "norm.weight": (Option(("layernorm.weight",)),),
}

_LAYER: Mapping[str, tuple[Option, ...]] = {
    "attention_norm.weight": (Option(("input_layernorm.weight",)),),
    "ffn_norm.weight": (Option(("post_attention_layernorm.weight",)),),
    "ffn.gate_up.weight": (Option(("mlp.c_fc1.weight", "mlp.c_fc2.weight")),),
    "ffn.down.weight": (Option(("mlp.c_proj.weight",)),),
    # every attention
    "attention.output.weight": (Option(("attn.c_proj.weight",)),),
    "attention.gate.weight": (Option(("attn.gated_proj.weight",)), Option(("attn.c_gated.weight",))),
    # heads: MHA, GQA, MQA, MFA
    "attention.query_key_value.weight": (Option(("attn.c_q.weight", "attn.c_k.weight", "attn.c_v.weight")),),
    # latents: MLA, GLA, MLRA; tied states: GTA; the queries of MFA
    "attention.down.weight": (
        Option(("attn.q_a_proj.weight", "attn.kv_a_proj_with_mqa.weight")),
        Option(("attn.c_q.weight", "attn.kv_proj.weight", "attn.W_rope_k.weight")),
    ),
    "attention.query_norm.weight": (Option(("attn.q_a_layernorm.weight",)), Option(("attn.q_layernorm.weight",))),
    "attention.query_up.weight": (Option(("attn.q_b_proj.weight",)), Option(("attn.w_q.weight",))),
    "attention.latent_norm.weight": (
        Option(("attn.kv_a_layernorm.weight",), stack),
        Option(("attn.kv_a_layernorm_#.weight",), stack),
        Option(("attn.kv_a_layernorms.#.weight",), stack),
    ),
    "attention.up": (
        Option(("attn.kv_b_proj",)),
        Option(("attn.kv_b_proj.weight",), stack_transposed),
        Option(("attn.kv_b_proj_#.weight",), stack_transposed),
    ),
    # factors: TPA
    **{
        f"attention.{state}_{factor}.weight": (Option((f"attn.c_qkv.W_{factor.upper()}_{state[0]}.weight",)),)
        for state in ("query", "key", "value")
        for factor in "ab"
    },
}


def sources(name: str) -> tuple[Option, ...]:
    """The ways to make one of our tensors, by its name in the state dict; none where it is not known."""
    layer = re.fullmatch(r"blocks\.(\d+)\.(.+)", name)
    if layer is None:
        return _WHOLE.get(name, ())
    prefix = f"transformer.h.{layer[1]}."
    return tuple(Option(tuple(prefix + p for p in o.patterns), o.join) for o in _LAYER.get(layer[2], ()))
