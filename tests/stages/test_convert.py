"""`rankledger convert` anywhere, and what it makes in the hands of `score`."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rankledger.benchmarks import benchmark
from rankledger.scoring import score
from rankledger.tables import read_table
from tests.golden.conftest import Official, values
from tests.projects import Small


@pytest.fixture(scope="module")
def circo(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Official:
    return Official(tmp_path_factory.mktemp("convert") / "circo", "circo", {}, shared / "mirror").make()


@pytest.fixture
def outside(tmp_path: Path) -> Small:
    """A folder that is no project."""
    return Small(tmp_path)


@pytest.mark.parametrize("as_strings", [False, True])
def test_circos_example_of_val_scores_to_its_golden_values(
    circo: Official, outside: Small, shared: Path, as_strings: bool
) -> None:
    path = shared / "runs" / "circo" / "submission_val.json"
    if as_strings:
        turned = {q: list(map(str, v)) for q, v in reversed(json.loads(path.read_bytes()).items())}
        path = outside.root / "turned.json"
        path.write_text(json.dumps(turned))
    done = outside.run("convert", path, "--out", "val.parquet")
    assert (done.code, done.out) == (0, "val.parquet: rankings of 220 queries, 50 deep\n")
    found = values(circo.score(val=pq.read_table(outside.root / "val.parquet")), "val")
    assert [found[f"mAP@{k}"] for k in (5, 10, 25, 50)] == [0.4861, 0.5178, 0.5400, 0.6020]
    assert [found[f"R@{k}"] for k in (5, 10, 25, 50)] == [0.9091, 0.9091, 1.3636, 3.6364]


def test_circos_example_of_test_is_accepted_as_predictions(circo: Official, outside: Small, shared: Path) -> None:
    assert outside.run("convert", shared / "runs/circo/submission_test.json", "--out", "test.parquet").code == 0
    scored = circo.score(test=pq.read_table(outside.root / "test.parquet"))
    assert not scored.values
    assert any("`rankledger submit`" in note for note in scored.notes)


FRENCH = {
    "tres-facile": "Très facile",
    "facile": "FACILE",
    "moyennement-difficile": "moyennement  difficile",
    "difficile": "Difficile ",
    "entree": "Entrée",
    "plat-principal": "plat-principal",
    "dessert": " DESSERT",
}


def test_deft_submissions_of_the_right_answers_are_perfect(outside: Small) -> None:
    project = Small.make(outside.root / "deft", {"deft2013": {"source": "sample"}})
    subset, files = project.built("deft2013"), {}
    right: dict[str, dict[str, list[str]]] = {}
    for row in subset.qrels.to_pylist():
        right.setdefault(row["task"], {}).setdefault(row["query_id"], []).append(row["candidate_id"])
    lines = {
        task: [f"{q}\t{FRENCH.get(names[0], names[0])}\r\n" for q, names in right[task].items()]
        for task in ("difficulty", "dish_type", "title")
    }
    lines["ingredients"] = [
        f"{q} 0 {name}\t9 {100 - i} run1\n"
        for q, names in right["ingredients"].items()
        for i, name in enumerate([*names, "poudre-de-perlimpinpin"])
    ]
    for task, text in lines.items():
        (outside.root / f"{task}.txt").write_text("".join(text), newline="")
        done = outside.run("convert", f"{task}.txt", "--out", f"{task}.parquet")
        assert (done.code, done.err) == (0, "")
        files[task] = outside.root / f"{task}.parquet"
    found = benchmark("deft2013")
    scored = score(subset, found.plan(found.parameters(None)), files)
    assert {v.mean for v in scored.values.values()} == {1.0}
    assert {key[0] for key in scored.values} == {"difficulty", "dish_type", "title", "ingredients"}


def test_a_matrix_and_the_same_embeddings(outside: Small) -> None:
    random = np.random.default_rng(0)
    left, right = random.integers(-9, 9, (4, 3)).astype(np.float32), random.integers(-9, 9, (6, 3)).astype(np.float32)
    np.save(outside.root / "m.npy", left @ right.T)
    np.savez(outside.root / "q.npz", vectors=left, ids=np.arange(4))
    (outside.root / "q.txt").write_text("0\n1\n2\n3\n")
    (outside.root / "c.json").write_text('["a", "b", "c", "d", "e", "f"]')
    done = outside.run("convert", "m.npy", "--ids", "q.txt", "--candidates", "c.json", "--out", "x/val.parquet")
    assert (done.code, done.out) == (0, "x/val.parquet: scores of 24 pairs, 4 queries × 6 candidates\n")
    found = read_table(outside.root / "x" / "val.parquet")
    assert np.array_equal(np.asarray(found["score"]).reshape(4, 6), left @ right.T)
    done = outside.run("convert", "q.npz", "--out", "query.parquet")
    assert (done.code, done.out) == (0, "query.parquet: embeddings of 4 ids, 3 components\n")


def test_two_stages(outside: Small) -> None:
    for name, lists in (("base", {"1": [3, 1, 2], "2": [1, 2, 3]}), ("head", {"2": [2, 3]})):
        (outside.root / f"{name}.json").write_text(json.dumps(lists))
        assert outside.run("convert", f"{name}.json", "--out", f"{name}.parquet").code == 0
    done = outside.run("convert", "--head", "head.parquet", "--over", "base.parquet", "--out", "val.parquet")
    said = "rankings of 2 queries, 1 with a head of 2; 1 heads are no permutation of the base's top"
    assert (done.code, done.out) == (0, f"val.parquet: {said}\n")
    found = pq.read_table(outside.root / "val.parquet").to_pylist()
    assert [row["candidate_ids"] for row in found] == [["3", "1", "2"], ["2", "3", "1"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "val.parquet"], "convert takes one file"),
        (["a.json", "--head", "a.json", "--over", "a.json", "--out", "val.parquet"], "convert takes one file"),
        (["--head", "a.json", "--out", "val.parquet"], "convert takes one file"),
        (["--head", "a.json", "--over", "a.json", "--ids", "a.json", "--out", "val.parquet"], "convert takes one file"),
        (["a.json", "--out", "val"], "val: the output is Parquet; call it <task>.parquet"),
        (["absent", "--out", "val.parquet"], "absent: no such file"),
        (["a.json", "--out", "a.json/val.parquet"], "a.json"),
        (["a.json", "--out", "folder.parquet"], "folder.parquet"),
        (["--head", "a.json", "--over", "a.json", "--out", "val.parquet"], "a.json: not a whole Parquet file"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(outside: Small, arguments: list[str], said: str) -> None:
    (outside.root / "a.json").write_text('{"1": [2]}')
    (outside.root / "folder.parquet").mkdir()
    done = outside.run("convert", *arguments)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert sorted(p.name for p in outside.root.iterdir()) == ["a.json", "folder.parquet"]
