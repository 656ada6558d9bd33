"""That every kernel computes attention, for any shape, stride and precision it takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.tracks.decoding import kernels
from harness.tracks.decoding.kernels import attend, chunked, compiled, plain, products

pytestmark = pytest.mark.track_decoding

F32, BF16 = torch.float32, torch.bfloat16
KINDS = ("grouped", "latent", "partial")
"""Keys and values apart; the same numbers; keys the first half of the values."""


def case(
    kind: str = "latent",
    dtype: Any = F32,
    heads: int = 3,
    time: int = 100,
    width: int = 32,
    rope: int = 16,
    batch: int = 2,
    pieces: int = 3,
    spare: int = 0,
    seed: int = 3,
) -> tuple[Any, ...]:
    """Arguments of a kernel. ``spare``: capacity beyond the filled tokens, full of NaN."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    def cached(count: int, width: int) -> Any:
        whole = torch.full((batch, count, time + spare, width), torch.nan, dtype=dtype)
        whole[:, :, :time] = random(batch, count, time, width)
        return whole[:, :, :time]

    values = cached(pieces, 2 * width if kind == "partial" else width)
    keys = cached(pieces, width) if kind == "grouped" else values[..., :width]
    rotary = (random(batch, pieces, heads, rope), cached(1, rope)) if rope else (None, None)
    return random(batch, pieces, heads, width), keys, values, 0.2, *rotary


def exactly(arguments: Any) -> Any:
    return plain.attend(*(a.double() if isinstance(a, torch.Tensor) else a for a in arguments))


def error(found: Any, arguments: Any) -> float:
    exact = exactly(arguments)
    assert found.shape == exact.shape
    return float((found.double() - exact).abs().max() / exact.abs().max())


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_the_reference_is_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys, values, scale, rope_query, rope_keys = case(dtype=torch.float64)
    monkeypatch.setattr(plain, "CHUNK", 7)
    logits = torch.einsum("bphw,bptw->bpht", query, keys) + torch.einsum("bphw,btw->bpht", rope_query, rope_keys[:, 0])
    expected = torch.einsum("bpht,bptw->bphw", torch.softmax(scale * logits, -1), values)
    found = plain.attend(query, keys, values, scale, rope_query, rope_keys)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from([F32, BF16]),
    heads=st.integers(1, 8),
    time=st.integers(1, 200),
    width=st.sampled_from([16, 48, 64, 80]),
    rope=st.sampled_from([0, 16, 32]),
    batch=st.integers(1, 2),
    pieces=st.integers(1, 3),
    spare=st.sampled_from([0, 5]),
)
def test_any_shape(dtype: Any, **shape: Any) -> None:
    arguments = case(dtype=dtype, **shape)
    query, keys, values, _, _, rope_keys = arguments
    assert kernels.kernel_for(query, keys, values, rope_keys) is compiled.attend
    found = attend(*arguments)
    assert found.dtype == dtype
    assert error(found, arguments) < (2e-5 if dtype == F32 else 1e-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_tokens_split_over_threads(kind: str, dtype: Any, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    run = compiled.in_threads
    monkeypatch.setattr(compiled, "in_threads", lambda work, parts: used.append(parts) or run(work, parts))
    arguments = case(kind, dtype, heads=5, time=5001, width=64)
    assert error(attend(*arguments), arguments) < (2e-5 if dtype == F32 else 1e-2)
    assert used == [threads]


@pytest.mark.parametrize("time", [1, 31, 32, 33, 64])
def test_blocks_and_what_is_left_of_them(time: int) -> None:
    arguments = case(time=time, spare=40)
    assert error(attend(*arguments), arguments) < 2e-5


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("scale", [1e4, -1e4, 1e30])
def test_huge_logits_do_not_overflow(dtype: Any, scale: float) -> None:
    query, keys, values, _, *rotary = case(dtype=dtype)
    found = attend(query, keys, values, scale, *rotary)
    assert torch.isfinite(found).all()
    if abs(scale) < 1e5:
        assert error(found, (query, keys, values, scale, *rotary)) < (1e-3 if dtype == F32 else 1e-2)


def test_a_growing_maximum_shrinks_what_was_summed() -> None:
    query, keys, values, *_ = case("grouped", rope=0, batch=1, pieces=1, time=500)
    keys = keys + torch.linspace(0, 3, 500)[:, None] * query[0, 0, :1] / query[0, 0, 0].norm()
    arguments = (query, keys, values, 1.0)
    assert error(attend(*arguments), arguments) < 2e-5


@pytest.mark.parametrize("position", [0, 35, 99])
def test_what_is_no_number_reaches_the_output(position: int) -> None:
    arguments = case("grouped")
    arguments[1][0, 0, position, 3] = torch.nan
    found = attend(*arguments)
    assert torch.isnan(found[0, 0]).all()
    assert torch.isfinite(found[1]).all()


@pytest.mark.parametrize(
    "change", [{"dtype": torch.float64}, {"width": 24}, {"rope": 8}, {"dtype": torch.float16}], ids=str
)
def test_what_is_not_compiled_goes_in_chunks(change: dict[str, Any]) -> None:
    arguments = case(**change)
    query, keys, values, _, _, rope_keys = arguments
    assert kernels.kernel_for(query, keys, values, rope_keys) is chunked.attend
    assert error(attend(*arguments), arguments) < 1e-2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [1, 7, 50, 100, 8192])
def test_chunks_do_not_change_the_result(kind: str, chunk: int) -> None:
    arguments = case(kind, torch.float64, width=5, rope=6)
    assert error(chunked.attend(*arguments, chunk=chunk), arguments) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_attention(kind: str) -> None:
    arguments = case(kind, torch.float64, width=5, rope=6)
    assert error(products.attend(*arguments), arguments) < 1e-12


def test_a_forked_child_attends_too() -> None:
    arguments = case(time=5001, width=64)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = attend(*arguments)
        child = os.fork()
        if not child:
            same = torch.equal(compiled.attend(*arguments), expected)
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        torch.set_num_threads(before)


def test_a_plain_read_reads_every_word(threads: int) -> None:
    tensors = [torch.randn(3, 1001, 16).to(BF16), torch.randn(5, 2)]
    words = [t.flatten().view(torch.int64).numpy() for t in tensors]
    expected = sum(int(w.sum(dtype=np.int64)) for w in words)
    assert (compiled.read(tensors) - expected) % 2**64 == 0


def test_without_a_folder_to_write_to_it_compiles_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.tracks.decoding.kernels import sweep

    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    doubled = sweep._compiled(_doubled)
    assert doubled(3) == 6
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    assert sweep._compiled(_doubled)(3) == 6
    assert list(tmp_path.glob("compiled/*/*/*.nbi"))


def _doubled(number: int) -> int:
    return 2 * number
