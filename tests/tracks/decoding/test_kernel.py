from __future__ import annotations

import pytest
import torch

from harness.tracks.decoding.kernel import attend, attend_plainly

pytestmark = pytest.mark.track_decoding


def case(dtype: object, time: int = 100, rope: int = 6) -> tuple[object, ...]:
    generator = torch.Generator().manual_seed(3)

    def random(*shape: int) -> object:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    keys = random(2, 3, 8, time)
    query, values = random(2, 3, 4, 8), random(2, 3, 5, time)
    return query, keys, values, 0.7, random(2, 3, 4, rope), random(2, 1, rope, time)


@pytest.mark.parametrize("chunk", [1, 7, 50, 100, 8192])
def test_chunks_do_not_change_the_result(chunk: int) -> None:
    arguments = case(torch.float64)
    torch.testing.assert_close(attend(*arguments, chunk=chunk), attend_plainly(*arguments), rtol=1e-12, atol=1e-12)


def test_without_rotary_part() -> None:
    query, keys, values, scale, *_ = case(torch.float64)
    expected = torch.softmax(query @ keys * scale, -1) @ values.transpose(-1, -2)
    torch.testing.assert_close(attend(query, keys, values, scale, chunk=9), expected, rtol=1e-12, atol=1e-12)


def test_huge_logits_do_not_overflow() -> None:
    query, keys, values, _, rope_query, rope_keys = case(torch.float32)
    out = attend(query, keys, values, 1e4, rope_query, rope_keys, chunk=10)
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out, attend_plainly(query, keys, values, 1e4, rope_query, rope_keys))


def test_half_precision_accumulates_in_float32() -> None:
    arguments = case(torch.bfloat16, time=2000)
    exact = attend_plainly(*(a.double() if isinstance(a, torch.Tensor) else a for a in arguments))
    assert attend(*arguments, chunk=64).dtype == torch.bfloat16
    assert (attend(*arguments, chunk=64).double() - exact).abs().max() < 5e-2 * exact.abs().max()
