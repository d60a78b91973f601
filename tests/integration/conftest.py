"""A working copy of this repository, with the pipeline run once on the sample."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]


class Workspace:
    """A clone of the project, and commands in it."""

    def __init__(self, root: Path):
        self.root = root

    def run(self, *command: str, ok: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command, cwd=self.root, env={**os.environ, "PATH": path, **env}, capture_output=True, text=True, check=False
        )
        assert not ok or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", message)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def keep(self, *benchmarks: str) -> None:
        """Take the other benchmarks out of `params.yaml` and `dvc.lock`, which DVC reads and writes at each stage.

        What is kept stays reproduced, but for the report.
        """
        yaml = YAML()
        yaml.width = 1000
        params, lock = (yaml.load(self.root / name) for name in ("params.yaml", "dvc.lock"))
        for name in [name for name in params["benchmarks"] if name not in benchmarks]:
            del params["benchmarks"][name]
        for key in [key for key, entry in params["runs"].items() if entry["benchmark"] not in benchmarks]:
            del params["runs"][key]
        for stage in [s for s in lock["stages"] if s.partition("@")[2] not in {*benchmarks, *params["runs"]}]:
            del lock["stages"][stage]
        yaml.dump(params, self.root / "params.yaml")
        yaml.dump(lock, self.root / "dvc.lock")


def _tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def _reproduce(root: Path) -> None:
    """The repository as it would be committed, after `dvc repro`. What this checkout has made already comes along."""
    for name in _tracked():
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    for made in ("data/raw", "data/subsets", "data/predictions", "data/scores", ".dvc/cache"):
        if (ROOT / made).is_dir():
            shutil.copytree(ROOT / made, root / made, symlinks=True, dirs_exist_ok=True)
    fresh = Workspace(root)
    fresh.run("git", "init", "-qb", "main")
    fresh.run("dvc", "repro")
    fresh.commit("the sample, reproduced")


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The repository, reproduced; tests must not change it (see `workspace`).

    It is made once for all processes of a test run; each has a copy of its own.
    """
    mine = tmp_path_factory.getbasetemp()
    everyones = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine
    made, root = everyones / "reproduced", mine / "fresh" / "rankledger"
    with (everyones / "reproduced.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _reproduce(everyones / "reproducing")
            (everyones / "reproducing").rename(made)
    shutil.copytree(made, root, symlinks=True)
    return Workspace(root)


@pytest.fixture
def workspace(reproduced: Workspace, tmp_path: Path) -> Callable[[], Workspace]:
    """Makes a copy of the reproduced repository that a test may change."""

    def make() -> Workspace:
        shutil.copytree(reproduced.root, tmp_path / "rankledger", symlinks=True)
        return Workspace(tmp_path / "rankledger")

    return make
