"""Ranks without a sort: a right candidate's rank is 1 + the pool candidates that score higher, and those that tie.

Everything here works on indices: queries and candidates are positions in lists of ids that are sorted bytewise, so that
a greater index is a greater id.
"""

from collections.abc import Callable, Iterator
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


@dataclass(frozen=True, eq=False)
class Group:
    """Queries that are ranked against one pool.

    Attributes:
        candidates: the pool, ascending.
        queries: the queries.
        row, place: the right candidates: position in `queries`, ascending, and position in `candidates`.
        out_row, out_place: the excluded candidates, in the same terms.
    """

    candidates: Ints
    queries: Ints
    row: Ints
    place: Ints
    out_row: Ints
    out_place: Ints

    @property
    def sizes(self) -> Ints:
        """By query how many candidates are not excluded."""
        return len(self.candidates) - np.bincount(self.out_row, minlength=len(self.queries))


class Source(Protocol):
    """Where scores come from."""

    def listed(self, query: int) -> Ints:
        """The candidates that the run lists for a query, ascending."""

    def count(self, group: Group) -> Counts:
        """For each right candidate the pool's candidates that stand above it, with it, and with it but after by id."""


class TwoWay(Source, Protocol):
    """Scores that rank either side for the other."""

    def count_both(self, group: Group, reverse: Group | None) -> tuple[Counts, Counts | None]:
        """Count a group, and the one whose queries are its candidates and whose candidates are its queries."""

    def reverse(self) -> Source:
        """The scores of the other direction."""


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


@dataclass(frozen=True, eq=False)
class Trials:
    """Who is ranked against what.

    Attributes:
        queries: int64[n], the query of each trial.
        pool: int64[n], its pool, or `LISTED`.
        pools: the candidates of each pool, ascending.
        judged: the qrels, by query.
        excluded: by query, candidates that leave its pools.
    """

    queries: Ints
    pool: Ints
    pools: Ragged
    judged: Judged
    excluded: Ragged


Progress = Callable[[int], None]


def stand(source: Source, trials: Trials, progress: Progress = lambda done: None) -> tuple[Stands, Ints]:
    """Where the judged candidates of each trial stand, and how many of its pool's candidates have a score.

    Args:
        source: the scores.
        trials: the trials.
        progress: told the number of trials done, now and then.
    """
    found = _Found(trials, source)
    for part, group in found.groups():
        found.put(part, source.count(group))
        progress(len(group.queries))
    return found.stands()


def stand_both(
    source: TwoWay, trials: Trials, reverse: Trials, progress: Progress = lambda done: None
) -> tuple[tuple[Stands, Ints], tuple[Stands, Ints]]:
    """`stand` in both directions, in one pass where the two rank the same sets for each other.

    Args:
        source: the scores.
        trials: the trials of one direction.
        reverse: those of the other.
        progress: told the number of trials done, of either direction.
    """
    one, other = _Found(trials, source), _Found(reverse, source.reverse())
    waiting: dict[tuple[bytes, bytes], list[tuple[_Part, Group]]] = {}
    for part, group in other.groups():
        waiting.setdefault((group.candidates.tobytes(), group.queries.tobytes()), []).append((part, group))
    for part, group in one.groups():
        partners = waiting.get((group.queries.tobytes(), group.candidates.tobytes()))
        its_part, partner = partners.pop() if partners else (None, None)
        counts, back = source.count_both(group, partner)
        one.put(part, counts)
        if its_part and back:
            other.put(its_part, back)
        progress(len(group.queries) + (len(partner.queries) if partner else 0))
    for part, group in (left for partners in waiting.values() for left in partners):
        other.put(part, other.source.count(group))
        progress(len(group.queries))
    return one.stands(), other.stands()


class _Part(NamedTuple):
    """Where the results of a group go: its trials, and its right candidates' entries."""

    trials: Ints
    entries: Ints


class _Found:
    """The stands of some trials, filled group by group."""

    def __init__(self, trials: Trials, source: Source):
        self.trials, self.source = trials, source
        n, judged = len(trials.queries), trials.judged
        places, lengths = judged.candidates.places(trials.queries)
        self.wanted = Ragged(np.concatenate([[0], np.cumsum(lengths)]), judged.candidates.values[places])
        self.gains = judged.gains[places]
        self.trial = np.repeat(np.arange(n), lengths)
        self.better = np.full(len(places), -1)
        self.tied, self.before = np.zeros_like(self.better), np.zeros_like(self.better)
        self.sizes, self.scored = np.zeros(n, np.int64), np.zeros(n, np.int64)

    def groups(self) -> Iterator[tuple[_Part, Group]]:
        """The trials, those of one pool together."""
        trials = self.trials
        order = np.argsort(trials.pool, kind="stable")
        apart = (np.diff(trials.pool[order]) != 0) | (trials.pool[order][1:] == LISTED)
        for mine in np.split(order, np.flatnonzero(apart) + 1) if len(order) else []:
            queries, which = trials.queries[mine], trials.pool[mine[0]]
            candidates = self.source.listed(queries[0]) if which == LISTED else trials.pools[which]
            outs, out_lengths = trials.excluded.places(queries)
            out_row = np.repeat(np.arange(len(mine)), out_lengths)
            out_place, out_there = find(candidates, trials.excluded.values[outs])
            out_row, out_place = out_row[out_there], out_place[out_there]
            entries, lengths = self.wanted.places(mine)
            row = np.repeat(np.arange(len(mine)), lengths)
            place, there = find(candidates, self.wanted.values[entries])
            if len(out_row):
                there &= ~np.isin(row * len(candidates) + place, out_row * len(candidates) + out_place)
            group = Group(candidates, queries, row[there], place[there], out_row, out_place)
            self.sizes[mine] = group.sizes
            yield _Part(mine, entries[there]), group

    def put(self, part: _Part, counts: Counts) -> None:
        """Keep what was counted."""
        self.scored[part.trials] = counts.scored
        self.better[part.entries], self.tied[part.entries], self.before[part.entries] = counts[:3]

    def stands(self) -> tuple[Stands, Ints]:
        """All of them, and how many candidates of each trial are scored."""
        stands = Stands(self.sizes, self.trial, self.gains, self.better, self.tied, self.before)
        return stands, self.scored


def find(ascending: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The position of each wanted value in an ascending array, and whether it is there."""
    if not len(ascending):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return place, ascending[place] == wanted
