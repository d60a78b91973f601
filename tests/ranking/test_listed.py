"""Stands counted from rows of whole queries, against `stand`, which counts query by query."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import hypothesis.extra.numpy as hnp
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.ranking import listed
from rankledger.ranking.counting import LISTED, Judged, Ragged, Trials, stand
from rankledger.ranking.listed import Rows, Tally, pair
from rankledger.ranking.sources import Table
from rankledger.ranking.stands import Stands


def by_query(trial, candidate, score, judged, n, size) -> Stands:
    """Pool by pool."""
    lists = Ragged.group(trial, candidate, n)
    scores = np.asarray(score)[np.lexsort((candidate, trial))]
    none = Ragged(np.zeros(n + 1, np.int64), np.zeros(0, np.int64))
    pools = np.full(n, LISTED)
    stands, _ = stand(Table(lists, scores, size, np.nan), Trials(np.arange(n), pools, none, judged, none))
    return stands


def names(size: int) -> pa.Array:
    """The ids of candidates, of which some stand before ASCII in bytes, in their order."""
    return pa.array(sorted((f"{'zé'[i % 2]}{i}" for i in range(size)), key=str.encode), pa.large_string())


def in_parts(trial, candidate, score, keys, ids, queries: Sequence[int], parts: int) -> Iterator[Rows]:
    """The rows of some queries at a time, in the order given."""
    for mine in np.array_split(np.asarray(queries, np.int64), parts):
        rows = np.concatenate([np.flatnonzero(trial == query) for query in mine] or [np.zeros(0, np.int64)])
        there = np.array([query for query in mine if (trial == query).any()], np.int64)
        if len(rows):
            starts = np.cumsum([0, *(np.count_nonzero(trial == query) for query in there)])
            pairs = pair(keys[candidate[rows]], trial[rows])
            yield Rows(there, starts, pairs, score[rows], lambda some, rows=rows: ids.take(candidate[rows[some]]))


def counted(judged, ids, keys, order, parts: Iterator[Rows]) -> Stands:
    tally = Tally(judged, ids, keys, order)
    for rows in parts:
        tally.add(rows)
    return tally.stands()


def assert_same(left: Stands, right: Stands) -> None:
    for f in fields(Stands):
        np.testing.assert_array_equal(getattr(left, f.name), getattr(right, f.name), err_msg=f.name)


scores = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 5e-324, 0.1, 1.0, np.nextafter(1, 2), np.inf])


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 8)), elements=scores | st.just(np.nan)),
    st.integers(0, 2),
    st.data(),
)
def test_it_counts_what_counting_query_by_query_finds(table, others, data):
    """NaN marks what is not listed; the last queries are not judged, and a judged candidate may be in no list.

    With any number of levels counted by sorting, and keys of which several candidates have the same.
    """
    size = table.shape[1]
    n = max(1, len(table) - others)
    gains = data.draw(hnp.arrays(np.float64, (n, size + 1), elements=st.sampled_from([-1.0, 0, 1, 2, np.nan])))
    asked, right = np.nonzero(~np.isnan(gains))
    judged = Judged.group(asked, right, gains[asked, right], n)
    trial, candidate = np.nonzero(~np.isnan(table))
    score = table[trial, candidate]
    mine = trial < n
    wanted = by_query(trial[mine], candidate[mine], score[mine], judged, n, size + 1)

    rows = np.array(data.draw(st.permutations(range(len(trial)))), np.int64)
    keys = data.draw(hnp.arrays(np.uint64, size + 1, elements=st.integers(0, 3) | st.integers(0, 2**64 - 1)))
    queries, parts = data.draw(st.permutations(range(len(table)))), data.draw(st.integers(1, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listed, "MANY", data.draw(st.integers(0, 9)))
        for order in (True, False):
            given_rows = in_parts(trial[rows], candidate[rows], score[rows], keys, names(size + 1), queries, parts)
            found = counted(judged, names(size + 1), keys, order, given_rows)
            if not order:
                assert not found.before.any()
                np.copyto(found.before, wanted.before)
            assert_same(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("many", [0, 8, 1000])
def test_a_large_run_with_ties(dtype, many, monkeypatch):
    monkeypatch.setattr(listed, "MANY", many)
    draw = np.random.default_rng(5)
    n, size = 50, 300
    trial, candidate = np.nonzero(draw.random((n, size)) < 0.7)
    score = draw.choice(np.linspace(0, 1e4, 20, dtype=dtype), len(trial))
    asked, right = np.nonzero(draw.random((n, size)) < 0.05)
    judged = Judged.group(asked, right, draw.integers(-1, 4, len(asked)), n)
    keys = draw.integers(0, 2**64, size, np.uint64)
    parts = in_parts(trial, candidate, score, keys, names(size), draw.permutation(n), 7)
    found = counted(judged, names(size), keys, True, parts)
    assert found.tied.max() > 20
    assert found.before.max() > 10
    assert_same(found, by_query(trial, candidate, score, judged, n, size))


@settings(deadline=None)
@given(
    st.lists(st.permutations(range(7)).flatmap(lambda p: st.integers(0, 7).map(lambda n: p[:n])), min_size=1), st.data()
)
def test_rows_in_order_count_as_with_scores_that_fall(ranked, data):
    n = len(ranked)
    trial = np.repeat(np.arange(n), list(map(len, ranked)))
    candidate = np.array([c for one in ranked for c in one], np.int64)
    asked, right = np.nonzero(data.draw(hnp.arrays(bool, (n, 8))))
    judged = Judged.group(asked, right, np.ones(len(asked)), n)
    score = -np.array([place for one in ranked for place in range(len(one))], np.float64)
    keys = data.draw(hnp.arrays(np.uint64, 8, elements=st.integers(0, 3) | st.integers(0, 2**64 - 1)))
    queries, parts = data.draw(st.permutations(range(n))), data.draw(st.integers(1, 3))
    with_scores = list(in_parts(trial, candidate, score, keys, names(8), queries, parts))
    found = counted(judged, names(8), keys, True, (replace(rows, scores=None) for rows in with_scores))
    assert_same(found, counted(judged, names(8), keys, True, iter(with_scores)))
    assert_same(found, by_query(trial, candidate, score, judged, n, 8))


def test_rows_that_come_again_are_counted_anew():
    judged, keys = Judged.group([0, 1], [0, 1], [1.0, 1.0], 2), np.array([3, 4], np.uint64)
    trial, candidate, score = np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1.0, 1.0, 0.0])
    once = list(in_parts(trial, candidate, score, keys, names(2), [0, 1], 1))
    twice = list(in_parts(trial, candidate, score, keys, names(2), [0], 1)) + once
    assert_same(*(counted(judged, names(2), keys, True, iter(parts)) for parts in (once, twice)))


def test_no_rows_and_no_judgements():
    keys = np.zeros(2, np.uint64)
    stands = Tally(Judged.group([1], [0], [1.0], 2), names(1), keys[:1], True).stands()
    assert (stands.sizes.tolist(), stands.better.tolist(), stands.tied.tolist()) == ([0, 0], [-1], [0])
    trial, candidate = np.array([0, 1, 1]), np.array([0, 0, 1])
    parts = in_parts(trial, candidate, np.ones(3), keys, names(2), [0, 1], 1)
    unjudged = counted(Judged.group([], [], [], 2), names(2), keys, True, parts)
    assert (unjudged.sizes.tolist(), len(unjudged.trial)) == ([1, 2], 0)
