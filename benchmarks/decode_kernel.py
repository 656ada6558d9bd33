"""How near the compiled decode kernel comes to a plain read of the same cache, and what torch's own ways take.

    python benchmarks/decode_kernel.py [--contexts 131072 1048576] [--heads 1 4] [--threads 1 2] [--rounds 9]

Every round times, one after the other on the same tensors: the plain reads (compiled sum, numpy's max, torch's sum; the
fastest counts), our kernel, torch's two matrix products, and its scaled_dot_product_attention. Printed are the reads'
bandwidth and, as medians over rounds with the range, read time over kernel time, and the others' time over ours.
``arithmetic`` is the kernel's speed on one token over and over, which stays in the first-level cache, over the read's
from memory: the fraction that arithmetic alone would allow.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from harness.tracks.decoding.device import Precision
from harness.tracks.decoding.kernels import attend, compiled
from harness.tracks.decoding.layout import Layout
from harness.tracks.decoding.protocol import Shape
from harness.tracks.decoding.steps import Products, Sdpa, Step
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA

HEADS, HEAD_DIM = 64, 128
SHARES = {"MLA": (MLA(), 1), "GLA-2": (GLA(), 2), "MLRA-4": (MLRA(), 4), "GQA": (GQA(kv_heads=8), 8)}
"""Method and number of devices of which one is timed: 512+64, 256+64, 128+64 and 128/128 numbers a token."""
SLOW = 10.0
"""A way of torch's that takes so many times the read is timed in one round alone."""
REPEATS = 65_536


clock: Callable[[], float] = time.perf_counter


def seconds(work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


def cpu_seconds(threads: int) -> float:
    return time.process_time() / threads


def reads(step: Step) -> list[Callable[[], object]]:
    """Honest ways to read every byte once. numpy's max has no threads of its own and gets ours."""
    threads = torch.get_num_threads()
    words = [t.view(torch.uint8).flatten() for t in step.held.tensors]
    parts = [p.view(torch.int32).numpy() for w in words for p in w.view(torch.int64).chunk(threads)]
    sums = [w.view(torch.int64) for w in words]
    pool = ThreadPoolExecutor(threads)
    return [
        lambda: compiled.read(step.held.tensors),
        lambda: list(pool.map(lambda p: p.max(), parts)),
        lambda: [s.sum() for s in sums],
    ]


def made(kind: type[Step], layout: Layout, devices: int, heads: int, context: int, dtype: Precision) -> Step:
    share = layout.shares(HEADS, devices)[0]
    step = kind(layout, share, heads=heads, head_dim=HEAD_DIM, context=context, dtype=dtype, device="cpu", seed=0)
    step.enter()
    return step


def arithmetic(step: Step) -> float:
    """Bytes a second of our kernel where all tokens are the same one, which stays in the first-level cache."""
    query, keys, values, rope_query, rope_keys, _ = step.held

    def again(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[:, :, :1].expand(-1, -1, REPEATS, -1)

    rotary = None if rope_keys is None else again(rope_keys)
    took = min(
        seconds(lambda: attend(query, again(keys), again(values), step.scale, rope_query, rotary)) for _ in "123"
    )
    return step.work()["bytes"] / step.context * REPEATS / took


def shown(values: Sequence[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):6.2f} [{min(values):.2f}, {max(values):.2f}]"


def row(name: str, heads: int, context: int, dtype: Precision, rounds: int) -> str:
    """Time all ways at one shape with the threads that torch has now."""
    method, devices = SHARES[name]
    layout = method.layout(Shape(HEADS * HEAD_DIM, HEADS, HEAD_DIM))
    step = made(Step, layout, devices, heads, context, dtype)
    ways, sdpa = reads(step), None
    products = made_from(Products, step)
    amount = step.work()["bytes"]
    seen: dict[str, list[float]] = {"read": [], "fused": [], "products": [], "sdpa": []}
    step.call()
    for number in range(rounds):
        seen["read"].append(min(seconds(way) for way in ways))
        seen["fused"].append(min(seconds(step.call) for _ in ways))  # as many tries as the reads had
        if number == 0 or seen["products"][0] < SLOW * seen["read"][0]:
            seen["products"].append(seconds(products.call))
        if number == 0:
            sdpa = made(Sdpa, layout, devices, heads, context, dtype)
        if sdpa is not None and (number == 0 or seen["sdpa"][0] < SLOW * seen["read"][0]):
            seen["sdpa"].append(seconds(sdpa.call))
    ours = seen["fused"]
    best = statistics.median(amount / s / 1e9 for s in seen["read"])
    fractions = [read / mine for read, mine in zip(seen["read"], ours, strict=True)]
    others = [shown([s / mine for s, mine in zip(seen[k], ours, strict=False)]) for k in ("products", "sdpa")]
    limit = arithmetic(step) / 1e9 / best
    return f"{best:6.1f}   {shown(fractions)}   {limit:5.2f}   {others[0]}   {others[1]}"


def made_from(kind: type[Step], step: Step) -> Step:
    """Another kernel on the very same tensors."""
    other = copy.copy(step)
    other.__class__ = kind
    return other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, nargs="+", default=[131_072, 1_048_576])
    parser.add_argument("--heads", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--methods", nargs="+", default=list(SHARES), choices=SHARES)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cpu-clock", action="store_true", help="CPU seconds over threads: for a busy machine")
    options = parser.parse_args()
    print("threads context heads dtype method | read GB/s | fraction of read | arithmetic | products/ours | sdpa/ours")
    for threads in options.threads:
        torch.set_num_threads(threads)
        if options.cpu_clock:
            globals()["clock"] = partial(cpu_seconds, threads)
        for context in options.contexts:
            for dtype in options.dtypes:
                for heads in options.heads:
                    for name in options.methods:
                        figures = row(name, heads, context, dtype, options.rounds)
                        print(f"{threads} {context:8} {heads:2} {dtype:8} {name:6} {figures}", flush=True)


if __name__ == "__main__":
    main()
