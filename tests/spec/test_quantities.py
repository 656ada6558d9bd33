"""Times and sizes: one meaning each, or an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.quantities import QuantityError, parse_duration, parse_memory, show_duration, show_memory


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (90, 90.0),
        (0.5, 0.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        ("10:00:00", 36000.0),
        ("01:00:00", 3600.0),
        ("0:01:30", 90.0),
        ("100:00:00", 360000.0),
        ("1-00:00:00", 86400.0),
        ("1-12:00:30", 129630.0),
    ],
)
def test_durations(text: int | float | str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1:30", '"1h30m" or "1m30s"'),
        ("10M", "write seconds"),
        ("30m1h", "write seconds"),
        ("1h1h", "write seconds"),
        ("1:60:00", "write seconds"),
        ("1-24:00:00", "write seconds"),
        ("ten minutes", "write seconds"),
        ("", "write seconds"),
        ("-5s", "write seconds"),
        (-5, "write seconds"),
        (float("nan"), "write seconds"),
        (True, "write seconds"),
        ("1-12", "write seconds"),
    ],
)
def test_refused_durations(text: int | float | str, hint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_duration(text)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (512, 512),
        (2e9, 2_000_000_000),
        ("512", 512),
        ("512MB", 512_000_000),
        ("2GiB", 2 * 2**30),
        ("1.5GiB", 3 * 2**29),
        ("2 GiB", 2 * 2**30),
        ("64kB", 64_000),
        ("64KB", 64_000),
        ("64KiB", 65536),
        ("1TB", 10**12),
        ("100B", 100),
    ],
)
def test_memory(text: int | float | str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2G", '"2GiB" or "2GB"'),
        ("512m", '"512MiB" or "512MB"'),
        ("1k", '"1KiB" or "1kB"'),
        ("2gib", '"2GiB" or "2GB"'),
        ("lots", "write bytes"),
        ("2XB", "write bytes"),
        ("-1GiB", "write bytes"),
        (1.5, "write bytes"),
        (-1, "write bytes"),
        (True, "write bytes"),
    ],
)
def test_refused_memory(text: int | float | str, hint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_memory(text)
    assert hint in caught.value.hint


@given(st.floats(min_value=0, max_value=1e9) | st.integers(0, 10**7))
def test_a_shown_duration_reads_back(seconds: float) -> None:
    assert parse_duration(show_duration(seconds)) == seconds


@given(st.integers(0, 2**50))
def test_shown_memory_reads_back(size: int) -> None:
    assert parse_memory(show_memory(size)) == size


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_clock_and_units_agree(days: int, hours: int, minutes: int, seconds: int) -> None:
    clock = parse_duration(f"{days}-{hours:02}:{minutes:02}:{seconds:02}")
    assert clock == parse_duration(f"{days}d{hours}h{minutes}m{seconds}s")
