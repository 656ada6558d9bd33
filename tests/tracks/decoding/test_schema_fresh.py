"""The committed schema is what our adapters say now."""

from __future__ import annotations

import pytest

from harness.spec.schema import is_fresh

pytestmark = pytest.mark.track_decoding


def test_the_committed_schema_is_fresh() -> None:
    assert is_fresh(), "harness/spec.schema.json is stale: python -m harness.spec.schema writes it"
