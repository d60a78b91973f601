"""Official files from `../shared/mirror`, fetched, built and validated as the pipeline does it, then scored."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from rankledger.benchmarks import benchmark
from rankledger.scoring import Scored, score
from rankledger.subset import Subset, read_subset
from stages.build import build
from stages.fetch import fetch
from stages.project import Project
from stages.validate import validate

ROOT = Path(__file__).resolve().parents[2]


class Official:
    """A benchmark's official subset, and runs made up on it."""

    def __init__(self, folder: Path, name: str, parameters: Mapping[str, Any], mirror: Path | None):
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "sources.yaml").write_bytes((ROOT / "data" / "sources.yaml").read_bytes())
        (folder / "dvc.yaml").touch()
        self.name, self.project = name, Project(folder)
        params = {"mirror": str(mirror) if mirror else None, "benchmarks": {name: {"source": "official", **parameters}}}
        with (folder / "params.yaml").open("w") as file:
            YAML().dump(params, file)

    def make(self) -> "Official":
        fetch(self.project, self.name)
        build(self.project, self.name)
        assert validate(self.project, self.name)
        self.subset: Subset
        self.subset, self.manifest = read_subset(self.project.subset(self.name))
        self.plan = benchmark(self.name).plan(self.manifest["parameters"])
        return self

    def score(self, similarity: str = "cosine", **tables: pa.Table) -> Scored:
        """Score tables given by task or side."""
        files = {}
        for name, table in tables.items():
            files[name] = self.project.root / f"{name}.parquet"
            pq.write_table(table, files[name])
        return score(self.subset, self.plan, files, similarity, self.manifest["parameters"].get("ties"))

    def queries(self, task: str) -> list[dict[str, Any]]:
        return [row for row in self.subset.queries.to_pylist() if row["task"] == task]

    def pool(self, pool_id: str) -> list[str]:
        return self.subset.pools.filter(pa.compute.equal(self.subset.pools["pool_id"], pool_id))[
            "candidate_id"
        ].to_pylist()


def values(scored: Scored, *prefix: str) -> dict[str, float]:
    """The values below a key, rounded as the golden values are printed."""
    return {k[-1]: round(v.mean, 4) for k, v in scored.values.items() if k[:-1] == prefix}


def rankings(lists: Mapping[str, list[str]]) -> pa.Table:
    return pa.table({"query_id": list(lists), "candidate_ids": list(lists.values())})


def same_ranking(queries: list[str], candidates: list[str]) -> pa.Table:
    """One ranking for every query."""
    n, k = len(queries), len(candidates)
    flat = pa.array(candidates).take(pa.array(np.tile(np.arange(k), n)))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * k), flat)
    return pa.table({"query_id": queries, "candidate_ids": lists})


@pytest.fixture
def official(shared: Path, tmp_path: Path) -> Callable[..., Official]:
    def make(name: str, **parameters: Any) -> Official:
        return Official(
            tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}", name, parameters, shared / "mirror"
        ).make()

    return make
