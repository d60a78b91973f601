"""`rankledger compare` of runs of one workspace, and what `rankledger diff` says of runs that are not scored."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from rankledger.benchmarks import benchmark
from rankledger.provenance.attribution import FACTORS
from rankledger.provenance.comparison import Row, flatten
from stages import diff as stage
from stages.causes import Causes
from stages.evidence import Evidence
from stages.predict import predictions
from stages.project import Project
from stages.report import report
from stages.revision import Workspace
from stages.score import score_run
from tests.projects import Small


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """CIRR with `a`, whose vectors have different lengths, `turned` (the same as dot products), `b`, and a `list`."""
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
    subset = found.built("cirr")
    asked = subset.queries.filter(pc.equal(subset.queries["task"], "val"))["query_id"].to_pylist()
    gallery = subset.pools.filter(pc.equal(subset.pools["pool_id"], "val/gallery"))["candidate_id"].to_pylist()
    ranking = pa.table({"query_id": asked, "candidate_ids": [gallery] * len(asked)})
    found.place("list", "cirr", {"val": ranking})
    score_run(Project(found.root), "list", "cirr")
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


@pytest.mark.parametrize(("run1", "run2"), [("list", "b"), ("b", "list")])
def test_a_ranking_has_no_similarity(run1: str, run2: str, project: Small) -> None:
    """What is measured, where it must be, is then by the similarity of the side that has embeddings."""
    found = compared(project, run1, run2)
    assert found["rows"]
    for row in found["rows"]:
        assert row["causes"] == {"predictions": row["delta"], "subset": 0.0, "protocol": 0.0}
    here = Workspace(Project(project.root))
    causes = Causes("cirr", Evidence(here, run1, "cirr"), Evidence(here, run2, "cirr"), [])
    assert causes.changed == ("predictions",)
    for new, run in ((frozenset(), run1), (frozenset({"predictions"}), run2)):
        cell = {".".join(key): value for key, value in (causes._cell(new) or {}).items()}
        assert cell == flatten(here.metrics[run]["cirr"])


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


# ---- the table ---------------------------------------------------------------------------------------------


def a_row(metric: str, unit: str | None, old: float | None, new: float | None, **causes: float | None) -> Row:
    parts = dict.fromkeys(FACTORS, 0.0) | causes
    tested: dict[str, Any] = {"better": True, "interval": (-0.001, 12.3456), "p": 0.001}
    return Row(metric, old, new, unit, causes=parts, **(tested if None not in (old, new) else {}))


def printed(capsys: pytest.CaptureFixture[str], *rows: Row) -> str:
    stage.show(stage.Comparison("main", "workspace", rows, [], frozenset(row.metric for row in rows)))
    return capsys.readouterr().out


def test_numbers_have_the_decimals_of_the_reports(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        a_row("m.cirr.val.R@1", "percent", 1 / 3, 2.0, predictions=5 / 3),
        a_row("m.recipe1m.im2recipe.1k.medR", "rank", 36.76, 24.0, predictions=-12.76),
        a_row("m.deft2013.title.MRR", "fraction", 0.5, 0.25, predictions=-0.25),
    ]
    cells = [line.split() for line in printed(capsys, *rows).splitlines()[1:4]]
    assert [line[1:4] for line in cells] == [
        ["0.33", "2.00", "+1.67"],
        ["36.8", "24.0", "-12.8"],
        ["0.5000", "0.2500", "-0.2500"],
    ]
    assert cells[0][4:7] == ["-0.00", "…", "+12.35"]
    assert f"| {' | '.join(['m.cirr.val.R@1', '0.33', '2.00', '+1.67'])} |" in stage.markdown(
        stage.Comparison("main", "workspace", rows, [], frozenset())
    )


def test_a_column_that_says_nothing_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    one = a_row("m.cirr.val.R@1", "percent", 1.0, 2.0, predictions=1.0)
    text = printed(capsys, one)
    assert "All of it comes from the predictions." in text
    assert "subset" not in text
    two = a_row("m.cirr.val.R@5", "percent", 1.0, 2.0, predictions=0.5, protocol=0.5)
    text = printed(capsys, one, two)
    assert text.splitlines()[0].split()[-3:] == ["verdict", "predictions", "protocol"]
    assert "The last columns split the move" in text
    unknown = a_row("m.cirr.val.R@5", "percent", 1.0, 2.0, predictions=None, subset=None, protocol=None)
    assert printed(capsys, one, unknown).splitlines()[0].split()[-3:] == list(FACTORS)
    new = a_row("m.cirr.val.R@10", "percent", None, 2.0, predictions=None, subset=None, protocol=None)
    text = printed(capsys, new)
    assert text.splitlines()[0].split() == ["metric", "main", "workspace", "move", "verdict"]
    assert "comes from" not in text
    assert "split the move" not in text


def test_the_table_of_one_cause_fits_a_terminal_of_100_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "Console", lambda **given: Console(**{**given, "force_terminal": True, "width": 100}))
    metric = "mymodel.recipe1m.im2recipe.10way.R@1"
    lines = printed(capsys, a_row(metric, "percent", 63.1111, 71.25, predictions=8.1389)).splitlines()
    assert metric in lines[1]
    assert "better" in lines[1]


# ---- runs that are not scored ------------------------------------------------------------------------------


def test_diff_names_runs_that_are_not_scored_or_have_other_predictions(tmp_path: Path) -> None:
    project = Small.bare(tmp_path / "project", {"cirr": {}})
    project.list_run("mymodel", "cirr")
    metrics = project.root / "reports" / "metrics.json"
    metrics.parent.mkdir()
    metrics.write_text(json.dumps({"mymodel": {"cirr": {"val": {"R@1": 1.0}}}}))
    (project.root / "dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  score@mymodel-cirr:\n    cmd: x\n    deps:\n"
        "    - path: data/predictions/mymodel/cirr\n      md5: aa.dir\n"
    )
    pointer = project.predictions("mymodel", "cirr").with_name("cirr.dvc")
    pointer.parent.mkdir(parents=True)
    pointer.write_text("outs:\n- md5: aa.dir\n  path: cirr\n")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "base"]):
        subprocess.run(["git", *command], cwd=project.root, check=True)
    said = "No number moved between HEAD and workspace.\n"
    assert project.run("diff", "HEAD").out == said
    project.list_run("other", "cirr")
    unscored = "workspace, not scored yet: other on cirr; run `dvc repro`\n"
    assert project.run("diff", "HEAD").out == said + unscored
    pointer.write_text("outs:\n- md5: bb.dir\n  path: cirr\n")
    replaced = "workspace, other predictions now than were scored: mymodel on cirr; run `dvc repro`\n"
    assert project.run("diff", "HEAD").out == said + unscored + replaced
    assert json.loads(project.run("diff", "HEAD", "--json").out)["notes"] == (unscored + replaced).splitlines()
