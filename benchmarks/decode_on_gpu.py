"""Decoding attention on a GPU: the split-KV kernel beside others and beside the time that reading the cache takes.

    python benchmarks/decode_on_gpu.py [--contexts 131072 ...] [--bandwidth 3350] [--rounds 20] [--tune] [--json FILE]

One device's share of a layer with 64 query heads of 128, one sequence, bfloat16: GQA on eight devices, MLA on one,
GLA-2 on two, MLRA-4 on four. Every kernel is checked against the definition in float32 before it is timed. Kernels take
turns in every round, each after the second-level cache was overwritten; medians over rounds, timed on the device.
``--interpret`` runs tiny shapes through Triton's interpreter instead, to test this script: its times mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

SCALE = 192**-0.5  # of every shape here but GQA's, whose keys have 128: no matter for time
TOLERANCE = 2e-2  # of the largest output, in bfloat16
FLUSH = 2**30  # bytes written before each call: more than any second-level cache, and long enough to hide the launch


@dataclass(frozen=True)
class Shape:
    """One device's share: ``latent`` states are key and value at once."""

    name: str
    heads: int
    width: int
    rope: int
    latent: bool

    def bytes(self, context: int) -> int:
        """Of cache that must be read, in bfloat16."""
        return 2 * context * (self.width * (1 if self.latent else 2) + self.rope)


SHAPES = (
    Shape("GQA", 8, 128, 0, latent=False),
    Shape("MLA", 64, 512, 64, latent=True),
    Shape("GLA-2", 32, 256, 64, latent=True),
    Shape("MLRA-4", 64, 128, 64, latent=True),
)
CONTEXTS = (131_072, 262_144, 524_288, 1_048_576, 2_097_152)
TINY = tuple(Shape(s.name, s.heads // 8, s.width // 8, s.rope // 8, s.latent) for s in SHAPES)


@dataclass(frozen=True)
class Row:
    """One kernel on one shape: ``seconds`` None where it was not timed, for the reason in ``note``."""

    shape: str
    context: int
    kernel: str
    bytes: int
    ideal: float
    seconds: float | None
    fastest: float | None
    error: float | None
    note: str = ""


class Inputs:
    """Random cache and queries [1, 1, time or heads, width]. ``joined``: key and rotary key of a token side by side."""

    def __init__(self, shape: Shape, context: int, device: str) -> None:
        def random(length: int, width: int) -> Tensor:
            return torch.randn(1, 1, length, width, device=device, dtype=torch.bfloat16)

        self.shape, self.context, self.device = shape, context, device
        self.keys = random(context, shape.width)
        self.values = self.keys if shape.latent else random(context, shape.width)
        self.query = random(shape.heads, shape.width)
        self.rope_keys = random(context, shape.rope) if shape.rope else None
        self.rope_query = random(shape.heads, shape.rope) if shape.rope else None
        self.joined, self.joined_query = self.keys, self.query
        if self.rope_keys is not None and self.rope_query is not None:
            self.joined = torch.cat((self.keys, self.rope_keys), -1)
            self.joined_query = torch.cat((self.query, self.rope_query), -1)

    def reference(self, chunk: int = 65_536) -> Tensor:
        """By the definition, in float32, the cache widened piece by piece."""
        parts = [self.joined_query.float() @ part.float().mT for part in torch.split(self.joined, chunk, dim=2)]
        weights = torch.split(torch.softmax(torch.cat(parts, -1) * SCALE, -1), chunk, dim=-1)
        values = torch.split(self.values, chunk, dim=2)
        mixed = [w @ part.float() for w, part in zip(weights, values, strict=True)]
        return torch.stack(mixed).sum(0)


Kernel = Callable[[], Tensor]


def split_kv(inputs: Inputs, **options: Any) -> Kernel:
    """Ours."""
    from harness.tracks.decoding.kernels.split_kv import attend

    i = inputs
    return lambda: attend(i.query, i.keys, i.values, SCALE, i.rope_query, i.rope_keys, **options)


def sdpa(inputs: Inputs) -> Kernel:
    """torch's fused attention: heads stand as queries, the joined cache is key and (for latents) padded value."""
    values = inputs.joined if inputs.shape.latent else inputs.values
    width = inputs.shape.width

    def call() -> Tensor:
        mixed = functional.scaled_dot_product_attention(inputs.joined_query, inputs.joined, values, scale=SCALE)
        return mixed[..., :width]

    return call


def products(inputs: Inputs) -> Kernel:
    """Two matrix products of torch with a softmax between them: all logits in memory, latents read twice."""

    def call() -> Tensor:
        logits = inputs.joined_query @ inputs.joined.mT
        weights = torch.softmax(logits * SCALE, -1, dtype=torch.float32)
        return weights.to(inputs.values.dtype) @ inputs.values

    return call


def flash_attention_3(inputs: Inputs) -> Kernel:
    """FlashAttention-3 for Hopper; a latent goes in as value, and as ``qv`` into the logits."""
    from flash_attn_interface import flash_attn_with_kvcache  # type: ignore[import-not-found]

    i = inputs
    # wanted: [batch, time, heads, width], which a single query token's [batch, pieces, heads, width] already is
    if i.rope_query is None or i.rope_keys is None:
        query, keys, extra = i.query, i.keys.transpose(1, 2), None
    else:
        query, keys, extra = i.rope_query, i.rope_keys.transpose(1, 2), i.query
    values = i.values.transpose(1, 2)

    def call() -> Tensor:
        found: Tensor = flash_attn_with_kvcache(query, keys, values, qv=extra, softmax_scale=SCALE, causal=False)
        return found

    return call


def flash_mla(inputs: Inputs) -> Kernel:
    """FlashMLA for Hopper: MLA's widths alone, pages of 64 tokens."""
    if (inputs.shape.width, inputs.shape.rope) != (512, 64):
        raise LookupError("FlashMLA takes latents of 512 with rotary keys of 64 alone")
    from flash_mla import flash_mla_with_kvcache, get_mla_metadata  # type: ignore[import-not-found]

    pages = inputs.joined.view(-1, 64, 1, 576)
    table = torch.arange(len(pages), dtype=torch.int32, device=inputs.device)[None]
    lengths = torch.tensor([inputs.context], dtype=torch.int32, device=inputs.device)
    plan = get_mla_metadata(lengths, inputs.shape.heads, 1)

    def call() -> Tensor:
        found: Tensor = flash_mla_with_kvcache(
            inputs.joined_query, pages, table, lengths, 512, *plan, softmax_scale=SCALE, causal=False
        )[0]
        return found

    return call


KERNELS: dict[str, Callable[[Inputs], Kernel]] = {
    "split_kv": split_kv,
    "sdpa": sdpa,
    "products": products,
    "flash_attention_3": flash_attention_3,
    "flash_mla": flash_mla,
}


def tuned(device: str) -> dict[str, Callable[[Inputs], Kernel]]:
    """The split-KV kernel with other tiles than its own choice."""
    from harness.tracks.decoding.kernels.split_kv import Tile

    def maker(tokens: int, stages: int, warps: int) -> Callable[[Inputs], Kernel]:
        return lambda i: split_kv(i, tile=Tile(min(64, max(16, i.shape.heads)), tokens, stages, warps))

    choices = [(t, s, w) for t in (32, 64, 128) for s in (2, 3, 4) for w in (4, 8)]
    return {"split_kv {} tokens, {} stages, {} warps".format(*choice): maker(*choice) for choice in choices}


class Clock:
    """Times single calls: by events on a GPU, after a write that empties its cache; by the processor's clock else."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.flush = torch.empty(FLUSH if device == "cuda" else 2**20, dtype=torch.uint8, device=device)

    def __call__(self, call: Callable[[], object]) -> float:
        """Seconds of one call."""
        self.flush.zero_()
        if self.device != "cuda":
            began = time.perf_counter()
            call()
            return time.perf_counter() - began
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        events[0].record()
        call()
        events[1].record()
        events[1].synchronize()
        return float(events[0].elapsed_time(events[1])) / 1000

    def bandwidth(self) -> dict[str, float]:
        """Bytes per second of a copy (read and written) and of a plain read (a sum), the best of ten each."""
        source = self.flush.clone().view(torch.float32).fill_(1)
        target = torch.empty_like(source)
        copied, read = (min(self(call) for _ in range(10)) for call in (lambda: target.copy_(source), source.sum))
        size = source.numel() * source.element_size()
        return {"copy": 2 * size / copied, "read": size / read}


def first_calls(
    inputs: Inputs, makers: dict[str, Callable[[Inputs], Kernel]]
) -> tuple[dict[str, Kernel], dict[str, Any]]:
    """Kernels that ran and agree with the reference, and for each name its error or why it was left out."""
    expected = inputs.reference()
    kernels: dict[str, Kernel] = {}
    found: dict[str, Any] = {}
    for name, make in makers.items():
        try:
            call = make(inputs)
            out = call().reshape(expected.shape).float()
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            found[name] = f"not run: {type(error).__name__}: {first[:120]}"
            continue
        off = float((out - expected).abs().max() / expected.abs().max())
        if off <= TOLERANCE:
            kernels[name], found[name] = call, off
        else:
            found[name] = f"not timed: off by {off:.1e} of the largest output"
    return kernels, found


def measure(shape: Shape, context: int, given: argparse.Namespace, clock: Clock, bandwidth: float) -> list[Row]:
    """All kernels on one shape, taking turns."""
    torch.manual_seed(0)
    inputs = Inputs(shape, context, clock.device)
    makers = KERNELS | (tuned(clock.device) if given.tune else {})
    kernels, found = first_calls(inputs, makers)
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    for round in range(given.rounds):
        names = list(kernels)
        for name in names[round % len(names) :] + names[: round % len(names)]:
            seconds[name].append(clock(kernels[name]))
    size = shape.bytes(context)
    rows = []
    for name, value in found.items():
        taken = seconds.get(name)
        common = (shape.name, context, name, size, size / bandwidth)
        if taken:
            rows.append(Row(*common, statistics.median(taken), min(taken), value))
        else:
            rows.append(Row(*common, None, None, None, value))
    return rows


def line(row: Row) -> str:
    start = f"{row.shape:<7} {row.context:>9,} {row.kernel:<36} {1e6 * row.ideal:>9.1f}"
    if row.seconds is None or row.error is None:
        return f"{start}  {row.note}"
    return f"{start} {1e6 * row.seconds:>9.1f} {row.ideal / row.seconds:>6.0%} {row.error:>9.1e}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Decoding attention on a GPU against the time to read the cache.")
    parser.add_argument(
        "--contexts", type=int, nargs="+", help="cached tokens, multiples of 64 (default: 131072 to 2097152)"
    )
    parser.add_argument("--bandwidth", type=float, help="the vendor's figure in GB/s: ideal times are reckoned with it")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tune", action="store_true", help="time other tiles of the split-KV kernel, too")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--interpret", action="store_true", help="tiny shapes on the CPU, to test this script")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    if given.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, which happens later
        given.rounds = 1
    elif not torch.cuda.is_available():
        print("no CUDA device here: run this on a GPU, or with --interpret to test the script itself", file=sys.stderr)
        return 2
    clock = Clock("cpu" if given.interpret else "cuda")
    machine = "Triton's interpreter, no measurement" if given.interpret else torch.cuda.get_device_name()
    measured = clock.bandwidth()
    vendor = None if given.bandwidth is None else given.bandwidth * 1e9
    print(f"{machine}, torch {torch.__version__}")
    print(", ".join(f"{name} {speed / 1e9:,.0f} GB/s" for name, speed in measured.items()), end="")
    print("" if vendor is None else f", vendor's figure {vendor / 1e9:,.0f} GB/s")
    print(f"{'shape':<7} {'context':>9} {'kernel':<36} {'ideal us':>9} {'us':>9} {'share':>6} {'error':>9}")
    rows = []
    for shape in TINY if given.interpret else SHAPES:
        for context in given.contexts or ((192,) if given.interpret else CONTEXTS):
            part = measure(shape, context, given, clock, vendor or max(measured.values()))
            print("\n".join(line(row) for row in part), flush=True)
            rows += part
    if given.json:
        report = {"machine": machine, "torch": torch.__version__, "interpreted": given.interpret, "bandwidth": measured}
        report |= {"vendor_bandwidth": vendor, "rounds": given.rounds, "rows": [asdict(row) for row in rows]}
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
