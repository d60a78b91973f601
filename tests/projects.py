"""A project on the embedded samples, and the command `rankledger` inside it, in this process."""

import contextlib
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML

from rankledger.subset import Subset, read_subset
from stages.build import build
from stages.fetch import fetch
from stages.project import Project
from stages.validate import validate
from tests.command import Done, rankledger


class Small(Project):
    """A project in a folder of its own."""

    @classmethod
    def bare(cls, root: Path, benchmarks: Mapping[str, Mapping[str, Any]]) -> "Small":
        """A project that lists these benchmarks; nothing is fetched."""
        (root / "data").mkdir(parents=True)
        (root / "dvc.yaml").touch()
        with (root / "params.yaml").open("w") as file:
            YAML().dump({"mirror": None, "benchmarks": {k: dict(v) for k, v in benchmarks.items()}, "runs": {}}, file)
        return cls(root)

    @classmethod
    def make(cls, root: Path, benchmarks: Mapping[str, Mapping[str, Any]]) -> "Small":
        """A project with these benchmarks, built and validated."""
        project = cls.bare(root, benchmarks)
        (root / "data" / "sources.yaml").write_text("{}\n")
        with contextlib.redirect_stdout(io.StringIO()):
            for name in benchmarks:
                fetch(project, name)
                build(project, name)
                assert validate(project, name)
        return project

    def run(self, *arguments: object) -> Done:
        """`rankledger <arguments>` at the root of the project."""
        with contextlib.chdir(self.root):
            return rankledger(*arguments)

    def place(self, run: str, name: str, files: Mapping[str, pa.Table], **more: str) -> None:
        """A run as if it had been added: its files and its entry in `params.yaml`."""
        folder = self.predictions(run, name)
        folder.mkdir(parents=True)
        for file, table in files.items():
            pq.write_table(table, folder / f"{file}.parquet")
        self.list_run(run, name, **more)

    def list_run(self, run: str, name: str, **more: str) -> None:
        """Add `runs.<run>-<benchmark>` to `params.yaml`."""
        path = self.root / "params.yaml"
        params = YAML().load(path)
        params["runs"] = {**(params["runs"] or {}), f"{run}-{name}": {"run": run, "benchmark": name, **more}}
        with path.open("w") as file:
            YAML().dump(params, file)

    def built(self, name: str) -> Subset:
        """The subset of a benchmark."""
        return read_subset(self.subset(name))[0]

    def snapshot(self) -> dict[str, str]:
        """Every file and folder of the project, with what the files hold."""
        return {
            path.relative_to(self.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else ""
            for path in self.root.rglob("*")
        }
