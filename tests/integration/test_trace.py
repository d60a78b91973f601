"""`rankledger trace`: the lineage of a number, down to one query."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankledger.provenance.comparison import flatten
from rankledger.tables import fingerprint, read_table, sha256_file
from tests.integration.conftest import Workspace

Make = Callable[[], Workspace]
MEDR = "sample.recipe1m.im2recipe.1k.medR"


def trace(workspace: Workspace, metric: str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(workspace.run("rankledger", "trace", metric, *arguments, "--json").stdout)
    return found


def metrics(workspace: Workspace) -> dict[str, float]:
    return flatten(json.loads((workspace.root / "reports" / "metrics.json").read_bytes()))


def test_every_link_of_the_lineage(reproduced: Workspace) -> None:
    root, found = reproduced.root, trace(reproduced, MEDR)
    assert found["value"] == metrics(reproduced)[MEDR]
    assert found["interval"][0] <= found["value"] <= found["interval"][1]
    assert (found["n"], found["repeats"], found["unit"], found["higher_is_better"]) == (1000, 10, "rank", False)

    assert [d["repeat"] for d in found["draws"]] == list(range(10))
    assert np.mean([d["value"] for d in found["draws"]]) == pytest.approx(found["value"], abs=1e-6)
    assert len({d["fingerprint"] for d in found["draws"]}) == 10

    params = (root / "params.yaml").read_text().splitlines()
    choices = {c["choice"]: c for c in found["protocol"]}
    for name, value in (("seed", 1234), ("sizes", [1000, 10000]), ("similarity", "dot")):
        assert choices[name]["value"] == value
        file, line = choices[name]["source"].split(":")
        assert file == "params.yaml"
        assert f"{name}:" in params[int(line) - 1]
    assert choices["ties"] == {"choice": "ties", "value": "expected", "source": "default"}
    assert choices["metric"]["value"] == "medR"

    given = found["predictions"]
    for file in given["files"]:
        table = read_table(root / given["path"] / f"{file['name']}.parquet")
        assert (file["rows"], file["fingerprint"]) == (table.num_rows, fingerprint(table))
    assert {f["name"] for f in given["files"]} == {"image", "recipe"}
    commit = reproduced.run("git", "rev-parse", "HEAD").stdout.strip()
    assert given["since"]["commit"] == found["revision"]["commit"] == commit
    assert given["md5"] in (root / "dvc.lock").read_text()
    assert found["revision"]["changed"] == []

    for name, print_ in found["subset"]["fingerprints"].items():
        assert print_ == fingerprint(read_table(root / found["subset"]["path"] / f"{name}.parquet"))
    assert found["sources"]
    for source in found["sources"]:
        path = root / "data" / "raw" / "recipe1m" / source["name"]
        assert (source["sha256"], source["size"]) == (sha256_file(path), path.stat().st_size)
        assert source["licence"] == "MIT"
    lock = (root / "requirements.lock").read_text()
    assert all(f"numpy=={v}" in lock for v in found["packages"]["numpy"].split(" or "))


def test_the_tree_names_them_all(reproduced: Workspace) -> None:
    said = reproduced.run("rankledger", "trace", MEDR).stdout
    found = trace(reproduced, MEDR)
    wanted = [
        found["metric"],
        found["predictions"]["md5"],
        "params.yaml:",
        "layer1.json",
        "numpy",
        "repeat 9",
        "interval",
    ]
    wanted += [found["subset"]["fingerprints"]["pools"][:12], found["sources"][0]["sha256"][:12]]
    wanted += [found["revision"]["commit"][:12], found["predictions"]["since"]["subject"]]
    for word in wanted:
        assert word in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "metric",
    [
        "sample.deft2013.difficulty.F_macro",
        "sample.circo.aspects.negation",
        "sample.cirr.val.mean",
        "sample.fashioniq.mean.original.mean",
        "chance.visual_genome.graph2image.R-Precision_pool@10",
    ],
)
def test_every_kind_of_number_has_an_interval(reproduced: Workspace, metric: str) -> None:
    found = trace(reproduced, metric)
    assert found["interval"][0] <= found["value"] <= found["interval"][1]
    parts = [part["value"] for part in found["parts"]]
    assert bool(parts) == metric.endswith("mean")
    if parts:
        assert found["value"] == pytest.approx(sum(parts) / len(parts), abs=1e-6)


def test_the_spread_of_draws_is_traced_to_them(reproduced: Workspace) -> None:
    found = trace(reproduced, f"{MEDR}_std")
    assert found["interval"] is None
    assert np.std([d["value"] for d in found["draws"]]) == pytest.approx(found["value"], abs=1e-6)


def test_one_query(reproduced: Workspace) -> None:
    """Its rank, its pool and who beat the right answer, against the dot products of the vectors themselves."""
    root = reproduced.root
    scores = pq.read_table(root / "data/scores/chance/cirr/val.parquet").to_pylist()
    row = next(r for r in scores if r["view"] == "gallery" and 20 < r["rank_min"] < 60)
    query = row["query_id"]
    (trial,) = trace(reproduced, "chance.cirr.val.R@1", "--query", query)["query"]["trials"]
    for name in ("rank_min", "rank_max", "n_candidates", "view", "task"):
        assert trial[name] == row[name]
    assert trial["values"] == {"R@1": row["R@1"]}

    vectors = {}
    for side in ("query", "image"):
        table = pq.read_table(root / f"data/predictions/chance/cirr/{side}.parquet").to_pylist()
        vectors[side] = {r["id"]: np.array(r["embedding"]) for r in table}
    subset = {
        n: pq.read_table(root / f"data/subsets/cirr/{n}.parquet").to_pylist() for n in ("pools", "qrels", "exclusions")
    }
    out = {r["candidate_id"] for r in subset["exclusions"] if r["query_id"] == query}
    pool = {r["candidate_id"] for r in subset["pools"] if r["pool_id"] == "val/gallery"} - out
    score = {c: float(vectors["query"][query] @ vectors["image"][c]) for c in pool}
    (right,) = (r["candidate_id"] for r in subset["qrels"] if r["query_id"] == query)
    order = sorted(pool, key=lambda c: -score[c])
    assert [c["candidate_id"] for c in trial["right"]] == [right]
    assert trial["right"][0]["score"] == score[right]
    assert trial["n_ahead"] == sum(s > score[right] for s in score.values()) == row["rank_min"] - 1
    assert [c["score"] for c in trial["ahead"]] == [score[c] for c in order[:5]]
    said = reproduced.run("rankledger", "trace", "chance.cirr.val.R@1", "--query", query).stdout
    assert f"rank {row['rank_min']} of {row['n_candidates']}" in said
    assert trial["ahead"][0]["candidate_id"] in said


def test_a_query_of_several_draws_a_mean_or_a_label_task(reproduced: Workspace) -> None:
    scores = pq.read_table(reproduced.root / "data/scores/sample/recipe1m/im2recipe.parquet").to_pylist()
    query = next(r["query_id"] for r in scores if r["view"] == "10k")
    repeats = sorted(r["repeat"] for r in scores if (r["view"], r["query_id"]) == ("10k", query))
    trials = trace(reproduced, "sample.recipe1m.im2recipe.10k.R@1", "--query", query)["query"]["trials"]
    assert [t["repeat"] for t in trials] == repeats
    assert all(t["n_ahead"] == t["rank_min"] - 1 for t in trials)

    query = pq.read_table(reproduced.root / "data/scores/sample/cirr/val.parquet")["query_id"][0].as_py()
    trials = trace(reproduced, "sample.cirr.val.mean", "--query", query)["query"]["trials"]
    assert [t["view"] for t in trials] == ["gallery", "group"]
    assert [list(t["values"]) for t in trials] == [["R@5"], ["Rsubset@1"]]

    labels = pq.read_table(reproduced.root / "data/predictions/sample/deft2013/difficulty.parquet").to_pylist()[0]
    (trial,) = trace(reproduced, "sample.deft2013.difficulty.P_micro", "--query", labels["query_id"])["query"]["trials"]
    assert trial["answer"]["given"] == labels["label"]
    assert trial["values"]["P_micro"] == (trial["answer"]["right"] == labels["label"])
    assert trial["rank_min"] is None


def test_the_predictions_are_those_that_were_scored(workspace: Make) -> None:
    """Others that came since belong to no number yet."""
    w = workspace()
    scored = trace(w, MEDR)["predictions"]["md5"]
    lock = w.root / "dvc.lock"
    assert lock.read_text().index("predict@recipe1m:") < lock.read_text().index(scored)
    lock.write_text(lock.read_text().replace(scored, f"{'0' * 32}.dir", 1))
    done = w.run("rankledger", "trace", MEDR, "--json")
    assert json.loads(done.stdout)["predictions"]["md5"] == scored
    assert "data/predictions/sample/recipe1m holds other predictions now than those that were scored" in done.stderr


def test_an_earlier_revision_is_read_from_the_cache(workspace: Make) -> None:
    w = workspace()
    before = trace(w, MEDR)
    w.edit("params.yaml", "seed: 1234", "seed: 9")
    for folder in ("scores", "subsets", "predictions"):
        shutil.rmtree(w.root / "data" / folder)
    after = trace(w, MEDR, "--rev", "main")
    assert after.pop("revision") | {"name": "workspace"} == before.pop("revision")
    assert after == before
    done = w.run("rankledger", "trace", MEDR, ok=False)
    assert done.returncode == 2
    assert "dvc repro" in done.stderr


def test_when_the_history_first_had_a_users_predictions(workspace: Make, tmp_path: Path) -> None:
    w = workspace()
    pools = pq.read_table(w.root / "data/subsets/cirr/pools.parquet").to_pylist()
    gallery = [p["candidate_id"] for p in pools if p["pool_id"] == "val/gallery"]
    asked = pq.read_table(w.root / "data/subsets/cirr/queries.parquet").to_pylist()
    queries = [q["query_id"] for q in asked if q["task"] == "val"]
    pq.write_table(pa.table({"query_id": queries, "candidate_ids": [gallery] * len(queries)}), tmp_path / "val.parquet")
    w.run("rankledger", "add", "mymodel", "cirr", str(tmp_path / "val.parquet"))
    w.run("dvc", "repro", "score@mymodel-cirr", "report")
    found = trace(w, "mymodel.cirr.val.R@1")
    assert found["predictions"]["since"] is None
    assert set(found["revision"]["changed"]) >= {"params.yaml", "reports/metrics.json"}
    assert not [c for c in found["protocol"] if c["choice"] == "similarity"], "a ranking has none"
    w.commit("mymodel's first predictions")
    first = w.run("git", "rev-parse", "HEAD").stdout.strip()
    (w.root / "notes.txt").write_text("something else")
    w.commit("later")
    since = trace(w, "mymodel.cirr.val.R@1")["predictions"]["since"]
    assert (since["commit"], since["subject"]) == (first, "mymodel's first predictions")


def test_bad_input_gets_one_line(reproduced: Workspace) -> None:
    for arguments, said in (
        (("sample.cirr.val.R@2",), "did you mean 'sample.cirr.val.R@"),
        (("sample.cirr.val.R@1", "--rev", "nowhere"), "nowhere: no such commit"),
        (("sample.cirr.val.R@1", "--query", "nobody"), "'nobody' is no query of cirr val gallery; ids look like"),
    ):
        done = reproduced.run("rankledger", "trace", *arguments, ok=False)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
