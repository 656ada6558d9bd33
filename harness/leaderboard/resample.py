"""Resampling, vectorised and in chunks: bootstrap means and medians, sign flips. Seeded, so tables are reproducible.

Columns of one call share their resamples, and so do calls of the same shape and stream: draws of two rivals over the
same items may be subtracted or divided (a paired bootstrap). Independent samples take different streams.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray

RESAMPLES = 10_000
SEED = 5_318_008
CHUNK = 4_000_000
"""Numbers held at once (32 MB as float64)."""
EXACT_FLIPS = 13
"""Up to so many units all sign patterns are gone through."""


def _rng(stream: int) -> np.random.Generator:
    return np.random.default_rng([SEED, stream])


def by_unit(values: Array, units: Array | None) -> tuple[Array, Array]:
    """Sums (units, k) and sizes (units,) of ``values`` (n, k); every item is its own unit where ``units`` is None."""
    if units is None:
        return values, np.ones(len(values))
    _, inverse = np.unique(np.asarray(units), return_inverse=True)
    inverse = inverse.reshape(-1)
    sums = np.zeros((int(inverse.max()) + 1, values.shape[1]))
    np.add.at(sums, inverse, values)
    return sums, np.bincount(inverse).astype(float)


def _chunks(rows: int, n: int) -> Sequence[int]:
    step = max(1, CHUNK // max(n, 1))
    return [min(step, rows - start) for start in range(0, rows, step)]


def _counts(rng: np.random.Generator, rows: int, n: int) -> Array:
    """(rows, n) how often each of n things is drawn in n draws with replacement."""
    drawn = rng.integers(0, n, size=(rows, n))
    drawn += np.arange(rows)[:, None] * n
    return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(float)


def bootstrap_means(values: Array, units: Array | None = None, resamples: int = RESAMPLES, stream: int = 0) -> Array:
    """(resamples, k) means of the columns of ``values`` (n, k), its items drawn anew, by whole units where given."""
    sums, sizes = by_unit(values, units)
    rng = _rng(stream)
    parts = []
    for rows in _chunks(resamples, len(sums)):
        weights = _counts(rng, rows, len(sums))
        parts.append((weights @ sums) / (weights @ sizes)[:, None])
    return np.concatenate(parts)


def hierarchical_means(
    items: Sequence[Array], units: Sequence[Array] | None = None, resamples: int = RESAMPLES
) -> Array:
    """(resamples,) means over seeds of means over items; seeds and items are both drawn anew.

    ``items``: one array per seed. Seeds that saw the same items (equal number, equal units) share the drawn items in
    each resample, so that what is common to all seeds counts as the noise of the items it is; else they draw alone.
    """
    seeds = len(items)
    same = all(len(x) == len(items[0]) for x in items) and (
        units is None or all(np.array_equal(u, units[0]) for u in units)
    )
    if same:
        means = bootstrap_means(np.stack(items, axis=1), units[0] if units else None, resamples)
    else:
        means = np.concatenate(
            [
                bootstrap_means(x[:, None], units[i] if units else None, resamples, stream=i)
                for i, x in enumerate(items)
            ],
            axis=1,
        )
    weights = _counts(_rng(1_000_000), resamples, seeds)
    return np.asarray((weights * means).sum(axis=1) / seeds)


def bootstrap_medians(values: Array, resamples: int = RESAMPLES, stream: int = 0) -> Array:
    """(resamples,) medians of ``values`` (n,) drawn anew."""
    rng, n = _rng(stream), len(values)
    drawn = (rng.integers(0, n, size=(rows, n)) for rows in _chunks(resamples, n))
    return np.concatenate([np.median(values[d], axis=1) for d in drawn])


def sign_flips(sums: Array, flips: int = RESAMPLES) -> tuple[Array, bool]:
    """(flips, k) totals of the columns of ``sums`` (units, k) under random signs of the units, and whether these are
    all sign patterns. Totals are linear: the difference of two columns is the total of their difference.
    """
    n = len(sums)
    if n <= EXACT_FLIPS:
        patterns = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        return (1.0 - 2.0 * patterns) @ sums, True
    rng = _rng(2_000_000)
    parts = []
    for rows in _chunks(flips, n):
        signs = np.unpackbits(np.frombuffer(rng.bytes(rows * ((n + 7) // 8)), dtype=np.uint8).reshape(rows, -1), axis=1)
        parts.append((1.0 - 2.0 * signs[:, :n]) @ sums)
    return np.concatenate(parts), False


def smallest_p(units: int, flips: int = RESAMPLES) -> float:
    """The smallest two-sided p-value that :func:`flip_p` can give for so many units."""
    return 2.0 ** (1 - units) if units <= EXACT_FLIPS else 1 / (flips + 1)


def flip_p(flipped: Array, observed: float, *, complete: bool) -> float:
    """Two-sided p-value of a sum among its sign-flipped values (flips,): never zero.

    Sums that differ by rounding alone count as equal.
    """
    bound = abs(observed) - 1e-9 * max(abs(observed), float(np.max(np.abs(flipped), initial=0.0)))
    reached = int(np.sum(np.abs(flipped) >= bound))
    return reached / len(flipped) if complete else (reached + 1) / (len(flipped) + 1)
