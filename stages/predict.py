"""Stage `predict`: the two runs that ship with the project, functions of the subset alone.

`chance` gives every id a vector by hash, so it knows nothing and must score at chance level. `sample` adds to a vector
those of its right answers, so it must do much better. All components are integers: with the dot product every score is
the same on every machine.
"""

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Plan, Task
from rankledger.subset import Subset, read_subset
from rankledger.tables import InputError, whole_folder, write_table
from stages.project import SHIPPED_RUNS, Project

RIGHT_SHARE = 0.6  # of the queries of a label task that `sample` answers rightly on purpose


def predict(project: Project, name: str) -> None:
    """Write `data/predictions/chance/<name>/` and `data/predictions/sample/<name>/`."""
    folder = project.subset(name)
    if not folder.is_dir():
        raise InputError(f"{project.relative(folder)}: no subset yet; run `dvc repro build@{name}` first")
    subset, manifest = read_subset(folder)
    plan = benchmark(name).plan(manifest["parameters"])
    for run in SHIPPED_RUNS:
        with whole_folder(project.predictions(run, name)) as new:
            for file, table in predictions(subset, plan, guided=run == "sample").items():
                write_table(table, new / f"{file}.parquet")


def predictions(subset: Subset, plan: Plan, guided: bool) -> dict[str, pa.Table]:
    """The tables of a shipped run, by side or label task: `sample` where it is guided, else `chance`."""
    ranked = [t for t in plan.tasks if not t.labels]
    sides = sorted({side for t in ranked for side in (t.query_side, t.candidate_side)})
    ids = {side: _ids(subset, side) for side in sides}
    vectors = {side: _hashed(side, ids[side]) for side in sides}
    if guided:
        vectors = {**vectors, **_guided(subset, ranked, ids, vectors)}
    tables = {
        side: pa.table(
            {
                "id": pa.array(ids[side], pa.string()),
                "embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors[side].astype(np.float32).ravel()), 32),
            }
        )
        for side in sides
    }
    return {**tables, **{t.name: _labels(subset, t, guided) for t in plan.tasks if t.labels}}


def _ids(subset: Subset, side: str) -> list[str]:
    universe = subset.universe.to_pydict()
    return [i for s, i in zip(universe["side"], universe["id"], strict=True) if s == side]


def _hashed(side: str, ids: list[str]) -> NDArray[np.int64]:
    """int64[n, 32]: the bytes of SHA-256("<side>/<id>"), signed."""
    digests = b"".join(hashlib.sha256(f"{side}/{i}".encode()).digest() for i in ids)
    return np.frombuffer(digests, np.int8).reshape(-1, 32).astype(np.int64)


def _guided(
    subset: Subset, tasks: list[Task], ids: dict[str, list[str]], vectors: dict[str, NDArray[np.int64]]
) -> dict[str, NDArray[np.int64]]:
    """The vectors of the guided sides, each with those of its right answers added."""
    pairs: dict[tuple[str, str], set[tuple[str, str]]] = {}
    queries: dict[str, set[str]] = {t.name: set() for t in tasks}
    for task, query in zip(subset.queries["task"].to_pylist(), subset.queries["query_id"].to_pylist(), strict=True):
        if task in queries:
            queries[task].add(query)
    for row in subset.qrels.to_pylist():
        for task in tasks:
            if (
                row["relevance"] > 0
                and row.get("task", task.name) == task.name
                and row["query_id"] in queries[task.name]
            ):
                pair = row["query_id"], row["candidate_id"]
                if task.guided_side == task.query_side:
                    pairs.setdefault((task.query_side, task.candidate_side), set()).add(pair)
                else:
                    pairs.setdefault((task.candidate_side, task.query_side), set()).add(pair[::-1])
    moved = {side: vectors[side].copy() for side in {guided for guided, _ in pairs}}
    place = {side: {x: i for i, x in enumerate(ids[side])} for side in ids}
    for (guided, other), found in pairs.items():
        known = [(place[guided][a], place[other][b]) for a, b in found if a in place[guided] and b in place[other]]
        if known:
            left, right = np.array(known).T
            np.add.at(moved[guided], left, vectors[other][right])
    return moved


def _labels(subset: Subset, task: Task, guided: bool) -> pa.Table:
    """A label by hash for each query, or the right one for a share of them."""
    queries = [
        q
        for t, q in zip(subset.queries["task"].to_pylist(), subset.queries["query_id"].to_pylist(), strict=True)
        if t == task.name
    ]
    right = {
        r["query_id"]: r["candidate_id"] for r in subset.qrels.to_pylist() if r.get("task", task.name) == task.name
    }
    labels = []
    for query in queries:
        digest = hashlib.sha256(f"{task.name}/{query}".encode()).digest()
        lucky = guided and int.from_bytes(digest[8:16]) < RIGHT_SHARE * 2**64
        labels.append(right[query] if lucky else task.labels[int.from_bytes(digest[:8]) % len(task.labels)])
    return pa.table({"query_id": pa.array(queries, pa.string()), "label": pa.array(labels, pa.string())})
