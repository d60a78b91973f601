"""A slow, plain reading of a subset's tables, to check them without the ranking code."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rankledger.benchmarks import benchmark
from rankledger.subset import Subset
from rankledger.tables import InputError, fingerprint


@dataclass(frozen=True)
class Asked:
    """One trial: the row of the query, sorted ids of its pool, those excluded, what the qrels hold."""

    query: dict[str, Any]
    everyone: tuple[str, ...]
    members: frozenset[str]
    out: set[str]
    right: dict[str, float]

    @property
    def pool(self) -> list[str]:
        """The pool without the excluded, sorted by id."""
        return [c for c in self.everyone if c not in self.out] if self.out else list(self.everyone)

    def gains(self, ranking: list[str]) -> list[float]:
        """The relevance of each listed candidate of the pool, from the top."""
        return [self.right.get(c, 0.0) for c in ranking if c in self.members and c not in self.out]


@pytest.fixture(scope="session")
def asked() -> Callable[[Subset, str, str], list[Asked]]:
    """The trials of a view of a task, in the order of the query ids."""
    done: dict[tuple[int, str, str], tuple[Subset, list[Asked]]] = {}

    def trials(subset: Subset, task: str, view: str) -> list[Asked]:
        if (id(subset), task, view) not in done:
            done[id(subset), task, view] = subset, list(read(subset, task, view))
        return done[id(subset), task, view][1]

    def read(subset: Subset, task: str, view: str) -> Iterator[Asked]:
        def of_task(row: dict[str, Any]) -> bool:
            return row.get("task", task) == task

        wanted = [row for row in subset.trials.to_pylist() if (row["task"], row["view"]) == (task, view)]
        used = {row["pool_id"] for row in wanted}
        queries = {row["query_id"]: row for row in subset.queries.to_pylist() if of_task(row)}
        pools, right, out = defaultdict(list), defaultdict(dict), defaultdict(set)
        for pool, candidate in zip(*(subset.pools[c].to_pylist() for c in ("pool_id", "candidate_id")), strict=True):
            if pool in used:
                pools[pool].append(candidate)
        ordered = {name: tuple(sorted(pool, key=str.encode)) for name, pool in pools.items()}
        members = {name: frozenset(pool) for name, pool in pools.items()}
        assert all(len(members[name]) == len(pool) for name, pool in pools.items())
        for row in filter(of_task, subset.qrels.to_pylist()):
            assert row["candidate_id"] not in right[row["query_id"]]
            right[row["query_id"]][row["candidate_id"]] = row["relevance"]
        for row in filter(of_task, subset.exclusions.to_pylist()):
            out[row["query_id"]].add(row["candidate_id"])
        for row in sorted(wanted, key=lambda row: row["query_id"]):
            assert row["repeat"] == 0
            query, pool = row["query_id"], row["pool_id"]
            yield Asked(queries[query], ordered[pool], members[pool], out[query], right[query])

    return trials


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Subset, list[str]]]:
    """Build a benchmark: from a folder of raw files, or from its sample; each only once."""
    done: dict[str, tuple[Subset, list[str]]] = {}

    def build(name: str, raw: Path | None = None, **parameters: Any) -> tuple[Subset, list[str]]:
        key = json.dumps([name, str(raw), parameters], sort_keys=True)
        if key not in done:
            found = benchmark(name)
            if raw is None:
                raw = tmp_path_factory.mktemp(name)
                found.sample(raw)
            done[key] = found.build(raw, found.parameters(parameters))
        return done[key]

    return build


@pytest.fixture
def edited(tmp_path: Path) -> Callable[..., Subset]:
    """Build a benchmark from its sample after a change to the content of one raw file."""

    def build(name: str, file: str, change: Callable[[Any], Any], **parameters: Any) -> Subset:
        found = benchmark(name)
        found.sample(tmp_path)
        content = json.loads((tmp_path / file).read_bytes())
        changed = change(content)
        (tmp_path / file).write_text(json.dumps(content if changed is None else changed))
        return found.build(tmp_path, found.parameters(parameters))[0]

    return build


@pytest.fixture
def refusal(edited: Callable[..., Subset]) -> Callable[..., str]:
    """The one line with which a benchmark refuses its sample after a change to one raw file."""

    def message(name: str, file: str, change: Callable[[Any], Any], **parameters: Any) -> str:
        with pytest.raises(InputError) as caught:
            edited(name, file, change, **parameters)
        line = str(caught.value)
        assert "\n" not in line
        assert file in line
        return line

    return message


@pytest.fixture(scope="session")
def fingerprints() -> Callable[[Subset], dict[str, str]]:
    """The fingerprint of each table."""
    return lambda subset: {name: fingerprint(content) for name, content in subset.tables().items()}
