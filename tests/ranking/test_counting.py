"""Stands from scores as they are given, against comparing every pair with Python's own floats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.ranking.counting import LISTED, Judged, Ragged, Trials, find, stand
from rankledger.ranking.sources import Table
from rankledger.ranking.stands import Stands, settle

WIDTHS = (np.float16, np.float32, np.float64)
SCORES = (0.0, -0.0, 1.0, 0.1, 0.10000001, 1e-7, -3.5, 6e4, float("inf"), float("-inf"))
Entry = tuple[int, float, int, int, int]  # trial, gain, better, tied, before


@dataclass(frozen=True)
class Case:
    """Trials in plain Python: per query its scores, judgements and exclusions; pools; (query, pool) pairs."""

    scores: Sequence[Mapping[int, float]]
    gains: Sequence[Mapping[int, float]]
    excluded: Sequence[frozenset[int]]
    pools: Sequence[frozenset[int]]
    trials: Sequence[tuple[int, int]]
    n_candidates: int
    unlisted: float = float("nan")
    width: type = np.float64

    def stand(self) -> tuple[Stands, np.ndarray]:
        n = len(self.scores)
        listed = [(q, c, s) for q, scores in enumerate(self.scores) for c, s in sorted(scores.items())]
        table = Table(
            Ragged.group([q for q, *_ in listed], [c for _, c, _ in listed], n),
            np.array([s for *_, s in listed], self.width),
            self.n_candidates,
            self.unlisted,
        )
        judged = [(q, c, g) for q, gains in enumerate(self.gains) for c, g in gains.items()]
        out = [(q, c) for q, candidates in enumerate(self.excluded) for c in candidates]
        members = [(p, c) for p, pool in enumerate(self.pools) for c in pool]
        trials = Trials(
            np.array([q for q, _ in self.trials], np.int64),
            np.array([p for _, p in self.trials], np.int64),
            Ragged.group([p for p, _ in members], [c for _, c in members], len(self.pools)),
            Judged.group([q for q, *_ in judged], [c for _, c, _ in judged], [g for *_, g in judged], n),
            Ragged.group([q for q, _ in out], [c for _, c in out], n),
        )
        return stand(table, trials)

    def slow(self) -> tuple[list[Entry], list[int], list[int]]:
        entries, sizes, scored = [], [], []
        for trial, (query, pool) in enumerate(self.trials):
            known = {c: float(self.width(s)) for c, s in self.scores[query].items()}
            members = (set(known) if pool == LISTED else self.pools[pool]) - self.excluded[query]
            place = {c: known.get(c, self.unlisted) for c in members}
            sizes.append(len(members))
            scored.append(sum(c in known for c in members))
            for candidate, gain in sorted(self.gains[query].items()):
                mine = place.get(candidate, float("nan"))
                if mine != mine:
                    entries.append((trial, gain, -1, 0, 0))
                    continue
                better = sum(s > mine for s in place.values())
                even = [c for c, s in place.items() if s == mine]
                entries.append((trial, gain, better, len(even), sum(c > candidate for c in even)))
        return entries, sizes, scored


def rows(stands: Stands) -> list[Entry]:
    columns = (stands.trial, stands.gain, stands.better, stands.tied, stands.before)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n_candidates, n_queries = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    candidate = st.integers(0, n_candidates - 1)
    beyond = st.integers(0, n_candidates + 2)  # a right candidate may be in no pool at all
    n_pools = draw(st.integers(1, 3))
    trial = st.tuples(st.integers(0, n_queries - 1), st.integers(0, n_pools - 1) | st.just(LISTED))

    def each(values: st.SearchStrategy) -> list:
        return draw(st.lists(values, min_size=n_queries, max_size=n_queries))

    return Case(
        scores=each(st.dictionaries(candidate, st.sampled_from(SCORES))),
        gains=each(st.dictionaries(beyond, st.sampled_from((0.0, 1.0, 2.0, -1.0)), max_size=4)),
        excluded=each(st.frozensets(candidate, max_size=2)),
        pools=draw(st.lists(st.frozensets(candidate), min_size=n_pools, max_size=n_pools)),
        trials=draw(st.lists(trial, max_size=6)),
        n_candidates=n_candidates,
        unlisted=draw(st.sampled_from((float("nan"), float("-inf")))),
        width=draw(st.sampled_from(WIDTHS)),
    )


@settings(max_examples=250, deadline=None)
@given(cases())
def test_stands_equal_comparing_every_pair(case: Case) -> None:
    stands, scored = case.stand()
    entries, sizes, listed = case.slow()
    assert rows(stands) == entries
    assert stands.sizes.tolist() == sizes
    assert scored.tolist() == listed


@settings(max_examples=60, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_trials_does_not_matter(case: Case, random: object) -> None:
    order = list(range(len(case.trials)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = Case(**{**vars(case), "trials": [case.trials[i] for i in order]})
    stands, again = case.stand()[0], shuffled.stand()[0]
    assert sorted((order[t], *rest) for t, *rest in rows(again)) == sorted(rows(stands))
    assert [stands.sizes[i] for i in order] == again.sizes.tolist()


def one(scores: Mapping[int, float], gains: Mapping[int, float], pool: set[int], **more: object) -> Case:
    """One query ranked against one pool."""
    n = 1 + max([*scores, *pool])
    given = {"excluded": [frozenset()], "trials": [(0, 0)], "n_candidates": n, **more}
    return Case([scores], [gains], pools=[frozenset(pool)], **given)  # type: ignore[arg-type]


def test_both_zeros_are_one_score_and_infinities_tie_with_themselves() -> None:
    inf = float("inf")
    case = one({0: inf, 1: inf, 2: 0.0, 3: -0.0, 4: -inf, 5: -inf}, dict.fromkeys(range(6), 1.0), set(range(6)))
    assert [entry[2:] for entry in rows(case.stand()[0])] == [
        (0, 2, 1),
        (0, 2, 0),
        (2, 2, 1),
        (2, 2, 0),
        (4, 2, 1),
        (4, 2, 0),
    ]


@pytest.mark.parametrize(("width", "tied"), [(np.float16, 2), (np.float32, 2), (np.float64, 1)])
def test_scores_are_compared_at_their_own_width(width: type, tied: int) -> None:
    close = 0.1 + 2e-9  # the same float32 as 0.1
    assert rows(one({0: 0.1, 1: close}, {0: 1.0}, {0, 1}, width=width).stand()[0])[0][3] == tied


def test_float32_and_float64_scores_that_differ_in_value_do_not_tie() -> None:
    case = one({0: float(np.float32(0.1)), 1: 0.1}, {1: 1.0}, {0, 1})
    assert rows(case.stand()[0]) == [(0, 1.0, 1, 1, 0)], "float32(0.1) is greater than 0.1"


def test_an_excluded_candidate_neither_beats_nor_ties_nor_counts() -> None:
    scores = {0: 9.0, 1: 5.0, 2: 5.0, 3: 1.0}
    stands, scored = one(scores, {1: 1.0, 2: 2.0}, set(scores), excluded=[frozenset({0, 2})]).stand()
    assert rows(stands) == [(0, 1.0, 0, 1, 0), (0, 2.0, -1, 0, 0)]
    assert (stands.sizes.tolist(), scored.tolist()) == ([2], [2])


def test_an_exclusion_outside_the_pool_changes_nothing() -> None:
    scores = {0: 9.0, 1: 5.0, 2: 5.0}
    stands, _ = one(scores, {1: 1.0}, {1, 2}, excluded=[frozenset({0})]).stand()
    assert (rows(stands), stands.sizes.tolist()) == ([(0, 1.0, 0, 2, 1)], [2])


def test_unlisted_candidates_tie_at_the_end_or_are_not_retrieved() -> None:
    listed = {0: -1.0, 1: -2.0}
    last, scored = one(listed, {3: 1.0, 0: 1.0}, {0, 1, 2, 3}, unlisted=float("-inf")).stand()
    assert (rows(last), scored.tolist()) == ([(0, 1.0, 0, 1, 0), (0, 1.0, 2, 2, 0)], [2])
    absent, scored = one(listed, {3: 1.0, 0: 1.0}, {0, 1, 2, 3}).stand()
    assert (rows(absent), scored.tolist()) == ([(0, 1.0, 0, 1, 0), (0, 1.0, -1, 0, 0)], [2])


def test_trec_puts_the_greater_of_two_tied_ids_first() -> None:
    case = one({0: 1.0, 1: 1.0, 2: 1.0, 3: 2.0}, {0: 1.0, 1: 1.0, 2: 1.0}, {0, 1, 2, 3})
    ranks = settle(case.stand()[0], "trec").better + 1
    assert ranks.tolist() == [4, 3, 2]


def test_lists_are_grouped_ascending_and_may_be_empty() -> None:
    lists = Ragged.group([2, 0, 2, 2], [7, 1, 3, 5], 4)
    assert [lists[i].tolist() for i in range(4)] == [[1], [], [3, 5, 7], []]
    places, lengths = lists.places(np.array([2, 1, 0, 2]))
    assert lists.values[places].tolist() == [3, 5, 7, 1, 3, 5, 7]
    assert lengths.tolist() == [3, 0, 1, 3]


def test_no_trials_give_no_stands() -> None:
    stands, scored = Case([{}], [{}], [frozenset()], [frozenset()], [], 1).stand()
    assert (len(stands.sizes), len(stands.trial), len(scored)) == (0, 0, 0)


def test_finding_in_an_empty_array_finds_nothing() -> None:
    place, there = find(np.zeros(0, np.int64), np.array([3, 4]))
    assert (len(place), there.tolist()) == (2, [False, False])


def test_progress_adds_up_to_the_number_of_trials() -> None:
    told: list[int] = []
    table = Table(Ragged.group([0, 1, 2], [0, 0, 0], 3), np.ones(3), 1, float("nan"))
    pools, nothing = Ragged.group([0], [0], 2), Ragged.group([], [], 3)
    judged = Judged.group([], [], [], 3)
    stand(table, Trials(np.array([0, 1, 2]), np.array([0, 1, 0]), pools, judged, nothing), told.append)
    assert sum(told) == 3
