"""Counting in the products of embeddings: exact, although almost every pair is decided by a float32 product.

A block of the gallery is multiplied with all queries, some at a time. A product further from the right candidate's
score than its rounding error is clear and is counted at once, in one pass over it while it is in cache. What is near
is compared in float64, and what float64 leaves open by `similarity` itself.

The bound (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.5, u = 2⁻²⁴): a product of d terms in
any order, with or without fused multiply-add, is off by at most d·u/(1 − d·u) · Σ|aᵢbᵢ|, and Σ|aᵢbᵢ| ≤ ‖a‖‖b‖;
bringing the factors to float32 adds 4u, the float64 reference less than u. Below 2⁻¹²⁶ float32 has fewer digits, or
none where the processor flushes to zero: with factors of length 1 or less, each of the d terms may lose 2⁻¹⁰⁶ in
either factor and 2⁻¹²⁶ in the product and in the sum. So the right candidate's own product is never clear, and neither
is a product whose similarity rounds to the same float32. In float64 the same holds with u = 2⁻⁵³.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.stands import Floats, Ints, place_in_run
from rankledger.ranking.vectors import Vectors, compare, double_error, nearest, similarity

FEW = 256  # pairs; below it a product costs more than it saves
PRODUCT_ROWS = 1024  # queries that are multiplied with a block at once
THREADS = 2  # one compares while the other's product is computed, by as many threads as the BLAS takes
TILE_NUMBERS = 1 << 19  # of a product, compared at once: they and what is found of them stay in cache
DENSE = 32  # where more than one pair in so many is near, a float64 product is cheaper than pair after pair

Bools = NDArray[np.bool_]
Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Entries:
    """Right candidates, and what each is compared with: a line (a row or a column) of the products.

    Attributes:
        line: ascending; the query.
        place: the position of the right candidate in the pool.
        goal: its similarity.
        twin: its vector's twin (see `Vectors`).
    """

    line: Ints
    place: Ints
    goal: Singles
    twin: Ints

    def __len__(self) -> int:
        return len(self.line)

    def take(self, some: Ints | slice, first: int = 0) -> "Entries":
        """Some of them, in lines that are counted from `first` on."""
        return Entries(self.line[some] - first, self.place[some], self.goal[some], self.twin[some])


class Tally(NamedTuple):
    """By entry how many candidates stand above it, with it, and with it at a later place; int64."""

    better: Ints
    tied: Ints
    before: Ints

    @classmethod
    def zero(cls, n: int) -> "Tally":
        """Nothing counted yet, of n entries."""
        return cls(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))

    def add(self, other: "Tally", at: Ints | slice = slice(None)) -> None:
        """What was found for the entries `at`, each of them once."""
        for mine, more in zip(self, other, strict=True):
            mine[at] += more

    def add_pairs(self, entry: Ints, sign: NDArray[np.int8], later: Bools, times: int = 1) -> None:
        """Pairs of an entry and a candidate, which is above (1), beside (0) or below (−1), and perhaps later."""
        for mine, chosen in zip(self, (sign > 0, sign == 0, (sign == 0) & later), strict=True):
            mine += times * np.bincount(entry[chosen], minlength=len(mine))


class Job(NamedTuple):
    """A block of pairs to be counted: some vectors of one side and a block of the other.

    Attributes:
        left: the vectors of one side.
        rows: those of them that are lines of `by_row`.
        right: a block of the other side.
        at: the positions of the block's vectors in the pool: what `by_row.place` means.
        by_row: entries that are compared with `right`.
        by_column: the other direction in the same pass: entries whose lines are vectors of `right`, compared with
            `rows`; their places are positions there.
    """

    left: Vectors
    rows: Ints
    right: Vectors
    at: Ints
    by_row: Entries
    by_column: Entries


class Engine(Protocol):
    """What counts blocks: `map`, or more machines."""

    def __call__(
        self, function: Callable[[Job], tuple[Tally, Tally]], jobs: Iterator[Job], /
    ) -> Iterable[tuple[Tally, Tally]]:
        """The results of `function`, in the order of the jobs."""


def count_block(job: Job) -> tuple[Tally, Tally]:
    """Count for each entry the vectors of the other side in one block; sums over blocks are whole counts."""
    left, rows, right, at, by_row, by_column = job
    across, down = Tally.zero(len(by_row)), Tally.zero(len(by_column))
    positions = np.arange(len(rows))
    if len(rows) * len(right) <= FEW:
        some = left.take(rows)
        _add_all(across, some, right, by_row, at)
        _add_all(down, right, some, by_column, positions)
        return across, down
    there = right.shrunken().T
    spare = [np.empty((min(PRODUCT_ROWS, len(rows)), len(right)), np.float32) for _ in range(THREADS)]

    def count(start: int) -> tuple[slice, Tally, Tally]:
        part = slice(start, start + PRODUCT_ROWS)
        some, space = left.take(rows[part]), spare.pop()
        product = np.matmul(some.shrunken(), there, out=space[: len(some)])
        mine = slice(*np.searchsorted(by_row.line, [start, start + len(some)]))
        found = _count(some, right, product, by_row.take(mine, start), at)
        back = _count(right, some, product.T, by_column, positions[part])
        spare.append(space)
        return mine, found, back

    with ThreadPoolExecutor(THREADS) as pool:
        for mine, found, back in pool.map(count, range(0, len(rows), PRODUCT_ROWS)):
            across.add(found, mine)
            down.add(back)
    return across, down


def clear(goal: Singles, norms: Floats, most: float, d: int, shrink: float) -> tuple[Singles, Singles]:
    """Products above the first surely round to more than the goal, those below the second surely to less.

    Args:
        goal: similarities.
        norms: of the vectors on the goals' side.
        most: no norm on the other side is greater.
        d: components.
        shrink: what the products are shrunken by.
    """
    u, inf = 2.0**-24, np.float32(np.inf)
    error = 1.001 * (d + 6) * u / (1 - d * u) * norms * most * shrink + d * 2.0**-104
    with np.errstate(over="ignore"):
        up = np.nextafter(goal, inf).astype(np.float64) * shrink + error
        down = np.nextafter(goal, -inf).astype(np.float64) * shrink - error
        return np.nextafter(up.astype(np.float32), inf), np.nextafter(down.astype(np.float32), -inf)


def _count(own: Vectors, across: Vectors, product: Singles, entries: Entries, at: Ints) -> Tally:
    """Compare entries with a product of two sides' vectors.

    Args:
        own: the vectors of the lines.
        across: the vectors that they are compared with.
        product: float32[lines, across], shrunken; in memory one or the other may run first.
        entries: what is counted.
        at: the positions of `across`.
    """
    tally = Tally.zero(len(entries))
    layer = place_in_run(entries.line)
    for k in range(int(layer.max(initial=-1)) + 1):  # the first of each line, then the second of those that have one …
        some = np.flatnonzero(layer == k)
        mine = entries.take(some)
        tally.add(_by_single(own, across, product, mine, at) or _by_double(own, across, mine, at), some)
    return tally


def _by_single(own: Vectors, across: Vectors, product: Singles, entries: Entries, at: Ints) -> Tally | None:
    """Count by the float32 product, and the near pairs one by one; none where they are too many."""
    tally = Tally.zero(len(entries))
    shrink = own.shrink * across.shrink
    above, below = clear(entries.goal, own.norms[entries.line], across.norms.max(), own.components, shrink)
    near: list[tuple[Ints, Ints]] = []
    total = 0
    for lines, places, tile in _tiles(product, entries.line):
        surely = tile > above[lines, None]
        unsure = tile >= below[lines, None]
        unsure ^= surely
        tally.better[lines] += _by_line(surely)
        many = int(np.count_nonzero(unsure))
        if many * DENSE > tile.size:  # equal vectors are equally good; masks lie in memory as the tile does
            even = np.equal(entries.twin[lines, None], across.twin[places], out=np.empty_like(unsure))
            even &= unsure
            unsure ^= even
            _add_even(tally, entries, at, lines, places, even)
            many = int(np.count_nonzero(unsure))
        total += many
        if total * DENSE > product.size:
            return None
        if many:
            line, place = _positions(unsure)
            near.append((line + lines.start, place + places.start))
    if near:
        _add_pairs(tally, own, across, entries, at, *(np.concatenate(part) for part in zip(*near, strict=True)))
    return tally


def _add_all(tally: Tally, own: Vectors, across: Vectors, entries: Entries, at: Ints) -> None:
    """Count pair by pair."""
    _add_pairs(tally, own, across, entries, at, *np.divmod(np.arange(len(entries) * len(at)), len(at)))


def _add_pairs(
    tally: Tally, own: Vectors, across: Vectors, entries: Entries, at: Ints, entry: Ints, place: Ints
) -> None:
    sign = compare(own, across, entries.line[entry], place, entries.goal[entry])
    tally.add_pairs(entry, sign, at[place] > entries.place[entry])


def _by_double(own: Vectors, across: Vectors, entries: Entries, at: Ints) -> Tally:
    """Count by the float64 product, and what it leaves open by `similarity`."""
    tally = Tally.zero(len(entries))
    error = double_error(own.components, own.norms[entries.line] * across.norms.max())
    for lines, places, tile in _tiles(own.rows() @ across.rows().T, entries.line):
        better, even, unsure = nearest(tile, error[lines, None], entries.goal[lines, None])
        line, place = np.nonzero(unsure)
        entry = line + lines.start
        exact = similarity(own, across, entries.line[entry], place + places.start)
        better[unsure], even[unsure] = exact > entries.goal[entry], exact == entries.goal[entry]
        tally.better[lines] += _by_line(better)
        _add_even(tally, entries, at, lines, places, even)
    return tally


def _tiles(product: NDArray[Any], lines: Ints) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
    """The given lines of a product, a tile at a time: which of them, which places across, and the products."""
    if len(lines) < len(product):
        product = product[lines]
    by_line = product.flags.c_contiguous
    length, width = product.shape if by_line else product.T.shape
    step = max(1, min(255, TILE_NUMBERS // width))
    for start in range(0, length, step):
        part, whole = slice(start, min(start + step, length)), slice(0, width)
        lines_, places = (part, whole) if by_line else (whole, part)
        yield lines_, places, product[lines_, places]


def _add_even(tally: Tally, entries: Entries, at: Ints, lines: slice, places: slice, even: Bools) -> None:
    """Count the tied of a tile, and those at a later place. Overwrites `even`."""
    tally.tied[lines] += _by_line(even)
    even &= np.greater(at[places], entries.place[lines, None], out=np.empty_like(even))
    tally.before[lines] += _by_line(even)


def _by_line(mask: Bools) -> Ints:
    """How many are set in each line of a tile."""
    if mask.flags.c_contiguous:
        return np.asarray(np.bitwise_count(np.packbits(mask, axis=1)).sum(axis=1, dtype=np.int64))
    return np.asarray(mask.T.view(np.uint8).sum(axis=0, dtype=np.uint8), np.int64)  # a tile is at most 255 thick


def _positions(mask: Bools) -> tuple[Ints, Ints]:
    """Line and place of those few that are set."""
    flat = mask if mask.flags.c_contiguous else mask.T
    bits = np.zeros(-(-flat.size // 64) * 8, np.uint8)
    bits[: -(-flat.size // 8)] = np.packbits(flat)
    words = np.flatnonzero(bits.view(np.uint64))
    word, bit = np.nonzero(np.unpackbits(bits.reshape(-1, 8)[words], axis=1))
    first, second = np.divmod(words[word] * 64 + bit, flat.shape[1])
    return (first, second) if flat is mask else (second, first)
