"""The project at a commit: Git for what it tracks, DVC's cache or the workspace for the rest."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rankledger.tables import InputError
from stages.project import Project
from stages.revision import Commit, Gone, Workspace, changed, first_commit, is_shallow

SCORES = "data/scores/a/cirr"
LOCK = """schema: '2.0'
stages:
  score@a-cirr:
    cmd: rankledger score a cirr
    deps:
    - path: data/subsets/cirr
      hash: md5
      md5: 00.dir
    - path: stages/score.py
      hash: md5
      md5: '{code}'
      size: 5
    outs:
    - path: data/scores/a/cirr
      hash: md5
      md5: {md5}
      size: 7
      nfiles: 2
  score@a-cirr-other:
    cmd: rankledger score a-cirr other
"""


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class Repository(Project):
    """A project in Git, with a cache laid out as DVC does."""

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self, subject: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", subject)
        return self.git("rev-parse", "HEAD")

    def place(self, value: str, cache: Path) -> str:
        """Write a score folder, put it into a cache and into dvc.lock; returns its hash."""
        self.write(f"{SCORES}/result.json", value)
        self.write(f"{SCORES}/sub/val.parquet", value[::-1])
        listed = []
        for name in ("result.json", "sub/val.parquet"):
            content = (self.root / SCORES / name).read_bytes()
            self._keep(content, md5(content), cache)
            listed.append({"md5": md5(content), "relpath": name})
        listing = json.dumps(listed).encode()
        self._keep(listing, f"{md5(listing)}.dir", cache)
        self.write("dvc.lock", LOCK.format(md5=f"{md5(listing)}.dir", code="c0de"))
        return f"{md5(listing)}.dir"

    @staticmethod
    def _keep(content: bytes, name: str, cache: Path) -> None:
        path = cache / "files" / "md5" / name[:2] / name[2:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture(params=[".", "deeper/down"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    """At the root of a repository, and in a folder of one."""
    top = tmp_path / "repository"
    root = top / request.param
    root.mkdir(parents=True)
    subprocess.run(["git", "init", "-qb", "main", str(top)], check=True)
    found = Repository(root)
    found.write(".gitignore", "/data/scores/\n/.dvc/cache/\n")
    found.write("dvc.yaml", "")
    found.write("params.yaml", "seed: 1\n")
    found.write("reports/metrics.json", '{"a": 1}')
    return found


def test_files_of_git_are_those_of_the_commit(project: Repository) -> None:
    project.commit("one")
    project.write("params.yaml", "seed: 2\n")
    project.write("reports/metrics.json", '{"a": 2}')
    old, here = Commit(project, "main"), Workspace(project)
    assert (old.params, here.params) == ({"seed": 1}, {"seed": 2})
    assert (old.metrics, here.metrics) == ({"a": 1}, {"a": 2})
    assert old.commit == here.commit == project.git("rev-parse", "HEAD")
    assert (old.read("nothing"), here.read("nothing")) == (None, None)
    assert [path.split("/")[-1] for path in changed(project, ["params.yaml", "dvc.yaml"])] == ["params.yaml"]


def test_data_come_from_the_cache(project: Repository) -> None:
    cache = project.root / ".dvc" / "cache"
    old = project.place("old", cache)
    project.commit("one")
    new = project.place("new", cache)
    commit, here = Commit(project, "HEAD"), Workspace(project)
    assert commit.hash(SCORES, "score@a-cirr") == old
    assert here.hash(SCORES, "score@a-cirr") == new
    folder = commit.folder(SCORES, "score@a-cirr")
    assert (folder / "result.json").read_text() == "old"
    assert (folder / "sub" / "val.parquet").read_text() == "dlo"
    assert commit.folder(SCORES, "score@a-cirr") == folder
    assert here.folder(SCORES, "score@a-cirr") == project.root / SCORES
    assert commit.code("score@a-cirr") == {"stages/score.py": "c0de"}
    assert commit.stage("score@nobody") == {}


@pytest.mark.parametrize(("file", "where"), [("config", "../elsewhere"), ("config.local", "absolute")])
def test_the_cache_may_lie_elsewhere(project: Repository, tmp_path: Path, file: str, where: str) -> None:
    cache = tmp_path / "absolute" if where == "absolute" else project.root / "elsewhere"
    project.place("old", cache)
    project.write(
        f".dvc/{file}", f"[core]\n    analytics = false\n[cache]\n    dir = {cache if where == 'absolute' else where}\n"
    )
    project.commit("one")
    shutil.rmtree(project.root / "data")
    assert (Commit(project, "HEAD").folder(SCORES, "score@a-cirr") / "result.json").read_text() == "old"


def test_the_workspace_serves_where_it_has_the_same(project: Repository, tmp_path: Path) -> None:
    project.place("old", tmp_path / "lost")
    project.commit("one")
    commit = Commit(project, "HEAD")
    assert commit.folder(SCORES, "score@a-cirr") == project.root / SCORES
    project.write(f"{SCORES}/result.json", "another")
    with pytest.raises(Gone, match=f"{SCORES} of HEAD is no longer in DVC's cache.*dvc fetch"):
        commit.folder(SCORES, "score@a-cirr")


def test_a_file_lost_from_the_cache_is_noticed(project: Repository) -> None:
    cache = project.root / ".dvc" / "cache"
    project.place("old", cache)
    project.commit("one")
    shutil.rmtree(project.root / "data")
    (cache / "files" / "md5" / md5(b"old")[:2] / md5(b"old")[2:]).unlink()
    with pytest.raises(Gone, match="no longer in DVC's cache"):
        Commit(project, "HEAD").folder(SCORES, "score@a-cirr")


def test_what_nothing_tells_of_is_gone(project: Repository) -> None:
    project.commit("one")
    with pytest.raises(Gone, match=r"HEAD has no data/scores/a/cirr: neither dvc\.lock nor"):
        Commit(project, "HEAD").folder(SCORES, "score@a-cirr")
    with pytest.raises(Gone, match="`dvc repro score@a-cirr` brings it"):
        Workspace(project).folder(SCORES, "score@a-cirr")
    with pytest.raises(Gone, match=r"`dvc checkout data/predictions/a/cirr\.dvc` brings it"):
        Workspace(project).folder("data/predictions/a/cirr", None)


def test_predictions_that_a_user_added_have_a_file_of_their_own(project: Repository) -> None:
    path = "data/predictions/a/cirr"
    project.write(f"{path}.dvc", "outs:\n- md5: 11.dir\n  size: 1\n  hash: md5\n  path: cirr\n")
    first = project.commit("added")
    project.write("params.yaml", "seed: 3\n")
    project.commit("something else")
    here = Workspace(project)
    assert here.hash(path, None) == "11.dir"
    since = first_commit(here, "11.dir", [f"{path}.dvc"])
    assert since is not None
    assert (since["commit"], since["subject"]) == (first, "added")
    assert first_commit(here, "22.dir", [f"{path}.dvc"]) is None


def test_a_revision_that_is_none(project: Repository) -> None:
    with pytest.raises(InputError, match=r"main: there is no Git history here"):
        Commit(project, "main")
    project.commit("one")
    for rev in ("nowhere", "HEAD~5", "--help", "HEAD:params.yaml"):
        with pytest.raises(InputError, match="no such commit; `git log"):
            Commit(project, rev)


def test_a_revision_without_metrics(project: Repository) -> None:
    project.commit("one")
    project.git("rm", "-q", "reports/metrics.json")
    project.commit("two")
    with pytest.raises(InputError, match=r"HEAD: no reports/metrics\.json there; run `dvc repro`"):
        _ = Commit(project, "HEAD").metrics
    assert Commit(project, "HEAD~1").metrics == {"a": 1}


def test_a_shallow_clone_says_how_to_deepen_it(project: Repository, tmp_path: Path) -> None:
    project.commit("one")
    project.write("params.yaml", "seed: 2\n")
    project.commit("two")
    top = project.git("rev-parse", "--show-toplevel")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{top}", str(tmp_path / "clone")], check=True)
    clone = Repository(tmp_path / "clone" / project.root.relative_to(top))
    assert is_shallow(clone)
    assert Commit(clone, "HEAD").params == {"seed": 2}
    with pytest.raises(InputError, match="in this shallow clone; `git fetch --unshallow`"):
        Commit(clone, "HEAD~1")
