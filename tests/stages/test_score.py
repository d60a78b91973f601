"""What `score` writes of each metric beside its value: interval, chance level, ceiling."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rankledger.benchmarks import benchmark
from rankledger.tables import read_json, read_table
from rankledger.uncertainty import intervals, observe
from tests.projects import Small

NAMES = ("cirr", "circo", "genecis", "visual_genome", "deft2013")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return Small.make(tmp_path_factory.mktemp("score") / "project", {name: {"source": "sample"} for name in NAMES})


def scored(project: Small, run: str, name: str) -> dict[str, Any]:
    done = project.run("score", run, name)
    assert done.code == 0, done.err
    return dict(leaves(read_json(project.scores(run, name) / "result.json")["metrics"]))


def leaves(node: dict[str, Any], *above: str) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    if "mean" in node and "repeats" in node:
        return [(above, node)]
    return [pair for name, child in node.items() for pair in leaves(child, *above, name)]


def constant(project: Small, name: str) -> dict[str, pa.Table]:
    """Embeddings that are all the same."""
    universe = project.built(name).universe
    sides = universe["side"].unique().to_pylist()
    ids = {side: universe.filter(pc.equal(universe["side"], side))["id"] for side in sides}
    return {side: pa.table({"id": of, "embedding": [[1.0, 0.0]] * len(of)}) for side, of in ids.items()}


def perfect(project: Small, name: str, task: str, view: str) -> pa.Table:
    """Rankings of whole pools, right candidates first by relevance."""
    subset = project.built(name)
    gain: dict[str, dict[str, float]] = {}
    for row in subset.qrels.to_pylist():
        if row.get("task", task) == task:
            gain.setdefault(row["query_id"], {})[row["candidate_id"]] = row["relevance"]
    pools: dict[str, list[str]] = {}
    for row in subset.pools.to_pylist():
        pools.setdefault(row["pool_id"], []).append(row["candidate_id"])
    out = {(row["query_id"], row["candidate_id"]) for row in subset.exclusions.to_pylist()}
    mine = [row for row in subset.trials.to_pylist() if (row["task"], row["view"]) == (task, view)]
    asked = [row["query_id"] for row in mine]
    ranked = [
        sorted(
            (c for c in pools[row["pool_id"]] if (row["query_id"], c) not in out),
            key=lambda c, q=row["query_id"]: -gain.get(q, {}).get(c, 0.0),
        )
        for row in mine
    ]
    return pa.table({"query_id": asked, "candidate_ids": ranked})


@pytest.mark.parametrize("name", ["cirr", "circo", "genecis", "visual_genome"])
def test_the_chance_level_is_what_equal_embeddings_reach(name: str, project: Small) -> None:
    project.place("even", name, constant(project, name), variant="location_free")
    found = scored(project, "even", name)
    assert found
    for key, leaf in found.items():
        assert leaf["mean"] == pytest.approx(leaf["chance"], rel=1e-9, abs=1e-12), key


@pytest.mark.parametrize(
    ("name", "task", "view"),
    [
        ("cirr", "val", "gallery"),
        ("circo", "val", "all"),
        ("genecis", "change_object", "all"),
        ("visual_genome", "graph2image", "all"),
    ],
)
def test_the_ceiling_is_what_a_perfect_ranking_reaches(name: str, task: str, view: str, project: Small) -> None:
    project.place("best", name, {task: perfect(project, name, task, view)}, variant="location_free")
    found = scored(project, "best", name)
    plan = benchmark(name).plan(benchmark(name).parameters({}))
    keys = {measure.key for measure in plan.measures if (measure.task, measure.view) == (task, view)} & found.keys()
    assert keys
    for key in keys:
        assert found[key]["mean"] == pytest.approx(found[key]["ceiling"], rel=1e-9), key
    if name == "visual_genome":
        assert found["graph2image", "R-Precision@10"]["ceiling"] == pytest.approx(0.1)


def test_intervals_are_those_of_the_per_query_values_to_six_digits(project: Small) -> None:
    project.place("same", "genecis", constant(project, "genecis"))
    found = scored(project, "same", "genecis")
    plan = benchmark("genecis").plan(benchmark("genecis").parameters({}))
    folder = project.scores("same", "genecis")
    tables = {path.stem: read_table(path) for path in folder.glob("*.parquet")}
    spans = intervals("genecis", plan.means, observe(plan, project.built("genecis"), tables, {}), found)
    for key, leaf in found.items():
        span = spans[key]
        assert span is not None
        assert leaf["interval"] == [float(f"{limit:.6g}") for limit in span]
        assert leaf["interval"][0] - 1e-4 <= leaf["mean"] <= leaf["interval"][1] + 1e-4


def test_labels_have_a_ceiling_but_no_chance_level(project: Small) -> None:
    task = benchmark("deft2013").plan(benchmark("deft2013").parameters({})).task("difficulty")
    qrels = project.built("deft2013").qrels
    mine = qrels.filter(pc.equal(qrels["task"], "difficulty"))
    given = pa.table({"query_id": mine["query_id"], "label": [task.labels[0]] * len(mine)})
    project.place("lazy", "deft2013", {"difficulty": given})
    found = scored(project, "lazy", "deft2013")
    assert {key[0] for key in found} == {"difficulty"}
    for leaf in found.values():
        assert leaf["ceiling"] == 1.0
        assert leaf["chance"] is None
        low, high = leaf["interval"]
        assert low - 1e-6 <= leaf["mean"] <= high + 1e-6
