from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from harness.contract import Observations
from harness.tracks.decoding.metrics.bandwidth import Bandwidth
from harness.tracks.decoding.metrics.bits_per_byte import BitsPerByte
from harness.tracks.decoding.metrics.bytes_per_token import BytesPerToken
from harness.tracks.decoding.metrics.elements_per_token import ElementsPerToken
from harness.tracks.decoding.metrics.microseconds_per_step import MicrosecondsPerStep
from harness.tracks.decoding.metrics.token_perplexity import TokenPerplexity
from harness.tracks.decoding.metrics.tokens_per_second import TokensPerSecond

NO_CONTEXT: Any = None
TIMED = Observations(
    arrays={"seconds": np.array([0.01, 0.02, 0.04])},
    values={"work": {"tokens": 1.0, "bytes": 1e8}},
)
READ = Observations(
    arrays={"nats": np.array([1.0, 2.0]), "bytes": np.array([10, 30])}, values={"window": 8, "tokens": 16}
)


@pytest.mark.parametrize(
    ("metric", "value"),
    [(TokensPerSecond(), 50.0), (MicrosecondsPerStep(), 2e4), (Bandwidth(), 5.0)],
)
def test_medians_of_timed_rounds(metric: Any, value: float) -> None:
    found = metric.score(TIMED, {}, NO_CONTEXT)
    assert found.value == pytest.approx(value)
    assert np.exp(np.median(found.items)) == pytest.approx(value)
    assert len(found.items) == 3


def test_cache_metrics_take_the_fullest_device() -> None:
    seen = Observations({"elements": np.array([8.0, 12.0]), "bytes": np.array([16.0, 24.0])}, {"head_dim": 8})
    assert ElementsPerToken().score(seen, {}, NO_CONTEXT).value == 1.5
    assert BytesPerToken().score(seen, {}, NO_CONTEXT).value == 24


def test_perplexity_is_the_exponential_of_its_items_mean() -> None:
    found = TokenPerplexity().score(READ, {}, NO_CONTEXT)
    assert found.value == pytest.approx(math.exp(1.5))
    assert found.items is not None
    assert found.items.mean() == pytest.approx(1.5)


def test_bits_per_byte_are_all_bits_over_all_bytes() -> None:
    found = BitsPerByte().score(READ, {}, NO_CONTEXT)
    assert found.value == pytest.approx((1.0 * 8 + 2.0 * 8) / math.log(2) / 40)
    assert found.items is not None
    assert found.items.mean() == pytest.approx(found.value)
