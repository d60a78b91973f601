"""One query's pool, candidate by candidate: where the right answers stand and who stands above them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.benchmarks.base import Plan
from rankledger.predictions.reading import Given, Ids, Reader
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.stands import Ints
from rankledger.ranking.vectors import similarity
from rankledger.subset import Subset


@dataclass(frozen=True)
class Placed:
    """A candidate of a pool.

    Attributes:
        candidate_id: its id.
        score: as it was given; none in a ranking, and for one that was not listed.
        first, last: the ranks of all with its score; none where it is not retrieved.
        relevance: in the qrels; none where it has no row.
    """

    candidate_id: str
    score: float | None
    first: int | None
    last: int | None
    relevance: float | None


def pool_of(
    subset: Subset,
    plan: Plan,
    files: Mapping[str, Path],
    cosine: bool,
    ties: str | None,
    task_name: str,
    view: str,
    query_id: str,
) -> dict[int, list[Placed]]:
    """The pool of a query in a view, by repeat, the best first; excluded candidates are not in it.

    Where a task's pool is what a run lists, that is the pool. Label tasks have none, and neither has a view without
    predictions. Raises `InputError` where the predictions are not as they should be.
    """
    task = plan.task(task_name)
    if task.labels:
        return {}
    universe = {s: Ids(_where(subset.universe, side=s)["id"]) for s in (task.query_side, task.candidate_side)}
    reader = Reader(files, universe, cosine)
    query = universe[task.query_side].index(pa.array([query_id]))
    names = [name for name in (plan.files.get((task.name, view)), task.name) if name]
    read = (reader.read(task, name, query, ties or task.ties) for name in names)
    given = next((g for g in read if g), None)
    if given is None:
        return {}
    trials = _where(subset.trials, task=task.name, view=view, query_id=query_id)
    out = _own(subset.exclusions, task.name, query_id)["candidate_id"]
    judged = _own(subset.qrels, task.name, query_id)
    gains = dict(zip(judged["candidate_id"].to_pylist(), judged["relevance"].to_pylist(), strict=True))
    found = {}
    for repeat, pool_id in zip(trials["repeat"].to_pylist(), trials["pool_id"].to_pylist(), strict=True):
        if task.noise and given.source:
            pool = given.source.listed(int(query[0]))
        else:
            pool = given.candidates.index(_where(subset.pools, pool_id=pool_id)["candidate_id"])
        pool = np.sort(np.setdiff1d(pool, given.candidates.index(out)))
        found[repeat] = _placed(given, int(query[0]), pool, gains)
    return found


def _placed(given: Given, query: int, pool: Ints, gains: Mapping[str, float]) -> list[Placed]:
    scores = _scores(given, query, pool)
    there = ~np.isnan(scores)
    ascending = np.sort(scores[there])
    first = 1 + len(ascending) - np.searchsorted(ascending, scores, side="right")
    last = len(ascending) - np.searchsorted(ascending, scores, side="left")
    order = np.lexsort((pool, -scores))  # what is not retrieved comes last
    shown = given.kind != "ranking"
    return [
        Placed(
            name,
            float(scores[i]) if shown and there[i] else None,
            int(first[i]) if there[i] else None,
            int(last[i]) if there[i] else None,
            gains.get(name),
        )
        for i, name in zip(order, given.candidates.names(pool[order]), strict=True)
    ]


def _scores(given: Given, query: int, pool: Ints) -> NDArray[np.floating]:
    """The score of each candidate of an ascending pool, NaN where it is not retrieved."""
    source = given.source
    if isinstance(source, Embeddings):
        left = np.full(len(pool), source.query_row[query])
        right, rows = source.right.hold(source.candidate_row[pool])
        return similarity(source.left, right, left, rows)
    if source is None:
        raise TypeError("labels have no scores")
    scores = np.full(len(pool), source.unlisted, source.scores.dtype)
    mine = slice(source.candidates.starts[query], source.candidates.starts[query + 1])
    _, at, of = np.intersect1d(pool, source.candidates.values[mine], return_indices=True)
    scores[at] = source.scores[mine][of]
    return scores


def _own(table: pa.Table, task: str, query_id: str) -> pa.Table:
    own = {"task": task} if "task" in table.column_names else {}
    return _where(table, query_id=query_id, **own)


def _where(table: pa.Table, **values: str) -> pa.Table:
    for column, value in values.items():
        table = table.filter(pc.equal(table[column], value))
    return table
