"""The chance level and the ceiling, against enumeration of all orders of small pools."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.ranking.counting import Judged, Ragged, Trials, stand
from rankledger.ranking.levels import Constant, perfect
from rankledger.ranking.metrics import parse
from rankledger.ranking.stands import Stands

METRICS = (
    "R@1",
    "R@3",
    "P@2",
    "Success@2",
    "MRR",
    "AP",
    "AP(denominator=min)@3",
    "nDCG@3",
    "Rprec",
    "Best@2",
    "medR",
    "R(rel=2)@2",
)


def even(pool: int, gains: Sequence[float], excluded: int = 0, absent: Sequence[float] = ()) -> Stands:
    """One query; the first candidates of the pool are judged, the last ones excluded, `absent` is not in the pool."""
    judged = Judged.group(
        np.zeros(len(gains) + len(absent)), [*range(len(gains)), *range(90, 90 + len(absent))], [*gains, *absent], 1
    )
    out = Ragged.group(np.zeros(excluded), range(pool, pool + excluded), 1)
    pools = Ragged.group(np.zeros(pool + excluded), range(pool + excluded), 1)
    one = np.zeros(1, np.int64)
    stands, _ = stand(Constant(), Trials(one, one, pools, judged, out))
    return stands


def ordered(orders: Sequence[Sequence[int]], gains: Sequence[float], absent: Sequence[float]) -> Stands:
    """A trial an order, without ties: `order[i]` is the place of judged candidate i."""
    inside, n = len(gains), len(orders)
    entries = inside + len(absent)
    better = np.array([[*order, *([-1] * len(absent))] for order in orders], np.int64).ravel()
    return Stands(
        np.full(n, 9),
        np.repeat(np.arange(n), entries),
        np.tile([*gains, *absent], n).astype(float),
        better,
        (better >= 0).astype(np.int64),
        np.zeros(n * entries, np.int64),
    )


@pytest.mark.parametrize("metric", METRICS)
@settings(deadline=None, max_examples=40)
@given(
    pool=st.integers(1, 5),
    gains=st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=1, max_size=5),
    excluded=st.integers(0, 2),
    absent=st.lists(st.sampled_from([1.0, 2.0]), max_size=2),
)
def test_levels_are_the_mean_and_the_best_of_all_orders(
    metric: str, pool: int, gains: list[float], excluded: int, absent: list[float]
) -> None:
    gains = gains[:pool]
    made, found = even(pool, gains, excluded, absent), parse(metric)
    orders = list(itertools.permutations(range(pool), len(gains)))
    values = found.values(ordered(orders, gains, absent))
    (chance,), (ceiling,) = found.values(made), found.values(perfect(made))
    np.testing.assert_allclose(chance, values.mean(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ceiling, values.max() if found.higher_is_better else values.min(), rtol=1e-12)


def test_the_pool_shrinks_by_what_is_excluded() -> None:
    assert even(4, [1.0], excluded=2).sizes.tolist() == [4]
    assert even(4, [1.0], excluded=2).tied.tolist() == [4]


def test_p_at_k_has_a_ceiling_of_one_kth_with_a_single_right_candidate() -> None:
    assert parse("P@10").values(perfect(even(20, [1.0]))).tolist() == [0.1]
