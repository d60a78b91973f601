"""`rankledger compare` in a project without Git or DVC: runs of one workspace."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankledger.benchmarks import benchmark
from stages.predict import predictions
from stages.project import Project
from stages.report import report
from stages.score import score_run
from tests.projects import Small


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """CIRR with `a`, whose vectors have different lengths, `turned` (the same as dot products), `b` and `short`."""
    found = Small.make(tmp_path_factory.mktemp("diff") / "project", {"cirr": {}})
    plan = benchmark("cirr").plan(benchmark("cirr").parameters({}))
    made = {guided: predictions(found.built("cirr"), plan, guided) for guided in (False, True)}

    def longer(table: pa.Table, weight: float) -> pa.Table:
        vectors = np.array(table["embedding"].to_pylist(), np.float32)
        factors = 1 + np.arange(len(vectors), dtype=np.float32)[:, None] % 7
        return pa.table({"id": table["id"], "embedding": list(vectors * factors * weight)})

    a = {"query": made[True]["query"], "image": longer(made[True]["image"], 1)}
    b = {"query": made[False]["query"], "image": longer(made[False]["image"], 2)}
    for run, files, similarity in (("a", a, "cosine"), ("turned", a, "dot"), ("b", b, "dot"), ("again", a, "cosine")):
        found.place(run, "cirr", files, similarity=similarity)
        score_run(Project(found.root), run, "cirr")
    report(Project(found.root))
    return found


def compared(project: Small, *arguments: str) -> dict[str, Any]:
    done = project.run("compare", *arguments, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_similarity_is_the_protocols(project: Small) -> None:
    found = compared(project, "a", "turned")
    assert found["rows"]
    for row in found["rows"]:
        assert row["causes"] == {"predictions": 0.0, "subset": 0.0, "protocol": row["delta"]}


def test_two_causes_are_split(project: Small) -> None:
    known = json.loads((project.root / "reports" / "metrics.json").read_text())
    rows = {row["metric"]: row for row in compared(project, "a", "b", "cirr")["rows"]}
    row = rows["cirr.val.R@10"]
    assert (row["old"], row["new"]) == (known["a"]["cirr"]["val"]["R@10"], known["b"]["cirr"]["val"]["R@10"])
    turned = known["turned"]["cirr"]["val"]["R@10"]
    # of the four combinations one, b's vectors under the cosine, is no run: the sum shows it
    assert sum(row["causes"].values()) == pytest.approx(row["delta"], abs=1e-9)
    assert row["causes"]["subset"] == 0
    first = turned - row["old"]  # what the similarity does to a
    other = 2 * row["causes"]["protocol"] - first  # and so to b
    alone = row["new"] - other
    assert 0 <= alone <= 100
    assert row["causes"]["predictions"] == pytest.approx((alone - row["old"] + row["new"] - turned) / 2, abs=1e-9)


def test_equal_runs_differ_in_nothing(project: Small) -> None:
    assert compared(project, "a", "again") == {"rows": [], "notes": []}
    assert "No number moved between a and again." in project.run("compare", "a", "again").out
    assert "No number moved" in project.run("compare", "a", "again", "--md").out


def test_variants_never_share_a_row(tmp_path: Path) -> None:
    project = Small.make(tmp_path / "project", {})
    (project.root / "params.yaml").write_text("benchmarks: {visual_genome: {}, cirr: {}}\nruns: {}\n")
    for run, variant in (("free", "location_free"), ("bound", "location_bound")):
        project.list_run(run, "visual_genome", variant=variant)
    numbers = {"visual_genome": {"graph2image": {"R@10": 0.5}}, "cirr": {"val": {"R@1": 1.0}}}
    (project.root / "reports").mkdir()
    (project.root / "reports" / "metrics.json").write_text(json.dumps({"free": numbers, "bound": numbers}))
    done = project.run("compare", "free", "bound", "visual_genome")
    assert done.code == 2
    assert "free and bound are of two variants" in done.err
    assert compared(project, "free", "bound")["notes"] == [
        "visual_genome: free and bound are of two variants, which never share a row"
    ]


def test_a_test_needs_the_per_query_values(project: Small) -> None:
    """Without the scores they are made again; without what they were made of there is no test and no cause."""
    before = compared(project, "a", "turned")
    scores, hidden = project.root / "data" / "scores", project.root / "hidden"
    scores.rename(hidden)
    assert compared(project, "a", "turned") == before
    files = project.predictions("a", "cirr")
    files.rename(project.root / "lost")
    try:
        found = compared(project, "a", "turned")
    finally:
        hidden.rename(scores)
        (project.root / "lost").rename(files)
    for row in found["rows"]:
        assert (row["interval"], row["p"]) == (None, None)
        assert set(row["causes"].values()) == {None}
    assert any("data/predictions/a/cirr: not there" in note for note in found["notes"])
    assert str(project.root) not in json.dumps(found)


def test_scores_of_another_form_are_no_table(project: Small) -> None:
    path = project.scores("a", "cirr") / "val.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    try:
        found = compared(project, "a", "turned")
    finally:
        path.write_bytes(whole)
    assert pq.read_table(path).num_rows
    assert all(row["p"] is None for row in found["rows"])
    assert any("data/scores/a/cirr/val.parquet: not a whole Parquet file" in note for note in found["notes"])
