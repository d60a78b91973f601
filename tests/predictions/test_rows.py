"""Rows of a run in blocks of whole queries: nothing lost, nothing twice, what is odd found, in whatever pieces."""

import math
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.predictions import rows
from rankledger.predictions.reading import Ids
from rankledger.predictions.rows import Blocks, Odd, key
from rankledger.ranking.listed import Rows

Triple = tuple[str, str, float]
odd_ids = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def batches(triples: list[Triple], size: int, encoded: bool) -> list[pa.RecordBatch]:
    """The triples, a few at a time, each batch with dictionaries of its own."""
    found = []
    for start in range(0, len(triples), size):
        query, candidate, score = zip(*triples[start : start + size], strict=True)
        columns = {"query_id": pa.array(query).dictionary_encode(), "candidate_id": pa.array(candidate)}
        if encoded:
            columns["candidate_id"] = columns["candidate_id"].dictionary_encode()
        columns["score"] = pa.array(score, pa.float64())
        found.append(pa.RecordBatch.from_arrays(list(columns.values()), list(columns)))
    return found


def read(given: list[pa.RecordBatch], asked: list[str]) -> tuple[list[list[Triple]], list[str]]:
    """The blocks as triples, with numbers for queries, and the queries that there are."""
    blocks = Blocks(lambda _: given, sum(map(len, given)), Ids(pa.array(asked, pa.string())))
    found: list[list[Triple]] = []
    lock, again = threading.Lock(), {}

    def work(mine: Rows) -> None:
        candidates = mine.candidates(np.arange(len(mine.scores))).to_pylist()
        query = np.repeat(mine.queries, np.diff(mine.starts)).tolist()
        with lock:
            assert len(set(mine.queries.tolist())) == len(mine.queries)
            found.append(list(zip(query, candidates, mine.scores.tolist(), strict=True)))
            again.update({number: len(found) - 1 for number in mine.queries.tolist()})

    blocks.give(work)
    # where the rows come again, only the last ones count
    kept = [[triple for triple in block if again[triple[0]] == i] for i, block in enumerate(found)]
    return kept, blocks.queries().values.to_pylist()


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text("ab", max_size=3), st.dictionaries(odd_ids, st.floats(allow_nan=False), min_size=1), min_size=1
    ),
    st.lists(st.text("ab", max_size=3), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
    st.data(),
)
def test_all_rows_come_once_in_blocks_of_whole_queries(run, asked, shuffled, encoded, size, data):
    triples = [(q, c, s) for q, scores in run.items() for c, s in scores.items()]
    if shuffled:
        triples = data.draw(st.permutations(triples))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BLOCK_ROWS", data.draw(st.integers(1, 9)))
        patch.setattr("rankledger.ranking.threads.THREADS", data.draw(st.integers(1, 2)))
        patch.setattr(rows, "SHORT", data.draw(st.sampled_from([0, 5, 1 << 18])))
        alike = data.draw(st.sampled_from([0, 3, 3 << 32, 2**64 - 1]))  # several ids of the same key, or of half of it
        patch.setattr(rows, "key", lambda ids: key(ids) & np.uint64(alike))
        blocks, queries = read(batches(triples, size, encoded), asked)
    assert queries == sorted(run)
    numbers = sorted(set(asked))
    flat = [triple for block in blocks for triple in block]
    named = {number for number, _, _ in flat if number < len(numbers)}
    assert named == {i for i, query in enumerate(numbers) if query in run}
    by_number: dict[int, dict[str, float]] = {}
    for number, candidate, score in flat:
        assert candidate not in by_number.setdefault(number, {})
        by_number[number][candidate] = score
    assert {numbers[i]: by_number[i] for i in named} == {q: run[q] for q in run if q in numbers}
    others = sorted(map(repr, (scores for i, scores in by_number.items() if i not in named)))
    assert len(others) == sum(q not in numbers for q in run)
    assert sum(map(len, blocks)) == len(triples)


def lists(run: dict[str, list[str] | None], size: int, kind: str) -> list[pa.RecordBatch]:
    """Queries with their lists, a few at a time, each batch a slice of one that begins with something else."""
    found = []
    for start in range(0, len(run), size):
        query, listed = zip(*list(run.items())[start : start + size], strict=True)
        column = pa.array([["before"], *listed], (pa.large_list if kind == "large" else pa.list_)(pa.string()))
        if kind == "encoded":
            ids = column.values.dictionary_encode()
            column = pa.ListArray.from_arrays(column.offsets, ids, mask=column.is_null())
        columns = [pa.array(["before", *query]), column]
        found.append(pa.RecordBatch.from_arrays(columns, ["query_id", "candidate_ids"])[1:])
    return found


@settings(deadline=None)
@given(
    st.dictionaries(st.text("ab", max_size=3), st.lists(odd_ids, unique=True, max_size=5), min_size=1),
    st.lists(st.text("ab", max_size=3), min_size=1, max_size=3),
    st.sampled_from(["plain", "large", "encoded"]),
    st.integers(1, 4),
)
def test_lists_come_in_their_order_without_scores(run, asked, kind, size):
    blocks = Blocks(lambda _: lists(run, size, kind), sum(map(len, run.values())), Ids(pa.array(asked, pa.string())))
    found: dict[int, list[str]] = {}
    lock = threading.Lock()

    def work(mine: Rows) -> None:
        assert mine.scores is None
        candidates = mine.candidates(np.arange(mine.starts[-1])).to_pylist()
        with lock:
            for number, start, end in zip(mine.queries.tolist(), mine.starts[:-1], mine.starts[1:], strict=True):
                found[number] = candidates[start:end]

    blocks.give(work)
    names = sorted(set(asked))
    names += [query for query in run if query not in names]
    assert {names[number]: ids for number, ids in found.items()} == {q: ids for q, ids in run.items() if ids}
    assert blocks.queries().values.to_pylist() == sorted(q for q, ids in run.items() if ids)


@pytest.mark.parametrize("kind", ["plain", "large", "encoded"])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("listed", [["a", "b", "a"], ["a", None], None, ["b", "a\0", "a", "a\0"]])
def test_odd_lists(listed, size, kind):
    for asked in (["q"], ["p"]):
        blocks = Blocks(lambda _: lists({"p": ["a"], "q": listed}, size, kind), 4, Ids(pa.array(asked)))
        with pytest.raises(Odd):
            blocks.give(lambda mine: None)


@pytest.mark.parametrize("encoded", [True, False])
@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    "triples",
    [
        [("q", "a", 1.0), ("q", "b", 2.0), ("q", "a", 1.0)],  # within a query
        [("q", "a", 1.0), ("p", "b", 2.0), ("q", "a", 3.0)],  # and lying apart
        [("q", "b", 1.0), ("p", "b", 2.0), ("p", "c", math.nan)],
        [("q", "b", None), ("p", "b", 2.0)],
        [("q", None, 1.0), ("p", "b", 2.0)],
        [(None, "a", 1.0), ("p", "b", 2.0)],
    ],
)
def test_what_is_odd(triples, size, encoded):
    """Also of queries that nobody asks for."""
    for asked in (["q"], ["p"], ["x"]):
        with pytest.raises(Odd):
            read(batches(triples, size, encoded), asked)


@pytest.mark.parametrize("encoded", [True, False])
def test_strings_that_are_none(encoded):
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
    good = pa.array(["a"])
    for query, candidate in ((good, bad), (bad, good)):
        columns = {"query_id": query.dictionary_encode(), "candidate_id": candidate, "score": pa.array([1.0])}
        if encoded:
            columns["candidate_id"] = candidate.dictionary_encode()
        with pytest.raises(Odd):
            read([pa.RecordBatch.from_arrays(list(columns.values()), list(columns))], ["a"])


def test_a_dictionary_without_the_place_that_a_row_names():
    beyond = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["a", "b"]), safe=False)
    query = pa.array(["q", "q"]).dictionary_encode()
    for columns in ([query, beyond, pa.array([1.0, 2.0])], [beyond, query, pa.array([1.0, 2.0])]):
        with pytest.raises(Odd):
            read([pa.RecordBatch.from_arrays(columns, ["query_id", "candidate_id", "score"])], ["q"])


# ---- keys --------------------------------------------------------------------------------------------------


def test_all_short_ids_have_keys_of_their_own():
    letters = [chr(i) for i in range(128)]
    ids = ["", *letters, *(one + other for one in letters for other in letters)]
    assert len(set(key(pa.array(ids, pa.large_string())).tolist())) == len(ids)


@settings(deadline=None)
@given(st.lists(odd_ids | st.text("a\0", max_size=40), min_size=1, max_size=20), st.data())
def test_a_key_depends_on_the_id_alone(ids, data):
    """Not on its neighbours, nor on where it stands; and here no two ids have the same."""
    array = pa.array(ids, pa.large_string())
    keys = key(array)
    assert len(set(keys.tolist())) == len(set(ids))
    start = data.draw(st.integers(0, len(ids)))
    end = data.draw(st.integers(start, len(ids)))
    np.testing.assert_array_equal(key(array[start:end]), keys[start:end])
    for one, wanted in zip(ids, keys, strict=True):
        assert key(pa.array([one], pa.large_string()))[0] == wanted
    np.testing.assert_array_equal(key(array.cast(pa.string())[start:end]), keys[start:end])
    for length in {len(one.encode()) for one in ids}:  # with others of the same length
        even = [i for i, one in enumerate(ids) if len(one.encode()) == length]
        np.testing.assert_array_equal(key(array.take(even)), keys[even])


def test_keys_of_many_ids_are_all_different():
    ids = [f"{prefix}{i}" for prefix in ("", "doc-", "a rather long name of a file/", "é") for i in range(50_000)]
    keys = key(pa.array(ids, pa.large_string()))
    assert len(np.unique(keys)) == len(ids)
    assert np.bincount((keys >> np.uint64(56)).astype(int), minlength=256).max() < 2 * len(ids) / 256


def test_no_ids():
    assert len(key(pa.array([], pa.large_string()))) == 0
    assert len(key(pa.array(["a"], pa.large_string())[1:])) == 0
    assert read([], ["q"]) == ([], [])
