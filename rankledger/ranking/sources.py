"""Where scores come from: a table of them, or embeddings whose similarities are computed on the way."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.counting import Counts, Ragged, find
from rankledger.ranking.stands import Floats, Ints

BLOCK_BYTES = 32 << 20  # of one operand of a matrix product, and of what is computed again at once
BLOCK_ROWS, BLOCK_COLUMNS = 256, 16384
SHORTEST, LONGEST = 1e-150, 1e150  # vectors whose squares and products stay well inside float64


@dataclass(frozen=True)
class Table:
    """Scores as they were given: each query's candidates, ascending, with a score each (any float; no NaN).

    Attributes:
        candidates: per query.
        scores: beside `candidates.values`.
        size: number of candidates that there are.
        unlisted: the score of a pool candidate that is not listed: −inf ranks it last, NaN does not retrieve it.
    """

    candidates: Ragged
    scores: NDArray[np.floating]
    size: int
    unlisted: float

    def listed(self, query: int) -> Ints:
        """See `Source`."""
        return self.candidates[query]

    def count(self, candidates: Ints, queries: Ints, row: Ints, place: Ints, out_row: Ints, out_place: Ints) -> Counts:
        """See `Source`."""
        board = self._board
        better, tied, before = (np.zeros(len(row), np.int64) for _ in range(3))
        scored = np.zeros(len(queries), np.int64)
        starts = np.searchsorted(row, np.arange(len(queries) + 1))
        out_starts = np.searchsorted(out_row, np.arange(len(queries) + 1))
        for i, query in enumerate(queries):
            mine = self.candidates[query]
            board[mine] = self.scores[self.candidates.starts[query] : self.candidates.starts[query + 1]]
            scores = board[candidates]
            board[mine] = np.nan
            absent = np.isnan(scores)
            outs = out_place[out_starts[i] : out_starts[i + 1]]
            absent[outs] = True
            scored[i] = len(scores) - np.count_nonzero(absent)
            scores[np.isnan(scores)] = self.unlisted
            scores[outs] = np.nan  # neither above nor beside anything
            for entry in range(starts[i], starts[i + 1]):
                at = place[entry]
                score = scores[at]
                better[entry] = np.count_nonzero(scores > score) if score == score else -1
                tied[entry] = np.count_nonzero(scores == score)
                before[entry] = np.count_nonzero(scores[at + 1 :] == score)
        return Counts(better, tied, before, scored)

    @cached_property
    def _board(self) -> Floats:
        """The scores of one query by candidate, while it is counted; NaN before and after."""
        return np.full(self.size, np.nan)

    def top(self, candidates: Ints, queries: Ints, excluded: Ragged, k: int) -> Iterator[Ints]:
        """For each query the k best of a pool's candidates (ascending), without those excluded by query, best first.

        Equal scores: the greater id first. Fewer than k where fewer are listed.
        """
        for query in queries:
            mine = self.candidates[query]
            scores = self.scores[self.candidates.starts[query] : self.candidates.starts[query + 1]]
            there = find(candidates, mine)[1] & ~np.isin(mine, excluded[query])
            yield mine[there][np.lexsort((mine[there], scores[there]))[::-1][:k]]


class Vectors:
    """The embeddings of one side: n vectors of d components, float16, float32 or float64, kept as they are.

    `rows` gives them in float64, normalised there where the similarity is a cosine.

    Attributes:
        stored: the vectors.
        lengths: their Euclidean norms; beyond `SHORTEST` and `LONGEST` neither they nor the products can be trusted.
        scale: what `rows` divides by.
        norms: those of `rows`.
        shrink: a power of two that brings the longest of `rows` to a length of ½ to 1, so that no product overflows.
        twin: for each vector a number that it shares with the vectors equal to it, byte for byte.
    """

    def __init__(self, stored: NDArray[np.floating], cosine: bool):
        self.stored = stored
        self.lengths = np.empty(len(stored))
        step = max(1, BLOCK_BYTES // (8 * stored.shape[1]))
        with np.errstate(over="ignore", under="ignore"):
            for start in range(0, len(stored), step):
                block = stored[start : start + step].astype(np.float64)
                self.lengths[start : start + step] = np.sqrt(sum_rows(block * block))
        ones = np.ones(len(stored))
        self.scale, self.norms = (self.lengths, ones) if cosine else (ones, self.lengths)
        self.shrink = np.ldexp(1.0, -np.frexp(self.norms.max())[1])
        self.twin = _twins(stored)

    def rows(self, index: Ints) -> Floats:
        """float64[len(index), d]."""
        return self.stored[index].astype(np.float64) / self.scale[index, None]


def _twins(stored: NDArray[np.floating]) -> Ints:
    """For each vector the place of the first one equal to it, byte for byte."""
    seen: dict[bytes, int] = {}
    digests = (hashlib.sha256(row.tobytes()).digest() for row in stored)
    return np.fromiter((seen.setdefault(digest, i) for i, digest in enumerate(digests)), np.int64, len(stored))


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
    step = max(1, BLOCK_BYTES // (8 * left.stored.shape[1]))
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        product = left.rows(i[part])
        product *= right.rows(j[part])
        with np.errstate(over="ignore"):
            found[part] = sum_rows(product).astype(np.float32)
    return found


@dataclass(frozen=True)
class Embeddings:
    """Scores that are similarities of embeddings, as `similarity` defines them.

    A float32 matrix product decides what is clear: pairs further from the right candidate's score than the product's
    rounding error. Vectors equal to the right candidate's tie with it. What is left is computed by `similarity`.

    The bound (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.5, u = 2⁻²⁴): a product of d
    terms in any order, with or without fused multiply-add, is off by at most d·u/(1 − d·u) · Σ|aᵢbᵢ|, and
    Σ|aᵢbᵢ| ≤ ‖a‖‖b‖; rounding the factors to float32 adds 2u, the float64 reference less than u. Below 2⁻¹²⁶ float32
    has fewer digits, or none where the processor flushes to zero: with factors of length 1 or less, each of the d
    terms may lose 2⁻¹²⁶ in either factor, in the product and in the sum. So the right candidate's own product is never
    clear, and neither is a product whose similarity rounds to the same float32.

    Attributes:
        left, right: the vectors of the two sides.
        query_row, candidate_row: where a query's or candidate's vector stands in them.
    """

    left: Vectors
    right: Vectors
    query_row: Ints
    candidate_row: Ints

    def listed(self, query: int) -> Ints:
        """See `Source`."""
        return np.flatnonzero(self.candidate_row >= 0)

    def count(self, candidates: Ints, queries: Ints, row: Ints, place: Ints, out_row: Ints, out_place: Ints) -> Counts:
        """See `Source`."""
        left, right = self.query_row[queries], self.candidate_row[candidates]
        goal = similarity(self.left, self.right, left[row], right[place])
        above, below = self._clear(goal, left[row], right)
        twins = self.right.twin[right]
        better, tied, before = (np.zeros(len(row), np.int64) for _ in range(3))
        doubtful = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for rows, columns, block in self._blocks(left, right):
            mine = slice(*np.searchsorted(out_row, [rows.start, rows.stop]))
            inside = (out_place[mine] >= columns.start) & (out_place[mine] < columns.stop)
            block[out_row[mine][inside] - rows.start, out_place[mine][inside] - columns.start] = np.nan
            twin = twins[columns.start : columns.stop]
            for entry in range(*np.searchsorted(row, [rows.start, rows.stop])):
                scores = block[row[entry] - rows.start]
                clear = scores > above[entry]
                near = scores >= below[entry]
                sure = np.count_nonzero(clear)
                unsure = np.count_nonzero(near) - sure
                better[entry] += sure
                if unsure == 1 and columns.start <= place[entry] < columns.stop:
                    tied[entry] += 1  # the right candidate itself: it is never clear, and not excluded
                elif unsure:
                    near ^= clear
                    equal = near & (twin == twins[place[entry]])
                    tied[entry] += np.count_nonzero(equal)
                    before[entry] += np.count_nonzero(equal[max(place[entry] + 1 - columns.start, 0) :])
                    near ^= equal
                    if near.any():
                        at = np.flatnonzero(near) + columns.start
                        doubtful.append((np.full(len(at), entry), at))
            if sum(len(at) for _, at in doubtful) * 16 > BLOCK_BYTES:
                self._decide(doubtful, goal, left, right, row, place, (better, tied, before))
        self._decide(doubtful, goal, left, right, row, place, (better, tied, before))
        scored = len(candidates) - np.bincount(out_row, minlength=len(queries))
        return Counts(better, tied, before, scored)

    def top(self, candidates: Ints, queries: Ints, excluded: Ragged, k: int) -> Iterator[Ints]:
        """See `Table.top`. The product says what is surely not among the k best; the rest is computed as defined."""
        right = self.candidate_row[candidates]
        for start in range(0, len(queries), BLOCK_ROWS):
            some = queries[start : start + BLOCK_ROWS]
            left = self.query_row[some]
            products = np.empty((len(some), len(right)), np.float32)
            for _, columns, block in self._blocks(left, right):
                products[:, columns.start : columns.stop] = block
            for row, query in enumerate(some):
                place, there = find(candidates, excluded[query])
                products[row, place[there]] = -np.inf
            floor = np.full(len(some), -np.inf, np.float32)
            if k < len(right):
                floor = np.partition(products, len(right) - k, axis=1)[:, len(right) - k]
                for _ in range(2):  # k are surely no worse than the first floor; what ties with it passes the second
                    with np.errstate(over="ignore"):
                        goal = (floor.astype(np.float64) / (self.left.shrink * self.right.shrink)).astype(np.float32)
                    floor = self._clear(goal, left, right)[1]
            for row in range(len(some)):
                near = np.flatnonzero((products[row] >= floor[row]) & (products[row] > -np.inf))
                scores = similarity(self.left, self.right, np.full(len(near), left[row]), right[near])
                yield candidates[near[np.lexsort((near, scores))[::-1][:k]]]

    def _clear(self, goal: NDArray[np.float32], left: Ints, right: Ints) -> tuple[NDArray[np.float32], ...]:
        """Products above the first surely round to more than the goal, those below the second surely to less."""
        d, u = self.left.stored.shape[1], 2.0**-24
        norms = self.left.norms[left] * self.left.shrink, self.right.norms[right] * self.right.shrink
        error = 1.001 * (d + 4) * u / (1 - d * u) * norms[0] * norms[1].max(initial=0.0) + d * 2.0**-124
        shrink, most = self.left.shrink * self.right.shrink, np.float32(np.inf)
        with np.errstate(over="ignore"):
            up = np.nextafter(goal, most).astype(np.float64) * shrink + error
            down = np.nextafter(goal, -most).astype(np.float64) * shrink - error
            return np.nextafter(up.astype(np.float32), most), np.nextafter(down.astype(np.float32), -most)

    def _blocks(self, left: Ints, right: Ints) -> Iterator[tuple[range, range, NDArray[np.float32]]]:
        """The float32 product of the shrunken vectors, block by block."""
        width = min(BLOCK_COLUMNS, max(BLOCK_ROWS, BLOCK_BYTES // (4 * self.left.stored.shape[1])))
        for column in range(0, len(right), width):
            there = (self.right.rows(right[column : column + width]) * self.right.shrink).astype(np.float32).T
            for start in range(0, len(left), BLOCK_ROWS):
                here = (self.left.rows(left[start : start + BLOCK_ROWS]) * self.left.shrink).astype(np.float32)
                yield range(start, start + len(here)), range(column, column + there.shape[1]), here @ there

    def _decide(
        self,
        doubtful: list[tuple[Ints, Ints]],
        goal: NDArray[np.float32],
        left: Ints,
        right: Ints,
        row: Ints,
        place: Ints,
        counts: tuple[Ints, Ints, Ints],
    ) -> None:
        """Compute the doubtful pairs (entry, position in the pool) as they are defined, add them to the counts."""
        entry, at = (np.concatenate(part) for part in zip(*doubtful, strict=True))
        scores = similarity(self.left, self.right, left[row[entry]], right[at])
        even = scores == goal[entry]
        for count, chosen in zip(counts, (scores > goal[entry], even, even & (at > place[entry])), strict=True):
            count += np.bincount(entry[chosen], minlength=len(count))
        del doubtful[1:]
