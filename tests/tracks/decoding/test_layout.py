from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contract import NotApplicable
from harness.tracks.decoding.layout import CacheTensor, Layout, grouped_layout, latent_layout

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


def test_other_rivals_of_the_literature_fit_the_rule() -> None:
    """Grouped tied attention, and factorised keys and values: 64 heads of 128."""
    tied = Layout(
        8, (CacheTensor("tied", Fraction(1)), CacheTensor("rope", Fraction(1, 2), shared=True)), "tied", "tied"
    )
    assert [tied.elements_per_token(n) for n in (1, 2, 4, 8)] == [8.5, 4.5, 2.5, 1.5]
    factors = (CacheTensor("a", Fraction(4, 128)), CacheTensor("b", Fraction(4), shared=True))
    product = Layout(64, factors, "a", "b")
    assert [product.elements_per_token(n) for n in (1, 2, 4, 8)] == [6, 5, 4.5, 4.25]


def test_widths_must_be_whole_numbers_of_elements() -> None:
    with pytest.raises(ValueError, match="no whole number"):
        CacheTensor("rope", Fraction(1, 2)).elements(7)
