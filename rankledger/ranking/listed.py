"""Stands in the lists that a run gives: the pool of each query is what is listed for it.

The rows of some queries at a time, so that they are counted while they lie in the processor's cache. Nothing is sorted
but what is judged: each score is compared with those of its own query's judged candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.ranking.counting import Judged
from rankledger.ranking.stands import Ints, Stands, place_in_run, starts_run

Keys = NDArray[np.uint64]

SLOTS = 64  # of the first look at a row, for each judged candidate
MANY = 8  # levels in a query; it is cheaper to sort its scores than to compare each with more


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows of some queries, one query after the other.

    Attributes:
        queries: int64[q], the queries, each once.
        starts: int64[q + 1], where the rows of each begin.
        pairs: uint64[n], `pair` of each row.
        scores: float[n], no NaN; none where the rows of each query are in order, the best first.
        candidates: the ids (strings) of some rows; no two of a query are the same.
    """

    queries: Ints
    starts: Ints
    pairs: Keys
    scores: NDArray[np.floating] | None
    candidates: Callable[[Ints], pa.Array]


def pair(keys: Keys, queries: Ints) -> Keys:
    """A key of candidate and query: the same where they are, else seldom, if that is so of the candidates' keys."""
    return keys + queries.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


class Tally:
    """Counts where the judged candidates of n queries stand, from rows in any order of the queries.

    Args:
        judged: by query; indices of `ids`.
        ids: the judged candidates' ids.
        keys: by id its key.
        order: whether the order of ids among equal scores matters: else `before` stays 0.
    """

    def __init__(self, judged: Judged, ids: pa.Array, keys: Keys, order: bool):
        n, m = len(judged.candidates.starts) - 1, len(judged.candidates.values)
        self._judged, self._ids, self._order = judged, ids, order
        self._query = np.repeat(np.arange(n), np.diff(judged.candidates.starts))
        self._sizes, self._better = np.zeros(n, np.int64), np.full(m, -1)
        self._tied, self._before = np.zeros(m, np.int64), np.zeros(m, np.int64)

        self._pairs = pair(keys[judged.candidates.values], self._query)

    def add(self, rows: Rows) -> None:
        """Count the rows of queries, from n up those that are not judged; threads may do so at the same time.

        Rows that come again are counted anew.
        """
        judged = rows.queries < len(self._sizes)
        self._sizes[rows.queries[judged]] = np.diff(rows.starts)[judged]
        entry, row = self._find(rows)
        list_of = np.searchsorted(rows.starts, row, "right") - 1
        if rows.scores is None:
            self._better[entry], self._tied[entry] = row - rows.starts[list_of], 1
            return
        goal = rows.scores[row]
        order = np.lexsort((goal, list_of))
        entry, row, list_of, goal = entry[order], row[order], list_of[order], goal[order]
        fresh = starts_run(list_of, goal)
        better, tied = _count(rows.scores, rows.starts, list_of[fresh], goal[fresh])
        level = np.cumsum(fresh) - 1
        self._better[entry], self._tied[entry] = better[level], tied[level]
        several = tied[level] > 1
        if self._order and several.any():
            self._before[entry[several]] = _before(rows, rows.scores, row[several])

    def stands(self) -> Stands:
        """What all rows came to; a judged candidate that is not listed is not in the pool."""
        return Stands(self._sizes, self._query, self._judged.gains, self._better, self._tied, self._before)

    def _find(self, rows: Rows) -> tuple[Ints, Ints]:
        """The entries that are listed, and their rows."""
        entries, _ = self._judged.candidates.places(rows.queries[rows.queries < len(self._sizes)])
        entries = entries[np.argsort(self._pairs[entries])]
        pairs = self._pairs[entries]
        bits = (SLOTS * len(pairs)).bit_length()
        shift = np.uint64(64 - bits)
        taken = np.zeros(1 << bits, bool)
        taken[_slots(pairs, shift)] = True
        row = np.flatnonzero(taken.take(_slots(rows.pairs, shift)))
        low, high = (np.searchsorted(pairs, rows.pairs[row], side) for side in ("left", "right"))
        count = high - low
        row = np.repeat(row, count)
        entry = entries[np.repeat(low, count) + place_in_run(row)]
        found = self._ids.take(pa.array(self._judged.candidates.values[entry]))
        query = rows.queries[np.searchsorted(rows.starts, row, "right") - 1]
        same = np.asarray(pc.equal(found, rows.candidates(row))) & (query == self._query[entry])
        return entry[same], row[same]


def _slots(pairs: Keys, shift: np.uint64) -> Ints:
    return (pairs >> shift).view(np.int64)  # as NumPy takes indices


def _count(scores: NDArray[np.floating], starts: Ints, list_of: Ints, level: NDArray[np.floating]) -> tuple[Ints, Ints]:
    """By level, ascending in each list: how many rows of the list score higher, and how many the same."""
    above, even = np.zeros(len(level), np.int64), np.zeros(len(level), np.int64)
    lengths, nth = np.diff(starts), place_in_run(list_of)
    many = (np.bincount(list_of, minlength=len(lengths)) > MANY)[list_of]
    for i in range(int(nth[~many].max(initial=-1)) + 1):
        some = np.flatnonzero((nth == i) & ~many)
        goal = np.full(len(lengths), np.nan, scores.dtype)
        goal[list_of[some]] = level[some]
        goals = np.repeat(goal, lengths)
        above[some] = np.add.reduceat(scores > goals, starts[:-1], dtype=np.int64)[list_of[some]]
        even[some] = np.add.reduceat(scores == goals, starts[:-1], dtype=np.int64)[list_of[some]]
    for one in np.unique(list_of[many]):
        mine = list_of == one
        ascending = np.sort(scores[starts[one] : starts[one + 1]])
        end = np.searchsorted(ascending, level[mine], "right")
        above[mine] = len(ascending) - end
        even[mine] = end - np.searchsorted(ascending, level[mine])
    return above, even


def _before(rows: Rows, scores: NDArray[np.floating], row: Ints) -> Ints:
    """How many rows of the same list have the score of a row and a greater id."""
    even = np.flatnonzero(np.isin(scores, scores[row]))
    list_of, score = np.searchsorted(rows.starts, even, "right") - 1, scores[even]
    order = np.lexsort((pc.rank(rows.candidates(even), tiebreaker="dense"), score, list_of))
    place = np.empty(len(even), np.int64)
    place[order] = place_in_run(list_of[order][::-1], score[order][::-1])[::-1]
    return place[np.searchsorted(even, row)]
