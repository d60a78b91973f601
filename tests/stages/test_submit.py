"""`rankledger submit`: files from a run, against a plain ranking; files from elsewhere, in and outside a project."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.predict import predict
from tests.golden.conftest import Official
from tests.projects import Done, Small

Lists = dict[str, list[str]]
SAMPLE = {"source": "sample"}


@pytest.fixture(scope="module")
def projects(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Small]:
    """The official CIRR or CIRCO, built, with the run `chance`."""
    made: dict[str, Small] = {}

    def get(name: str) -> Small:
        if name not in made:
            folder = tmp_path_factory.mktemp("submit") / name
            Official(folder, name, {}, shared / "mirror").make()
            made[name] = Small(folder)
            predict(made[name], name)
            with (folder / "params.yaml").open("a") as file:
                file.write("runs: {}\n")
            made[name].list_run("chance", name, similarity="dot")
        return made[name]

    return get


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return Small.make(tmp_path_factory.mktemp("submit") / "sample", {"cirr": SAMPLE, "genecis": SAMPLE})


def vectors(project: Small, name: str, side: str) -> tuple[list[str], np.ndarray]:
    table = pq.read_table(project.predictions("chance", name) / f"{side}.parquet")
    return table["id"].to_pylist(), np.array(table["embedding"].to_pylist()).astype(np.int64)


def best(scores: dict[str, int], k: int) -> list[str]:
    return sorted(scores, key=lambda c: (scores[c], c.encode()), reverse=True)[:k]


def content(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes())


def test_chance_on_cirr_is_ranked_as_a_plain_sort_does(projects: Callable[[str], Small], tmp_path: Path) -> None:
    project = projects("cirr")
    done = project.run("submit", "chance", "cirr", "--out", tmp_path)
    assert done.code == 0
    names = ["chance-cirr-recall.json", "chance-cirr-recall_subset.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    assert done.out.count("all 11 checks passed") == 2
    subset = project.built("cirr")
    images, right = vectors(project, "cirr", "image")
    queries, left = vectors(project, "cirr", "query")
    pools: dict[str, list[str]] = {}
    for pool, candidate in zip(
        subset.pools["pool_id"].to_pylist(), subset.pools["candidate_id"].to_pylist(), strict=True
    ):
        pools.setdefault(pool, []).append(candidate)
    gallery = [i for i, name in enumerate(images) if name in set(pools["test1/gallery"])]
    products = dict(zip(queries, left @ right[gallery].T, strict=True))
    wanted: list[Lists] = [{}, {}]
    for row in subset.queries.to_pylist():
        if row["task"] == "test1":
            query = row["query_id"]
            scores = {images[i]: s for i, s in zip(gallery, products[query].tolist(), strict=True)}
            scores.pop(row["reference_id"])
            wanted[0][query] = best(scores, 50)
            wanted[1][query] = best({c: scores[c] for c in pools[f"test1/group/{query}"]}, 3)
    for name, metric, lists in zip(names, ["recall", "recall_subset"], wanted, strict=True):
        assert content(tmp_path / name) == {"version": "rc2", "metric": metric, **lists}
        checked = project.run("submit", "--check", tmp_path / name, "--json")
        assert checked.code == 0
        found = json.loads(checked.out)
        assert (found["ok"], found["ids_looked_up"], found["benchmark"]) == (True, True, "cirr")
        assert [c["ok"] for c in found["checks"]] == [True] * 11


def test_chance_on_circo_is_ranked_as_a_plain_sort_does(projects: Callable[[str], Small], tmp_path: Path) -> None:
    project = projects("circo")
    done = project.run("submit", "chance", "circo", "--out", tmp_path)
    assert done.code == 0
    assert "all 7 checks passed" in done.out
    found = content(tmp_path / "chance-circo-test.json")
    assert list(found) == list(map(str, range(800)))
    images, right = vectors(project, "circo", "image")
    queries, left = vectors(project, "circo", "test_query")
    for query in ("0", "1", "17", "399", "799"):
        scores = dict(zip(images, (right @ left[queries.index(query)]).tolist(), strict=True))
        assert found[query] == list(map(int, best(scores, 50)))
    assert project.run("submit", "--check", tmp_path / "chance-circo-test.json").code == 0


def test_real_files_and_changed_copies_in_a_project(
    projects: Callable[[str], Small], shared: Path, tmp_path: Path
) -> None:
    for name, file in [
        ("cirr", "test1_pred_ranks_recall.json"),
        ("cirr", "test1_pred_ranks_recall_subset.json"),
        ("circo", "submission_test.json"),
    ]:
        done = projects(name).run("submit", "--check", shared / "runs" / name / file)
        assert done.code == 0
        assert "checks passed\n" in done.out
    copy = content(shared / "runs" / "cirr" / "test1_pred_ranks_recall.json")
    queries = {q["query_id"]: q for q in projects("cirr").built("cirr").queries.to_pylist()}
    copy["12063"][3] = queries["12063"]["reference_id"]
    (tmp_path / "copy.json").write_text(json.dumps(copy))
    done = projects("cirr").run("submit", "--check", tmp_path / "copy.json")
    assert done.code == 1
    assert "failed  reference  1 lists name the query's own reference: '12063'\n" in done.out
    assert done.out.splitlines()[-1] == f"{tmp_path / 'copy.json'}: 1 of 11 checks failed"
    done = projects("cirr").run("submit", "--check", shared / "runs" / "circo" / "submission_val.json")
    assert done.code == 1
    assert "failed  queries    220 of 800\n" in done.out
    assert "ids were not looked up: the subset of circo is not built (`dvc repro build@circo`)" in done.out


def test_outside_a_project_the_form_alone_is_checked(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Small(tmp_path)
    done = outside.run("submit", "--check", shared / "runs" / "circo" / "submission_test.json")
    assert done.code == 0
    assert done.out.endswith("all 5 checks passed; ids were not looked up: there is no project here\n")
    done = outside.run("submit", "--check", shared / "runs" / "circo" / "submission_val.json", "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert (found["file"], found["ok"], found["ids_looked_up"]) == ("submission_val.json", False, False)
    assert [c for c in found["checks"] if not c["ok"]] == [{"name": "queries", "ok": False, "detail": "220 of 800"}]


def error(done: Done) -> str:
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert not done.out
    return done.err.removeprefix("error: ").rstrip()


def test_unreadable_files(shared: Path, tmp_path: Path) -> None:
    outside = Small(tmp_path)
    assert "no such file" in error(outside.run("submit", "--check", "absent.json"))
    assert "not JSON" in error(
        outside.run("submit", "--check", shared / "runs" / "cirr" / "cirr_stageII_labels_val.pt")
    )


@pytest.mark.parametrize(
    "arguments", [(), ("mymodel",), ("mymodel", "cirr", "--check", "a.json"), ("mymodel", "--check", "a.json")]
)
def test_usage(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = Small(tmp_path).run("submit", *arguments)
    assert done.code == 2
    assert "give a run and a benchmark, or --check FILE" in done.err


# Runs on the sample -----------------------------------------------------------------------------------------


def asked(project: Small) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Of test1: query, reference, gallery without it, group without it."""
    subset = project.built("cirr")
    pools: dict[str, list[str]] = {}
    for row in subset.pools.to_pylist():
        pools.setdefault(row["pool_id"], []).append(row["candidate_id"])
    for row in subset.queries.to_pylist():
        if row["task"] == "test1":
            query, own = row["query_id"], row["reference_id"]
            gallery, group = pools["test1/gallery"], pools[f"test1/group/{query}"]
            yield query, own, [c for c in gallery if c != own], [c for c in group if c != own]


def rankings(lists: Lists) -> pa.Table:
    return pa.table({"query_id": list(lists), "candidate_ids": list(lists.values())})


def test_rankings_with_and_without_the_group(sample: Small, tmp_path: Path) -> None:
    whole, top, own = {}, {}, {}
    for query, reference, gallery, group in asked(sample):
        whole[query] = [reference, *gallery[::-1]]
        others = [c for c in gallery if c not in group]
        top[query] = [*others[:30], reference, *others[30:50]]
        own[query] = group[::-1]
    sample.place("whole", "cirr", {"test1": rankings(whole)})
    done = sample.run("submit", "whole", "cirr", "--out", tmp_path / "whole")
    assert done.code == 0
    assert done.out.endswith("note: cirr is the made-up sample here, of which the server knows nothing\n")
    made = [content(tmp_path / "whole" / f"whole-cirr-{name}.json") for name in ("recall", "recall_subset")]
    for query, _, gallery, group in asked(sample):
        assert made[0][query] == gallery[::-1][:50]
        assert made[1][query] == [c for c in gallery[::-1] if c in group][:3]

    sample.place("top", "cirr", {"test1": rankings(top)})
    done = sample.run("submit", "top", "cirr", "--out", tmp_path / "top")
    assert done.code == 0
    assert [p.name for p in (tmp_path / "top").iterdir()] == ["top-cirr-recall.json"]
    notes = [line for line in done.out.splitlines() if line.startswith("note: no recall_subset file: ")]
    assert len(notes) == 1
    assert notes[0].endswith("; add test1_subset.parquet")

    sample.place("both", "cirr", {"test1": rankings(top), "test1_subset": rankings(own)})
    done = sample.run("submit", "both", "cirr", "--out", tmp_path / "both", "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert [(f["file"], f["ok"]) for f in found["files"]] == [
        ("both-cirr-recall.json", True),
        ("both-cirr-recall_subset.json", True),
    ]
    made = [content(tmp_path / "both" / f"both-cirr-{name}.json") for name in ("recall", "recall_subset")]
    for query, reference, _, group in asked(sample):
        assert made[0][query] == [c for c in top[query] if c != reference]
        assert made[1][query] == group[::-1][:3]

    sample.place("group", "cirr", {"test1_subset": rankings(own)})
    done = sample.run("submit", "group", "cirr", "--out", tmp_path / "group")
    assert done.code == 0
    assert [p.name for p in (tmp_path / "group").iterdir()] == ["group-cirr-recall_subset.json"]
    assert "note: no recall file: group has no predictions for test1\n" in done.out


def test_equal_scores_go_by_id_downwards(sample: Small, tmp_path: Path) -> None:
    rows: dict[str, list[Any]] = {"query_id": [], "candidate_id": [], "score": []}
    for query, reference, gallery, _ in asked(sample):
        rows["query_id"] += [query] * (1 + len(gallery))
        rows["candidate_id"] += [reference, *gallery]
        rows["score"] += [9.0] + [float(i == 0) for i in range(len(gallery))]
    sample.place("flat", "cirr", {"test1": pa.table({**rows, "score": pa.array(rows["score"], pa.float32())})})
    assert sample.run("submit", "flat", "cirr", "--out", tmp_path).code == 0
    made = [content(tmp_path / f"flat-cirr-{name}.json") for name in ("recall", "recall_subset")]
    for query, _, gallery, group in asked(sample):
        down = sorted(gallery[1:], key=str.encode, reverse=True)
        assert made[0][query] == [gallery[0], *down][:50]
        assert made[1][query] == [c for c in [gallery[0], *down] if c in group][:3]


def test_the_reference_never_enters_a_cirr_file(tmp_path: Path) -> None:
    """Not even where the subset keeps it."""
    project = Small.make(tmp_path / "kept", {"cirr": {**SAMPLE, "reference": "kept"}})
    lists = {
        query: [reference, *group, *(c for c in gallery if c not in group)]
        for query, reference, gallery, group in asked(project)
    }
    project.place("mine", "cirr", {"test1": rankings(lists)})
    assert project.run("submit", "mine", "cirr", "--out", tmp_path / "out").code == 0
    for query, reference, _, group in asked(project):
        assert (
            content(tmp_path / "out" / "mine-cirr-recall.json")[query]
            == [c for c in lists[query] if c != reference][:50]
        )
        assert content(tmp_path / "out" / "mine-cirr-recall_subset.json")[query] == group[:3]


def test_what_a_run_may_lack(sample: Small, tmp_path: Path) -> None:
    short = {query: gallery[:49] for query, _, gallery, _ in asked(sample)}
    first = next(iter(short))
    sample.place("short", "cirr", {"test1": rankings(short)})
    said = error(sample.run("submit", "short", "cirr", "--out", tmp_path))
    assert said.startswith(f"test1 of short: {len(short)} of {len(short)} rankings are too short: '{first}', ")
    sample.place("less", "cirr", {"test1": rankings({q: v for q, v in short.items() if q != first})})
    assert f"queries of test1 are missing: '{first}'" in error(sample.run("submit", "less", "cirr", "--out", tmp_path))
    val = {q["query_id"]: ["x"] for q in sample.built("cirr").queries.to_pylist() if q["task"] == "val"}
    sample.place("val", "cirr", {"val": rankings(val)})
    assert "no recall file: val has no predictions for test1" in error(
        sample.run("submit", "val", "cirr", "--out", tmp_path)
    )
    assert "runs lists no nobody-cirr" in error(sample.run("submit", "nobody", "cirr"))
    assert "genecis: no server scores it" in error(sample.run("submit", "short", "genecis"))
    assert "no benchmark 'cirrr'" in error(sample.run("submit", "short", "cirrr"))
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    sample.place("fine", "cirr", {"test1": rankings({q: v for q, _, v, _ in asked(sample)})})
    error(sample.run("submit", "fine", "cirr", "--out", tmp_path / "file"))


def test_a_subset_that_is_not_built_or_made_up(tmp_path: Path, shared: Path, sample: Small) -> None:
    bare = Small(tmp_path)
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "params.yaml").write_text("benchmarks: {cirr: {source: sample}}\nruns: {}\n")
    bare.place("mine", "cirr", {})
    assert (
        error(bare.run("submit", "mine", "cirr"))
        == "cirr: its test subset is not built; run `dvc repro build@cirr` first"
    )
    file = shared / "runs" / "cirr" / "test1_pred_ranks_recall.json"
    assert "the subset of cirr is not built" in bare.run("submit", "--check", file).out
    done = sample.run("submit", "--check", file)
    assert done.code == 0
    assert done.out.endswith(
        "ids were not looked up: cirr is the made-up sample here (`source: official` in params.yaml)\n"
    )
