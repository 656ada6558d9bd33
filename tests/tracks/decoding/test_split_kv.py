"""The split-KV kernel against its definition in float64, through Triton's interpreter on the CPU.

Triton decides when it is imported whether functions are interpreted. So that no other module of this process is
disturbed, one child process is started with TRITON_INTERPRET=1 and runs the kernel for all tests here.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from harness.tracks.decoding.cache import DeviceCache  # noqa: E402
from harness.tracks.decoding.kernels import split_kv  # noqa: E402
from harness.tracks.decoding.layout import CacheTensor, Layout, grouped_layout, latent_layout  # noqa: E402

pytestmark = pytest.mark.track_decoding

ROOT = Path(__file__).parents[3]
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}  # of the largest value

HALF = Fraction(1, 2)
TIED = Layout(
    2,
    (CacheTensor("state", Fraction(1)), CacheTensor("rope_key", HALF, shared=True)),
    key="state",
    value="state",
    rope="rope_key",
    key_width=HALF,
)
LAYOUTS = {
    "grouped": grouped_layout(2, Fraction(1), Fraction(1)),
    "wide-head": grouped_layout(1, Fraction(2), Fraction(2)),
    "narrow-value": grouped_layout(1, Fraction(2), Fraction(1)),
    "latents": latent_layout(3, Fraction(1), HALF),
    "one-latent": latent_layout(1, Fraction(4), HALF),
    "tied": TIED,
}


class Kernel(Protocol):
    def __call__(self, *arguments: Any, **options: Any) -> Any: ...


@pytest.fixture(scope="module")
def interpreter() -> Iterator[ProcessPoolExecutor]:
    with pytest.MonkeyPatch.context() as patch, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        patch.setenv("TRITON_INTERPRET", "1")
        pool.submit(os.getpid).result()  # the child has the environment of its start
        patch.undo()
        yield pool


@pytest.fixture(scope="module")
def attend(interpreter: ProcessPoolExecutor) -> Kernel:
    return lambda *arguments, **options: interpreter.submit(split_kv.attend, *arguments, **options).result(120)


def exact(query: Any, keys: Any, values: Any, scale: float, rope_query: Any = None, rope_keys: Any = None) -> Any:
    logits = query.double() @ keys.double().mT
    if rope_query is not None:
        logits = logits + rope_query.double() @ rope_keys.double().mT
    return torch.softmax(logits * scale, -1) @ values.double()


def check(attend: Kernel, arguments: tuple[Any, ...], **options: Any) -> None:
    found, expected = attend(*arguments, **options), exact(*arguments)
    query, values = arguments[0], arguments[2]
    assert found.dtype == query.dtype
    assert found.shape == expected.shape
    assert (found.double() - expected).abs().max() <= TOLERANCE[query.dtype] * values.double().abs().max()


def drawn(
    layout: Layout, heads: int, head_dim: int, time: int, dtype: Any, batch: int = 1, seed: int = 0, spare: int = 7
) -> tuple[Any, ...]:
    """Arguments for a cache that is longer than filled; what lies beyond the filled part is not a number."""
    generator = torch.Generator().manual_seed(seed)
    widths, (share,) = layout.widths(head_dim), layout.shares(layout.pieces, 1)
    cache = DeviceCache(layout, share, head_dim, batch, time + spare, dtype)
    cache.length = time
    for tensor in cache.tensors.values():
        tensor.fill_(torch.nan)[:, :, :time] = torch.randn(*tensor[:, :, :time].shape, generator=generator).to(dtype)

    def queries(width: int) -> Any:
        return torch.randn(batch, layout.pieces, heads, width, generator=generator).to(dtype)

    rope_query = queries(widths.rope) if widths.rope else None
    return queries(widths.key), cache.keys, cache.values, 0.3, rope_query, cache.rope_keys


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    heads=st.integers(1, 20),
    head_dim=st.sampled_from([8, 12, 16, 24]),
    time=st.integers(1, 200),
    batch=st.integers(1, 2),
    dtype=st.sampled_from(sorted(DTYPES)),
    splits=st.none() | st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_any_shape_agrees_with_the_definition(
    attend: Kernel,
    layout: str,
    heads: int,
    head_dim: int,
    time: int,
    batch: int,
    dtype: str,
    splits: int | None,
    seed: int,
) -> None:
    check(attend, drawn(LAYOUTS[layout], heads, head_dim, time, DTYPES[dtype], batch, seed), splits=splits)


@pytest.mark.parametrize(
    ("layout", "heads", "dtype"),
    [
        ("one-latent", 64, "bfloat16"),
        ("one-latent", 16, "float32"),
        ("tied", 8, "bfloat16"),
        ("wide-head", 64, "float16"),
    ],
)
def test_widths_and_heads_of_the_paper(attend: Kernel, layout: str, heads: int, dtype: str) -> None:
    check(attend, drawn(LAYOUTS[layout], heads, 128, 70, DTYPES[dtype]))


@pytest.mark.parametrize("heads", [65, 130])
def test_more_heads_than_one_block_takes(attend: Kernel, heads: int) -> None:
    check(attend, drawn(LAYOUTS["grouped"], heads, 16, 70, torch.bfloat16), splits=1)


def test_a_single_token_is_returned(attend: Kernel) -> None:
    arguments = drawn(LAYOUTS["latents"], 4, 16, 1, torch.float32)
    torch.testing.assert_close(attend(*arguments), arguments[2].expand(-1, -1, 4, -1))


def test_the_number_of_splits_does_not_matter(attend: Kernel) -> None:
    arguments = drawn(LAYOUTS["one-latent"], 3, 8, 700, torch.float32)
    tile = split_kv.Tile(heads=16, tokens=16, stages=1, warps=4)
    whole = attend(*arguments, splits=1, tile=tile)
    for splits in (17, 10_000):
        torch.testing.assert_close(attend(*arguments, splits=splits, tile=tile), whole, rtol=1e-5, atol=1e-6)
    check(attend, arguments, splits=44, tile=tile)


@pytest.mark.parametrize("scale", [1e5, -1e5])
def test_extreme_logits_do_not_overflow(attend: Kernel, scale: float) -> None:
    query, keys, values, _, rope_query, rope_keys = drawn(LAYOUTS["latents"], 4, 16, 300, torch.float32)
    check(attend, (query, keys, values, scale, rope_query, rope_keys), splits=4)


def test_views_with_any_strides(attend: Kernel) -> None:
    stored = torch.randn(90, 3, 2, 40)  # time, batch, pieces, width
    keys, values = stored.permute(1, 2, 0, 3)[..., :32:2], stored.permute(1, 2, 0, 3)[..., 7:]
    rope_keys = torch.randn(3, 1, 8, 90).mT
    query = torch.randn(3, 2, 16, 5).mT
    check(attend, (query, keys, values, 0.2, torch.randn(2, 3, 5, 8).transpose(0, 1), rope_keys), splits=2)


def test_one_sequence_expanded_to_a_batch(attend: Kernel) -> None:
    query, keys, values, scale, rope_query, rope_keys = drawn(LAYOUTS["tied"], 4, 16, 50, torch.float32)
    keys, values, rope_keys = (t.expand(4, -1, -1, -1) for t in (keys, values, rope_keys))
    check(attend, (torch.randn(4, *query.shape[1:]), keys, values, scale, torch.cat([rope_query] * 4), rope_keys))


def test_offsets_beyond_32_bits(interpreter: ProcessPoolExecutor) -> None:
    """70 tokens, 2^25 + 2^20 numbers from one to the next: only the pages touched take memory."""
    program = """
import torch
from harness.tracks.decoding.kernels.split_kv import attend
far = 2**25 + 2**20
keys = torch.empty(70 * far, dtype=torch.float16).as_strided((1, 1, 70, 16), (1, 1, far, 1))
keys.copy_(torch.randn(1, 1, 70, 16))
query = torch.randn(1, 1, 3, 16).half()
found = attend(query, keys, keys, 0.3, splits=1)
expected = torch.softmax(query.float() @ keys.float().mT * 0.3, -1) @ keys.float()
torch.testing.assert_close(found.float(), expected, rtol=0, atol=5e-3)
"""
    interpreter.submit(exec, program, {}).result(120)


BROKEN = {
    "keys is": {"keys": (1, 2, 9, 12)},
    "values is": {"values": (1, 2, 8, 16)},
    "rope_query is": {"rope_query": (1, 2, 4, 6)},
    "rope_keys is": {"rope_keys": (1, 2, 9, 8)},
    "3 and 4 dimensions": {"query": (2, 4, 16)},
    "keys is empty": {"keys": (1, 2, 0, 16), "values": (1, 2, 0, 16), "rope_keys": (1, 1, 0, 8)},
    "one of them is missing": {"rope_query": None},
}


@pytest.mark.parametrize("message", BROKEN)
def test_arguments_that_do_not_fit_are_named(message: str) -> None:
    shapes = {"query": (1, 2, 4, 16), "keys": (1, 2, 9, 16), "values": (1, 2, 9, 16)}
    shapes |= {"rope_query": (1, 2, 4, 8), "rope_keys": (1, 1, 9, 8)} | BROKEN[message]  # type: ignore[operator]
    tensors = {name: None if shape is None else torch.zeros(shape) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=message):
        split_kv.attend(**tensors, scale=1.0)


def test_dtypes_must_be_known_and_equal() -> None:
    query, keys = torch.zeros(1, 1, 1, 16), torch.zeros(1, 1, 9, 16)
    with pytest.raises(ValueError, match=r"query is torch.float64, expected one of"):
        split_kv.attend(query.double(), keys.double(), keys.double(), 1.0)
    with pytest.raises(ValueError, match=r"keys is torch.float16, expected one of"):
        split_kv.attend(query, keys.half(), keys.half(), 1.0)


@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="Triton is interpreted in this process")
def test_a_processor_needs_the_interpreter() -> None:
    keys = torch.zeros(1, 1, 9, 16)
    with pytest.raises(ValueError, match=r"on cpu: expected a CUDA device, or Triton's interpreter"):
        split_kv.attend(keys[:, :, :1], keys, keys, 1.0)


def test_without_triton_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['triton'] = None; import harness.tracks.decoding.kernels.split_kv"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("needs triton, on Linux: pip install 'methods-harness[gpu]'")


@given(tiles=st.integers(1, 70_000), units=st.integers(1, 4000), slots=st.sampled_from([4, 132, 264]))
def test_splits_fill_the_machine_and_no_more(tiles: int, units: int, slots: int) -> None:
    splits = split_kv.choose_splits(tiles, units, slots)
    assert 1 <= splits <= tiles
    waves = -(-units * splits // slots)
    if tiles >= 64 * slots:  # long enough for no block to idle much
        assert units * splits >= 0.8 * waves * slots
    assert waves * -(-tiles // splits) <= 1.5 * -(-tiles * units // slots) + 4  # tiles one after another, ideal beside


@given(
    heads=st.integers(1, 200),
    width=st.sampled_from([32, 128, 192, 320, 512, 576]),
    dtype=st.sampled_from(split_kv.DTYPES),
    shared=st.sampled_from([99 * 1024, 163 * 1024, 227 * 1024]),
)
def test_tiles_fit_into_shared_memory(heads: int, width: int, dtype: Any, shared: int) -> None:
    tile = split_kv.choose_tile(heads, width, dtype, shared)
    assert tile.bytes(width * dtype.itemsize) <= shared
    assert min(tile.heads, tile.tokens) >= 16


def test_a_cache_too_wide_for_the_machine_is_refused() -> None:
    with pytest.raises(ValueError, match=r"16384 bytes a token is too wide for 65536 bytes"):
        split_kv.choose_tile(8, 4096, torch.float32, 65536)


SHAPES = {  # heads, width, value width, rope, keys in values
    "gqa": (8, 128, 128, 0, False),
    "mla": (64, 512, 512, 64, True),
    "gla-2": (32, 256, 256, 64, True),
    "mlra-4": (64, 128, 128, 64, True),
    "mfa": (64, 256, 256, 0, False),
    "gta": (8, 64, 128, 64, True),
}


@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="Triton is interpreted in this process")
@pytest.mark.parametrize("shape", SHAPES)
def test_it_compiles_for_a_gpu_that_is_not_here(shape: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through Triton's compiler for an H100: what the interpreter lets pass and the compiler does not shows here."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    compiled = compile_for_hopper(*SHAPES[shape])
    assert compiled.metadata.shared <= split_kv.HOPPER[1]
    ptx = compiled.asm["ptx"]
    assert re.search(r"wgmma\.mma_async|mma\.sync", ptx)  # tensor cores
    assert re.search(r"cp\.async\.cg.*0x10", ptx)  # loads of 16 bytes, in flight while others are worked on


def compile_for_hopper(heads: int, width: int, value: int, rope: int, tied: bool) -> Any:
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    rest = value - width * tied
    padded = [split_kv._pad(w) if w else 0 for w in (width, rest, rope)]
    tile = split_kv.choose_tile(heads, sum(padded), torch.bfloat16, split_kv.HOPPER[1])
    constants = {
        **{"KEY": width, "KEY_PAD": padded[0], "VALUE": value, "REST": rest, "REST_PAD": padded[1], "ROPE": rope},
        **{"ROPE_PAD": padded[2], "TIED": tied, "HEADS": tile.heads, "TOKENS": tile.tokens, "WIDEN": False},
        **{"key_column": 1, "value_column": 1, "rope_column": 1},
    }
    names = split_kv._attend_to_split.arg_names
    types = dict.fromkeys(names, "i32") | dict.fromkeys(constants, "constexpr") | {"scale": "fp32"}
    types |= dict.fromkeys(("query", "rope_query", "keys", "values", "rope_keys"), "*bf16")
    types |= dict.fromkeys(("largest", "total", "weighted"), "*fp32")
    aligned = [n for n in names if types[n].startswith("*") or re.fullmatch(r"\w+_(batch|piece|time)", n)]
    source = ASTSource(
        split_kv._attend_to_split, types, constants, {(names.index(n),): [["tt.divisibility", 16]] for n in aligned}
    )
    return compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": tile.warps, "num_stages": tile.stages}
    )


def benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "decode_on_gpu.py"), *arguments]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, env=environment)


def test_the_benchmark_runs_interpreted(tmp_path: Path) -> None:
    done = benchmark("--interpret", "--bandwidth", "3350", "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stderr
    assert "no measurement" in done.stdout
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["interpreted"] is True
    assert report["vendor_bandwidth"] == 3350e9
    ran = {(row["shape"], row["kernel"]) for row in report["rows"] if row["seconds"]}
    assert {(shape, kernel) for shape in ("GQA", "MLA", "GLA-2", "MLRA-4") for kernel in ("split_kv", "sdpa")} <= ran
    assert all(row["error"] < 0.02 for row in report["rows"] if row["seconds"])
    assert all(row["note"] for row in report["rows"] if not row["seconds"])


def test_the_benchmark_says_that_it_needs_a_gpu() -> None:
    done = benchmark()
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "no CUDA device" in done.stderr
