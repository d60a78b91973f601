"""A working copy of this repository, with the pipeline run once on the sample."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


def _tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The repository as it would be committed, after `dvc repro`; tests must not change it (see `workspace`)."""
    root = tmp_path_factory.mktemp("fresh") / "rankledger"
    for name in _tracked():
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    fresh = Workspace(root)
    fresh.run("git", "init", "-qb", "main")
    fresh.run("dvc", "repro")
    fresh.commit("the sample, reproduced")
    return fresh


@pytest.fixture
def workspace(reproduced: Workspace, tmp_path: Path) -> Callable[[], Workspace]:
    """Makes a copy of the reproduced repository that a test may change."""

    def make() -> Workspace:
        shutil.copytree(reproduced.root, tmp_path / "rankledger", symlinks=True)
        return Workspace(tmp_path / "rankledger")

    return make
