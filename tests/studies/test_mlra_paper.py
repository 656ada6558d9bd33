"""The profile of the paper's sizes, these replaced by small ones: one training step, and a checkpoint from a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.track_decoding

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "specs" / "mlra.yaml"
SIZE = "{model: 48, layers: 1, heads: 6, head_dim: 8, ffn: 128, ffn_multiple: 8, window: 16}"
METHODS = ["mla", "gqa-6", "mlra-4"]
SETTINGS = {
    "resources": "{cpus: 1, gpus: 0, memory: 2GiB, timeout: 10m}",
    "evaluations.latency.methods": "[mla, mlra-4]",
    "evaluations.latency.params.heads_per_state": "2",
    "evaluations.latency.params.min_time": "0.001",
    "evaluations.latency.matrix.context": "[1024]",
    "evaluations.kernel": "null",
    "evaluations.parallel": "null",
    "evaluations.modelled.matrix.context": "[1024]",
    "evaluations.perplexity.methods": f"[{', '.join(METHODS)}]",
    "evaluations.perplexity.params.size.params": SIZE,
    "evaluations.perplexity.params.tokenizer.params.vocabulary": "300",
    "evaluations.perplexity.params.decoder.params.steps": "1",
    "evaluations.perplexity.params.decoder.params.batch": "4",
    "evaluations.perplexity.params.decoder.params.micro_batch": "2",
    "evaluations.downstream": "null",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the text that the profile wants."""
    place = tmp_path_factory.mktemp("paper")
    words = "a latent is cut into four blocks and every block is attended to on its own"
    paragraphs = [f"Paragraph {n}: {words[n % 40 :]} {n * 7919}." for n in range(400)]
    (place / "fineweb-edu.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    return place


def run(place: Path, settings: dict[str, str], *arguments: str) -> dict[str, Any]:
    options = [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]
    command = [sys.executable, "-m", "harness", *arguments, str(SPEC), "--profile", "paper", *options]
    environment = {**os.environ, "HARNESS_RESULTS": str(place / "results")}
    result = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout) if "--json" in arguments else {}


def column(board: dict[str, Any], evaluation: str, metric: str) -> dict[str, float]:
    (found,) = [e for e in board["evaluations"] if e["evaluation"] == evaluation]
    return {c["method"]: c["estimate"] for col in found["columns"] if col["metric"] == metric for c in col["cells"]}


def test_one_step_of_everything(place: Path) -> None:
    run(place, SETTINGS, "run")
    board = run(place, SETTINGS, "table", "--json")
    perplexities = column(board, "perplexity", "token_perplexity")
    assert set(perplexities) == set(METHODS)
    # One step in bfloat16 from zero projections: still about the 300 equally likely tokens of the start
    assert all(150 < value < 400 for value in perplexities.values())
    verdicts = {claim["id"]: claim["verdict"] for claim in board["claims"]}
    assert verdicts["cache-mlra-4"] == "reproduced"
    assert verdicts["speed-mla"] != "not tested at this scale"


def test_a_released_checkpoint_takes_the_place_of_training(place: Path) -> None:
    """Weights of MLRA-4 under the names of the release, all at their start: every token as likely as any other."""
    from safetensors.torch import save_file

    from harness.tracks.decoding.decoder import Decoder, Size
    from methods.decoding.mlra import MLRA

    size = Size(model=48, layers=1, heads=6, head_dim=8, ffn=128, ffn_multiple=8, window=16)
    decoder = Decoder(MLRA(), size, 300)
    decoder.initialise(0, 0.02)
    ours = decoder.state_dict()
    ours["embedding.weight"].zero_()
    query = decoder.blocks[0].attention.query_latent
    gate, up = ours["blocks.0.ffn.gate_up.weight"].chunk(2)
    layer = {
        "attn.q_a_proj.weight": ours["blocks.0.attention.down.weight"][:query],
        "attn.kv_a_proj_with_mqa.weight": ours["blocks.0.attention.down.weight"][query:],
        "attn.q_a_layernorm.weight": ours["blocks.0.attention.query_norm.weight"],
        "attn.q_b_proj.weight": ours["blocks.0.attention.query_up.weight"],
        "attn.kv_b_proj": ours["blocks.0.attention.up"],
        "attn.c_proj.weight": ours["blocks.0.attention.output.weight"],
        "mlp.c_fc1.weight": gate,
        "mlp.c_fc2.weight": up,
        "mlp.c_proj.weight": ours["blocks.0.ffn.down.weight"],
        "input_layernorm.weight": ours["blocks.0.attention_norm.weight"],
        "post_attention_layernorm.weight": ours["blocks.0.ffn_norm.weight"],
    }
    norms = ours["blocks.0.attention.latent_norm.weight"]
    layer |= {f"attn.kv_a_layernorms.{i}.weight": norms[i] for i in range(4)}
    names = {"transformer.wte.weight": ours["embedding.weight"], "layernorm.weight": ours["norm.weight"]}
    names |= {f"transformer.h.0.{name}": tensor for name, tensor in layer.items()}
    save_file({name: tensor.clone().contiguous() for name, tensor in names.items()}, place / "mlra-4.safetensors")

    released = "{use: decoding.released, params: {weights: ['file:mlra-4.safetensors']}}"
    settings = {k: v for k, v in SETTINGS.items() if ".decoder.params." not in k}
    settings |= {"evaluations.perplexity.methods": "[mlra-4]", "evaluations.perplexity.params.decoder": released}
    run(place, settings, "run", "--only", "perplexity/mlra-4")
    board = run(place, settings, "table", "--json")
    assert column(board, "perplexity", "token_perplexity")["mlra-4"] == pytest.approx(300, rel=1e-4)
