"""`rankledger remove` in a real Git and DVC repository: a run goes, as if it had never been added."""

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rankledger.tables import InputError
from stages.project import Project
from stages.remove import unregister
from tests.conftest import ROOT
from tests.projects import Small

PARAMS = """\
mirror: null
benchmarks:
  # not the default
  cirr: {source: sample, labels: hard}   # hard labels

runs:  # written by `rankledger add`
  # the shipped one
  chance-cirr: {run: chance, benchmark: cirr, similarity: 'dot'}
  # ours
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A project under Git and DVC, committed with the run `kept`; tests work on copies."""
    project = Small.make(tmp_path_factory.mktemp("remove") / "project", {"cirr": {"source": "sample"}})
    (project.root / "params.yaml").write_text(PARAMS)
    shutil.copy(ROOT / ".gitignore", project.root)
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=project.root, check=True, capture_output=True)
    assert project.run("add", "kept", "cirr", ranking(project)).code == 0
    commit(project)
    return project


@pytest.fixture
def project(made: Small, tmp_path: Path) -> Small:
    shutil.copytree(made.root, tmp_path / "project")
    return Small(tmp_path / "project")


def ranking(project: Small, last: int = 60) -> Path:
    subset = project.built("cirr")
    asked = subset.queries.filter(pc.equal(subset.queries["task"], "val"))["query_id"].to_pylist()
    gallery = subset.pools.filter(pc.equal(subset.pools["pool_id"], "val/gallery"))["candidate_id"].to_pylist()
    path = project.root.parent / "val.parquet"
    pq.write_table(pa.table({"query_id": asked, "candidate_ids": [gallery[:last]] * len(asked)}), path)
    return path


def commit(project: Small) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["add", "-A"], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=project.root, check=True)


def shown(project: Small) -> dict[str, str]:
    """Everything but what Git and DVC keep for themselves."""
    return {name: content for name, content in project.snapshot().items() if not name.startswith((".dvc/", ".git/"))}


def test_it_undoes_add(project: Small) -> None:
    before = shown(project)
    assert project.run("add", "mymodel", "cirr", ranking(project, 70)).code == 0
    assert project.run("score", "mymodel", "cirr").code == 0
    assert shown(project) != before
    done = project.run("remove", "mymodel")
    assert (done.code, done.err) == (0, "")
    first, back, after = done.out.splitlines()
    folders = "data/predictions/mymodel/cirr.dvc, data/predictions/mymodel/cirr, data/scores/mymodel/cirr"
    assert first == f"removed mymodel from cirr: its entry of params.yaml, {folders}"
    assert back.startswith("back: no commit has it; DVC's cache keeps its predictions, MD5 ")
    assert after == "next: dvc repro"
    left = shown(project)
    assert left.pop("data/scores") == "", "the folder of all scores may stay"
    assert left == before


def test_what_is_committed_comes_back_as_it_says(project: Small) -> None:
    before = shown(project)
    done = project.run("remove", "kept", "cirr")
    assert not project.predictions("kept", "cirr").parent.exists()
    assert "kept-cirr" not in (project.root / "params.yaml").read_text()
    (back,) = [line for line in done.out.splitlines() if line.startswith("back: ")]
    command = back.removeprefix("back: ").replace("dvc checkout", f"{sys.executable} -m dvc checkout")
    subprocess.run(command, shell=True, cwd=project.root, check=True, capture_output=True)
    assert shown(project) == before


def test_predictions_that_changed_since_the_commit_do_not_come_back_with_it(project: Small) -> None:
    assert project.run("add", "kept", "cirr", ranking(project, 70)).code == 0
    assert "back: no commit has it" in project.run("remove", "kept").out


def test_comments_stay(project: Small) -> None:
    before = (project.root / "params.yaml").read_text()
    assert "  kept-cirr: {run: kept, benchmark: cirr}\n" in before
    assert project.run("remove", "kept").code == 0
    assert (project.root / "params.yaml").read_text() == PARAMS


def refusal(project: Small, *arguments: str) -> str:
    before = shown(project)
    done = project.run("remove", *arguments)
    assert (done.code, done.out) == (2, "")
    assert shown(project) == before
    return done.err


def test_it_refuses_what_ships_and_what_is_not_there(project: Small) -> None:
    for run in ("chance", "sample"):
        assert f"'{run}' is a run that ships with the project" in refusal(project, run)
    assert "runs lists no keptt; it lists: chance, kept; did you mean 'kept'?" in refusal(project, "keptt")
    assert "no kept-circo; it lists: chance-cirr, kept-cirr; did you mean" in refusal(project, "kept", "circo")


BLOCK = "runs:\n  a-x:\n    run: a\n    # ours\n    benchmark: x\nmirror: null\n"
TWO = "runs: # two\n  a-x: {run: a}\n\n  # b\n  b-x: {run: b}\n"


@pytest.mark.parametrize(
    ("runs", "keys", "left"),
    [
        (BLOCK, ["a-x"], "runs: {}\nmirror: null\n"),
        (TWO, ["a-x"], "runs: # two\n\n  # b\n  b-x: {run: b}\n"),
        (TWO, ["a-x", "b-x"], "runs: {} # two\n\n  # b\n"),
        (
            "runs: {\n  a-x: {run: a}, b-x: {run: b},\n  # c\n  c-x: {run: c}}\n",
            ["a-x", "b-x"],
            "runs: {\n  # c\n  c-x: {run: c}}\n",
        ),
        ("runs: {a-x: {run: a}, b-x: {run: b}}\n", ["a-x"], None),
        ("runs:\n  a-x: {run: a,\n\n    benchmark: x}\n", ["a-x"], None),
    ],
)
def test_entries_are_taken_out_line_by_line_or_by_hand(
    runs: str, keys: list[str], left: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(runs)
    if left is None:
        with pytest.raises(InputError, match="take it out by hand"):
            unregister(Project(tmp_path), keys)
    else:
        unregister(Project(tmp_path), keys)
    assert path.read_text() == (runs if left is None else left)
