"""`rankledger add` in a real Git and DVC repository: predictions become a run of the project, or nothing changes."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from stages import add as stage
from tests.conftest import ROOT
from tests.projects import Small

PARAMS = """\
# What is evaluated.
mirror: null  # a folder
benchmarks:
  # not the default
  cirr: {source: sample, labels: hard}   # hard labels
  visual_genome: {source: sample}

runs:  # written by `rankledger add`
  chance-cirr: {run: chance, benchmark: cirr, similarity: 'dot'}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Built, and under Git and DVC; tests work on copies."""
    project = Small.make(
        tmp_path_factory.mktemp("add") / "project", {n: {"source": "sample"} for n in ("cirr", "visual_genome")}
    )
    (project.root / "params.yaml").write_text(PARAMS)
    shutil.copy(ROOT / ".gitignore", project.root)
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=project.root, check=True, capture_output=True)
    shutil.copy(ROOT / ".dvc" / "config", project.root / ".dvc" / "config")
    return project


@pytest.fixture
def project(made: Small, tmp_path: Path) -> Small:
    shutil.copytree(made.root, tmp_path / "project")
    return Small(tmp_path / "project")


@pytest.fixture
def no_dvc(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In place of `dvc add`, where DVC itself is not what is tested; returns what was handed over."""
    handed: list[str] = []
    monkeypatch.setattr(stage, "_dvc_add", lambda project, folder: handed.append(project.relative(folder)))
    return handed


def asked(project: Small, task: str) -> tuple[list[str], list[str]]:
    subset = project.built("cirr")
    queries = subset.queries.filter(pc.equal(subset.queries["task"], task))["query_id"].to_pylist()
    gallery = subset.pools.filter(pc.equal(subset.pools["pool_id"], f"{task}/gallery"))["candidate_id"].to_pylist()
    return queries, gallery


def write(project: Small, path: Path, task: str = "val", last: int = 60, first: int = 0) -> Path:
    """A ranking of a part of the gallery."""
    queries, gallery = asked(project, task)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({"query_id": queries, "candidate_ids": [gallery[first:last]] * len(queries), "note": queries}), path
    )
    return path


def vectors(project: Small, name: str, folder: Path) -> list[Path]:
    universe = project.built(name).universe
    folder.mkdir()
    sides = pc.unique(universe["side"]).to_pylist()
    for side in sides:
        ids = universe.filter(pc.equal(universe["side"], side))["id"].to_pylist()
        values = [[float(len(i)), float(sum(i.encode()) % 31) + 1] for i in ids]
        pq.write_table(pa.table({"id": ids, "embedding": values}), folder / f"{side}.parquet")
    return [folder / f"{side}.parquet" for side in sides]


def runs(project: Small) -> dict[str, Any]:
    return YAML(typ="safe").load(project.root / "params.yaml")["runs"]


def shown(project: Small) -> dict[str, str]:
    """Everything but what DVC keeps for itself."""
    return {
        name: content for name, content in project.snapshot().items() if not name.startswith((".dvc/tmp", ".dvc/cache"))
    }


# ---- what it does ------------------------------------------------------------------------------------------


def test_predictions_are_placed_registered_and_versioned(project: Small, tmp_path: Path) -> None:
    done = project.run("add", "mymodel", "cirr", write(project, tmp_path / "in" / "val.parquet"))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("added mymodel on cirr: val\n")
    assert "note: val: val.parquet does not rank the whole group of every query" in done.out
    assert done.out.endswith("next: dvc repro && dvc metrics diff main\n")
    folder = project.predictions("mymodel", "cirr")
    placed = pq.read_table(folder / "val.parquet")
    assert placed.column_names == ["query_id", "candidate_ids"], "further columns stay behind"
    assert [p.name for p in folder.iterdir()] == ["val.parquet"]
    assert runs(project)["mymodel-cirr"] == {"run": "mymodel", "benchmark": "cirr"}
    assert "md5:" in folder.with_name("cirr.dvc").read_text()
    assert folder.with_name("cirr.dvc").read_text().count("path: cirr") == 1


def git(project: Small, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=project.root, check=True, capture_output=True, text=True).stdout


def test_git_sees_the_version_and_not_the_content(project: Small, tmp_path: Path) -> None:
    assert project.run("add", "mymodel", "cirr", write(project, tmp_path / "val.parquet")).code == 0
    seen = [name for name in git(project, "ls-files", "-o", "--exclude-standard").splitlines() if "predictions" in name]
    assert seen == ["data/predictions/mymodel/cirr.dvc"]
    assert not list((project.root / "data").rglob(".gitignore")), "DVC must not write ignore files into our folders"


def test_params_keep_their_comments(project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    assert project.run("add", "mymodel", "cirr", write(project, tmp_path / "val.parquet")).code == 0
    added = "  mymodel-cirr: {run: mymodel, benchmark: cirr}\n"
    assert (project.root / "params.yaml").read_text() == PARAMS + added
    assert no_dvc == ["data/predictions/mymodel/cirr"]


def test_the_projects_own_params_get_one_line_more(tmp_path: Path) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    before = (tmp_path / "params.yaml").read_text()
    stage.register(Small(tmp_path), "mymodel-cirr", {"run": "mymodel", "benchmark": "cirr"})
    assert (tmp_path / "params.yaml").read_text() == before + "  mymodel-cirr: {run: mymodel, benchmark: cirr}\n"


@pytest.mark.parametrize("empty", ["runs:\n", "runs: {}\n", ""])
def test_a_first_run_is_registered_too(empty: str, project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    (project.root / "params.yaml").write_text(PARAMS[: PARAMS.index("runs:")] + empty)
    assert project.run("add", "mymodel", "cirr", write(project, tmp_path / "val.parquet")).code == 0
    assert runs(project) == {"mymodel-cirr": {"run": "mymodel", "benchmark": "cirr"}}
    assert "# not the default" in (project.root / "params.yaml").read_text()


def test_adding_again_replaces_and_says_so(project: Small, tmp_path: Path) -> None:
    old = [write(project, tmp_path / "a" / "val.parquet"), write(project, tmp_path / "a" / "test1.parquet", "test1")]
    assert project.run("add", "mymodel", "cirr", *old).code == 0
    before = project.predictions("mymodel", "cirr").with_name("cirr.dvc").read_text()
    done = project.run("add", "mymodel", "cirr", write(project, tmp_path / "b" / "val.parquet", first=10, last=80))
    assert done.out.startswith("replaced mymodel on cirr: val\ngone: test1; a run is replaced as a whole")
    folder = project.predictions("mymodel", "cirr")
    assert [p.name for p in folder.iterdir()] == ["val.parquet"], "nothing of the last ones stays"
    assert len(pq.read_table(folder / "val.parquet")["candidate_ids"][0]) == 70
    assert folder.with_name("cirr.dvc").read_text() != before
    assert list(runs(project)) == ["chance-cirr", "mymodel-cirr"]


def test_a_mean_that_lacks_a_task_says_which(tmp_path: Path, no_dvc: list[str]) -> None:
    project = Small.make(tmp_path / "project", {"fashioniq": {}})
    subset = project.built("fashioniq")
    files = []
    for task in ("dress", "shirt", "toptee"):
        asked = subset.queries.filter(pc.equal(subset.queries["task"], task))["query_id"].to_pylist()
        pools = pc.unique(subset.trials.filter(pc.equal(subset.trials["task"], task))["pool_id"])
        pool = subset.pools.filter(pc.is_in(subset.pools["pool_id"], value_set=pools))["candidate_id"].to_pylist()
        files.append(tmp_path / f"{task}.parquet")
        pq.write_table(pa.table({"query_id": asked, "candidate_ids": [pool] * len(asked)}), files[-1])
    said = "note: the mean over dress, shirt, toptee needs all of them; left out for want of "
    assert project.run("add", "m", "fashioniq", *files[:1]).out.count(f"{said}shirt, toptee\n") == 1
    assert f"{said}toptee\n" in project.run("add", "m", "fashioniq", *files[:2]).out
    assert "mean" not in project.run("add", "m", "fashioniq", *files).out
    assert "gone: shirt, toptee;" in project.run("add", "m", "fashioniq", *files[:1]).out


def test_placed_files_can_be_edited_and_added(project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    assert project.run("add", "mymodel", "cirr", write(project, tmp_path / "val.parquet")).code == 0
    placed = write(project, project.predictions("mymodel", "cirr") / "val.parquet", last=77)
    assert project.run("add", "mymodel", "cirr", placed).code == 0
    assert len(pq.read_table(placed)["candidate_ids"][0]) == 77


def test_vectors_register_their_similarity(project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    files = vectors(project, "cirr", tmp_path / "in")
    assert project.run("add", "one", "cirr", *files).code == 0
    assert project.run("add", "two", "cirr", *files, "--similarity", "dot").code == 0
    assert runs(project)["one-cirr"] == {"run": "one", "benchmark": "cirr", "similarity": "cosine"}
    assert runs(project)["two-cirr"] == {"run": "two", "benchmark": "cirr", "similarity": "dot"}


def test_parts_stay_parts_and_ids_become_strings(project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    whole = pq.read_table(write(project, tmp_path / "whole.parquet"))
    numbers = whole.set_column(0, "query_id", whole["query_id"].cast(pa.int64()))
    (tmp_path / "val").mkdir()
    pq.write_table(numbers.slice(0, 100), tmp_path / "val" / "a.parquet")
    pq.write_table(numbers.slice(100), tmp_path / "val" / "b")
    (tmp_path / "val" / "_SUCCESS").touch()
    assert project.run("add", "mymodel", "cirr", tmp_path / "val").code == 0
    placed = project.predictions("mymodel", "cirr") / "val"
    assert sorted(p.name for p in placed.iterdir()) == ["a.parquet", "b"]
    assert pq.read_table(placed / "b")["query_id"].to_pylist() == whole["query_id"].to_pylist()[100:]


def test_what_was_added_scores_the_same(project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    """`add` has scored the files as given; `score` reads them as placed."""
    assert project.run("add", "mymodel", "cirr", write(project, tmp_path / "val.parquet")).code == 0
    done = project.run("score", "mymodel", "cirr")
    assert (done.code, done.err) == (0, "")
    assert (project.scores("mymodel", "cirr") / "result.json").is_file()


# ---- a single file of another name -------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["val", "test1"])
def test_a_single_file_goes_by_its_queries(task: str, project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    done = project.run("add", "mymodel", "cirr", write(project, tmp_path / "preds.parquet", task))
    assert done.out.startswith(f"added mymodel on cirr: {task}\n")
    assert [p.name for p in project.predictions("mymodel", "cirr").iterdir()] == [f"{task}.parquet"]


def test_a_single_folder_goes_by_its_queries(project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    write(project, tmp_path / "preds" / "part-0.parquet")
    assert project.run("add", "mymodel", "cirr", tmp_path / "preds").out.startswith("added mymodel on cirr: val\n")
    assert [p.name for p in project.predictions("mymodel", "cirr").iterdir()] == ["val"]


def both(project: Small, path: Path) -> Path:
    tables = [pq.read_table(write(project, path, task)) for task in ("val", "test1")]
    pq.write_table(pa.concat_tables(tables), path)
    return path


def nobody(project: Small, path: Path) -> Path:
    pq.write_table(pa.table({"query_id": ["x"], "candidate_ids": [["y"]]}), path)
    return path


@pytest.mark.parametrize(
    ("make", "said"),
    [(both, "its queries are of val, test1; name the file"), (nobody, "its queries are of no task; name the file")],
)
def test_a_single_file_of_no_or_of_two_tasks_needs_its_name(
    make: Callable[[Small, Path], Path], said: str, project: Small, tmp_path: Path
) -> None:
    assert said in refusal(project, "add", "mymodel", "cirr", make(project, tmp_path / "preds.parquet"))


def test_two_files_need_their_names(project: Small, tmp_path: Path) -> None:
    files = [write(project, tmp_path / "val.parquet"), write(project, tmp_path / "preds.parquet")]
    assert "'preds' is no task or side" in refusal(project, "add", "mymodel", "cirr", *files)
    files = [write(project, tmp_path / "val.parquet"), write(project, tmp_path / "b" / "val.parquet")]
    assert "has the same name" in refusal(project, "add", "mymodel", "cirr", *files)


# ---- what it refuses ---------------------------------------------------------------------------------------


def refusal(project: Small, *arguments: object) -> str:
    """The message with which a command ends in exit code 2; nothing is written then."""
    before = shown(project)
    done = project.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert shown(project) == before
    assert "Traceback" not in done.err
    return done.err


@pytest.mark.parametrize("run", ["chance", "sample"])
def test_the_shipped_runs_names_are_taken(run: str, project: Small) -> None:
    assert f"'{run}' is a run that ships with the project" in refusal(project, "add", run, "cirr", "val.parquet")


@pytest.mark.parametrize("run", ["MyModel", "my model", "_x", "ü", "a/b", "..", "a.b", "x\n", ""])
def test_run_names_are_plain(run: str, project: Small) -> None:
    message = refusal(project, "add", run, "cirr", "val.parquet")
    assert f"{run!r} is no run name; use small letters, digits, - and _" in message


@pytest.mark.parametrize("run", ["m", "0", "my-model_2"])
def test_plain_names_are_taken(run: str, project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    assert project.run("add", run, "cirr", write(project, tmp_path / "val.parquet")).code == 0
    assert f"{run}-cirr" in runs(project)


def test_benchmarks_must_exist_be_listed_built_and_checked(project: Small, tmp_path: Path) -> None:
    path = write(project, tmp_path / "val.parquet")
    message = refusal(project, "add", "m", "cir", path)
    assert "no benchmark 'cir'; there are: recipe1m, cirr" in message
    assert message.endswith("; did you mean 'cirr', 'circo'?\n")
    assert "benchmarks lists no 'genecis'; it lists: cirr, visual_genome" in refusal(
        project, "add", "m", "genecis", path
    )
    checks = project.validation("cirr").read_text()
    project.validation("cirr").write_text(checks.replace('"ok": true', '"ok": false'))
    assert "did not pass its checks; `rankledger validate cirr`" in refusal(project, "add", "m", "cirr", path)
    project.validation("cirr").unlink()
    assert "run `dvc repro validate@cirr` first" in refusal(project, "add", "m", "cirr", path)
    project.validation("cirr").write_text(checks)
    shutil.rmtree(project.subset("cirr"))
    assert "its test subset is not built; run `dvc repro validate@cirr` first" in refusal(
        project, "add", "m", "cirr", path
    )


def test_similarity_belongs_to_vectors(project: Small, tmp_path: Path) -> None:
    path = write(project, tmp_path / "val.parquet")
    assert "these predictions hold none; leave it out" in refusal(
        project, "add", "m", "cirr", path, "--similarity", "dot"
    )
    assert "cosine or dot" in refusal(project, "add", "m", "cirr", path, "--similarity", "l2")


def test_a_variant_is_named_where_there_are_any(project: Small, tmp_path: Path, no_dvc: list[str]) -> None:
    path = write(project, tmp_path / "val.parquet")
    assert "runs have no variants" in refusal(project, "add", "m", "cirr", path, "--variant", "location_free")
    files = vectors(project, "visual_genome", tmp_path / "in")
    for wrong in ([], ["--variant", "free"]):
        message = refusal(project, "add", "m", "visual_genome", *files, *wrong)
        assert "--variant location_free or --variant location_bound" in message
    assert project.run("add", "m", "visual_genome", *files, "--variant", "location_bound").code == 0
    assert runs(project)["m-visual_genome"]["variant"] == "location_bound"


def test_a_folder_outside_a_project_is_none(tmp_path: Path) -> None:
    assert "no RankLedger project here or above" in refusal(Small(tmp_path), "add", "m", "cirr", "val.parquet")


# ---- what it undoes ----------------------------------------------------------------------------------------


@pytest.fixture(params=["new", "again"])
def added(request: pytest.FixtureRequest, project: Small, tmp_path: Path) -> Small:
    """A project before the first `add` of a run, and before the second."""
    if request.param == "again":
        assert project.run("add", "mymodel", "cirr", write(project, tmp_path / "first" / "val.parquet")).code == 0
    return project


def test_all_is_undone_where_dvc_fails(added: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "\nERROR: no space left\n\nHaving any troubles?\n")

    path = write(added, tmp_path / "val.parquet", first=5, last=90)
    monkeypatch.setattr(stage.subprocess, "run", fails)
    message = refusal(added, "add", "mymodel", "cirr", path)
    assert message == "error: `dvc add data/predictions/mymodel/cirr` failed: no space left\n"


def test_all_is_undone_where_the_real_dvc_fails(added: Small, tmp_path: Path) -> None:
    """Its cache can't be written to."""
    cache = added.root / ".dvc" / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    cache.write_text("in the way")
    path = write(added, tmp_path / "val.parquet", first=5, last=90)
    message = refusal(added, "add", "mymodel", "cirr", path)
    assert "`dvc add data/predictions/mymodel/cirr` failed: unexpected error - [Errno 20] Not a directory" in message
    cache.unlink()
    assert added.run("add", "mymodel", "cirr", path).code == 0, "and all is well once DVC is"


@pytest.mark.parametrize("where", ["canonical", "register", "_dvc_add"])
def test_all_is_undone_where_a_user_interrupts(
    where: str, added: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    path = write(added, tmp_path / "val.parquet", first=5, last=90)
    before = shown(added)
    monkeypatch.setattr(stage, where, interrupted)
    assert added.run("add", "mymodel", "cirr", path).code != 0
    assert shown(added) == before


def test_a_failure_leaves_no_empty_folder(made: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not (made.root / "data" / "predictions").exists()
    path = write(made, tmp_path / "val.parquet")
    monkeypatch.setattr(
        stage.subprocess, "run", lambda command, **options: subprocess.CompletedProcess(command, 1, "", "no")
    )
    refusal(made, "add", "mymodel", "cirr", path)
    assert not (made.root / "data" / "predictions").exists()
