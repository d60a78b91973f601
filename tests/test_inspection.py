"""One query's pool against what was scored."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Plan
from rankledger.inspection import Placed, pool_of
from rankledger.scoring import score
from rankledger.subset import Subset
from stages.predict import predictions
from tests.projects import Small


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return Small.make(tmp_path_factory.mktemp("inspection") / "project", {"cirr": {}, "circo": {}, "deft2013": {}})


def plan_of(name: str) -> Plan:
    return benchmark(name).plan(benchmark(name).parameters({}))


def chance(subset: Subset, plan: Plan, folder: Path) -> dict[str, Path]:
    tables = predictions(subset, plan, guided=False)
    for file, table in tables.items():
        pq.write_table(table, folder / f"{file}.parquet")
    return {file: folder / f"{file}.parquet" for file in tables}


def agree(name: str, project: Small, files: dict[str, Path]) -> int:
    """Compare the pools of some queries of every view with the per-query table; returns how many were compared."""
    subset, plan = project.built(name), plan_of(name)
    compared = 0
    for task, table in score(subset, plan, files, "dot").tables.items():
        for row in table.to_pylist()[::17]:
            pool = pool_of(subset, plan, files, False, None, task, row["view"], row["query_id"]).get(row["repeat"])
            if plan.task(task).labels:
                assert pool is None
                continue
            assert pool is not None
            retrieved = [c for c in pool if c.first is not None]
            right = [c for c in retrieved if (c.relevance or 0) > 0]
            best = min(right, key=lambda c: c.first or 0, default=None)
            if plan.task(task).ties == "expected":
                assert len(pool) == row["n_candidates"]
                assert (best.first, best.last) == (row["rank_min"], row["rank_max"])
            elif best is None:
                assert row["rank_min"] is None
            else:
                assert best.first <= row["rank_min"] <= best.last
            compared += 1
    return compared


@pytest.mark.parametrize("name", ["cirr", "circo", "deft2013"])
def test_embeddings(name: str, project: Small, tmp_path: Path) -> None:
    assert agree(name, project, chance(project.built(name), plan_of(name), tmp_path)) > 10


def test_scores_and_rankings(project: Small, tmp_path: Path) -> None:
    """With ties, an excluded reference, and candidates that a ranking does not list."""
    subset = project.built("cirr")
    gallery = [r["candidate_id"] for r in subset.pools.to_pylist() if r["pool_id"] == "val/gallery"]
    queries = [r["query_id"] for r in subset.queries.to_pylist() if r["task"] == "val"]
    pairs = [(q, c) for q in queries for c in gallery]
    table = pa.table(
        {
            "query_id": [q for q, _ in pairs],
            "candidate_id": [c for _, c in pairs],
            "score": [len(c) % 3.0 for _, c in pairs],
        }
    )
    pq.write_table(table, tmp_path / "scores.parquet")
    assert agree("cirr", project, {"val": tmp_path / "scores.parquet"}) > 10
    lists = [gallery[i : i + 80] for i in range(len(queries))]
    pq.write_table(pa.table({"query_id": queries, "candidate_ids": lists}), tmp_path / "ranking.parquet")
    assert agree("cirr", project, {"val": tmp_path / "ranking.parquet"}) > 10
    (pool,) = pool_of(
        subset, plan_of("cirr"), {"val": tmp_path / "ranking.parquet"}, True, None, "val", "gallery", queries[0]
    ).values()
    reference = next(r["reference_id"] for r in subset.queries.to_pylist() if r["query_id"] == queries[0])
    listed = [c for c in gallery[:80] if c != reference]
    assert [c.candidate_id for c in pool[: len(listed)]] == listed
    assert pool[0] == Placed(listed[0], None, 1, 1, pool[0].relevance)
    assert {(c.first, c.last) for c in pool[len(listed) :]} == {(len(listed) + 1, len(pool))}
    assert reference not in [c.candidate_id for c in pool]


def test_what_is_not_retrieved_has_no_rank(project: Small, tmp_path: Path) -> None:
    """DEFT's titles go by trec_eval's rules: an unscored candidate is not retrieved."""
    subset = project.built("deft2013")
    query = next(r["query_id"] for r in subset.queries.to_pylist() if r["task"] == "title")
    titles = [r["candidate_id"] for r in subset.pools.to_pylist() if r["pool_id"] == "title"][:2]
    pq.write_table(
        pa.table({"query_id": [query] * 2, "candidate_id": titles, "score": [1.0, 2.0]}), tmp_path / "title.parquet"
    )
    (pool,) = pool_of(
        subset, plan_of("deft2013"), {"title": tmp_path / "title.parquet"}, True, None, "title", "all", query
    ).values()
    assert [(c.candidate_id, c.score, c.first) for c in pool[:2]] == [(titles[1], 2.0, 1), (titles[0], 1.0, 2)]
    assert {(c.score, c.first, c.last) for c in pool[2:]} == {(None, None, None)}
