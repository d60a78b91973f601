"""Two-stage systems: a reranked head over a base ranking."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankledger.benchmarks.base import Task
from rankledger.predictions.reading import Ids, Reader, kind_of
from rankledger.ranking.counting import Ragged
from rankledger.ranking.sources import Table
from rankledger.tables import InputError, as_strings, few, read_schema, read_table, write_table


def overlay(head: Path, base: Path, out: Path) -> str:
    """Put a reranked head over a base, both Parquet rankings or scores, and write the ranking; says what it did.

    A query's list is that of `head`, then the candidates of `base` that it does not name, in the base's order;
    a query without a head keeps the base. Equal scores: by id, descending, bytewise, as trec_eval does.

    Raises `InputError` where the head names a query, or for a query a candidate, that the base does not rank.
    """
    paths = {"head": head, "base": base}
    ids = {name: _listed_ids(path) for name, path in paths.items()}
    universe = {side: Ids(pa.chunked_array([found[side] for found in ids.values()])) for side in ("query", "candidate")}
    queries, candidates = universe["query"], universe["candidate"]
    reader = Reader(paths, universe)
    top, rest = (_in_order(reader, name, len(queries)) for name in paths)
    asked = np.flatnonzero(np.diff(rest.starts))
    strange = queries.names(np.setdiff1d(np.flatnonzero(np.diff(top.starts)), asked))
    foreign: list[str] = []
    lists, depths, moved = [], [], 0
    for place, query in zip(queries.names(asked), asked.tolist(), strict=True):
        first, then = top[query], rest[query]
        foreign += [f"{place} / {name}" for name in candidates.names(np.setdiff1d(first, then))]
        lists.append(np.concatenate([first, then[~np.isin(then, first)]]))
        moved += len(np.setdiff1d(first, then[: len(first)])) > 0
        depths += [len(first)] if len(first) else []
    for wrong, what in ((strange, "queries"), (foreign, "candidates")):
        if wrong:
            raise InputError(
                f"{head}: {len(wrong)} {what} are not in {base}: {few(wrong)}; a head reranks the base's own"
            )
    if not depths:
        raise InputError(f"{head}: it lists no candidate")
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    ranked = pa.LargeListArray.from_arrays(offsets, candidates.values.take(pa.array(np.concatenate(lists))))
    write_table(pa.table({"query_id": queries.values.take(pa.array(asked)), "candidate_ids": ranked}), out)
    depth = f"{min(depths)} to {max(depths)}" if min(depths) < max(depths) else f"{depths[0]}"
    return (
        f"rankings of {len(asked):,} queries, {len(depths):,} with a head of {depth}; "
        f"{moved:,} heads are no permutation of the base's top"
    )


def _listed_ids(path: Path) -> dict[str, pa.Array]:
    """The distinct ids of the queries and of the candidates in a ranking or scores."""
    kind = kind_of(path)
    if kind not in ("ranking", "scores"):
        raise InputError(f"{path}: holds {kind}; a two-stage system is put together from rankings or scores")
    lists = "candidate_ids" in read_schema(path).names
    table = read_table(path, ["query_id", "candidate_ids" if lists else "candidate_id"])
    listed = pc.list_flatten(table.column(1)) if lists else table.column(1)
    return {"query": as_strings(pc.unique(table.column(0))), "candidate": as_strings(pc.unique(listed))}


def _in_order(reader: Reader, name: str, n: int) -> Ragged:
    """By query the candidates that a file lists, best first; n queries."""
    given = reader.read(Task(name, "query", "candidate", missing="zero"), name, np.arange(n), "trec")
    if given is None or not isinstance(given.source, Table):
        raise TypeError(f"{name} is no table of scores")
    listed, scores = given.source.candidates, given.source.scores
    owner = np.repeat(np.arange(n), np.diff(listed.starts))
    return Ragged(listed.starts, listed.values[np.lexsort((-listed.values, -scores, owner))])
