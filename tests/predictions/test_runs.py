"""Runs and qrels from Parquet and text: what is refused, and in which words."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankledger.evaluation import Evaluation, evaluate
from rankledger.predictions import rows
from rankledger.predictions.runs import Run, read_qrels, read_run
from rankledger.tables import InputError


@pytest.fixture
def file(tmp_path: Path):
    def write(columns: Any, name: str = "file.parquet") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if isinstance(columns, bytes):
            path.write_bytes(columns)
        else:
            pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        return path

    return write


SCORES = {"query_id": ["q1", "q1", "q2"], "candidate_id": ["a", "b", "a"], "score": [1.0, 0.5, 2.0]}
QRELS = {"query_id": ["q1", "q2"], "candidate_id": ["a", "b"], "relevance": [1, 0]}
VECTORS = {"id": ["x", "y"], "embedding": [[1.0, 0.0], [0.0, 1.0]]}


def triples(run: Run) -> list[tuple[str, str, float]]:
    queries, candidates = run.queries.values.to_pylist(), run.candidates.values.to_pylist()
    return [
        (queries[q], candidates[c], v) for q, c, v in zip(run.query, run.candidate, run.value.tolist(), strict=True)
    ]


def test_scores(file):
    run = read_run(file(SCORES))
    assert triples(run) == [("q1", "a", 1.0), ("q1", "b", 0.5), ("q2", "a", 2.0)]
    assert triples(read_qrels(file(QRELS))) == [("q1", "a", 1), ("q2", "b", 0)]


def test_infinite_scores_and_further_columns_are_no_error(file):
    columns = {**SCORES, "score": [math.inf, -math.inf, 0.0], "note": ["x", None, "y"]}
    assert read_run(file(columns)).value.tolist() == [math.inf, -math.inf, 0]


def test_ids_of_a_dictionary_that_no_row_has(file):
    """A dictionary page may hold more ids than the rows: they are no queries of the run."""
    ids = pa.DictionaryArray.from_arrays(pa.array([1, 1, 2]), ["ghost", "q1", "q2", "spirit"])
    table = pa.table({**SCORES, "query_id": ids})
    assert read_run(file(table)).queries.values.to_pylist() == ["q1", "q2"]


def test_ids_are_sorted_bytewise(file):
    odd = ["é", "z", "Z", "10", "9", "中", "e\u0301", ""]
    columns = {"query_id": odd, "candidate_id": odd, "score": [0.0] * len(odd)}
    assert read_run(file(columns)).queries.values.to_pylist() == sorted(odd, key=str.encode)


def test_an_empty_list_is_a_query(file):
    run = read_run(file({"query_id": ["q1", "q2"], "candidate_ids": pa.array([["b", "a"], []], pa.list_(pa.string()))}))
    assert run.queries.values.to_pylist() == ["q1", "q2"]
    assert triples(run) == [("q1", "b", -1.0), ("q1", "a", -2.0)]


def test_text_and_parquet_are_told_by_their_content(file):
    assert triples(read_run(file(b"q1 Q0 a 1 1.0 x\n", "text.parquet"))) == [("q1", "a", 1.0)]
    assert triples(read_run(file(SCORES, "scores.txt"))) == triples(read_run(file(SCORES)))


def test_embeddings(file, tmp_path: Path):
    file(VECTORS, "run/one.parquet")
    (tmp_path / "run" / "two").mkdir()  # a folder of part files
    for i in range(2):
        file({"id": [2 - i], "embedding": VECTORS["embedding"][i : i + 1]}, f"run/two/{i}.parquet")
    run = read_run(tmp_path / "run")
    assert list(run.reader.universe) == ["one", "two"]
    vectors, row = run.reader.side("two")
    assert (run.reader.universe["two"].values.to_pylist(), row.tolist()) == (["1", "2"], [1, 0])
    np.testing.assert_array_equal(vectors.rows(row), [[0, 1], [1, 0]])


RUNS = [
    ({**SCORES, "score": [1.0, math.nan, math.nan]}, r"2 scores NaN, the first at 'q1 / b', 'q2 / a'"),
    ({**SCORES, "score": [1.0, None, 2.0]}, r"1 null in column score: row 1"),
    ({**SCORES, "query_id": ["q1", None, None]}, r"2 nulls in column query_id"),
    ({**SCORES, "candidate_id": ["a", "a", "a"]}, r"1 pair of query and candidate twice: 'q1 / a'"),
    (
        {k: v + v for k, v in SCORES.items()},
        r"3 pairs of query and candidate twice: 'q1 / a', 'q1 / b', 'q2 / a'; keep each once",
    ),
    ({**SCORES, "score": [1, 2, 3]}, r"column score is int64; it should hold float16, float32 or float64"),
    ({**SCORES, "query_id": [1.0, 2.0, 3.0]}, r"column query_id is double; it should hold strings or integers"),
    ({k: pa.array([], pa.string() if k != "score" else pa.float64()) for k in SCORES}, r"no rows"),
    ({"query": ["q"], "doc": ["d"]}, r"columns query, doc are no kind of predictions; there are scores: query_id"),
    (QRELS, r"columns query_id, candidate_id, relevance are no kind of predictions"),
    ({"query_id": ["q"], "label": ["x"]}, r"holds labels; a run ranks candidates for each query"),
    (VECTORS, r"embeddings of one side; a run needs two: give a folder that holds a file for each"),
    ({"query_id": ["q", "q"], "candidate_ids": [["a"], ["b"]]}, r"1 query id in more than one row: 'q'"),
    (
        {"query_id": ["q"], "candidate_ids": [["a", "b", "a"]]},
        r"1 pair of query and candidate twice: 'q / a'",
    ),
    ({"query_id": ["q"], "candidate_ids": [["a", None]]}, r"1 null inside lists, of 'q'"),
    ({"query_id": ["q", "q"], "candidate_id": ["a", "b"], "rank": [1, 1]}, r"1 rank twice in a query"),
    ({"query_id": ["q", "q"], "candidate_id": ["a", "b"], "rank": [0, 1]}, r"1 rank below 1"),
    (
        {"query_id": ["q", "q"], "candidate_id": ["a", "a"], "rank": [1, 2]},
        r"1 pair of query and candidate twice",
    ),
    (b"PAR1 and then nothing of the kind", r"not a whole Parquet file"),
    (b"", r"no lines; a run has the columns"),
]


@pytest.mark.parametrize(("content", "message"), RUNS)
def test_runs_that_are_refused(file, content, message):
    path = file(content)
    for use in (read_run, evaluated):
        with pytest.raises(InputError, match=rf"file\.parquet: {message}") as caught:
            use(path)
        assert "\n" not in str(caught.value)


def evaluated(path: Path) -> Evaluation:
    """Of a file: its rows are checked while they are counted."""
    return evaluate(path, {"q": {"a": 1}, "q1": {"a": 1}, "q2": {"a": 1}}, "MRR,num_q", missing="skip")


def test_a_parquet_file_that_is_cut_off_or_damaged(file):
    path = file(SCORES)
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    for use in (read_run, evaluated):
        with pytest.raises(InputError, match=r"file\.parquet: not a whole Parquet file"):
            use(path)
    path.write_bytes(content.replace(b"q1", b"\xff\xfe"))
    for use in (read_run, evaluated):
        with pytest.raises(InputError, match=r"file\.parquet: not a whole Parquet file \(.*UTF"):
            use(path)


@pytest.mark.parametrize("sorted_rows", [True, False])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("q7", "c5", 0.0), "1 pair of query and candidate twice: 'q7 / c5'"),
        (("q7", "c99", math.nan), "1 score NaN, the first at 'q7 / c99'"),
        (("q7", "c99", None), "1 null in column score: row "),
        (("q7", None, 0.0), "1 null in column candidate_id: row "),
        ((None, "c5", 0.0), "1 null in column query_id: row "),
    ],
)
def test_what_is_wrong_anywhere_in_a_long_file(file, monkeypatch, row, message, sorted_rows):
    """One row among many blocks, the rows of a query together or apart, of a query that is asked for or is not."""
    monkeypatch.setattr(rows, "BLOCK_ROWS", 64)
    monkeypatch.setattr(rows, "SORTED_ROWS", 64)
    triples = [(f"q{q}", f"c{c}", float(c)) for q in range(20) for c in range(40)]
    triples.insert(300, row)
    if not sorted_rows:
        triples = [triple for i in range(7) for triple in triples[i::7]]
    columns = dict(zip(SCORES, map(list, zip(*triples, strict=True)), strict=True))
    path = file(pa.table(columns))
    for asked in ("q7", "q8"):
        with pytest.raises(InputError, match=rf"file\.parquet: {message}"):
            evaluate(path, {asked: {"c1": 1}}, "MRR")


def test_what_evaluating_a_file_finds_in_it(file):
    """Its queries, as reading it whole finds them: not those of a dictionary that no row has; but empty lists."""
    ids = pa.DictionaryArray.from_arrays(pa.array([1, 1, 2]), ["ghost", "q1", "q2", "spirit"])
    found = evaluated(file(pa.table({**SCORES, "query_id": ids})))
    assert found.notes == ["1 of 3 queries of the qrels are missing and are left out: 'q'"]
    lists = pa.array([["b", "a"], [], ["c"]], pa.list_(pa.string()))
    found = evaluated(file({"query_id": ["q1", "q2", "q9"], "candidate_ids": lists}))
    assert found.notes[1:] == ["1 of 3 queries of the run are not in the qrels and are ignored: 'q9'"]
    assert found.per_query.to_pydict() == {"query_id": ["q1", "q2"], "MRR": [0.5, 0.0], "num_q": [1, 1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**QRELS, "relevance": ["1", "0"]}, r"column relevance is string; it should hold numbers"),
        ({**QRELS, "relevance": [True, False]}, r"column relevance is bool; it should hold numbers"),
        ({**QRELS, "relevance": [1, None]}, r"1 null in column relevance"),
        (
            {**QRELS, "relevance": [math.nan, math.inf]},
            r"2 relevances NaN or infinite, the first at 'q1 / a', 'q2 / b'",
        ),
        ({k: v + v for k, v in QRELS.items()}, r"2 pairs of query and candidate twice: 'q1 / a', 'q2 / b'"),
        (SCORES, r"no column relevance; qrels have query_id, candidate_id, relevance"),
        ({"query_id": ["q"]}, r"no column candidate_id, relevance; qrels have"),
    ],
)
def test_qrels_that_are_refused(file, content, message):
    with pytest.raises(InputError, match=rf"file\.parquet: {message}"):
        read_qrels(file(content))


def test_pairs_that_stand_twice_in_text_are_named_by_line(file):
    text = b"q1 Q0 a 1 9 x\nq1 Q0 b 2 8 x\nq2 Q0 a 1 9 x\nq1 Q0 a 3 7 x\nq2 Q0 a 2 5 x\n"
    with pytest.raises(InputError, match=r"run: 2 pairs .* twice: 'q1 / a', 'q2 / a' \(line 4, 5\); keep each once"):
        read_run(file(text, "run"))
    with pytest.raises(InputError, match=r"qrels: 1 pair .* twice: 'q1 / a' \(line 2\)"):
        read_qrels(file(b"q1 0 a 1\nq1 0 a 0\n", "qrels"))


SIDE = [
    ({"id": ["x", "x"], "embedding": [[1.0], [2.0]]}, r"1 .*id in more than one row: 'x'"),
    ({"id": ["x", "y"], "embedding": [[1.0, 2.0], [math.nan, 1.0]]}, r"1 vector with NaN or infinity: 'y'"),
    ({"id": ["x", "y"], "embedding": [[1.0, 2.0], [0.0, 0.0]]}, r"1 vector of zeros only: 'y'"),
    ({"id": ["x", None], "embedding": [[1.0, 2.0], [1.0, 1.0]]}, r"1 null in column id"),
]


@pytest.mark.parametrize(("side", "message"), SIDE)
@pytest.mark.parametrize("names", [("query", "image"), ("image", "query")])
def test_embeddings_that_are_refused(file, tmp_path: Path, side, message, names):
    for name, columns in zip(names, (VECTORS, side), strict=True):
        file(columns, f"run/{name}.parquet")
    with pytest.raises(InputError, match=rf"run/{names[1]}\.parquet: {message}"):
        read_run(tmp_path / "run")


def test_sides_of_different_widths(file, tmp_path: Path):
    file(VECTORS, "run/image.parquet")
    file({"id": ["x"], "embedding": [[1.0, 2.0, 3.0]]}, "run/query.parquet")
    with pytest.raises(InputError, match=r"query\.parquet: vectors of 3 components, but .*image\.parquet have 2"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("n", [1, 3])
def test_embeddings_of_another_number_of_sides(file, tmp_path: Path, n):
    for i in range(n):
        file(VECTORS, f"run/{i}.parquet")
    with pytest.raises(InputError, match=rf"run: embeddings of {n} sides \('0'.*\); a run has two"):
        read_run(tmp_path / "run")


def test_paths_that_are_not_there(tmp_path: Path):
    for read in (read_run, read_qrels):
        with pytest.raises(InputError, match=r"absent: no such file"):
            read(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: an empty folder"):
        read_run(tmp_path / "empty")
