"""Ranks without a sort: a right candidate's rank is 1 + the pool candidates that score higher, and those that tie.

Everything here works on indices: queries and candidates are positions in lists of ids that are sorted bytewise, so that
a greater index is a greater id.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankledger.ranking.stands import Floats, Ints, Stands

LISTED = -1  # in place of a pool: the query's pool is what the run lists for it


@dataclass(frozen=True)
class Ragged:
    """Lists of different lengths in one array: list i is `values[starts[i]:starts[i + 1]]`."""

    starts: Ints
    values: NDArray[np.int64]

    @classmethod
    def group(cls, owner: ArrayLike, values: ArrayLike, n: int) -> "Ragged":
        """Lists 0 … n − 1 of the `values` by their `owner`, ascending inside each list."""
        owner, values = np.asarray(owner, np.int64), np.asarray(values, np.int64)
        order = np.lexsort((values, owner))
        return cls(np.searchsorted(owner[order], np.arange(n + 1)), values[order])

    def __getitem__(self, i: int) -> NDArray[np.int64]:
        """List i."""
        return self.values[self.starts[i] : self.starts[i + 1]]

    def places(self, lists: Ints) -> tuple[Ints, Ints]:
        """Places in `values` of all entries of the given lists, one list after the other, and their lengths."""
        lengths = self.starts[lists + 1] - self.starts[lists]
        ends = np.cumsum(lengths)
        first = np.repeat(self.starts[lists] - (ends - lengths), lengths)
        return first + np.arange(int(ends[-1]) if len(ends) else 0), lengths


class Counts(NamedTuple):
    """What a source finds in one pool: per entry better, tied, before (see `Stands`); per query how many are scored."""

    better: Ints
    tied: Ints
    before: Ints
    scored: Ints


class Source(Protocol):
    """Where scores come from."""

    def listed(self, query: int) -> Ints:
        """The candidates that the run lists for a query, ascending."""

    def count(self, candidates: Ints, queries: Ints, row: Ints, place: Ints, out_row: Ints, out_place: Ints) -> Counts:
        """Count for each entry the pool's candidates that stand above it, with it, and with it but after it by id.

        Args:
            candidates: the pool, ascending.
            queries: the queries that are ranked against it.
            row, place: the entries: position in `queries`, ascending, and position in `candidates`.
            out_row, out_place: the excluded candidates, in the same terms.
        """


@dataclass(frozen=True)
class Judged:
    """What is known to be right or wrong: per query its candidates (ascending) and their relevance."""

    candidates: Ragged
    gains: Floats

    @classmethod
    def group(cls, query: ArrayLike, candidate: ArrayLike, gain: ArrayLike, n: int) -> "Judged":
        """From rows of qrels; n queries."""
        query, candidate = np.asarray(query, np.int64), np.asarray(candidate, np.int64)
        order = np.lexsort((candidate, query))
        return cls(Ragged.group(query, candidate, n), np.asarray(gain, np.float64)[order])


def stand(
    source: Source,
    queries: Ints,
    pool: Ints,
    pools: Ragged,
    judged: Judged,
    excluded: Ragged,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Stands, Ints]:
    """Where the judged candidates of each trial stand, and how many of its pool's candidates have a score.

    Args:
        source: the scores.
        queries: int64[n], the query of each trial.
        pool: int64[n], its pool, or `LISTED`.
        pools: the candidates of each pool, ascending.
        judged: the qrels, by query.
        excluded: by query, candidates that leave its pools.
        progress: told the number of trials done, now and then.
    """
    n = len(queries)
    places, lengths = judged.candidates.places(queries)
    trial = np.repeat(np.arange(n), lengths)
    wanted = judged.candidates.values[places]
    better = np.full(len(trial), -1)
    tied, before = np.zeros_like(better), np.zeros_like(better)
    sizes, scored = np.zeros(n, np.int64), np.zeros(n, np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)])

    out_places, out_lengths = excluded.places(queries)
    out_wanted = excluded.values[out_places]
    out_first = np.concatenate([[0], np.cumsum(out_lengths)])

    order = np.argsort(pool, kind="stable")
    apart = (np.diff(pool[order]) != 0) | (pool[order][1:] == LISTED)
    for group in np.split(order, np.flatnonzero(apart) + 1) if n else []:
        which = pool[group[0]]
        candidates = source.listed(queries[group[0]]) if which == LISTED else pools[which]
        rows = np.arange(len(group))
        entries = np.concatenate([np.arange(first[i], first[i + 1]) for i in group])
        row = np.repeat(rows, lengths[group])
        outs = np.concatenate([np.arange(out_first[i], out_first[i + 1]) for i in group])
        out_row = np.repeat(rows, out_lengths[group])

        out_place, out_there = find(candidates, out_wanted[outs])
        out_row, out_place = out_row[out_there], out_place[out_there]
        place, there = find(candidates, wanted[entries])
        if len(out_row):
            there &= ~np.isin(row * len(candidates) + place, out_row * len(candidates) + out_place)
        counts = source.count(candidates, queries[group], row[there], place[there], out_row, out_place)
        sizes[group] = len(candidates) - np.bincount(out_row, minlength=len(group))
        scored[group] = counts.scored
        here = entries[there]
        better[here], tied[here], before[here] = counts.better, counts.tied, counts.before
        progress(len(group))
    return Stands(sizes, trial, judged.gains[places], better, tied, before), scored


def find(ascending: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The position of each wanted value in an ascending array, and whether it is there."""
    if not len(ascending):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return place, ascending[place] == wanted
