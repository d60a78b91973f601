"""The pipeline as users run it: `dvc repro` and what follows from a change."""

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from tests.integration.conftest import Workspace

Make = Callable[[], Workspace]


def metrics(workspace: Workspace) -> dict[str, Any]:
    return json.loads((workspace.root / "reports" / "metrics.json").read_bytes())


def ran(output: str) -> list[str]:
    return [line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage '")]


def leaves(node: Any, *path: str) -> dict[tuple[str, ...], float]:
    if isinstance(node, dict):
        return {k: v for name, child in node.items() for k, v in leaves(child, *path, name).items()}
    return {path: node}


def test_all_metrics_of_both_runs_are_shown(reproduced: Workspace) -> None:
    params = YAML(typ="safe").load(reproduced.root / "params.yaml")
    found = metrics(reproduced)
    assert set(found) == {"chance", "sample"}
    assert set(found["chance"]) == set(found["sample"]) == set(params["benchmarks"])
    for path, value in leaves(found).items():
        assert isinstance(value, float)
        assert not any("." in part for part in path)
    shown = reproduced.run("dvc", "metrics", "show", "--md").stdout
    assert "sample.recipe1m.im2recipe.1k.medR" in shown
    for name in params["benchmarks"]:
        assert f"sample.{name}." in shown


def test_sample_is_much_better_than_chance(reproduced: Workspace) -> None:
    found = leaves(metrics(reproduced))
    for path, value in found.items():
        if path[0] == "sample" and path[-1] in ("R@1", "MAP", "MRR", "mAP@5", "EDRM_micro"):
            assert value > found[("chance", *path[1:])]
    medians = [v for p, v in found.items() if p[0] == "chance" and p[-1] == "medR" and p[-2] == "1k"]
    assert all(abs(m - 500.5) < 20 for m in medians)


def test_a_second_repro_does_nothing(reproduced: Workspace) -> None:
    assert not ran(reproduced.run("dvc", "repro").stdout)
    assert not reproduced.run("git", "status", "--porcelain").stdout


def test_a_repeat_and_a_size_taken_out_leave_no_trace(workspace: Make) -> None:
    w = workspace()
    w.keep("recipe1m", "cirr")
    before = pq.read_table(w.root / "data/scores/sample/recipe1m/im2recipe.parquet").to_pylist()
    w.edit("params.yaml", "sizes: [1000, 10000], repeats: 10", "sizes: [1000], repeats: 3")
    stages = ran(w.run("dvc", "repro").stdout)
    assert "build@recipe1m" in stages
    assert not [s for s in stages if not s.endswith("recipe1m") and s != "report"]
    found = metrics(w)["sample"]["recipe1m"]["im2recipe"]
    assert set(found) == {"1k", "10way"}
    mine = [[r["R@1"] for r in before if (r["view"], r["repeat"]) == ("1k", s)] for s in range(3)]
    assert found["1k"]["R@1"] == round(statistics.fmean(statistics.fmean(m) for m in mine), 6)
    after = pq.read_table(w.root / "data/scores/sample/recipe1m/im2recipe.parquet")
    assert set(after["repeat"].to_pylist()) == {0, 1, 2}
    assert "10k" not in (w.root / "reports" / "summary.md").read_text()


def test_new_predictions_score_their_run_only_and_the_diff_shows_it(workspace: Make, tmp_path: Path) -> None:
    w = workspace()
    w.keep("cirr", "circo")
    pools = pq.read_table(w.root / "data/subsets/cirr/pools.parquet").to_pylist()
    gallery = sorted(p["candidate_id"] for p in pools if p["pool_id"] == "val/gallery")
    queries = [
        q["query_id"]
        for q in pq.read_table(w.root / "data/subsets/cirr/queries.parquet").to_pylist()
        if q["task"] == "val"
    ]
    qrels = {
        r["query_id"]: r["candidate_id"] for r in pq.read_table(w.root / "data/subsets/cirr/qrels.parquet").to_pylist()
    }

    def write(path: Path, right: int) -> None:
        lists = [
            [qrels[q], *(c for c in gallery if c != qrels[q])] if i < right else gallery for i, q in enumerate(queries)
        ]
        pq.write_table(pa.table({"query_id": queries, "candidate_ids": lists}), path)

    write(tmp_path / "val.parquet", 50)
    said = w.run("rankledger", "add", "mymodel", "cirr", str(tmp_path / "val.parquet"))
    assert "added mymodel on cirr" in said.stdout
    assert ran(w.run("dvc", "repro").stdout) == ["score@mymodel-cirr", "report"]
    w.commit("my model")
    w.run("git", "checkout", "-qb", "better")
    write(tmp_path / "val.parquet", 100)
    assert (
        "replaced mymodel on cirr"
        in w.run("rankledger", "add", "mymodel", "cirr", str(tmp_path / "val.parquet")).stdout
    )
    assert ran(w.run("dvc", "repro").stdout) == ["score@mymodel-cirr", "report"]
    moved = json.loads(w.run("dvc", "metrics", "diff", "main", "--json").stdout)["reports/metrics.json"]
    assert moved
    assert {key.rsplit(".", 1)[0].split(".")[0] for key in moved} == {"mymodel"}
    assert moved["mymodel.cirr.val.R@1"]["new"] > moved["mymodel.cirr.val.R@1"]["old"]
    assert not list((w.root / "data").rglob(".gitignore")), "DVC must not write ignore files into our folders"


def contents(root: Path) -> dict[str, bytes]:
    """All that stages make, by path."""
    made = (p for name in ("data", "reports") for p in (root / name).rglob("*") if p.is_file())
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in made}


def test_same_bytes_with_another_hash_seed_thread_count_and_blas_kernel(workspace: Make) -> None:
    w = workspace()
    before = contents(w.root)
    for name in (
        "data/raw",
        "data/subsets",
        "data/predictions/chance",
        "data/predictions/sample",
        "data/scores",
        "reports",
    ):
        shutil.rmtree(w.root / name)
    other = {
        "PYTHONHASHSEED": "77",
        "OPENBLAS_NUM_THREADS": "1",
        "OPENBLAS_CORETYPE": "Prescott",
        "POLARS_MAX_THREADS": "1",
    }
    params = YAML(typ="safe").load(w.root / "params.yaml")
    stages = [(stage, name) for name in params["benchmarks"] for stage in ("fetch", "build", "validate", "predict")]
    stages += [("score", entry["run"], entry["benchmark"]) for entry in params["runs"].values()]
    for stage in (*stages, ("report",)):
        w.run("rankledger", *stage, **other)
    after = contents(w.root)
    assert after.keys() == before.keys()
    assert [path for path, content in after.items() if content != before[path]] == []


@pytest.mark.parametrize("name", ["fetch", "build", "validate", "predict", "score", "report"])
def test_stages_depend_on_the_modules_that_they_import(name: str) -> None:
    """`deps` of dvc.yaml against what a stage's module really imports, now or inside a function."""
    from tests.integration.imports import ROOT, reachable

    pipeline = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
    benchmarks = YAML(typ="safe").load(ROOT / "params.yaml")["benchmarks"]
    stage = pipeline[name].get("do", pipeline[name])
    listed = {d for d in stage["deps"] if d.endswith(".py")}
    plain = {d for d in listed if "${" not in d}
    used: set[str] = set()
    for key in benchmarks:
        mine = reachable(f"stages/{name}.py", key)
        own = {d.replace("${key}", key).replace("${item.benchmark}", key) for d in listed}
        if name != "report":
            assert mine <= own, f"{name}@{key}: missing in dvc.yaml"
        used |= mine
    if name == "report":
        used -= {f"rankledger/benchmarks/{key}.py" for key in benchmarks}
        assert used <= plain
    assert plain <= used, f"{name}: listed in dvc.yaml, but not imported"
