"""Where scores come from: a table of them, or embeddings whose similarities are computed on the way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.blocks import Engine, Entries, Job, Tally, clear, count_block, multiply
from rankledger.ranking.counting import Counts, Group, Ragged, find
from rankledger.ranking.stands import Floats, Ints
from rankledger.ranking.vectors import Gallery, Vectors, compare, similarity

TOP_ROWS = 256  # queries whose best candidates are looked for at once


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

    def count(self, group: Group) -> Counts:
        """See `Source`."""
        board, candidates, queries, row, place = self._board, group.candidates, group.queries, group.row, group.place
        better, tied, before = (np.zeros(len(row), np.int64) for _ in range(3))
        scored = np.zeros(len(queries), np.int64)
        starts = np.searchsorted(row, np.arange(len(queries) + 1))
        out_starts = np.searchsorted(group.out_row, np.arange(len(queries) + 1))
        for i, query in enumerate(queries):
            mine = self.candidates[query]
            board[mine] = self.scores[self.candidates.starts[query] : self.candidates.starts[query + 1]]
            scores = board[candidates]
            board[mine] = np.nan
            absent = np.isnan(scores)
            outs = group.out_place[out_starts[i] : out_starts[i + 1]]
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


class Known:
    """Numbers that were computed, by name."""

    def __init__(self) -> None:
        self._names, self._numbers = np.zeros(0, np.int64), np.zeros(0, np.float32)

    def get(self, names: Ints, compute: Callable[[Ints], NDArray[np.float32]]) -> NDArray[np.float32]:
        """The number of each name; `compute` is given the places of those that are new, each name once."""
        unknown = np.flatnonzero(~find(self._names, names)[1])
        new, first = np.unique(names[unknown], return_index=True)
        if len(new):
            place = np.searchsorted(self._names, new)
            self._numbers = np.insert(self._numbers, place, compute(unknown[first]))
            self._names = np.insert(self._names, place, new)
        return self._numbers[np.searchsorted(self._names, names)]


@dataclass(frozen=True)
class Embeddings:
    """Scores that are similarities of embeddings, as `similarity` defines them; counted by `rankledger.ranking.blocks`.

    Attributes:
        left, right: the vectors of the two sides.
        query_row, candidate_row: where a query's or candidate's vector stands in them.
        engine: what counts the blocks.
        known: similarities of right pairs, which come again in each draw, and in the other direction.
        turned: whether this is the other direction.
    """

    left: Vectors
    right: Gallery
    query_row: Ints
    candidate_row: Ints
    engine: Engine = map
    known: Known = field(default_factory=Known)
    turned: bool = False

    def listed(self, query: int) -> Ints:
        """See `Source`."""
        return np.flatnonzero(self.candidate_row >= 0)

    def reverse(self) -> "Embeddings":
        """The other direction; both sides are in memory."""
        if not isinstance(self.right, Vectors):
            raise TypeError("a gallery on disk has no other direction")
        rows = self.candidate_row, self.query_row
        return Embeddings(self.right, self.left, *rows, self.engine, self.known, not self.turned)

    def count(self, group: Group) -> Counts:
        """See `Source`."""
        return self.count_both(group, None)[0]

    def count_both(self, group: Group, reverse: Group | None) -> tuple[Counts, Counts | None]:
        """Count a group, and the one whose queries are its candidates and whose candidates are its queries."""
        rows, right = self.query_row[group.queries], self.candidate_row[group.candidates]
        by_row, across = self._begin(group)
        by_column, down = self.reverse()._begin(reverse) if reverse else (by_row.take(slice(0)), Tally.zero(0))
        slices: list[slice] = []

        def jobs() -> Iterator[Job]:
            for at, block in self.right.blocks(right):
                slices.append(slice(*np.searchsorted(by_column.line, [at[0], at[-1] + 1])))
                yield Job(self.left, rows, block, at, by_row, by_column.take(slices[-1], at[0]))

        for i, (found, back) in enumerate(self.engine(count_block, jobs())):
            across.add(found)
            down.add(back, slices[i])
        return _counts(group, across), _counts(reverse, down) if reverse else None

    def _begin(self, group: Group) -> tuple[Entries, Tally]:
        """The right candidates of a group, and what is not to be counted for them: the excluded, taken away."""
        rows, right = self.query_row[group.queries], self.candidate_row[group.candidates]
        held, at = self.right.hold(right[np.concatenate((group.place, group.out_place))])
        at, out_at = np.split(at, [len(group.place)])
        one, other = rows[group.row], right[group.place]
        name = (other << 32) + one if self.turned else (one << 32) + other
        goal = self.known.get(name, lambda new: similarity(self.left, held, one[new], at[new]))
        tally = Tally.zero(len(group.row))
        if len(group.out_row):
            outs = Ragged(np.searchsorted(group.out_row, np.arange(len(rows) + 1)), group.out_place)
            out, lengths = outs.places(group.row)
            entry = np.repeat(np.arange(len(group.row)), lengths)
            sign = compare(self.left, held, rows[group.row[entry]], out_at[out], goal[entry])
            tally.add_pairs(entry, sign, outs.values[out] > group.place[entry], -1)
        return Entries(group.row, group.place, goal, held.twin[at]), tally

    def top(self, candidates: Ints, queries: Ints, excluded: Ragged, k: int) -> Iterator[Ints]:
        """See `Table.top`. The product says what is surely not among the k best; the rest is computed as defined."""
        right = self.candidate_row[candidates]
        held, at = self.right.hold(right)
        d, shrink, most = held.components, self.left.shrink * held.shrink, held.norms[at].max(initial=0.0)
        for start in range(0, len(queries), TOP_ROWS):
            some = queries[start : start + TOP_ROWS]
            left = self.query_row[some]
            here = self.left.take(left).shrunken()
            products = np.empty((len(some), len(right)), np.float32)
            for columns, block in self.right.blocks(right):
                space = np.empty((2, len(some), len(block)), np.float32)
                products[:, columns] = multiply(here, block.shrunken().T, *space)
            for row, query in enumerate(some):
                place, there = find(candidates, excluded[query])
                products[row, place[there]] = -np.inf
            floor = np.full(len(some), -np.inf, np.float32)
            if k < len(right):
                floor = np.partition(products, len(right) - k, axis=1)[:, len(right) - k]
                for _ in range(2):  # k are surely no worse than the first floor; what ties with it passes the second
                    with np.errstate(over="ignore"):
                        goal = (floor.astype(np.float64) / shrink).astype(np.float32)
                    floor = clear(goal, self.left.norms[left], most, d, shrink)[1]
            for row in range(len(some)):
                near = np.flatnonzero((products[row] >= floor[row]) & (products[row] > -np.inf))
                scores = similarity(self.left, held, np.full(len(near), left[row]), at[near])
                yield candidates[near[np.lexsort((near, scores))[::-1][:k]]]


def _counts(group: Group, tally: Tally) -> Counts:
    return Counts(*tally, group.sizes)
