"""The project around the library: where it lies, its paths and its parameters."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rankledger.tables import InputError, meant

RUN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
SHIPPED_RUNS = ("chance", "sample")


@dataclass(frozen=True)
class Project:
    """A project: the folder that holds `dvc.yaml` and `params.yaml`."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> "Project":
        """The nearest project at or above `start` (the current folder); raises `InputError` where there is none."""
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "dvc.yaml").is_file() and (folder / "params.yaml").is_file():
                return cls(folder)
        raise InputError(f"{here}: no RankLedger project here or above (a folder with dvc.yaml and params.yaml)")

    def inbox(self, benchmark: str) -> Path:
        """Where a user puts files that only a user can get."""
        return self.root / "data" / "inbox" / benchmark

    def raw(self, benchmark: str) -> Path:
        """The benchmark's own files."""
        return self.root / "data" / "raw" / benchmark

    def subset(self, benchmark: str) -> Path:
        """The benchmark's test subset."""
        return self.root / "data" / "subsets" / benchmark

    def predictions(self, run: str, benchmark: str) -> Path:
        """A run's predictions on a benchmark."""
        return self.root / "data" / "predictions" / run / benchmark

    def scores(self, run: str, benchmark: str) -> Path:
        """A run's results on a benchmark."""
        return self.root / "data" / "scores" / run / benchmark

    def validation(self, benchmark: str) -> Path:
        """What `validate` found."""
        return self.root / "reports" / "validation" / f"{benchmark}.json"

    def params(self) -> dict[str, Any]:
        """`params.yaml`; raises `InputError` where it can't be read."""
        return read_yaml(self.root / "params.yaml")

    def benchmark_params(self, benchmark: str) -> Mapping[str, Any]:
        """What `params.yaml` says of a benchmark; raises `InputError` where it is not listed."""
        listed = self.params().get("benchmarks") or {}
        if benchmark not in listed:
            there = f"it lists: {', '.join(listed)}{meant(benchmark, listed)}"
            raise InputError(f"params.yaml: benchmarks lists no {benchmark!r}; {there}")
        return listed[benchmark] or {}

    def runs(self) -> dict[str, dict[str, Any]]:
        """The runs of `params.yaml` by key; raises `InputError` on an entry that is not as it should be."""
        return runs_in(self.params())

    def run(self, run: str, benchmark: str) -> dict[str, Any]:
        """What `params.yaml` says of a run on a benchmark; raises `InputError` where it is not listed."""
        runs = self.runs()
        key = f"{run}-{benchmark}"
        if key not in runs:
            raise InputError(f"params.yaml: runs lists no {key}; register it with `rankledger add`{meant(key, runs)}")
        return runs[key]

    def sources(self, benchmark: str) -> dict[str, dict[str, Any]]:
        """The official files of a benchmark by name, from `data/sources.yaml`: url, size, checksums, licence …"""
        listed = read_yaml(self.root / "data" / "sources.yaml").get(benchmark) or []
        return {str(entry["file"]): {k: v for k, v in entry.items() if k != "file"} for entry in listed}

    def relative(self, path: Path) -> str:
        """`path` as seen from the root, for messages."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


def runs_in(params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The runs of a `params.yaml` by key; raises `InputError` on an entry that is not as it should be."""
    runs = params.get("runs") or {}
    for key, entry in runs.items():
        where = f"params.yaml: runs.{key}"
        if not isinstance(entry, dict) or not {"run", "benchmark"} <= entry.keys():
            raise InputError(f"{where} should look like {{run: mymodel, benchmark: cirr, similarity: cosine}}")
        if not RUN_NAME.fullmatch(str(entry["run"])) or key != f"{entry['run']}-{entry['benchmark']}":
            raise InputError(f"{where} should be called {entry['run']}-{entry['benchmark']}, the run in [a-z0-9_-]")
        if entry["benchmark"] not in (params.get("benchmarks") or {}):
            raise InputError(f"{where} names benchmark {entry['benchmark']!r}, which benchmarks does not list")
        if entry.get("similarity", "cosine") not in ("cosine", "dot"):
            raise InputError(f"{where}.similarity is {entry['similarity']!r}; it should be cosine or dot")
    return runs


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; raises `InputError` where it is absent or no mapping."""
    try:
        content = YAML(typ="safe", pure=True).load(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except YAMLError as error:
        raise InputError(f"{path}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: should be a mapping")
    return content
