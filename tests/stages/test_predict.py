"""The runs that ship with the project: chance is a hash, sample knows the right answers, both are whole numbers."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rankledger.tables import read_json
from tests.projects import Small

NAMES = ("cirr", "visual_genome", "deft2013")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    made = Small.make(tmp_path_factory.mktemp("predict") / "project", {name: {"source": "sample"} for name in NAMES})
    for name in NAMES:
        assert made.run("predict", name).code == 0
    return made


def vectors(project: Small, run: str, name: str) -> dict[str, dict[str, np.ndarray]]:
    """By side and id."""
    found = {}
    for path in project.predictions(run, name).iterdir():
        table = pq.read_table(path)
        if "embedding" in table.column_names:
            rows = zip(table["id"].to_pylist(), table["embedding"].to_pylist(), strict=True)
            found[path.stem] = {one: np.array(vector) for one, vector in rows}
    return found


def labels(project: Small, run: str, task: str) -> dict[str, str]:
    table = pq.read_table(project.predictions(run, "deft2013") / f"{task}.parquet")
    return dict(zip(table["query_id"].to_pylist(), table["label"].to_pylist(), strict=True))


def hashed(text: str) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in hashlib.sha256(text.encode()).digest()]


@pytest.mark.parametrize("name", NAMES)
def test_chance_is_the_signed_bytes_of_a_hash(name: str, project: Small) -> None:
    universe = project.built(name).universe
    found = vectors(project, "chance", name)
    wanted: dict[str, list[str]] = defaultdict(list)
    for row in universe.to_pylist():
        if row["side"] in found:
            wanted[row["side"]].append(row["id"])
    assert {side: sorted(ids) for side, ids in wanted.items()} == {side: sorted(v) for side, v in found.items()}
    for side, each in found.items():
        for one, vector in each.items():
            assert vector.tolist() == hashed(f"{side}/{one}")


def test_vectors_are_stored_as_float32(project: Small) -> None:
    table = pq.read_table(project.predictions("chance", "cirr") / "image.parquet")
    assert table.schema.field("embedding").type.value_type == pa.float32()


SIDES = {  # task → the side that moves, the other one, whether the moving side asks
    "cirr": {"val": ("query", "image", True)},
    "visual_genome": {"graph2image": ("image", "graph", False)},
    "deft2013": {"title": ("title", "recipe", False), "ingredients": ("ingredient", "recipe", False)},
}


@pytest.mark.parametrize("name", NAMES)
def test_sample_adds_the_vectors_of_the_right_ones(name: str, project: Small) -> None:
    qrels = project.built(name).qrels.to_pylist()
    asked = {(r["task"], r["query_id"]) for r in project.built(name).queries.to_pylist()}
    chance, sample = vectors(project, "chance", name), vectors(project, "sample", name)
    wanted = {side: {one: vector.copy() for one, vector in each.items()} for side, each in chance.items()}
    for task, (side, other, asks) in SIDES[name].items():
        for row in qrels:
            if row.get("task", task) == task and (task, row["query_id"]) in asked:
                pair = (row["query_id"], row["candidate_id"])
                mover, right = pair if asks else pair[::-1]
                wanted[side][mover] += chance[other][right]
    for side in sample:
        assert {one: v.tolist() for one, v in sample[side].items()} == {
            one: v.tolist() for one, v in wanted[side].items()
        }
    moved = {side for side, each in sample.items() if any((v != chance[side][one]).any() for one, v in each.items())}
    assert moved == {side for side, _, _ in SIDES[name].values()}


def test_hidden_queries_are_as_in_chance(project: Small) -> None:
    queries = project.built("cirr").queries
    chance, sample = (vectors(project, run, "cirr")["query"] for run in ("chance", "sample"))
    for task, same in (("test1", True), ("val", False)):
        for query in queries.filter(pc.equal(queries["task"], task))["query_id"].to_pylist():
            assert (chance[query] == sample[query]).all() == same


def test_labels_are_by_hash_or_right_for_a_share(project: Small) -> None:
    subset = project.built("deft2013")
    for task, classes in (("difficulty", 4), ("dish_type", 3)):
        right = {r["query_id"]: r["candidate_id"] for r in subset.qrels.to_pylist() if r["task"] == task}
        chance, sample = labels(project, "chance", task), labels(project, "sample", task)
        assert chance.keys() == sample.keys() == right.keys()
        hits: Mapping[str, float] = {
            name: sum(found[q] == right[q] for q in right) / len(right)
            for name, found in (("chance", chance), ("sample", sample))
        }
        spread = 4 * 0.5 / len(right) ** 0.5
        assert abs(hits["chance"] - 1 / classes) < spread
        assert abs(hits["sample"] - (0.6 + 0.4 / classes)) < spread
        assert len(set(chance.values())) == classes
        assert all(sample[q] in (chance[q], right[q]) for q in right)


def test_the_same_bytes_each_time(project: Small) -> None:
    def content() -> dict[str, str]:
        return {name: digest for name, digest in project.snapshot().items() if name.startswith("data/predictions")}

    before = content()
    (project.predictions("chance", "cirr") / "left over.parquet").touch()
    for name in NAMES:
        assert project.run("predict", name).code == 0
    assert content() == before


def test_both_runs_score_and_sample_is_far_better(project: Small) -> None:
    for name in NAMES:
        for run in ("chance", "sample"):
            project.list_run(run, name, similarity="dot")
            done = project.run("score", run, name)
            assert (done.code, done.err) == (0, ""), done.err
    assert project.run("report").code == 0
    found = read_json(project.root / "reports" / "metrics.json")
    better = [
        ("cirr", "val", "R@1"),
        ("visual_genome", "image2graph", "R@10"),
        ("deft2013", "title", "MRR"),
        ("deft2013", "difficulty", "P_micro"),
    ]
    for name, task, metric in better:
        assert found["sample"][name][task][metric] > 1.5 * found["chance"][name][task][metric]


def test_without_a_subset_it_says_what_to_do(tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = Small.make(tmp_path_factory.mktemp("empty") / "project", {})
    done = empty.run("predict", "cirr")
    assert done.code == 2
    assert "run `dvc repro build@cirr` first" in done.err
