"""Counting in the products of embeddings: exact, although almost every pair is decided by a float32 product.

A block of the gallery is multiplied with all queries, some at a time. A product further from the right candidate's
score than its rounding error is clear and is counted at once, while it is in cache. Of what is near, vectors that are
those of right candidates byte for byte are counted by themselves; the others are compared in float64, and what float64
leaves open by `similarity` itself.

The bound (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.5, u = 2⁻²⁴): a product of d terms in
any order, with or without fused multiply-add, is off by at most d·u/(1 − d·u) · Σ|aᵢbᵢ|, and Σ|aᵢbᵢ| ≤ ‖a‖‖b‖; where
parts of `DEPTH` terms are added one after the other, DEPTH and the number of parts take the place of d;
bringing the factors to float32 adds 4u, the float64 reference less than u. Below 2⁻¹²⁶ float32 has fewer digits, or
none where the processor flushes to zero: with factors of length 1 or less, each of the d terms may lose 2⁻¹⁰⁶ in
either factor and 2⁻¹²⁶ in the product and in the sum. So the right candidate's own product is never clear, and neither
is a product whose similarity rounds to the same float32. In float64 the same holds with u = 2⁻⁵³.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.stands import Floats, Ints, place_in_run
from rankledger.ranking.threads import THREADS, in_parallel, plain_blas
from rankledger.ranking.vectors import Vectors, compare, double_error, nearest, similarity

FEW = 1 << 14  # pairs; below it float32, and threads, cost more than they save
PRODUCT_ROWS = 512  # queries that are multiplied with a block at once
DEPTH = 512  # components that are multiplied at once: with fewer, fewer pairs are near, but adding takes longer
TILE_NUMBERS = 1 << 19  # of a product, compared at once: they and what is found of them stay in cache
DENSE = 32  # where more than one pair in so many is near, a float64 product is cheaper than pair after pair

_spare: list[NDArray[np.float32]] = []  # memory of earlier products: to ask for new costs as much as to count

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
    across.add(_equal(by_row, right.twin, at))
    twin = left.twin[rows]  # here, so that not each thread looks for them
    if len(by_column):
        down.add(_equal(by_column, twin, positions))
    row_layers, column_layers = list(_layers(by_row)), list(_layers(by_column))
    if len(rows) * len(right) <= FEW:
        some = left.take(rows)
        for entry, entries in row_layers:
            across.add(_by_double(some, right, entries, at), entry)
        for entry, entries in column_layers:
            down.add(_by_double(right, some, entries, positions), entry)
        return across, down
    parts = -(-len(rows) // PRODUCT_ROWS)
    parts += -parts % THREADS
    step = -(-len(rows) // parts)
    there = right.shrunken().T

    def count(start: int) -> tuple[list[tuple[Ints, Tally]], list[tuple[Ints, Tally]]]:
        part = slice(start, start + step)
        some = left.take(rows[part])
        space = _space(2 * len(some) * len(right))
        product = multiply(some.shrunken(), there, *space[: 2 * len(some) * len(right)].reshape(2, len(some), -1))
        found = []
        for entry, entries in row_layers:
            mine = slice(*np.searchsorted(entries.line, [start, start + len(some)]))
            found.append((entry[mine], _count(some, right, product, entries.take(mine, start), at)))
        back = [(entry, _count(right, some, product.T, entries, positions[part])) for entry, entries in column_layers]
        _spare.append(space)
        return found, back

    with plain_blas():
        for results in in_parallel(count, range(0, len(rows), step)):
            for total, layers in zip((across, down), results, strict=True):
                for entry, tally in layers:
                    total.add(tally, entry)
    return across, down


def _space(numbers: int) -> Singles:
    try:
        space = _spare.pop()
    except IndexError:
        space = np.empty(0, np.float32)
    return space if len(space) >= numbers else np.empty(numbers, np.float32)


def multiply(left: Singles, right: Singles, product: Singles, spare: Singles) -> Singles:
    """left @ right, some components at a time.

    Args:
        left: float32[m, d].
        right: float32[d, n].
        product, spare: float32[m, n], overwritten; the first is what comes back.
    """
    np.matmul(left[:, :DEPTH], right[:DEPTH], out=product)
    for start in range(DEPTH, left.shape[1], DEPTH):
        part = slice(start, start + DEPTH)
        product += np.matmul(left[:, part], right[part], out=spare)
    return product


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
    n = min(d, DEPTH) + d // DEPTH
    error = 1.001 * (n + 6) * u / (1 - n * u) * norms * most * shrink + d * 2.0**-104
    with np.errstate(over="ignore"):
        up = np.nextafter(goal, inf).astype(np.float64) * shrink + error
        down = np.nextafter(goal, -inf).astype(np.float64) * shrink - error
        return np.nextafter(up.astype(np.float32), inf), np.nextafter(down.astype(np.float32), -inf)


def _layers(entries: Entries) -> Iterator[tuple[Ints, Entries]]:
    """The first entry of each line, then the second of those that have one, and so on; and which these are."""
    layer = place_in_run(entries.line)
    for k in range(int(layer.max(initial=-1)) + 1):
        some = np.flatnonzero(layer == k)
        yield some, entries.take(some)


def _equal(entries: Entries, twin: Ints, at: Ints) -> Tally:
    """Count the vectors that are byte for byte those of right candidates, and so as good; twins of those at `at`."""
    order = np.sort((twin << 32) + at)
    first = entries.twin << 32
    start, middle, end = (np.searchsorted(order, first + more) for more in (0, entries.place + 1, 1 << 32))
    return Tally(np.zeros(len(entries), np.int64), end - start, end - middle)


def _count(own: Vectors, across: Vectors, product: Singles, entries: Entries, at: Ints) -> Tally:
    """Compare entries with a product of two sides' vectors, but for those equal to their right candidates.

    Args:
        own: the vectors of the lines.
        across: the vectors that they are compared with.
        product: float32[lines, across], shrunken; in memory one or the other may run first.
        entries: what is counted, one a line.
        at: the positions of `across`.
    """
    return _by_single(own, across, product, entries, at) or _by_double(own, across, entries, at)


def _by_single(own: Vectors, across: Vectors, product: Singles, entries: Entries, at: Ints) -> Tally | None:
    """Count by the float32 product, and the near pairs one by one; none where they are too many."""
    tally = Tally.zero(len(entries))
    shrink = own.shrink * across.shrink
    above, below = clear(entries.goal, own.norms[entries.line], across.norms.max(), own.components, shrink)
    near: list[tuple[Ints, Ints]] = []
    total = 0
    for lines, places, tile in _tiles(product, entries.line):
        some = np.flatnonzero(tile.max(axis=1) >= below[lines])  # in the other lines all are clearly worse
        if 4 * len(some) < len(tile):
            tile = tile[some]
            some += lines.start
        else:
            some = np.arange(lines.start, lines.stop)
        surely = tile > above[some, None]
        unsure = tile >= below[some, None]
        unsure ^= surely
        tally.better[some] += _by_line(surely)
        many = int(np.count_nonzero(unsure))
        if many * DENSE > tile.size:  # masks lie in memory as the tile does
            unsure &= np.not_equal(entries.twin[some, None], across.twin[places], out=np.empty_like(unsure))
            many = int(np.count_nonzero(unsure))
        total += many
        if total * DENSE > product.size:
            return None
        if many:
            line, place = _positions(unsure)
            line, place = some[line], place + places.start
            other = entries.twin[line] != across.twin[place]
            near.append((line[other], place[other]))
    if near:
        entry, place = (np.concatenate(part) for part in zip(*near, strict=True))
        sign = compare(own, across, entries.line[entry], place, entries.goal[entry])
        tally.add_pairs(entry, sign, at[place] > entries.place[entry])
    return tally


def _by_double(own: Vectors, across: Vectors, entries: Entries, at: Ints) -> Tally:
    """Count by the float64 product, and what it leaves open by `similarity`."""
    tally = Tally.zero(len(entries))
    error = double_error(own.components, own.norms[entries.line] * across.norms.max())
    for lines, places, tile in _tiles(own.rows() @ across.rows().T, entries.line):
        better, even, unsure = nearest(tile, error[lines, None], entries.goal[lines, None])
        other = entries.twin[lines, None] != across.twin[places]
        even &= other
        unsure &= other
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
    first, second = np.divmod(np.flatnonzero(flat), flat.shape[1])
    return (first, second) if flat is mask else (second, first)
