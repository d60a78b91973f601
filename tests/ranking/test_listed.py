"""Stands of all lists at once, against `stand`, which counts query by query."""

from dataclasses import fields

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.ranking import listed
from rankledger.ranking.counting import LISTED, Judged, Ragged, stand
from rankledger.ranking.listed import stand_listed
from rankledger.ranking.sources import Table
from rankledger.ranking.stands import Stands


def by_query(trial, candidate, score, judged, n, size) -> Stands:
    """Pool by pool."""
    lists = Ragged.group(trial, candidate, n)
    scores = np.asarray(score)[np.lexsort((candidate, trial))]
    none = Ragged(np.zeros(n + 1, np.int64), np.zeros(0, np.int64))
    pools = np.full(n, LISTED)
    stands, _ = stand(Table(lists, scores, size, np.nan), np.arange(n), pools, none, judged, none)
    return stands


def assert_same(left: Stands, right: Stands) -> None:
    for f in fields(Stands):
        np.testing.assert_array_equal(getattr(left, f.name), getattr(right, f.name), err_msg=f.name)


scores = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 5e-324, 0.1, 1.0, np.nextafter(1, 2), np.inf])


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 8)), elements=scores | st.just(np.nan)),
    st.data(),
)
def test_it_counts_what_counting_query_by_query_finds(table, data):
    """NaN marks what is not listed; the judged may be anywhere, and of no list at all."""
    n, size = table.shape
    gains = data.draw(hnp.arrays(np.float64, (n, size + 1), elements=st.sampled_from([-1.0, 0, 1, 2, np.nan])))
    asked, judged_candidate = np.nonzero(~np.isnan(gains))
    gain = gains[asked, judged_candidate]
    elsewhere = np.where(judged_candidate == size, -1, judged_candidate)
    judged = Judged.group(asked, elsewhere, gain, n)
    trial, candidate = np.nonzero(~np.isnan(table))
    score = table[trial, candidate]
    wanted = by_query(trial, candidate, score, judged, n, size)

    # the rows shuffled, with some of no trial between them
    rows = data.draw(st.permutations(range(len(trial) + 2)))
    trial = np.append(trial, [-1, -1]).astype(np.int32)[rows]
    candidate = np.append(candidate, [0, size]).astype(np.int32)[rows]
    score = np.append(score, [0.0, 1.0])[rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listed, "BLOCK_ROWS", data.draw(st.integers(1, 12)))
        assert_same(stand_listed(trial, candidate, score, judged), wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_large_run_with_ties(dtype):
    draw = np.random.default_rng(5)
    n, size = 50, 300
    trial, candidate = np.nonzero(draw.random((n, size)) < 0.7)
    score = draw.choice(np.array([0, 0.1, 1 / 3, 2, 1e4], dtype), len(trial))
    asked, right = np.nonzero(draw.random((n, size)) < 0.05)
    judged = Judged.group(asked, right, draw.integers(-1, 4, len(asked)), n)
    order = draw.permutation(len(trial))
    found = stand_listed(trial[order], candidate[order], score[order], judged)
    assert found.tied.max() > 20
    assert_same(found, by_query(trial, candidate, score, judged, n, size))


def test_no_rows_and_no_judgements():
    nothing = np.zeros(0, np.int64)
    judged = Judged.group([1], [0], [1.0], 2)
    stands = stand_listed(nothing, nothing, np.zeros(0), judged)
    assert (stands.sizes.tolist(), stands.better.tolist(), stands.tied.tolist()) == ([0, 0], [-1], [0])
    unjudged = stand_listed(np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(3), Judged.group([], [], [], 2))
    assert (unjudged.sizes.tolist(), len(unjudged.trial)) == ([1, 2], 0)
