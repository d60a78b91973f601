"""`rankledger template`: Parquet files with a benchmark's queries, to fill in and hand to `rankledger add`.

A file a task (or view with a file of its own): `query_id`, what the benchmark knows of the query, its candidates, and
the column to fill in, null until then: `candidate_ids`, best first, or for a label task `label`. Where each query has a
pool of its own, it stands in the column `pool`; a pool that queries share (a label task's classes) stands once in
`<file>.gallery.parquet` (`candidate_id`). Scores or embeddings of the same ids do as well.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Plan, Task
from rankledger.subset import Subset, read_subset
from rankledger.tables import InputError, write_table
from stages.project import Project


def template(project: Project, name: str, out: Path) -> list[str]:
    """Write the files into the folder `out`; returns a line on each.

    Raises `InputError` where the subset is not built.
    """
    folder = project.subset(name)
    if not (folder / "manifest.json").is_file():
        benchmark(name)
        raise InputError(f"{name}: its test subset is not built; run `dvc repro build@{name}` first")
    subset, manifest = read_subset(folder)
    plan = benchmark(name).plan(manifest["parameters"])
    lines = []
    for (task, file), views in _files(subset, plan).items():
        queries, gallery = fill_in(subset, task, views)
        try:
            write_table(queries, out / f"{file}.parquet")
            if gallery:
                write_table(gallery, out / f"{file}.gallery.parquet")
        except OSError as error:
            raise InputError(f"{error.filename or out}: {error.strerror}") from None
        column = queries.column_names[-1]
        place = f"{len(gallery):,} candidates in {file}.gallery.parquet" if gallery else "each with its own candidates"
        lines.append(f"{out / file}.parquet: {len(queries):,} queries, {place}; fill in {column}")
    return lines


def _files(subset: Subset, plan: Plan) -> dict[tuple[Task, str], list[str]]:
    """The views of each prediction file, with the task that it is of."""
    found: dict[tuple[Task, str], list[str]] = {}
    pairs = subset.trials.group_by(["task", "view"], use_threads=False).aggregate([]).to_pylist()
    for task in plan.tasks:
        for view in (pair["view"] for pair in pairs if pair["task"] == task.name):
            found.setdefault((task, plan.files.get((task.name, view), task.name)), []).append(view)
    return found


def fill_in(subset: Subset, task: Task, views: list[str]) -> tuple[pa.Table, pa.Table | None]:
    """The queries of some views of a task with the column to fill in, and the gallery where they share pools."""
    mine = (pc.field("task") == task.name) & pc.field("view").isin(views)
    pairs = subset.trials.filter(mine).select(["query_id", "pool_id"]).group_by(["query_id", "pool_id"]).aggregate([])
    queries = subset.queries.filter(pc.field("task") == task.name).sort_by("query_id").drop_columns(["task"])
    known = [n for n in queries.column_names if n == "query_id" or queries[n].null_count < len(queries)]
    queries = queries.select(known).filter(pc.is_in(queries["query_id"], pairs["query_id"].combine_chunks()))
    pools = subset.pools.filter(pc.is_in(subset.pools["pool_id"], pairs["pool_id"].combine_chunks()))
    if len(pairs) == len(pairs["pool_id"].unique()) == len(queries) and not task.labels:
        by_id = pools.sort_by([(key, "ascending") for key in ("pool_id", "candidate_id")])
        lists = by_id.group_by("pool_id", use_threads=False).aggregate([("candidate_id", "list")])
        pool = pairs["pool_id"].take(pc.index_in(queries["query_id"], pairs["query_id"].combine_chunks()))
        own = lists["candidate_id_list"].take(pc.index_in(pool, lists["pool_id"].combine_chunks()))
        queries, gallery = queries.append_column("pool", own), None
    else:
        gallery = pa.table({"candidate_id": pools["candidate_id"].unique()}).sort_by("candidate_id")
    column, kind = ("label", pa.string()) if task.labels else ("candidate_ids", pa.list_(pa.string()))
    return queries.append_column(column, pa.nulls(len(queries), kind)), gallery
