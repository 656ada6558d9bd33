from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import harness.tracks.decoding.steps as steps
from harness.contract import NotApplicable
from harness.tracks.decoding.cache_size import CacheSize
from harness.tracks.decoding.kernels import plain
from harness.tracks.decoding.kernels.compiled import read
from harness.tracks.decoding.latency import Latency
from harness.tracks.decoding.metrics.bytes_per_token import BytesPerToken
from harness.tracks.decoding.metrics.elements_per_token import ElementsPerToken
from harness.tracks.decoding.protocol import Shape
from methods.decoding.gla import GLA
from methods.decoding.gqa import GQA
from methods.decoding.mha import MHA
from methods.decoding.mla import MLA
from methods.decoding.mlra import MLRA
from methods.decoding.no_attention import NoAttention

pytestmark = pytest.mark.track_decoding


@pytest.mark.parametrize(
    ("method", "expected"), [(MLRA(), 1.5), (MLA(), 4.5), (GLA(), 2.5), (GQA(kv_heads=8), 4.0), (MHA(), 32.0)]
)
def test_cache_size_on_four_devices(method: Any, expected: float, make_context: Callable[..., Any]) -> None:
    context = make_context()
    seen = CacheSize(tensor_parallel=4).observe(method, context)
    assert seen.arrays["elements"].shape == (4,)
    assert ElementsPerToken().score(seen, {}, context).value == expected
    assert BytesPerToken().score(seen, {}, context).value == expected * 128 * 2


def test_what_does_not_fit_is_not_applicable(make_context: Callable[..., Any]) -> None:
    with pytest.raises(NotApplicable):
        CacheSize(tensor_parallel=3).observe(GQA(kv_heads=8), make_context())
    with pytest.raises(NotApplicable):
        Latency(context=64).prepare(NoAttention(), make_context())


@pytest.mark.parametrize("kernel", ["fused", "products", "sdpa"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_timed_step_is_attention(method: Any, kernel: Any, dtype: Any, make_context: Callable[..., Any]) -> None:
    evaluation = Latency(context=5000, heads=8, head_dim=32, tensor_parallel=2, dtype=dtype, kernel=kernel)
    if method.layout(Shape(256, 8, 32)).factored:
        with pytest.raises(NotApplicable, match="factors"):
            evaluation.prepare(method, make_context())
        return
    task = evaluation.prepare(method, make_context())
    assert task.check is not None
    assert 0 <= task.check() < (1e-4 if dtype == "float32" else 5e-2)


@pytest.mark.parametrize("method", [MLA(), MLRA(), GQA(kv_heads=2)], ids=str)
def test_all_kernels_meet_the_same_cache(method: Any, make_context: Callable[..., Any]) -> None:
    outputs = []
    for kernel in ("fused", "products", "sdpa"):
        task = Latency(context=300, heads=4, head_dim=32, kernel=kernel).prepare(method, make_context())
        step = task.call.__self__  # type: ignore[attr-defined]
        step.enter()
        outputs.append(step.attended())
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_plain_read_reads_what_the_kernels_must(
    dtype: Any, make_context: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Latency(context=300, dtype=dtype, kernel="read").prepare(MLRA(), make_context())
    step = task.call.__self__  # type: ignore[attr-defined]
    assert step.check() == 0
    step.enter()
    assert sum(t.numel() * t.element_size() for t in step.held.tensors) == task.work["bytes"]
    monkeypatch.setattr(steps.compiled, "read", lambda tensors: read(tensors[:1]))
    with pytest.raises(ArithmeticError, match="missed"):
        step.check()


def test_the_timed_kernel_is_compiled(make_context: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    run = steps.compiled.attend
    monkeypatch.setattr(steps.compiled, "attend", lambda *a: taken.append(a) or run(*a))
    task = Latency(context=300).prepare(MLRA(), make_context())
    assert task.enter is not None
    task.enter()
    task.call()
    assert len(taken) == 1


def test_a_wrong_kernel_does_not_pass(make_context: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "attend", lambda *a: 1.01 * plain.attend(*a))
    task = Latency(context=100).prepare(MLRA(), make_context())
    assert task.check is not None
    with pytest.raises(ArithmeticError, match="off by"):
        task.check()


def test_caches_are_in_memory_between_enter_and_leave_alone(make_context: Callable[..., Any]) -> None:
    task = Latency(context=64).prepare(MLA(), make_context())
    assert task.enter is not None
    assert task.leave is not None
    with pytest.raises(RuntimeError):
        task.call()
    task.enter()
    task.call()
    task.leave()
    with pytest.raises(RuntimeError):
        task.call()


def work(method: Any, devices: int, make_context: Callable[..., Any], **options: Any) -> Any:
    options = {"context": 100, "heads_per_state": None, "dtype": "bfloat16", **options}
    return Latency(tensor_parallel=devices, **options).prepare(method, make_context()).work


def test_bytes_follow_the_cache(make_context: Callable[..., Any]) -> None:
    mla, mlra = work(MLA(), 1, make_context), work(MLRA(), 4, make_context)
    assert mla["bytes"] == 576 * 2 * 100
    assert mla["bytes"] / mlra["bytes"] == 3
    assert work(GQA(kv_heads=8), 8, make_context)["bytes"] / mlra["bytes"] == pytest.approx(4 / 3)


def test_arithmetic_intensity_of_the_absorbed_form(make_context: Callable[..., Any]) -> None:
    """FLOP per byte and head in bfloat16: MLA 1.9; MLRA-4 2.2 on one device, 1.7 on four."""
    for method, devices, expected in ((MLA(), 1, 1.9), (MLRA(), 1, 2.2), (MLRA(), 4, 1.7)):
        amounts = work(method, devices, make_context)
        assert round(amounts["flops"] / amounts["bytes"] / 64, 1) == expected
    assert work(MLRA(), 4, make_context)["flops"] / work(MLA(), 4, make_context)["flops"] == pytest.approx(320 / 272)


def test_heads_per_state(make_context: Callable[..., Any]) -> None:
    one, all_heads = work(MLA(), 1, make_context, heads_per_state=1), work(MLA(), 1, make_context)
    assert all_heads["flops"] == 64 * one["flops"]
    assert all_heads["bytes"] == one["bytes"]


def test_rivals_meet_the_same_random_numbers(make_context: Callable[..., Any]) -> None:
    caches = []
    for _ in range(2):
        task = Latency(context=50).prepare(MLA(), make_context())
        step = task.call.__self__  # type: ignore[attr-defined]
        step.enter()
        caches.append(step.held.keys.numpy())
    np.testing.assert_array_equal(*caches)
