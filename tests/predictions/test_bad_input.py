"""Each thing that can be wrong with predictions, given to `rankledger add` and lying there for `rankledger score`.

Every one ends in exit code 2 and one message that names the file, how many rows, the first few and what to do, and
leaves the project as it was.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.projects import Small

Tables = dict[str, pa.Table]
BENCHMARKS: Mapping[str, Mapping[str, Any]] = {
    "genecis": {"source": "sample", "tasks": ["change_object", "focus_object"]},
    "cirr": {"source": "sample"},
    "deft2013": {"source": "sample"},
    "recipe1m": {"source": "sample", "sizes": [20, 50], "repeats": 2, "ten_way": False},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    made = Small.make(tmp_path_factory.mktemp("bad") / "project", BENCHMARKS)
    for name in BENCHMARKS:
        made.list_run("bad", name)
    return made


@pytest.fixture(scope="module")
def good(project: Small) -> Mapping[str, Tables]:
    """Predictions that nothing is wrong with, by a name for their kind; tests break copies."""
    return {
        "scores": {"change_object": scores(project)},
        "ranking": {"val": ranking(project)},
        "long": {"val": long(ranking(project))},
        "embeddings": embeddings(project),
        "labels": {"difficulty": labels(project)},
        "median": {"im2recipe": recipes(project)},
    }


def scores(project: Small) -> pa.Table:
    trials = project.built("genecis").pools
    mine = trials.filter(pc.starts_with(trials["pool_id"], "change_object/"))
    values = np.random.default_rng(1).normal(size=len(mine)).astype(np.float32)
    return pa.table({"query_id": mine["pool_id"], "candidate_id": mine["candidate_id"], "score": values})


def ids(table: pa.Table, column: str, value: str, wanted: str) -> list[str]:
    return sorted(table.filter(pc.equal(table[column], value))[wanted].to_pylist())


def ranking(project: Small) -> pa.Table:
    subset = project.built("cirr")
    queries, gallery = (
        ids(subset.queries, "task", "val", "query_id"),
        ids(subset.pools, "pool_id", "val/gallery", "candidate_id"),
    )
    return pa.table({"query_id": queries, "candidate_ids": [gallery[:60]] * len(queries)})


def long(lists: pa.Table) -> pa.Table:
    rows = [
        (query, candidate, place + 1)
        for query, names in zip(lists["query_id"].to_pylist(), lists["candidate_ids"].to_pylist(), strict=True)
        for place, candidate in enumerate(names)
    ]
    return pa.table(dict(zip(("query_id", "candidate_id", "rank"), zip(*rows, strict=True), strict=True)))


def embeddings(project: Small) -> Tables:
    subset, rng = project.built("cirr"), np.random.default_rng(2)
    sides = {
        "query": ids(subset.queries, "task", "val", "query_id"),
        "image": ids(subset.pools, "pool_id", "val/gallery", "candidate_id"),
    }
    return {side: vectors(names, rng.normal(size=(len(names), 8))) for side, names in sides.items()}


def vectors(names: list[str], values: np.ndarray) -> pa.Table:
    return pa.table({"id": names, "embedding": [row.tolist() for row in values.astype(np.float32)]})


def labels(project: Small) -> pa.Table:
    queries = ids(project.built("deft2013").queries, "task", "difficulty", "query_id")
    return pa.table({"query_id": queries, "label": ["facile"] * len(queries)})


def recipes(project: Small) -> pa.Table:
    names = sorted(set(project.built("recipe1m").pools["candidate_id"].to_pylist()))
    return pa.table({"query_id": names, "candidate_ids": [names] * len(names)})


# ---- changes -----------------------------------------------------------------------------------------------


def put(table: pa.Table, column: str, row: int, value: object) -> pa.Table:
    """The table with one other value."""
    values = table[column].to_pylist()
    values[row] = value
    return replace(table, column, pa.array(values, None if value is None else table[column].type))


def replace(table: pa.Table, column: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)


def again(table: pa.Table, rows: int) -> pa.Table:
    """The table with its first rows a second time."""
    return pa.concat_tables([table, table.slice(0, rows)])


def cast(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda table: replace(table, column, table[column].cast(kind))


def numbers(column: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: replace(table, column, pa.array([1.5] * len(table)))


def nested(column: str, value: object, kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    return lambda table: replace(table, column, pa.array([value] * len(table), kind))


def one_vector(value: object, kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table["embedding"].to_pylist()
        values[3] = value
        return replace(table, "embedding", pa.array(values, kind))

    return change


def short(table: pa.Table, length: int, rows: int) -> pa.Table:
    lists = table["candidate_ids"].to_pylist()
    return replace(table, "candidate_ids", pa.array([x[:length] if i < rows else x for i, x in enumerate(lists)]))


def twice_in_list(table: pa.Table) -> pa.Table:
    lists = table["candidate_ids"].to_pylist()
    return replace(table, "candidate_ids", pa.array([[*lists[0], lists[0][0]], *lists[1:]]))


def unranked(table: pa.Table) -> pa.Table:
    """No list holds the right recipe, nor 30 others."""
    names = table["query_id"].to_pylist()
    return replace(table, "candidate_ids", pa.array([(names[i + 1 :] + names[:i])[30:] for i in range(len(names))]))


Change = Callable[[pa.Table], pa.Table]
CASES: dict[str, tuple[str, str, Change, tuple[str, ...]]] = {
    # queries and candidates
    "a query missing": (
        "scores",
        "change_object",
        lambda t: t.filter(pc.invert(pc.is_in(t["query_id"], pa.array(["change_object/0", "change_object/7"])))),
        ("2 of 80 queries", "'change_object/0', 'change_object/7'"),
    ),
    "a query missing from a ranking": ("ranking", "val", lambda t: t.slice(1), ("1 of 250 queries", "'12060'")),
    "a query missing from a long ranking": ("long", "val", lambda t: t.slice(60), ("1 of 250 queries", "'12060'")),
    "an empty list": ("ranking", "val", lambda t: short(t, 0, 2), ("2 of 250 queries", "'12060', '12062'")),
    "a query missing from embeddings": (
        "embeddings",
        "query",
        lambda t: t.slice(2),
        ("2 of 250 queries", "'12060', '12062'"),
    ),
    "a query missing from labels": ("labels", "difficulty", lambda t: t.slice(4), ("4 of 120 queries", "…")),
    "a foreign query": (
        "scores",
        "change_object",
        lambda t: put(put(t, "query_id", 0, "change_object/80"), "query_id", 5, "nobody"),
        ("2 ids of no query of this benchmark: ", "'change_object/80', 'nobody'", "look like 'change_object/0'"),
    ),
    "a foreign query in several rows": (
        "scores",
        "change_object",
        lambda t: put(put(put(t, "query_id", 0, "x"), "query_id", 5, "nobody"), "query_id", 7, "x"),
        ("2 ids of no query of this benchmark, 3 times: ", "'x', 'nobody'"),
    ),
    "a foreign query in a ranking": ("ranking", "val", lambda t: put(t, "query_id", 0, "0"), ("1 id of no ", "'0'")),
    "a foreign query with labels": (
        "labels",
        "difficulty",
        lambda t: put(t, "query_id", 0, "0"),
        ("1 id of no ", "'0'"),
    ),
    "a foreign query among embeddings": ("embeddings", "query", lambda t: put(t, "id", 0, "0"), ("1 id of no ", "'0'")),
    "a foreign candidate": (
        "scores",
        "change_object",
        lambda t: put(t, "candidate_id", 9, "x.jpg"),
        ("1 id of no image", "'x.jpg'"),
    ),
    "a foreign candidate in a ranking": (
        "long",
        "val",
        lambda t: put(t, "candidate_id", 9, "x.jpg"),
        ("1 id of no image", "'x.jpg'", "look like 'dev-0-0-img0'"),
    ),
    "a foreign candidate among embeddings": (
        "embeddings",
        "image",
        lambda t: put(t, "id", 0, "x.jpg"),
        ("1 id of no image", "'x.jpg'"),
    ),
    "a pool candidate without a score": (
        "scores",
        "change_object",
        lambda t: t.slice(2),
        ("2 candidates have no score", "1 of 80 trials", "change_object/0 / "),
    ),
    "a pool candidate without a vector": (
        "embeddings",
        "image",
        lambda t: t.slice(2),
        ("2 of 350 candidates", "'dev-0-0-img0', 'dev-1-1-img1'"),
    ),
    # once only
    "a pair twice": ("scores", "change_object", lambda t: again(t, 3), ("3 pairs", "twice", "change_object/0 / ")),
    "a candidate twice in a list": (
        "ranking",
        "val",
        twice_in_list,
        ("1 pair of query and candidate twice", "12060 / dev-0-0-img0"),
    ),
    "a query twice in a ranking": (
        "ranking",
        "val",
        lambda t: again(t, 2),
        ("2 query ids in more than one row", "'12060', '12062'"),
    ),
    "a pair twice in a long ranking": (
        "long",
        "val",
        lambda t: put(t, "candidate_id", 1, "dev-0-0-img0"),
        ("1 pair of query and candidate twice", "12060 / dev-0-0-img0"),
    ),
    "a rank twice": ("long", "val", lambda t: put(t, "rank", 1, 1), ("1 rank twice", "12060 / ")),
    "a rank of 0": ("long", "val", lambda t: put(t, "rank", 0, 0), ("1 rank below 1", "12060 / dev-0-0-img0")),
    "an id twice among embeddings": (
        "embeddings",
        "image",
        lambda t: again(t, 1),
        ("1 image id in more than one row", "'dev-0-0-img0'"),
    ),
    "a query twice with labels": ("labels", "difficulty", lambda t: again(t, 1), ("1 query id in more than one row",)),
    # values
    "NaN": (
        "scores",
        "change_object",
        lambda t: put(put(t, "score", 0, float("nan")), "score", 1, float("nan")),
        ("2 scores NaN", "change_object/0 / "),
    ),
    "a null score": (
        "scores",
        "change_object",
        lambda t: put(t, "score", 4, None),
        ("1 null in column score", "row 4"),
    ),
    "a null query": (
        "scores",
        "change_object",
        lambda t: put(t, "query_id", 4, None),
        ("1 null in column query_id", "row 4"),
    ),
    "a null list": (
        "ranking",
        "val",
        lambda t: put(t, "candidate_ids", 4, None),
        ("1 null in column candidate_ids", "row 4"),
    ),
    "a null in a list": (
        "ranking",
        "val",
        lambda t: put(t, "candidate_ids", 4, [None]),
        ("1 null inside lists", "'12068'"),
    ),
    "a null rank": ("long", "val", lambda t: put(t, "rank", 4, None), ("1 null in column rank", "row 4")),
    "a null label": ("labels", "difficulty", lambda t: put(t, "label", 4, None), ("1 null in column label", "row 4")),
    "a null vector": ("embeddings", "query", one_vector(None), ("1 null in column embedding", "row 3")),
    "a null in a vector": ("embeddings", "query", one_vector([None] * 8), ("8 nulls inside lists", "'12066'")),
    "an unknown label": (
        "labels",
        "difficulty",
        lambda t: put(put(t, "label", 4, "dur"), "label", 5, "dur"),
        ("2 rows with an unknown label", "'dur'", "tres-facile, facile, moyennement-difficile, difficile"),
    ),
    "a ranking too short": (
        "ranking",
        "val",
        lambda t: short(t, 49, 2),
        ("2 of 250 rankings", "too short", "'12060', '12062'", "at least 50"),
    ),
    "a median among the unranked": (
        "median",
        "im2recipe",
        unranked,
        ("the median rank of im2recipe 20", "20 of 20", "list more"),
    ),
    # types
    "whole numbers as scores": (
        "scores",
        "change_object",
        lambda t: replace(t, "score", pa.array([1] * len(t))),
        ("score is int64",),
    ),
    "texts as scores": ("scores", "change_object", cast("score", pa.string()), ("score is string", "float32")),
    "decimals as scores": ("scores", "change_object", nested("score", 1, pa.decimal128(4)), ("score is decimal",)),
    "fractions as queries": (
        "scores",
        "change_object",
        numbers("query_id"),
        ("query_id is double", "strings or integers"),
    ),
    "fractions as candidates": ("scores", "change_object", numbers("candidate_id"), ("candidate_id is double",)),
    "bytes as queries": ("scores", "change_object", cast("query_id", pa.binary()), ("query_id is binary",)),
    "fractions as ranks": ("long", "val", numbers("rank"), ("rank is double", "1 = best")),
    "texts as ranks": ("long", "val", cast("rank", pa.string()), ("rank is string",)),
    "a text in place of a list": (
        "ranking",
        "val",
        nested("candidate_ids", "a b"),
        ("candidate_ids is string", "lists"),
    ),
    "lists of fractions": (
        "ranking",
        "val",
        nested("candidate_ids", [1.5]),
        ("candidate_ids is list<element: double>",),
    ),
    "fractions as ids of vectors": ("embeddings", "query", numbers("id"), ("id is double",)),
    "numbers as vectors": ("embeddings", "query", numbers("embedding"), ("embedding is double", "lists of floats")),
    "vectors of whole numbers": (
        "embeddings",
        "query",
        nested("embedding", [1, 2]),
        ("embedding is list<element: int64>",),
    ),
    "fractions as labels": ("labels", "difficulty", numbers("label"), ("label is double",)),
    # vectors
    "a vector of another width": (
        "embeddings",
        "query",
        one_vector([1.0] * 7),
        ("1 vector of another width than 8", "12066"),
    ),
    "another width on either side": (
        "embeddings",
        "image",
        nested("embedding", [1.0] * 9),
        ("9 components", "query.parquet have 8"),
    ),
    "empty vectors": (
        "embeddings",
        "query",
        nested("embedding", [], pa.list_(pa.float32())),
        ("250 vectors without components", "'12060'"),
    ),
    "a vector of zeros": ("embeddings", "query", one_vector([0.0] * 8), ("1 vector of zeros only", "12066")),
    "a vector with NaN": (
        "embeddings",
        "query",
        one_vector([float("nan")] * 8),
        ("1 vector with NaN or infinity", "12066"),
    ),
    "a vector with infinity": (
        "embeddings",
        "query",
        one_vector([float("inf")] * 8),
        ("1 vector with NaN or infinity", "12066"),
    ),
    "a vector too long for float64": (
        "embeddings",
        "query",
        one_vector([1e200] * 8, pa.list_(pa.float64())),
        ("1 vector shorter than 1e-150 or longer than 1e+150", "12066", "scale"),
    ),
    "a vector too short for float64": (
        "embeddings",
        "query",
        one_vector([1e-200] * 8, pa.list_(pa.float64())),
        ("1 vector shorter",),
    ),
    # tables
    "no rows": ("scores", "change_object", lambda t: t.slice(0, 0), ("no rows",)),
    "no lists": ("ranking", "val", lambda t: t.slice(0, 0), ("no rows",)),
    "no vectors": ("embeddings", "image", lambda t: t.slice(0, 0), ("no rows",)),
    "a column twice": (
        "scores",
        "change_object",
        lambda t: pa.table([*t.columns, t["score"]], names=[*t.column_names, "score"]),
        ("more than one column has the name 'score'",),
    ),
    "unknown columns": (
        "scores",
        "change_object",
        lambda t: t.rename_columns(["query", "candidate", "score"]),
        ("columns query, candidate, score", "query_id, candidate_id, score", "id, embedding", "query_id, label"),
    ),
}
BENCHMARK_OF = {"scores": "genecis", "labels": "deft2013", "median": "recipe1m"}  # others: cirr
Content = pa.Table | bytes | Mapping[str, "Content"]  # a folder is a mapping


def write(content: Content, path: Path) -> None:
    if isinstance(content, Mapping):
        path.mkdir(parents=True, exist_ok=True)
        for name, part in content.items():
            write(part, path / name)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(content, path)


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def refusal(project: Small, *arguments: object) -> str:
    """The one line with which a command refuses; nothing is written then."""
    before = project.snapshot()
    done = project.run(*arguments)
    assert (done.code, done.out) == (2, ""), done.err
    assert project.snapshot() == before
    assert done.err.startswith("error: ")
    message = done.err.removeprefix("error: ").removesuffix("\n")
    assert "\n" not in message
    assert len(message) < 600
    return message


@pytest.fixture(params=["add", "score"])
def refused(request: pytest.FixtureRequest, project: Small, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Gives files to `add`, or puts them where `score` looks; returns the line with which they are refused."""

    def command(name: str, files: Mapping[str, Content]) -> str:
        folder = tmp_path if request.param == "add" else project.predictions("bad", name)
        write(files, folder)
        if request.param == "add":
            return refusal(project, "add", "new", name, *(folder / file for file in files))
        return refusal(project, "score", "bad", name)

    yield command
    shutil.rmtree(project.root / "data" / "predictions", ignore_errors=True)


@pytest.mark.parametrize("case", CASES)
def test_bad_tables(case: str, good: Mapping[str, Tables], refused: Callable[..., str]) -> None:
    kind, broken, change, said = CASES[case]
    tables = {name: change(table) if name == broken else table for name, table in good[kind].items()}
    message = refused(BENCHMARK_OF.get(kind, "cirr"), {f"{name}.parquet": table for name, table in tables.items()})
    assert f"{broken}.parquet: " in message
    for part in said:
        assert part in message


@pytest.mark.parametrize("kind", ["scores", "ranking", "long", "embeddings", "labels", "median"])
def test_the_tables_are_good_until_they_are_broken(kind: str, good: Mapping[str, Tables], project: Small) -> None:
    """Otherwise a refusal above may have another cause."""
    name = BENCHMARK_OF.get(kind, "cirr")
    write({f"{file}.parquet": table for file, table in good[kind].items()}, project.predictions("bad", name))
    done = project.run("score", "bad", name)
    shutil.rmtree(project.root / "data" / "predictions")
    shutil.rmtree(project.root / "data" / "scores")
    assert (done.code, done.err) == (0, "")


def cut(table: pa.Table) -> bytes:
    content = as_bytes(table)
    return content[: len(content) // 2]


def damaged(table: pa.Table) -> bytes:
    """The footer is whole, the data are not."""
    content = bytearray(as_bytes(table))
    content[4:400] = bytes(396)
    return bytes(content)


def no_text(table: pa.Table) -> pa.Table:
    ids = pa.array([b"\xff\xfe"] * len(table), pa.binary())
    return replace(table, "query_id", pa.Array.from_buffers(pa.string(), len(table), ids.buffers()))


FILES: dict[str, tuple[Callable[[pa.Table], Mapping[str, Content]], str, tuple[str, ...]]] = {
    "cut off": (lambda t: {"val.parquet": cut(t)}, "val.parquet", ("not a whole Parquet file", "write it again")),
    "damaged": (lambda t: {"val.parquet": damaged(t)}, "val.parquet", ("not a whole Parquet file", "write it again")),
    "a text file": (
        lambda t: {"val.parquet": b"query_id,candidate_ids\n1,a b\n"},
        "val.parquet",
        ("not a whole Parquet file", "it looks like CSV", "pl.read_csv('val.parquet', schema_overrides="),
    ),
    "a TREC run": (
        lambda t: {"val.parquet": b"1 Q0 a 1 0.5 x\n"},
        "val.parquet",
        ("not a whole Parquet file", "`rankledger convert` makes one of a TREC run"),
    ),
    "an empty file": (lambda t: {"val.parquet": b""}, "val.parquet", ("not a whole Parquet file",)),
    "ids that are no text": (lambda t: {"val.parquet": no_text(t)}, "val.parquet", ("UTF8",)),
    "a folder without parts": (lambda t: {"val": {}}, "val", ("empty folder", "Parquet")),
    "a folder of hidden files": (lambda t: {"val": {".part-0.parquet": t, "_SUCCESS": b""}}, "val", ("empty folder",)),
    "a part that is no Parquet": (
        lambda t: {"val": {"a.parquet": t, "notes.txt": b"x"}},
        "val/notes.txt",
        ("not a whole",),
    ),
    "parts of two schemas": (
        lambda t: {"val": {"a.parquet": long(t), "b.parquet": t}},
        "val/b.parquet",
        ("other columns than a.parquet", "candidate_ids"),
    ),
    "a query in two parts": (
        lambda t: {"val": {"a.parquet": t, "b.parquet": t.slice(0, 1)}},
        "val",
        ("1 query id", "'12060'"),
    ),
    "an unknown name among others": (
        lambda t: {"val.parquet": t, "vall.parquet": t},
        "vall.parquet",
        ("'vall' is no task or side", "val, test1, val_subset, test1_subset", "query, image"),
    ),
    "a ranking named after a side": (lambda t: {"image.parquet": t}, "image.parquet", ("holds ranking", "val, test1")),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_files(case: str, good: Mapping[str, Tables], refused: Callable[..., str]) -> None:
    make, name, said = FILES[case]
    message = refused("cirr", make(good["ranking"]["val"]))
    assert f"{name}: " in message
    for part in said:
        assert part in message


SETS: dict[str, tuple[str, Callable[[Mapping[str, Tables]], Tables], str, tuple[str, ...]]] = {
    "only the queries' vectors": (
        "cirr",
        lambda g: {"query": g["embeddings"]["query"]},
        "query",
        ("embeddings of query, but none of image", "add image.parquet"),
    ),
    "only the candidates' vectors": (
        "cirr",
        lambda g: {"image": g["embeddings"]["image"]},
        "image",
        ("no task uses it", "query + image"),
    ),
    "vectors named after a task": (
        "cirr",
        lambda g: {"val": g["embeddings"]["query"]},
        "val",
        ("holds embeddings", "after a side (query, image)"),
    ),
    "vectors beside a ranking of the same task": (
        "cirr",
        lambda g: {**g["embeddings"], **g["ranking"]},
        "query",
        ("no task uses it",),
    ),
    "labels for a ranking": (
        "deft2013",
        lambda g: {"title": g["labels"]["difficulty"]},
        "title",
        ("holds labels, but task title takes scores: ", "ranking: ", "embeddings: "),
    ),
    "a ranking for labels": (
        "deft2013",
        lambda g: {"difficulty": pa.table({"query_id": ["a"], "candidate_ids": [["facile"]]})},
        "difficulty",
        ("holds ranking, but task difficulty takes labels: query_id, label",),
    ),
}


@pytest.mark.parametrize("case", SETS)
def test_files_that_do_not_go_together(case: str, good: Mapping[str, Tables], refused: Callable[..., str]) -> None:
    name, make, broken, said = SETS[case]
    message = refused(name, {f"{file}.parquet": table for file, table in make(good).items()})
    assert f"{broken}.parquet: " in message or f"{broken}.parquet'" in message
    for part in said:
        assert part in message


def test_missing_files(project: Small, tmp_path: Path) -> None:
    absent = tmp_path / "val.parquet"
    assert refusal(project, "add", "new", "cirr", absent) == f"{absent}: no such file"
    message = refusal(project, "score", "bad", "cirr")
    assert "predictions/bad/cirr: no predictions" in message
    assert "rankledger add" in message


def test_score_refuses_what_is_no_prediction(project: Small, good: Mapping[str, Tables]) -> None:
    folder = project.predictions("bad", "cirr")
    try:
        write({"val.parquet": good["ranking"]["val"], "notes.txt": b"x"}, folder)
        assert "notes.txt: not a prediction file" in refusal(project, "score", "bad", "cirr")
        (folder / "notes.txt").unlink()
        write({"val": {"a.parquet": good["ranking"]["val"]}}, folder)
        assert "a file and a folder for 'val'" in refusal(project, "score", "bad", "cirr")
    finally:
        shutil.rmtree(folder.parent.parent)


def test_score_refuses_an_unlisted_run_and_an_unbuilt_subset(project: Small) -> None:
    assert "runs lists no other-cirr" in refusal(project, "score", "other", "cirr")
    assert "no benchmark 'cir'" in refusal(project, "add", "new", "cir", "val.parquet")
