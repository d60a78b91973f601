"""`rankledger template`: what it writes holds the subset, and is taken by `add` once it is filled in."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankledger.benchmarks import NAMES, benchmark
from rankledger.scoring import score
from tests.projects import Small

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return Small.make(tmp_path_factory.mktemp("template") / "project", {name: {"source": "sample"} for name in NAMES})


@pytest.fixture(scope="module")
def templates(project: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The templates of all benchmarks, a folder each."""
    folder = tmp_path_factory.mktemp("templates")
    for name in NAMES:
        done = project.run("template", name, "--out", folder / name)
        assert (done.code, done.err) == (0, "")
        queries = [p for p in (folder / name).iterdir() if not p.name.endswith(".gallery.parquet")]
        assert len(done.out.splitlines()) == len(queries)
    return folder


def rows(path: Path) -> Rows:
    return pq.read_table(path).to_pylist()


FILES = {
    "recipe1m": {"im2recipe", "recipe2im"},
    "cirr": {"val", "val_subset", "test1", "test1_subset"},
    "circo": {"val", "test"},
    "fashioniq": {"dress", "shirt", "toptee"},
    "genecis": {"focus_attribute", "change_attribute", "focus_object", "change_object"},
    "visual_genome": {"graph2image", "image2graph"},
    "open_images": {"graph2image", "image2graph"},
    "deft2013": {"difficulty", "dish_type", "title", "ingredients"},
}
OWN_POOLS = {"val_subset", "test1_subset", *FILES["genecis"]}


@pytest.mark.parametrize("name", NAMES)
def test_each_file_holds_its_queries_and_their_pools(project: Small, templates: Path, name: str) -> None:
    subset = project.built(name)
    plan = benchmark(name).plan(benchmark(name).parameters({"source": "sample"}))
    pools: dict[str, set[str]] = {}
    for pool, candidate in zip(*(subset.pools[c].to_pylist() for c in ("pool_id", "candidate_id")), strict=True):
        pools.setdefault(pool, set()).add(candidate)
    wanted: dict[str, dict[str, set[str]]] = {}  # file → query → its pools
    for row in subset.trials.to_pylist():
        file = plan.files.get((row["task"], row["view"]), row["task"])
        wanted.setdefault(file, {}).setdefault(row["query_id"], set()).add(row["pool_id"])
    assert wanted.keys() == FILES[name]
    known = {(row["task"], row["query_id"]): row for row in subset.queries.to_pylist()}
    listed = {p.name.removesuffix(".parquet") for p in (templates / name).iterdir()}
    assert listed == {f for file in wanted for f in ([file] if file in OWN_POOLS else [file, f"{file}.gallery"])}
    for file, asked in wanted.items():
        found = rows(templates / name / f"{file}.parquet")
        assert [row["query_id"] for row in found] == sorted(asked, key=str.encode)
        task = file.removesuffix("_subset")
        labels = bool(plan.task(task).labels)
        for row in found:
            about = known[task, row["query_id"]]
            filled = {k: v for k, v in row.items() if k not in ("pool", "candidate_ids", "label")}
            missing = {k for k in about if k not in filled}
            assert filled == {k: about[k] for k in filled}
            assert all(k == "task" or about[k] is None for k in missing)
            if file in OWN_POOLS:
                (pool,) = asked[row["query_id"]]
                assert row["pool"] == sorted(pools[pool], key=str.encode)
            assert row["label" if labels else "candidate_ids"] is None
        if file not in OWN_POOLS:
            gallery = [row["candidate_id"] for row in rows(templates / name / f"{file}.gallery.parquet")]
            used = set().union(*asked.values())
            assert gallery == sorted(set().union(*(pools[pool] for pool in used)), key=str.encode)


def test_excluded_candidates_are_in_no_own_pool(tmp_path: Path, project: Small, templates: Path) -> None:
    removed = {row["query_id"]: row for row in rows(templates / "cirr" / "val_subset.parquet")}
    assert {len(row["pool"]) for row in removed.values()} == {5}
    assert all(row["reference_id"] not in row["pool"] for row in removed.values())
    kept = Small.make(tmp_path / "kept", {"cirr": {"source": "sample", "reference": "kept"}})
    kept.run("template", "cirr", "--out", tmp_path)
    assert {len(row["pool"]) for row in rows(tmp_path / "val_subset.parquet")} == {6}


def fill_in(project: Small, folder: Path, name: str, out: Path) -> dict[str, Path]:
    """The template with the right candidates first, then the others; labels right."""
    right: dict[tuple[str, str], list[str]] = {}
    for row in sorted(project.built(name).qrels.to_pylist(), key=lambda row: -row["relevance"]):
        right.setdefault((row.get("task", ""), row["query_id"]), []).append(row["candidate_id"])
    files = {}
    for path in folder.iterdir():
        file = path.name.removesuffix(".parquet")
        if file.endswith(".gallery") or file.startswith("test"):
            continue
        table, gallery = pq.read_table(path), folder / f"{file}.gallery.parquet"
        task, column = file.removesuffix("_subset"), table.column_names[-1]
        shared = [row["candidate_id"] for row in rows(gallery)] if gallery.exists() else None
        filled = []
        for row in table.to_pylist():
            best = right.get((task, row["query_id"])) or right[("", row["query_id"])]
            pool = shared or row["pool"]
            filled.append(
                best[0] if column == "label" else [*best, *(c for c in pool if c not in best)][: 120 + len(best)]
            )
        new = table.set_column(len(table.column_names) - 1, column, pa.array(filled, table.schema.field(column).type))
        files[file] = out / f"{file}.parquet"
        pq.write_table(new, files[file])
    return files


@pytest.mark.parametrize("name", [name for name in NAMES if name != "recipe1m"])  # of which one would embed the ids
def test_a_template_filled_in_with_the_right_answers_is_as_good_as_can_be(
    project: Small, templates: Path, tmp_path: Path, name: str
) -> None:
    plan = benchmark(name).plan(benchmark(name).parameters({"source": "sample"}))
    scored = score(project.built(name), plan, fill_in(project, templates / name, name, tmp_path))
    best = 100.0 if plan.percent else 1.0
    partial = {"R-Precision@10": 0.1, "R-Precision@50": 0.02, "R-Precision@100": 0.01}  # one right image in K
    assert set(scored.values) == {m.key for m in plan.measures} | {m.key for m in plan.means}
    for key, value in scored.values.items():
        if name == "cirr" or key[-1] not in partial:
            assert value.mean == pytest.approx(best, rel=1e-12), key
        else:
            assert value.mean == pytest.approx(partial[key[-1]], rel=1e-12)


def test_a_template_goes_through_add(project: Small, templates: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], cwd=project.root, check=True)
    files = fill_in(project, templates / "genecis", "genecis", tmp_path)
    done = project.run("add", "mine", "genecis", *files.values())
    assert done.code == 0, done.err
    stored = pq.read_table(project.predictions("mine", "genecis") / "focus_object.parquet")
    assert stored.column_names == ["query_id", "candidate_ids"]
    for name, file in (("cirr", "val"), ("cirr", "val_subset"), ("genecis", "focus_object")):
        done = project.run("add", "mine", name, templates / name / f"{file}.parquet")
        assert done.code == 2, "not filled in"
        assert "null" in done.err
        assert "candidate_ids" in done.err


def test_what_is_wrong(project: Small, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    bare = Small(tmp_path / "bare")
    bare.root.mkdir()
    assert "no RankLedger project" in bare.run("template", "cirr").err
    (bare.root / "dvc.yaml").touch()
    (bare.root / "params.yaml").write_text("benchmarks: {cirr: {}}\n")
    for at, arguments, said in [
        (bare, ["cirr"], "cirr: its test subset is not built; run `dvc repro build@cirr` first"),
        (project, ["cirrr"], "no benchmark 'cirrr'"),
        (project, ["cirr", "--out", tmp_path / "file"], "file"),
    ]:
        done = at.run("template", *arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")
        assert said in done.err
        assert done.err.count("\n") == 1
