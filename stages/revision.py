"""The project at a revision: as it lies in the workspace, or as a commit of Git and DVC's cache still hold it."""

import configparser
import json
import re
import subprocess
import tempfile
import textwrap
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rankledger.tables import InputError
from stages.lock import Hashes
from stages.project import Project

METRICS = "reports/metrics.json"


class Gone(InputError):
    """Data that a revision had is nowhere any more."""


class Revision(ABC):
    """The project's files at a revision.

    Attributes:
        project: the project.
        name: what messages call it.
        commit: the commit's full name; none where there is no Git.
    """

    project: Project
    name: str
    commit: str | None

    @abstractmethod
    def read(self, path: str) -> str | None:
        """The text of a file that Git tracks, none where there is none."""

    @abstractmethod
    def folder(self, path: str, stage: str | None) -> Path:
        """A folder with what `path` held, which `stage` writes or, where there is none, a user added; raises `Gone`."""

    @cached_property
    def params(self) -> dict[str, Any]:
        """`params.yaml`."""
        text = self.read("params.yaml")
        if text is None:
            raise InputError(f"{self.name}: no params.yaml there; is it a revision of this project?")
        found = _yaml(text, f"params.yaml at {self.name}")
        return found if isinstance(found, dict) else {}

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """`reports/metrics.json`; raises `InputError` where there is none."""
        text = self.read(METRICS)
        if text is None:
            raise InputError(f"{self.name}: no {METRICS} there; run `dvc repro` and commit it")
        try:
            found = json.loads(text)
        except ValueError as error:
            raise InputError(f"{METRICS} at {self.name}: not JSON ({error})") from None
        return found if isinstance(found, dict) else {}

    def stage(self, name: str) -> dict[str, Any]:
        """What `dvc.lock` says of a stage; empty where it says nothing."""
        found = re.search(rf"^  {re.escape(name)}:\n((?:    .*\n?)+)", self.read("dvc.lock") or "", re.MULTILINE)
        entry = _yaml(textwrap.dedent(found[1]), f"dvc.lock at {self.name}") if found else None
        return entry if isinstance(entry, dict) else {}

    def hash(self, path: str, stage: str | None) -> str | None:
        """The MD5 that DVC recorded of a path that `stage` writes or a user added; none where there is none."""
        pointer = self.read(f"{path}.dvc")
        outs = (_yaml(pointer, f"{path}.dvc at {self.name}") if pointer else self.stage(stage or "")).get("outs", [])
        names = (path, Path(path).name)
        return next((str(out["md5"]) for out in outs if out.get("path") in names and "md5" in out), None)

    def code(self, stage: str) -> dict[str, str]:
        """The MD5 of each module that a stage ran with, as `dvc.lock` has it."""
        deps = self.stage(stage).get("deps", [])
        return {d["path"]: str(d.get("md5")) for d in deps if d["path"].endswith(".py")}

    def plain(self, error: Exception) -> str:
        """An error's message, in one line and with paths as seen from the root."""
        return " ".join(str(error).split()).replace(f"{self.project.root}/", "")


class Workspace(Revision):
    """What lies in the folder."""

    def __init__(self, project: Project):
        self.project, self.name = project, "workspace"
        self.commit = head(project)

    def read(self, path: str) -> str | None:
        """See `Revision`."""
        file = self.project.root / path
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def folder(self, path: str, stage: str | None) -> Path:
        """See `Revision`."""
        folder = self.project.root / path
        if not folder.is_dir():
            raise Gone(
                f"{path}: not there; `{f'dvc repro {stage}' if stage else f'dvc checkout {path}.dvc'}` brings it"
            )
        return folder


class Commit(Revision):
    """What a commit of Git names; data come from DVC's cache, or from the workspace where it still has the same."""

    def __init__(self, project: Project, rev: str):
        self.project, self.name = project, rev
        self.commit = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
        if self.commit is None:
            raise InputError(f"{rev}: {_no_commit(project)}")
        self._scratch = tempfile.TemporaryDirectory(prefix="rankledger-")

    def read(self, path: str) -> str | None:
        """See `Revision`."""
        return _git(self.project, "show", f"{self.commit}:./{path}", strip=False)

    def folder(self, path: str, stage: str | None) -> Path:
        """See `Revision`."""
        folder = Path(self._scratch.name) / path
        if folder.is_dir():
            return folder
        md5 = self.hash(path, stage)
        if md5 is None:
            raise Gone(f"{self.name} has no {path}: neither dvc.lock nor {path}.dvc tells of it")
        listing = _cached(self.project, md5)
        if listing.is_file():
            files = {e["relpath"]: _cached(self.project, e["md5"]) for e in json.loads(listing.read_bytes())}
            if all(file.is_file() for file in files.values()):
                for name, file in files.items():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).symlink_to(file)
                return folder
        if (Hashes(self.project.root).of(path) or {}).get("md5") == md5:
            return self.project.root / path
        raise Gone(
            f"{path} of {self.name} is no longer in DVC's cache, nor is it what the workspace has; "
            "`dvc fetch --all-commits` brings it where a remote has it"
        )

    def plain(self, error: Exception) -> str:
        """See `Revision`."""
        return super().plain(error).replace(f"{self._scratch.name}/", "")


def head(project: Project) -> str | None:
    """The commit that is checked out; none without Git."""
    return _git(project, "rev-parse", "--verify", "--quiet", "HEAD")


def first_commit(revision: Revision, text: str, paths: list[str]) -> dict[str, Any] | None:
    """The first commit of the history that wrote a text into one of the files: commit, date, subject; none so far."""
    log = _git(
        revision.project,
        "log",
        "--reverse",
        "--format=%H%x00%cs%x00%s",
        f"-S{text}",
        revision.commit or "HEAD",
        "--",
        *paths,
    )
    if not log:
        return None
    return dict(zip(("commit", "date", "subject"), log.split("\n")[0].split("\0"), strict=True))


def changed(project: Project, paths: list[str]) -> list[str]:
    """Which of these paths the workspace has otherwise than its commit."""
    said = _git(project, "status", "--porcelain", "--", *paths, strip=False)
    return [line[2:].strip() for line in (said or "").splitlines()]


def is_shallow(project: Project) -> bool:
    """Whether Git has the last commits only."""
    return _git(project, "rev-parse", "--is-shallow-repository") == "true"


def _no_commit(project: Project) -> str:
    if head(project) is None:
        return "there is no Git history here; `git init`, and commit what is to be compared"
    if is_shallow(project):
        return (
            "no such commit in this shallow clone; `git fetch --unshallow` brings the whole history, "
            "`git fetch origin BRANCH:refs/remotes/origin/BRANCH` a branch"
        )
    return "no such commit; `git log --oneline --all` lists what there is, `git fetch` brings branches of the remote"


def _git(project: Project, *arguments: str, strip: bool = True) -> str | None:
    """What Git says; none where it refuses."""
    try:
        done = subprocess.run(["git", *arguments], cwd=project.root, capture_output=True, check=False)
    except FileNotFoundError:
        raise InputError("git: no such command; install Git") from None
    text = done.stdout.decode("utf-8", errors="replace")
    return None if done.returncode else text.strip() if strip else text


def _cached(project: Project, md5: str) -> Path:
    """Where DVC's cache keeps the content with this MD5."""
    config = configparser.ConfigParser(interpolation=None)
    home = project.root / ".dvc"
    config.read([home / "config", home / "config.local"], encoding="utf-8")
    return home / config.get("cache", "dir", fallback="cache") / "files" / "md5" / md5[:2] / md5[2:]


def _yaml(text: str, where: str) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise InputError(f"{where}: not YAML ({' '.join(str(error).split())})") from None
