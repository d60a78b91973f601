"""A test subset: who is asked, against which candidates, and what is right. Six tables and a manifest in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankledger.tables import (
    fingerprint,
    read_json,
    read_table,
    sort_rows,
    to_json,
    whole_folder,
    write_table,
    write_text,
)

TRIALS = pa.schema(
    {"task": pa.string(), "view": pa.string(), "repeat": pa.int64(), "query_id": pa.string(), "pool_id": pa.string()}
)
POOLS = pa.schema({"pool_id": pa.string(), "candidate_id": pa.string()})
QRELS = pa.schema({"query_id": pa.string(), "candidate_id": pa.string(), "relevance": pa.float64()})
EXCLUSIONS = pa.schema({"query_id": pa.string(), "candidate_id": pa.string()})
UNIVERSE = pa.schema({"side": pa.string(), "id": pa.string()})


@dataclass(frozen=True)
class Subset:
    """The tables of a subset; every id is a string.

    Attributes:
        queries: `task`, `query_id`, and what the benchmark knows of a query (reference_id, text, …).
        pools: `pool_id`, `candidate_id`.
        trials: `task`, `view`, `repeat`, `query_id`, `pool_id`: who is ranked against what.
        qrels: `query_id`, `candidate_id`, `relevance` (float).
        exclusions: `query_id`, `candidate_id`: candidates that the protocol takes out of a query's pools.
        universe: `side`, `id`: every id that the raw files know; anything else is foreign.

    Where tasks share query ids but not answers, qrels and exclusions have a column `task` too.
    """

    queries: pa.Table
    pools: pa.Table
    trials: pa.Table
    qrels: pa.Table
    exclusions: pa.Table
    universe: pa.Table

    def tables(self) -> dict[str, pa.Table]:
        """The tables by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def describe(
    subset: Subset,
    benchmark: str,
    parameters: Mapping[str, Any],
    sources: Sequence[Mapping[str, Any]],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The manifest of a subset; it holds no clock, path, host or package version.

    `sources` are the raw files as `fetch` recorded them: name, url, size, sha256, licence, checksum (what it was
    checked against).
    """
    tables = subset.tables()
    return {
        "benchmark": benchmark,
        "parameters": dict(parameters),
        "sources": [dict(s) for s in sources],
        "counts": {name: table.num_rows for name, table in tables.items()},
        "fingerprints": {name: fingerprint(table) for name, table in tables.items()},
        "notes": list(notes),
    }


def write_subset(
    subset: Subset,
    folder: Path,
    benchmark: str,
    parameters: Mapping[str, Any],
    sources: Sequence[Mapping[str, Any]],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the tables, sorted, and `manifest.json`, whole or not at all; returns the manifest (see `describe`)."""
    manifest = describe(subset, benchmark, parameters, sources, notes)
    with whole_folder(folder) as new:
        for name, table in subset.tables().items():
            write_table(sort_rows(table), new / f"{name}.parquet")
        write_text(to_json(manifest), new / "manifest.json")
    return manifest


def read_subset(folder: Path) -> tuple[Subset, dict[str, Any]]:
    """The tables and the manifest of a subset's folder."""
    manifest = read_json(folder / "manifest.json")
    return Subset(**{f.name: read_table(folder / f"{f.name}.parquet") for f in fields(Subset)}), manifest
