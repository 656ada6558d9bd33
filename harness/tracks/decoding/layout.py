"""What a decoder caches per token, and how tensor parallelism spreads it: arithmetic only, no torch.

A cache is made of *pieces* that can stand on different devices (key/value heads, or latents) and of tensors that
every device keeps whole (a rotary key shared by all heads). Widths are in units of the head dimension d_h, per
token and layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from harness.contract import NotApplicable


@dataclass(frozen=True)
class CacheTensor:
    """``width``: of one piece, in units of d_h. ``shared``: one piece in all, replicated on every device."""

    name: str
    width: Fraction
    shared: bool = False

    def elements(self, head_dim: int) -> int:
        """Numbers per token and piece. Raises ValueError where the width is no whole number of them."""
        elements = self.width * head_dim
        if elements.denominator != 1:
            raise ValueError(f"{self.name}: {self.width} head dimensions of {head_dim} are no whole number of elements")
        return int(elements)


@dataclass(frozen=True)
class Share:
    """One device's part: the pieces it keeps, and for each of them the query heads that read it there."""

    rank: int
    pieces: tuple[int, ...]
    heads: tuple[range, ...]


@dataclass(frozen=True)
class Widths:
    """Numbers per token that logits (``key``, and ``rope`` for the shared rotary part) and weighted sums read."""

    key: int
    value: int
    rope: int


@dataclass(frozen=True)
class Layout:
    """The cached tensors of one attention layer.

    ``key``, ``value``, ``rope``: which tensor the logits, the weighted sum and the rotary part of the logits read
    (``key`` and ``value`` may be the same). ``key_width``: how much of the key tensor is key, from its start, in units
    of d_h (default: all). ``factored``: keys and values are products of several tensors, which decode kernels do
    not read; ``key`` and ``value`` then name the largest. Each query head reads ``branches`` pieces and adds their
    outputs: piece p belongs to branch ``p // groups`` and to head group ``p % groups``, where ``groups`` is pieces over
    branches.
    """

    pieces: int
    tensors: tuple[CacheTensor, ...]
    key: str
    value: str
    rope: str | None = None
    branches: int = 1
    key_width: Fraction | None = None
    factored: bool = False

    @property
    def groups(self) -> int:
        """Groups of query heads: heads of one group read the same pieces."""
        return self.pieces // self.branches

    def tensor(self, name: str) -> CacheTensor:
        return next(t for t in self.tensors if t.name == name)

    def widths(self, head_dim: int) -> Widths:
        """Widths in numbers. Raises ValueError where one is no whole number."""
        key = self.tensor(self.key)
        if self.key_width is not None:
            key = CacheTensor(key.name, self.key_width)
        rope = 0 if self.rope is None else self.tensor(self.rope).elements(head_dim)
        return Widths(key.elements(head_dim), self.tensor(self.value).elements(head_dim), rope)

    def heads_per_piece(self, heads: int) -> int:
        """Raises NotApplicable where the heads do not divide evenly into the groups."""
        if self.pieces % self.branches or heads % self.groups:
            raise NotApplicable(f"{heads} query heads cannot be spread evenly over {self.pieces} cached states")
        return heads // self.groups

    def shares(self, heads: int, tensor_parallel: int) -> tuple[Share, ...]:
        """What each of ``tensor_parallel`` devices keeps and does.

        Pieces of one head group stand together as far as they can; beyond the number of pieces, devices that keep
        the same piece split its heads. Raises NotApplicable where that does not come out even.
        """
        per_piece = self.heads_per_piece(heads)
        order = sorted(range(self.pieces), key=lambda p: (p % self.groups, p // self.groups))
        fewer = min(tensor_parallel, self.pieces)
        split = tensor_parallel // fewer
        if self.pieces % fewer or tensor_parallel % fewer or per_piece % split:
            raise NotApplicable(
                f"{tensor_parallel} devices cannot share {self.pieces} cached states of {per_piece} heads evenly"
            )
        held, part = self.pieces // fewer, per_piece // split
        shares = []
        for rank in range(tensor_parallel):
            first = rank // split * held
            pieces = tuple(order[first : first + held])
            starts = [p % self.groups * per_piece + rank % split * part for p in pieces]
            shares.append(Share(rank, pieces, tuple(range(s, s + part) for s in starts)))
        return tuple(shares)

    def elements_per_token(self, tensor_parallel: int = 1) -> Fraction:
        """Load of the fullest device per token and layer, in units of d_h, by arithmetic."""
        held = -(-self.pieces // tensor_parallel)
        return sum((t.width * (1 if t.shared else held) for t in self.tensors), Fraction(0))


def grouped_layout(kv_heads: int, key: Fraction, value: Fraction) -> Layout:
    """Keys and values of ``kv_heads`` heads; every query head reads one of them."""
    return Layout(kv_heads, (CacheTensor("key", key), CacheTensor("value", value)), key="key", value="value")


def tied_layout(states: int, width: Fraction, key: Fraction, rope: Fraction) -> Layout:
    """``states`` vectors, values whose first ``key`` are keys too, and one rotary key shared by all heads."""
    tensors = (CacheTensor("state", width), CacheTensor("rope_key", rope, shared=True))
    return Layout(states, tensors, key="state", value="state", rope="rope_key", key_width=key)


def factored_layout(heads: int, rank: int, head_dim: int) -> Layout:
    """Per head ``rank`` numbers for keys and as many for values, and as many vectors of d_h for all heads together."""
    numbers, vectors = Fraction(rank, head_dim), Fraction(rank)
    tensors = (
        CacheTensor("key_a", numbers),
        CacheTensor("value_a", numbers),
        CacheTensor("key_b", vectors, shared=True),
        CacheTensor("value_b", vectors, shared=True),
    )
    return Layout(heads, tensors, key="key_b", value="value_b", factored=True)


def latent_layout(latents: int, width: Fraction, rope: Fraction, branches: int = 1) -> Layout:
    """``latents`` vectors of ``width`` that serve as key and value, and one rotary key shared by all heads."""
    tensors = (CacheTensor("latent", width), CacheTensor("rope_key", rope, shared=True))
    return Layout(latents, tensors, key="latent", value="latent", rope="rope_key", branches=branches)
