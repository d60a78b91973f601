"""Stands in the lists that a run gives, all of them at once: the pool of each query is what is listed for it.

The rows may come in any order. Nothing is sorted but what is judged: each row is compared with its own query's
judged candidates, found by halving, and counted.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.counting import Judged
from rankledger.ranking.stands import Floats, Ints, Stands, starts_run

BLOCK_ROWS = 1 << 18

Indices = NDArray[np.integer]


def stand_listed(trial: Indices, candidate: Indices, score: NDArray[np.floating], judged: Judged) -> Stands:
    """Where the judged candidates of n trials stand; one that is not listed is not in the pool.

    Args:
        trial: int[rows], the trial that a row belongs to, −1 where to none.
        candidate: int[rows], ≥ 0, none twice in a trial.
        score: float[rows], no NaN.
        judged: by trial; a candidate below 0 is in no list.
    """
    first, wanted = judged.candidates.starts, judged.candidates.values
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    sizes, goal = np.zeros(len(first) - 1, np.int64), np.full(len(wanted), np.nan)
    for t, c, s in _blocks(trial, candidate, score):
        sizes += np.bincount(t, minlength=len(sizes))
        place, there = _find(first, wanted, t, c)
        goal[place[there]] = s[there]

    # the levels of a trial: the distinct scores of its judged candidates, ascending
    listed = np.flatnonzero(~np.isnan(goal))
    listed = listed[np.lexsort((goal[listed], owner[listed]))]
    fresh = starts_run(owner[listed], goal[listed])
    level = np.cumsum(fresh) - 1
    levels, trial_of = goal[listed][fresh], owner[listed][fresh]
    start = np.searchsorted(trial_of, np.arange(len(first)))

    # k levels part a trial's rows into k + 1 slots: up to the first level, …, above the last
    slots, even = np.zeros(len(levels) + len(sizes), np.int64), np.zeros(len(levels), np.int64)
    for t, _, s in _blocks(trial, candidate, score):
        place, there = _find(start, levels, t, s)
        slots += np.bincount(place + t, minlength=len(slots))
        even += np.bincount(place[there], minlength=len(even))
    below = np.concatenate(([0], np.cumsum(slots)))
    above = below[start[trial_of + 1] + trial_of + 1] - below[np.arange(len(levels)) + trial_of + 1]

    better = np.full(len(wanted), -1)
    tied, before = np.zeros_like(better), np.zeros_like(better)
    better[listed], tied[listed] = above[level], even[level]
    several = listed[even[level] > 1]
    if len(several):
        size = int(candidate.max()) + 1
        keys = [np.zeros(0, np.int64)]
        for t, c, s in _blocks(trial, candidate, score):
            place, there = _find(start, levels, t, s)
            there &= even[np.minimum(place, len(even) - 1)] > 1
            keys.append(place[there] * size + c[there])
        key = np.sort(np.concatenate(keys))
        at = level[even[level] > 1]
        before[several] = np.searchsorted(key, (at + 1) * size) - np.searchsorted(
            key, at * size + wanted[several], "right"
        )
    return Stands(sizes, owner, judged.gains, better, tied, before)


def _blocks(trial: Indices, candidate: Indices, score: NDArray[np.floating]) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Some rows at a time, those of no trial left out."""
    for start in range(0, len(trial), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        mine = trial[rows] >= 0
        yield (
            trial[rows][mine].astype(np.int64),
            candidate[rows][mine].astype(np.int64),
            score[rows][mine].astype(np.float64),
        )


def _find(
    starts: Ints, values: NDArray[np.generic], part: Ints, x: NDArray[np.generic]
) -> tuple[Ints, NDArray[np.bool_]]:
    """By row the first place in its part of `values` (ascending there) that is not below x, and whether it is x."""
    low, high = starts[part], starts[part + 1]
    end = high
    padded = np.append(values, values[-1:] if len(values) else 0)
    for _ in range(int(np.diff(starts).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        right = (padded[middle] < x) & (low < high)
        low = np.where(right, middle + 1, low)
        high = np.where(right, high, middle)
    return low, (low < end) & (padded[low] == x)
