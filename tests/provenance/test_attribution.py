"""A move split into its parts, and old and new subsets mixed."""

import itertools
from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankledger.provenance.attribution import FACTORS, Unknown, judge_alike, mixed, shapley

ALL = frozenset(FACTORS)
values = st.lists(st.integers(-(10**8), 10**8).map(lambda n: n / 10**6), min_size=8, max_size=8)


def cells(numbers: list[float]) -> dict[frozenset[str], float]:
    new = [frozenset(some) for k in range(4) for some in itertools.combinations(FACTORS, k)]
    return dict(zip(new, numbers, strict=True))


@given(values)
def test_parts_sum_to_the_move(numbers: list[float]) -> None:
    value = cells(numbers)
    parts = shapley(FACTORS, value.__getitem__)
    assert sum(part or 0 for part in parts.values()) == pytest.approx(value[ALL] - value[frozenset()], abs=1e-9)


@given(values)
def test_parts_are_the_mean_over_all_orders(numbers: list[float]) -> None:
    value = cells(numbers)
    expected = dict.fromkeys(FACTORS, 0.0)
    for order in itertools.permutations(FACTORS):
        for place, factor in enumerate(order):
            expected[factor] += (value[frozenset(order[: place + 1])] - value[frozenset(order[:place])]) / 6
    assert shapley(FACTORS, value.__getitem__) == pytest.approx(expected, abs=1e-9)


@given(values, st.permutations(FACTORS))
def test_the_order_of_the_factors_does_not_show(numbers: list[float], order: list[str]) -> None:
    value = cells(numbers)
    assert shapley(order, value.__getitem__) == shapley(FACTORS, value.__getitem__)


def test_what_did_not_change_has_no_part() -> None:
    value = {frozenset[str](): 10.0, frozenset({"subset"}): 12.5}
    assert shapley(["subset"], value.__getitem__) == {"predictions": 0.0, "subset": 2.5, "protocol": 0.0}


def test_factors_that_do_not_touch_each_other_have_their_own_moves() -> None:
    alone = {"predictions": 3.0, "subset": -1.0, "protocol": 0.5}
    assert shapley(FACTORS, lambda new: 40 + sum(alone[f] for f in new)) == pytest.approx(alone)


def test_a_combination_that_is_not_known_leaves_the_parts_open() -> None:
    changed = ["predictions", "protocol"]
    parts = shapley(changed, lambda new: None if new == {"predictions"} else float(len(new)))
    assert parts == {"predictions": None, "subset": 0.0, "protocol": None}


def tables(qrels: Mapping[str, str], pool: str = "p", tasks: str | None = None) -> dict[str, pa.Table]:
    """A subset that asks for each query of the qrels; with `tasks`, qrels have a task column."""
    ids = list(qrels)
    task = tasks or "t"
    judged = {"query_id": ids, "candidate_id": list(qrels.values()), "relevance": [1.0] * len(ids)}
    return {
        "queries": pa.table({"query_id": ids, "task": [task] * len(ids)}),
        "pools": pa.table({"pool_id": [pool], "candidate_id": ["c"]}),
        "trials": pa.table({"query_id": ids, "pool_id": [pool] * len(ids)}),
        "exclusions": pa.table({"query_id": pa.array([], pa.string()), "candidate_id": pa.array([], pa.string())}),
        "qrels": pa.table(judged | ({"task": [task] * len(ids)} if tasks else {})),
        "universe": pa.table({"side": ["image", "image"], "id": ["c", f"only in {pool}"]}),
    }


def test_who_is_asked_comes_from_one_and_what_is_right_from_the_other() -> None:
    old, new = tables({"a": "c"}, "old"), tables({"a": "d"}, "new")
    found = mixed(new, old)
    assert found["pools"] is new["pools"]
    assert found["qrels"].to_pylist() == old["qrels"].to_pylist()
    assert sorted(found["universe"]["id"].to_pylist()) == ["c", "only in new", "only in old"]


def test_another_draw_brings_its_own_right_answers() -> None:
    """Neither knows the other's queries, but they agree where they can."""
    old, new = tables({"a": "c", "b": "d"}), tables({"b": "d", "e": "f"})
    assert judge_alike(old, new)
    assert mixed(new, old)["qrels"] is new["qrels"]
    assert mixed(old, new)["qrels"] is old["qrels"]


def test_right_answers_that_nobody_knows_are_not_made_up() -> None:
    old, new = tables({"a": "c", "b": "d"}), tables({"b": "other", "e": "f"})
    assert not judge_alike(old, new)
    with pytest.raises(Unknown, match="1 queries"):
        mixed(new, old)


def test_a_wider_subset_judges_a_narrower_one() -> None:
    narrow, wide = tables({"a": "c"}), tables({"a": "other", "b": "d"})
    assert mixed(narrow, wide)["qrels"] is wide["qrels"]


def test_tasks_that_share_ids_do_not_share_answers() -> None:
    old, new = tables({"a": "c"}, tasks="title"), tables({"a": "d"}, tasks="ingredients")
    assert judge_alike(old, new), "they ask nothing in common"
    assert mixed(new, old)["qrels"] is new["qrels"]
