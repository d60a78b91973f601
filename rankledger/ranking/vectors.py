"""Embeddings of one side, and what the similarity of two of them is."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.stands import Floats, Ints

BLOCK_BYTES = 16 << 20  # of vectors that are at hand at once, in float32
BLOCK_VECTORS = 8192
PAIR_NUMBERS = 1 << 17  # of vectors that are widened to float64 at once
SHORTEST, LONGEST = 1e-150, 1e150  # vectors whose squares and products stay well inside float64

Stored = NDArray[np.floating | np.uint16]


class Vectors:
    """The embeddings of one side: n vectors of d components, kept as they are stored.

    Attributes:
        stored: [n, d], float16, float32 or float64; uint16 holds the bits of bfloat16.
        lengths: their Euclidean norms; beyond `SHORTEST` and `LONGEST` neither they nor the products can be trusted.
        scale: what `rows` divides by: the lengths where the similarity is a cosine, else 1.
        norms: those of `rows`.
        shrink: a power of two that brings the longest of `rows` to a length of ½ to 1, so that no product overflows.
    """

    def __init__(self, stored: Stored, cosine: bool, known: Floats | None = None, shrink: float | None = None):
        """`known`: their lengths, where they are known; `shrink`: where they are some of more."""
        self.stored = stored
        self.lengths = lengths(stored) if known is None else known
        ones = np.ones(len(stored))
        self.scale: Floats = self.lengths if cosine else ones
        self.norms: Floats = ones if cosine else self.lengths
        self.shrink = shrinking(self.norms) if shrink is None else shrink

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def components(self) -> int:
        """Of a vector: d."""
        return int(self.stored.shape[1])

    @cached_property
    def twin(self) -> Ints:
        """For each vector the place of the first one equal to it, byte for byte."""
        twin = np.arange(len(self))
        order = np.argsort(self.lengths, kind="stable")
        even = np.diff(self.lengths[order]) == 0
        beside = (np.append(even, False) | np.append(False, even))[: len(self)]  # there may be no vector at all
        shared = np.sort(order[beside])  # equal vectors are equally long
        first: dict[bytes, int] = {}
        twin[shared] = [first.setdefault(digest(self.stored[i]), i) for i in shared]
        return twin

    def rows(self, index: Any = slice(None)) -> Floats:
        """Some of them, all by default, as float64[…, d], normalised where the similarity is a cosine."""
        wide = floats(self.stored[index]).astype(np.float64)
        wide /= self.scale[index, None]
        return wide

    def shrunken(self) -> NDArray[np.float32]:
        """All `rows`, shrunken, to float32: a component is off by at most 2u = 2⁻²³ of itself and 2⁻¹⁰⁶.

        Without a detour over float64 where factors are moderate: then a number so small that a processor may take it
        for zero stays small.
        """
        factor = self.shrink / self.scale
        if self.stored.dtype != np.float64 and factor.min() >= 2.0**-20 and factor.max() <= 2.0**20:
            return floats(self.stored).astype(np.float32, copy=False) * factor.astype(np.float32)[:, None]
        return (self.rows() * self.shrink).astype(np.float32)

    def take(self, rows: Ints | slice) -> "Vectors":
        """Some of them; they keep the shrink and the twins of all."""
        some = object.__new__(Vectors)
        some.stored, some.lengths = self.stored[rows], self.lengths[rows]
        some.scale, some.norms, some.shrink = self.scale[rows], self.norms[rows], self.shrink
        some.twin = self.twin[rows]
        return some

    def hold(self, rows: Ints) -> tuple["Vectors", Ints]:
        """See `Gallery`."""
        return self, rows

    def blocks(self, rows: Ints) -> Iterator[tuple[Ints, "Vectors"]]:
        """See `Gallery`."""
        step = block_length(self.components)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            yield np.arange(start, start + len(part)), self.take(part)


class Gallery(Protocol):
    """Vectors of candidates, in memory (`Vectors`) or on disk."""

    @property
    def components(self) -> int:
        """Of a vector."""

    def hold(self, rows: Ints) -> tuple[Vectors, Ints]:
        """Vectors in memory, and where among them those of `rows` are."""

    def blocks(self, rows: Ints) -> Iterator[tuple[Ints, Vectors]]:
        """Those of `rows`, block by block: their positions in `rows`, and the vectors."""


def block_length(d: int) -> int:
    """How many vectors of d components are in a block."""
    return max(1, min(BLOCK_VECTORS, BLOCK_BYTES // (4 * d)))


def shrinking(norms: Floats) -> float:
    """A power of two that brings the greatest of them to ½ to 1."""
    return float(np.ldexp(1.0, -np.frexp(norms.max(initial=0.0))[1]))


def floats(stored: Stored) -> NDArray[Any]:
    """The numbers as they are; those of bfloat16 as float32."""
    return (stored.astype(np.uint32) << 16).view(np.float32) if stored.dtype == np.uint16 else stored


def lengths(stored: Stored) -> Floats:
    """The Euclidean norm of each vector, in float64, the same on every machine."""
    found = np.empty(len(stored))
    step = max(1, PAIR_NUMBERS // stored.shape[1])
    with np.errstate(over="ignore", under="ignore"):
        for start in range(0, len(stored), step):
            block = floats(stored[start : start + step]).astype(np.float64)
            block *= block
            found[start : start + step] = np.sqrt(sum_rows(block))
    return found


def digest(vector: Stored) -> bytes:
    """What equal vectors share and others do not."""
    return hashlib.sha256(vector.tobytes()).digest()


def sum_rows(block: Floats) -> Floats:
    """The sum of each row, in an order that this code fixes: halves are added until one column is left.

    No BLAS and no vector unit has a say in it, so that it is the same on every machine. Overwrites `block`.
    """
    width = block.shape[1]
    while width > 1:
        half = (width + 1) // 2
        block[:, : width - half] += block[:, half:width]
        width = half
    return block[:, 0].copy()


def similarity(left: Vectors, right: Vectors, i: Ints, j: Ints) -> NDArray[np.float32]:
    """The similarity of the pairs (i, j): the float64 dot product, summed in a fixed order, rounded to float32."""
    found = np.empty(len(i), np.float32)
    step = max(1, PAIR_NUMBERS // left.components)
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        product = left.rows(i[part])
        product *= right.rows(j[part])
        with np.errstate(over="ignore"):
            found[part] = sum_rows(product).astype(np.float32)
    return found


def compare(left: Vectors, right: Vectors, i: Ints, j: Ints, goal: NDArray[np.float32]) -> NDArray[np.int8]:
    """Whether the similarity of the pairs (i, j) is above its goal (1), equal to it (0) or below (−1).

    A float64 dot product in any order says so, unless its rounding error leaves open which float32 is meant.
    """
    dot = np.empty(len(i))
    step = max(1, PAIR_NUMBERS // left.components)
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        dot[part] = np.vecdot(floats(left.stored[i[part]]), floats(right.stored[j[part]]), dtype=np.float64)
    dot /= left.scale[i]
    dot /= right.scale[j]
    error = double_error(left.components, left.norms[i] * right.norms[j])
    above, even, open_ = nearest(dot, error, goal)
    sign = above.astype(np.int8) - ~(above | even)
    again = np.flatnonzero(open_)
    if len(again):
        exact = similarity(left, right, i[again], j[again])
        sign[again] = (exact > goal[again]).astype(np.int8) - (exact < goal[again])
    return sign


def double_error(d: int, norms: Floats) -> Floats:
    """How far a float64 dot product, summed in any order, may be from that of `similarity`.

    Either is off by at most (d + 4)·2⁻⁵³·‖a‖‖b‖, see `rankledger.ranking.blocks`; near 0 there are fewer digits.

    Args:
        d: components.
        norms: ‖a‖‖b‖ by pair.
    """
    return (2 * d + 16) * 2.0**-53 * norms + d * 2.0**-1000


def nearest(dot: Floats, error: Floats, goal: NDArray[np.float32]) -> tuple[NDArray[np.bool_], ...]:
    """By pair, whether what is within `error` of `dot` rounds to more than the goal, to the goal, or that is open."""
    with np.errstate(over="ignore", under="ignore"):
        low, high = (dot - error).astype(np.float32), (dot + error).astype(np.float32)
    above, below = low > goal, high < goal
    even = (low == high) & (low == goal)
    return above, even, ~(above | below | even)
