"""Stands by brute force: every pair of candidates compared, no sort."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from rankledger.ranking.stands import Stands

Scores = Mapping[str, float]  # candidate → score; who is listed is the pool
Gains = Mapping[str, float]  # candidate → relevance


@pytest.fixture(scope="session")
def naive_stands() -> Callable[[Sequence[tuple[Scores, Gains]]], Stands]:
    """A function that makes the stands of trials, each a pool with its scores and the query's gains."""

    def stands(trials: Sequence[tuple[Scores, Gains]]) -> Stands:
        rows = []
        for trial, (pool, gains) in enumerate(trials):
            for judged, gain in gains.items():
                if judged not in pool:
                    rows.append((trial, gain, -1, 0, 0))
                    continue
                score = pool[judged]
                even = [other for other in pool if pool[other] == score]
                better = sum(s > score for s in pool.values())
                before = sum(other.encode() > judged.encode() for other in even)
                rows.append((trial, gain, better, len(even), before))
        trial, gain, better, tied, before = zip(*rows, strict=True) if rows else ((),) * 5
        return Stands(
            sizes=np.array([len(pool) for pool, _ in trials], np.int64),
            trial=np.array(trial, np.int64),
            gain=np.array(gain, np.float64),
            better=np.array(better, np.int64),
            tied=np.array(tied, np.int64),
            before=np.array(before, np.int64),
        )

    return stands
