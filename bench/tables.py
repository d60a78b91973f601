"""Runs of scores and their qrels, made by seed, a thousand queries at a time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from bench.common import cached

LISTED = 1000  # candidates of each query


def chunks(queries: int, gallery: int | None, seed: int = 0) -> Iterator[pa.Table]:
    """Rows of query_id, candidate_id and score (float32), those of a query together, in no order of score.

    Args:
        queries: how many.
        gallery: how many candidates there are, of which each query lists some; None: each query has its own.
    """
    rng = np.random.default_rng(seed)
    steps = np.flatnonzero(np.gcd(np.arange(gallery or 1), gallery or 1) == 1)  # with each, none comes twice
    for start in range(0, queries, 1000):
        n = min(1000, queries - start)
        query = pa.array([f"q{i:06}" for i in range(start, start + n)])
        row = np.repeat(np.arange(n, dtype=np.int32), LISTED)
        query_id = query.take(pa.array(row))
        if gallery is None:
            own = pa.array([f"d{i:03}" for i in range(LISTED)]).take(pa.array(np.tile(np.arange(LISTED), n)))
            candidate_id = pc.binary_join_element_wise(query_id, own, "-")
        else:
            first, step = rng.integers(gallery, size=(n, 1)), rng.choice(steps, (n, 1))
            ids = pa.array([f"d{i:06}" for i in range(gallery)])
            candidate_id = ids.take(pa.array(((first + step * np.arange(LISTED)) % gallery).ravel()))
        score = rng.standard_normal(n * LISTED, np.float32)
        yield pa.table({"query_id": query_id, "candidate_id": candidate_id, "score": score})


def scores(queries: int = 10_000, gallery: int | None = 1000) -> Path:
    """Long Parquet scores."""

    def make(path: Path) -> None:
        tables = chunks(queries, gallery)
        first = next(tables)
        with pq.ParquetWriter(path, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)

    return cached(f"scores-{queries}-{gallery or 'own'}.parquet", make)


def shuffled(queries: int = 10_000, gallery: int | None = 1000) -> Path:
    """The same rows in any order."""

    def make(path: Path) -> None:
        table = pq.read_table(scores(queries, gallery))
        pq.write_table(table.take(pa.array(np.random.default_rng(1).permutation(len(table)))), path)

    return cached(f"shuffled-{queries}-{gallery or 'own'}.parquet", make)


def text(queries: int = 10_000, gallery: int | None = 1000) -> Path:
    """The same rows as TREC text."""

    def make(path: Path) -> None:
        plain = pyarrow.csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
        with path.open("wb") as file:
            for table in chunks(queries, gallery):
                q0, tag = (pa.array([word]).take(pa.array(np.zeros(len(table), np.int8))) for word in ("Q0", "x"))
                rank = np.tile(np.arange(1, LISTED + 1), len(table) // LISTED)
                columns = [table["query_id"], q0, table["candidate_id"], rank, table["score"], tag]
                pyarrow.csv.write_csv(pa.table(columns, list("abcdef")), file, plain)

    return cached(f"text-{queries}-{gallery or 'own'}.txt", make)


def lists(queries: int = 10_000, gallery: int | None = 1000) -> Path:
    """The candidates of each query as a list, in the order of their rows."""

    def make(path: Path) -> None:
        found = []
        for table in chunks(queries, gallery):
            starts = pa.array(np.arange(0, len(table) + 1, LISTED, dtype=np.int32))
            listed = pa.ListArray.from_arrays(starts, table["candidate_id"].combine_chunks())
            found.append(pa.table({"query_id": table["query_id"].take(starts[:-1]), "candidate_ids": listed}))
        pq.write_table(pa.concat_tables(found), path)

    return cached(f"lists-{queries}-{gallery or 'own'}.parquet", make)


def qrels(queries: int = 10_000, gallery: int | None = 1000, right: int = 1) -> Path:
    """TREC text: so many right candidates for each query, all of them listed."""

    def make(path: Path) -> None:
        rng = np.random.default_rng(2)
        with path.open("w") as file:
            for table in chunks(queries, gallery):
                starts = np.arange(0, len(table), LISTED)[:, None]
                places = starts + (rng.integers(LISTED, size=(len(starts), 1)) + 7 * np.arange(right)) % LISTED
                some = table.take(pa.array(places.ravel()))
                for query, candidate in zip(*(some[name].to_pylist() for name in some.column_names[:2]), strict=True):
                    file.write(f"{query} 0 {candidate} 1\n")

    return cached(f"qrels-{queries}-{gallery or 'own'}-{right}.txt", make)
