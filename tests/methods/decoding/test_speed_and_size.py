from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import harness.tracks.decoding.latency as latency
from harness.contract import NotApplicable
from harness.tracks.decoding.cache_size import CacheSize
from harness.tracks.decoding.latency import Latency
from harness.tracks.decoding.metrics.bytes_per_token import BytesPerToken
from harness.tracks.decoding.metrics.elements_per_token import ElementsPerToken
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_timed_step_is_attention(method: Any, dtype: Any, make_context: Callable[..., Any]) -> None:
    task = Latency(context=9000, heads=8, head_dim=16, tensor_parallel=2, dtype=dtype).prepare(method, make_context())
    assert task.check is not None
    assert 0 <= task.check() < (1e-5 if dtype == "float32" else 5e-2)


def test_a_wrong_kernel_does_not_pass(make_context: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "attend", lambda *a, **k: 1.01 * latency.attend_plainly(*a))
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
        caches.append(step._held[0].keys.numpy())
    np.testing.assert_array_equal(*caches)
