from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contract import NotApplicable
from harness.tracks.decoding.layout import (
    CacheTensor,
    Widths,
    factored_layout,
    grouped_layout,
    latent_layout,
    tied_layout,
)

LATENTS_2 = latent_layout(4, Fraction(1), Fraction(1, 2), branches=2)


@pytest.mark.parametrize(
    ("devices", "pieces"), [(1, [(0, 2, 1, 3)]), (2, [(0, 2), (1, 3)]), (4, [(0,), (2,), (1,), (3,)])]
)
def test_latents_of_one_head_group_stand_together(devices: int, pieces: list[tuple[int, ...]]) -> None:
    assert [share.pieces for share in LATENTS_2.shares(8, devices)] == pieces


def test_devices_that_share_a_latent_split_its_heads() -> None:
    shares = LATENTS_2.shares(8, 8)
    assert [(s.pieces, s.heads) for s in shares[:4]] == [
        ((0,), (range(0, 2),)),
        ((0,), (range(2, 4),)),
        ((2,), (range(0, 2),)),
        ((2,), (range(2, 4),)),
    ]
    assert shares[4].heads == (range(4, 6),)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_every_head_reads_every_branch_once(groups: int, branches: int, devices: int) -> None:
    heads = 32
    layout = latent_layout(groups * branches, Fraction(1), Fraction(1, 2), branches)
    reads = []
    try:
        shares = layout.shares(heads, devices)
    except NotApplicable:
        assert devices > groups * branches
        assert (heads // groups) % (devices // (groups * branches))
        return
    for share in shares:
        for piece, part in zip(share.pieces, share.heads, strict=True):
            reads += [(head, piece // groups) for head in part]
            assert all(head // (heads // groups) == piece % groups for head in part)
    assert sorted(reads) == [(head, branch) for head in range(heads) for branch in range(branches)]


@pytest.mark.parametrize(("heads", "devices"), [(9, 1), (8, 3), (8, 16)])
def test_what_does_not_come_out_even_is_not_applicable(heads: int, devices: int) -> None:
    with pytest.raises(NotApplicable):
        grouped_layout(4, Fraction(1), Fraction(1)).shares(heads, devices)


def test_tied_states_are_value_and_in_part_key() -> None:
    tied = tied_layout(8, Fraction(1), Fraction(1, 2), Fraction(1, 2))
    assert [tied.elements_per_token(n) for n in (1, 2, 4, 8)] == [8.5, 4.5, 2.5, 1.5]
    assert tied.widths(128) == Widths(key=64, value=128, rope=64)
    assert not tied.factored


def test_factors_are_shared_out_by_heads_and_vectors_are_not() -> None:
    product = factored_layout(64, 2, 128)
    assert [product.elements_per_token(n) for n in (1, 2, 4, 8)] == [6, 5, 4.5, 4.25]
    assert product.factored
    (first, *_, last) = product.shares(64, 8)
    assert first.pieces == tuple(range(8))
    assert last.heads == tuple(range(h, h + 1) for h in range(56, 64))
    with pytest.raises(NotApplicable):
        product.shares(64, 128)


def test_widths_of_latents_and_of_heads() -> None:
    assert latent_layout(1, Fraction(4), Fraction(1, 2)).widths(128) == Widths(key=512, value=512, rope=64)
    assert grouped_layout(1, Fraction(2), Fraction(2)).widths(128) == Widths(key=256, value=256, rope=0)


def test_widths_must_be_whole_numbers_of_elements() -> None:
    with pytest.raises(ValueError, match="no whole number"):
        CacheTensor("rope", Fraction(1, 2)).elements(7)
