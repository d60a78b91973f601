"""The metrics against all orders of the tied, counted one by one, against docs/metrics.md, and their own laws."""

import itertools
import json
import math
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.ranking import metrics as module
from rankledger.ranking.metrics import (
    AP,
    MRR,
    NAMES,
    Best,
    Metric,
    P,
    R,
    Rprec,
    Success,
    bpref,
    medR,
    nDCG,
    num_q,
    num_rel,
    num_rel_ret,
    num_ret,
    parse,
)
from rankledger.ranking.stands import TIE_RULES, Stands, settle

CUTOFFS = (1, 2, 3, 5, 10)
LEVELS = (1, 2, 0.5)
METRICS = [
    *(family(rel=rel) @ k for family in (R, P, Success, AP, MRR) for rel in LEVELS for k in CUTOFFS),
    *(AP(denominator="min", rel=rel) @ k for rel in LEVELS for k in CUTOFFS),
    *(family @ k for family in (nDCG, Best) for k in CUTOFFS),
    *(metric(rel=rel) for metric in (AP, MRR, Rprec, medR, bpref, num_rel, num_rel_ret) for rel in LEVELS),
    nDCG,
    num_q,
    num_ret,
]
WITH_FORMULA = [metric for metric in METRICS if not metric.needs_order]
SOME = [metric for metric in METRICS if metric.cutoff in (None, 3) and metric.rel == 1]
SOME_WITH_FORMULA = [metric for metric in SOME if not metric.needs_order]


# ---- the oracle: a metric of one order, straight from its definition ---------------------------------------


def of_order(metric, order, qrels):
    """A metric of one ranking; `order`: the gain at each place, None if not judged; `qrels`: all gains."""
    rel, depth = Fraction(metric.rel), metric.cutoff or len(order)
    right = [gain is not None and gain >= rel for gain in order]
    ranks = [place for place, is_right in enumerate(right, 1) if is_right]
    total = sum(gain >= rel for gain in qrels)
    top = [rank for rank in ranks if rank <= depth]
    share = Fraction(1, total) if total else Fraction(0)
    match metric.name:
        case "R":
            return len(top) * share
        case "P":
            return Fraction(len(top), depth)
        case "Success":
            return Fraction(bool(top))
        case "MRR":
            return Fraction(1, top[0]) if top else Fraction(0)
        case "AP":
            if total and metric.denominator == "min":
                share = Fraction(1, min(total, depth))
            return sum((Fraction(hits, rank) for hits, rank in enumerate(top, 1)), Fraction(0)) * share
        case "Rprec":
            return sum(right[:total]) * share
        case "Best":
            return max([Fraction(0), *(gain for gain in order[:depth] if gain is not None)])
        case "nDCG":
            if not metric.cutoff:
                depth = len(order) + len(qrels)
            ideal = dcg(sorted(qrels, reverse=True)[:depth])
            return Fraction(dcg(order[:depth]) / ideal) if ideal else Fraction(0)
        case "medR":
            return Fraction(ranks[0]) if ranks else None
        case "bpref":
            wrong = [gain is not None and 0 <= gain < rel for gain in order]
            all_wrong = sum(0 <= gain < rel for gain in qrels)
            lost = Fraction(0)
            for rank in ranks:
                if sum(wrong[:rank]):
                    lost += Fraction(min(sum(wrong[:rank]), total), min(all_wrong, total))
            return (len(ranks) - lost) * share
        case "num_q":
            return Fraction(1)
        case "num_ret":
            return Fraction(len(order))
        case "num_rel":
            return Fraction(total)
        case "num_rel_ret":
            return Fraction(len(ranks))
    raise AssertionError(metric)


def dcg(gains):
    return math.fsum(gain / math.log2(place + 1) for place, gain in enumerate(gains, 1) if gain and gain > 0)


def orders(pool, gains):
    """How often each sequence of gains comes up among all orders that agree with the scores."""
    groups = [
        [gains.get(candidate) for candidate in pool if pool[candidate] == score]
        for score in sorted(set(pool.values()), reverse=True)
    ]
    sequences = itertools.product(*(itertools.permutations(group) for group in groups))
    return Counter(tuple(itertools.chain(*parts)) for parts in sequences)


def random_trials(number, most, seed):
    draw = random.Random(seed)
    weights = [Fraction(gain) for gain in (-1, 0, 0.2, 0.5, 1, 1, 2, 3)]
    trials = []
    for _ in range(number):
        names = draw.sample("abcdefghijklm", draw.randint(0, most))
        levels = draw.choice((1, 2, 2, 3, 9))
        pool = {name: draw.choice((-math.inf, -1.0, 0.0, 0.5, 2.0, 3.0, 4.0, 7.0, math.inf)[:levels]) for name in names}
        judged = draw.sample(names, draw.randint(0, len(names))) + draw.sample("xyz", draw.choice((0, 0, 1, 2)))
        trials.append((pool, {name: draw.choice(weights) for name in judged}))
    return trials


TRIALS = random_trials(400, 5, seed=1) + random_trials(25, 6, seed=2)


@pytest.fixture(scope="module")
def enumerated():
    """For each trial, how often each order comes up, and all gains in its qrels."""
    return [(orders(pool, gains), list(gains.values())) for pool, gains in TRIALS]


@pytest.fixture(scope="module")
def stands(naive_stands):
    return naive_stands(TRIALS)


def as_floats(values):
    return np.array([math.nan if value is None else float(value) for value in values])


def same(values, wanted):
    np.testing.assert_allclose(values, wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("metric", WITH_FORMULA, ids=str)
def test_expected_is_the_mean_over_all_orders(metric, stands, enumerated):
    means = []
    for sequences, qrels in enumerated:
        values = [(of_order(metric, order, qrels), times) for order, times in sequences.items()]
        if any(value is None for value, _ in values):
            assert all(value is None for value, _ in values)
            means.append(None)
        else:
            means.append(sum(value * times for value, times in values) / sequences.total())
    wanted = as_floats(means)
    same(metric.values(stands), wanted)
    assert len(set(wanted[~np.isnan(wanted)])) > 1 or metric == num_q  # the trials tell something


@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_optimistic_and_pessimistic_are_the_extremes_of_all_orders(metric, stands, enumerated):
    values = [[of_order(metric, order, qrels) for order in sequences] for sequences, qrels in enumerated]
    lowest, highest = (as_floats([None if None in v else f(v) for v in values]) for f in (min, max))
    best, worst = (highest, lowest) if metric.higher_is_better else (lowest, highest)
    same(metric.values(settle(stands, "optimistic")), best)
    same(metric.values(settle(stands, "pessimistic")), worst)


@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_trec_is_the_order_by_score_then_by_id_both_downwards(metric, stands):
    wanted = []
    for pool, gains in TRIALS:
        order = sorted(pool, key=lambda c, pool=pool: (pool[c], c.encode()), reverse=True)
        wanted.append(of_order(metric, [gains.get(candidate) for candidate in order], list(gains.values())))
    same(metric.values(settle(stands, "trec")), as_floats(wanted))


# ---- values of docs/metrics.md -------------------------------------------------------------------------------------


def constant(trials):
    """Stands of trials in which all candidates tie: (pool size, gains in the pool, gains outside)."""
    rows = [
        (trial, gain, 0 if size else -1, size)
        for trial, (pool, inside, outside) in enumerate(trials)
        for gains, size in ((inside, pool), (outside, 0))
        for gain in gains
    ]
    trial, gain, better, tied = (np.array(column) for column in zip(*rows, strict=True))
    sizes = np.array([pool for pool, _, _ in trials])
    return Stands(sizes, trial, gain.astype(float), better, tied, np.zeros_like(tied))


def percents(stands, *metrics):
    return [100 * metric.total(metric.values(stands)) for metric in metrics]


@pytest.mark.parametrize(
    ("size", "cutoffs", "wanted"),
    [
        (2296, (1, 5, 10, 50), "0.0436 0.2178 0.4355 2.1777"),  # CIRR hard, gallery
        (5, (1, 2, 3), "20 40 60"),  # CIRR, subset
        (123_403, (5, 10, 25, 50), ".004052 .008104 .020259 .040518"),  # CIRCO, the single target
        (3817, (10, 50), ".2620 1.3099"),  # FashionIQ, original dress, shirt, toptee
        (6346, (10, 50), ".1576 .7879"),
        (5373, (10, 50), ".1861 .9306"),
        (2628, (10, 50), ".3805 1.9026"),  # FashionIQ, val
        (3089, (10, 50), ".3237 1.6186"),
        (2902, (10, 50), ".3446 1.7229"),
        (15, (1, 2, 3), "6.6667 13.3333 20"),  # GeneCIS focus_object
        (1000, (1, 5, 10), "0.1 0.5 1"),  # Recipe1M+
    ],
)
def test_constant_scores_with_one_right_candidate_give_chance(size, cutoffs, wanted):
    stands = constant([(size, [1], [])] * 3)
    digits = 6 if size > 100_000 else 4
    values = percents(stands, *(R @ k for k in cutoffs))
    assert [round(value, digits) for value in values] == [float(value) for value in wanted.split()]
    assert values == percents(stands, *(Success @ k for k in cutoffs))
    assert medR.total(medR.values(stands)) == (size + 1) / 2
    assert (P @ 10).values(stands) == pytest.approx(min(10, size) / (size * 10), rel=1e-15, abs=0)


def test_constant_scores_on_genecis_change_object():
    stands = constant([(14 if record == 19 else 15, [1], []) for record in range(1960)])
    values = percents(stands, R @ 1, R @ 2, R @ 3)
    assert [round(value, 4) for value in values] == [6.6669, 13.3338, 20.0007]


def test_constant_scores_on_cirr_soft(shared: Path):
    queries = json.loads((shared / "mirror/cirr/cap.rc2.val.json").read_bytes())
    gallery, group = [], []
    for query in queries:
        weights = {name: w for name, w in query["target_soft"].items() if name != query["reference"]}
        members = set(query["img_set"]["members"]) - {query["reference"]}
        gallery.append((2296, list(weights.values()), []))
        inside = [w for name, w in weights.items() if name in members]
        outside = [w for name, w in weights.items() if name not in members]
        group.append((5, inside, outside))
    values = percents(constant(gallery), *(Best @ k for k in (1, 5, 10, 50)))
    assert [round(value, 4) for value in values] == [0.0439, 0.2193, 0.4387, 2.1930]
    values = percents(constant(group), *(Best @ k for k in (1, 2, 3)))
    assert [round(value, 4) for value in values] == [20.0230, 39.9876, 59.8952]


def test_constant_scores_on_circo(shared: Path):
    queries = json.loads((shared / "mirror/circo/val.json").read_bytes())
    stands = constant([(123_403, [1] * len(query["gt_img_ids"]), []) for query in queries])
    n_gt = [round(value, 6) for value in percents(stands, *(AP @ k for k in (5, 10, 25, 50)))]
    assert n_gt == [0.001850, 0.002374, 0.003093, 0.003647]
    least = [round(v, 6) for v in percents(stands, *(AP(denominator="min") @ k for k in (5, 10, 25, 50)))]
    assert least == [0.002165, 0.002391, 0.003093, 0.003647]


def test_small_exact_cases():
    stands = constant([(3, [1, 1], [])])
    metrics = (MRR, AP, Success @ 1, Success @ 2, R @ 1)
    wanted = [Fraction(5, 6), Fraction(29, 36), Fraction(2, 3), Fraction(1), Fraction(1, 3)]
    assert [metric.values(stands)[0] for metric in metrics] == pytest.approx(
        [float(w) for w in wanted], rel=1e-15, abs=0
    )


def test_the_median_under_expected_is_that_of_the_mid_ranks(naive_stands):
    two_tied = ({"a": 1.0, "b": 1.0}, {"a": 1})
    fifth = ({name: float(-place) for place, name in enumerate("abcde")}, {"e": 1})
    stands = naive_stands([two_tied, two_tied, fifth])
    assert medR.values(stands).tolist() == [1.5, 1.5, 5]
    assert medR.total(medR.values(stands)) == 1.5
    four_tied, first = (dict.fromkeys("abcd", 0.0), {"a": 1}), ({"a": 2.0, "b": 1.0}, {"a": 1})
    assert medR.total(medR.values(naive_stands([four_tied, first, four_tied, first]))) == 1.75


# ---- large groups: no digits are lost where b is large and m small, or a chance is small -------------------


@pytest.mark.parametrize(
    ("b", "t", "r", "cutoff"),
    [
        (0, 50_000, 4, None),
        (0, 123_403, 23, 10),
        (123_000, 400, 5, None),
        (99_990, 20, 3, None),
        (1_000_000, 2, 2, None),
        (1_000_000, 3000, 50, 1_000_030),
        (37, 5000, 4000, 2500),
        (3, 4000, 1, 3999),
        (48, 1, 1, None),
    ],
)
def test_large_groups_keep_their_digits(b, t, r, cutoff):
    group = np.full(r, 1), np.full(r, b), np.full(r, t)
    stands = Stands(np.array([b + t]), np.zeros(r, int), group[0].astype(float), *group[1:], np.zeros(r, int))

    def value(metric):
        return (metric if cutoff is None else metric @ cutoff).values(stands)[0]

    m = t if cutoff is None else cutoff - b
    # of place j: the chance that the first relevant stands there, and how many of the others before it
    first = [r / t]
    for j in range(1, t - r + 1):
        first.append(first[-1] * (t - j - r + 1) / (t - j))
    reciprocal = math.fsum(p / (b + j) for j, p in enumerate(first[:m], 1))
    earlier = (r - 1) / max(t - 1, 1)
    precision = math.fsum((1 + earlier * (j - 1)) / (b + j) for j in range(1, m + 1)) / t
    gained = math.fsum(1 / math.log2(b + j + 1) for j in range(1, m + 1)) * r / t
    ideal = math.fsum(1 / math.log2(place + 1) for place in range(1, min(r, cutoff or r) + 1))
    assert value(MRR) == pytest.approx(reciprocal, rel=1e-12 if t > 1000 else 1e-13, abs=0)
    assert value(AP) == pytest.approx(precision, rel=2e-14, abs=0)
    assert value(nDCG) == pytest.approx(gained / ideal, rel=1e-13, abs=0)
    if cutoff is not None:
        none = Fraction(math.comb(t - r, m), math.comb(t, m)) if t < 10_000 else None
        none = none if none is not None else math.prod(Fraction(t - m - i, t - i) for i in range(r))
        assert value(Success) == pytest.approx(float(1 - none), rel=2e-14, abs=0)
        assert value(R) == pytest.approx(m / t, rel=1e-15, abs=0)


def all_relevant(*sizes):
    """Stands of one trial: groups of that many candidates, from the best score down, all of them relevant."""
    tied = np.repeat(sizes, sizes)
    better = np.repeat(np.cumsum(sizes) - sizes, sizes)
    nil = np.zeros_like(tied)
    return Stands(np.array([len(tied)]), nil, np.ones(len(tied)), better, tied, nil)


def test_a_perfect_run_is_exactly_1():
    for number in range(1, 120):
        run = all_relevant(*[1] * number)
        assert [metric.values(run)[0] for metric in (AP, MRR, nDCG, Rprec)] == [1, 1, 1, 1], number
    for groups in ((8, 2, 217, 1, 5), (2, 348, 3), (314,), (1, 2, 3), (1, 3, 8)):  # rounding goes up here
        assert max(metric.values(all_relevant(*groups))[0] for metric in (AP, MRR, nDCG, Rprec)) == 1


def test_places_of_a_settled_order_are_exact(naive_stands):
    ranking = {f"{place:04}": float(-place) for place in range(2000)}
    for place in (0, 1, 48, 106, 1999):
        stands = naive_stands([(ranking, {f"{place:04}": 1})])
        assert MRR.values(stands)[0] == AP.values(stands)[0] == 1 / (place + 1)
        assert nDCG.values(stands)[0] == 1 / math.log2(place + 2)


# ---- laws --------------------------------------------------------------------------------------------------

gain = st.sampled_from([-1.0, 0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0])
trial = st.tuples(
    st.dictionaries(st.text("abcde", min_size=1, max_size=3), st.sampled_from([0.0, 0.25, 1.0, 2.0]), max_size=12),
    st.dictionaries(st.text("abcde", min_size=1, max_size=3), gain, max_size=12),
)
trials = st.lists(trial, min_size=1, max_size=5)
LAW = settings(deadline=None, max_examples=60)


@LAW
@given(trials)
def test_optimistic_is_best_and_pessimistic_worst(naive_stands, drawn):
    stands = naive_stands(drawn)
    for metric in SOME_WITH_FORMULA:
        sign = 1 if metric.higher_is_better else -1
        low, mean, some, high = (
            sign * np.nan_to_num(metric.values(settle(stands, ties)), nan=-1)
            for ties in ("pessimistic", "expected", "trec", "optimistic")
        )
        slack = 1e-12
        assert (low <= mean + slack).all(), metric
        assert (mean <= high + slack).all(), metric
        assert ((low <= some + slack) & (some <= high + slack)).all(), metric


@LAW
@given(trials, st.randoms(use_true_random=False), st.sampled_from(TIE_RULES))
def test_the_order_of_entries_never_matters(naive_stands, drawn, shuffle, ties):
    stands = naive_stands(drawn)
    rows = list(range(len(stands.trial)))
    shuffle.shuffle(rows)
    mixed = stands.take(np.array(sorted(rows, key=lambda row: stands.trial[row]), np.int64))
    for metric in SOME if ties != "expected" else SOME_WITH_FORMULA:
        one, other = (metric.values(settle(s, ties)) for s in (stands, mixed))
        assert one.tobytes() == other.tobytes(), metric  # to the last bit


def test_the_order_of_tied_gains_does_not_matter_to_the_last_bit(naive_stands):
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1."""
    pool = dict.fromkeys("abcdefg", 0.0)
    found = set()
    for gains in itertools.permutations([0.1, 0.2, 0.3, 0.7]):
        stands = naive_stands([(pool, dict(zip("abcd", gains, strict=True)))])
        found.add((nDCG.values(stands)[0], (nDCG @ 3).values(stands)[0], (Best @ 2).values(stands)[0]))
    assert len(found) == 1


@LAW
@given(trials)
def test_a_trial_does_not_see_the_others(naive_stands, drawn):
    together = naive_stands(drawn)
    alone = [naive_stands([one]) for one in drawn]
    for metric in SOME_WITH_FORMULA:
        assert metric.values(together).tobytes() == b"".join(metric.values(s).tobytes() for s in alone), metric


@LAW
@given(trials, st.booleans())
def test_a_perfect_run_has_the_highest_value(naive_stands, drawn, tied):
    """Scores that are the gains, all judged in the pool: with or without ties among equals."""
    perfect = [
        ({c: (gains.get(c, 0), "" if tied else c) for c in pool.keys() | gains.keys()}, gains) for pool, gains in drawn
    ]
    scores = sorted({score for pool, _ in perfect for score in pool.values()})
    stands = naive_stands([({c: float(scores.index(s)) for c, s in pool.items()}, gains) for pool, gains in perfect])
    has_right = np.array([any(gain >= 1 for gain in gains.values()) for _, gains in drawn])
    has_gain = np.array([any(gain > 0 for gain in gains.values()) for _, gains in drawn])
    for metric in (AP, MRR, Rprec, Success @ 1, AP(denominator="min") @ 2):
        assert np.array_equal(metric.values(stands), has_right.astype(float)), metric
    for metric in (nDCG, nDCG @ 3):
        np.testing.assert_allclose(metric.values(stands), has_gain, rtol=1e-15)
        assert (metric.values(stands) <= 1).all()
    assert np.array_equal(medR.values(stands)[has_right], medR.values(settle(stands, "optimistic"))[has_right])
    assert (Best @ 1).values(stands).tolist() == [max([0.0, *gains.values()]) for _, gains in drawn]


@LAW
@given(trials, st.sampled_from(TIE_RULES))
def test_settling_twice_changes_nothing(naive_stands, drawn, ties):
    once = settle(naive_stands(drawn), ties)
    for again in TIE_RULES:
        if ties != "expected":
            for metric in SOME:
                assert metric.values(settle(once, again)).tobytes() == metric.values(once).tobytes()


def test_settle_places_every_judged_candidate_once(naive_stands):
    pool = dict.fromkeys("abcdef", 1.0) | {"top": 2.0}
    gains = {"a": 0.0, "b": 3.0, "c": -1.0, "d": 1.0, "away": 2.0}
    stands = naive_stands([(pool, gains)])
    for ties, wanted in {
        "optimistic": {"b": 1, "d": 2, "a": 3, "c": 4},  # then the two that are not judged
        "pessimistic": {"c": 3, "a": 4, "d": 5, "b": 6},
        "trec": {"d": 3, "c": 4, "b": 5, "a": 6},  # behind f and e
    }.items():
        settled = settle(stands, ties)
        rank = dict(zip(settled.gain, settled.better, strict=True))
        assert rank == {gains[c]: better for c, better in wanted.items()} | {2.0: -1}
        assert sorted(settled.tied) == [0, 1, 1, 1, 1]
        assert not settled.before.any()
    assert settle(stands, "expected") is stands


def test_settle_names_the_rules_there_are(stands):
    with pytest.raises(ValueError, match="'random' is no tie rule; there are: expected, trec, optimistic, pessimistic"):
        settle(stands, "random")


def test_bpref_wants_an_order(stands):
    assert [metric.name for metric in METRICS if metric.needs_order] == ["bpref"] * 3
    with pytest.raises(ValueError, match="bpref has no formula for ties"):
        bpref.values(stands)


def test_no_trials_and_no_judged(naive_stands):
    nothing, unjudged = naive_stands([]), naive_stands([({"a": 1.0, "b": 1.0}, {})])
    for metric in METRICS:
        assert metric.values(nothing).shape == (0,)
        value = metric.values(unjudged)[0]
        if metric.name == "medR":
            assert math.isnan(value)
        else:
            assert value == {"num_q": 1, "num_ret": 2}.get(metric.name, 0)


# ---- aggregates --------------------------------------------------------------------------------------------


def test_totals():
    values = np.array([0.1] * 10)
    assert AP.total(values) == 0.1  # a running sum gives 0.09999999999999999
    rng = np.random.default_rng(0)
    values = rng.random(10_000)
    assert len({AP.total(rng.permutation(values)) for _ in range(20)}) == 1
    assert num_ret.total(np.array([500.0, 3.0])) == 503
    assert num_rel.total(np.array([])) == 0
    assert medR.total(np.array([4.0, 1.0, 2.5])) == 2.5
    assert medR.total(np.array([4.0, 1.0])) == 2.5


def test_a_trial_without_a_rank_stands_behind_all_others():
    assert medR.total(np.array([3.0, math.nan, 1.0])) == 3
    assert medR.total(np.array([3.0, math.nan])) == math.inf
    assert medR.total(np.array([math.nan, math.nan])) == math.inf


@pytest.mark.parametrize("metric", [AP, medR], ids=str)
def test_nothing_has_no_mean(metric):
    with pytest.raises(ValueError, match=f"{metric}: no trials"):
        metric.total(np.array([]))


# ---- metrics as values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (R @ 10, "R@10"),
        (R(rel=2) @ 5, "R(rel=2)@5"),
        ((R @ 5)(rel=2), "R(rel=2)@5"),
        (R(rel=0.25) @ np.int64(5), "R(rel=0.25)@5"),
        (AP(denominator="min") @ 5, "AP(denominator=min)@5"),
        (AP(rel=2)(denominator="min") @ 5, "AP(denominator=min,rel=2)@5"),
        (AP, "AP"),
        (AP(denominator="n_gt", rel=1), "AP"),
        (MRR @ 10, "MRR@10"),
        (nDCG, "nDCG"),
        (Best @ 5, "Best@5"),
        (medR, "medR"),
        (num_rel(rel=2), "num_rel(rel=2)"),
    ],
)
def test_metrics_print_and_parse(metric, text):
    assert str(metric) == text
    assert parse(text) == metric
    assert hash(parse(text)) == hash(metric)


def test_options_parse_in_any_order_and_with_defaults():
    assert parse(" AP(rel=2, denominator=min)@5 ") == AP(denominator="min", rel=2) @ 5
    assert parse("R(rel=1)@5") == parse("R(rel=1.0)@5") == R @ 5


@given(
    st.sampled_from(METRICS),
    st.floats(0, exclude_min=True, allow_infinity=False),
    st.integers(1, 10**9),
)
def test_print_and_parse_are_inverse(metric, rel, cutoff):
    metric = metric(rel=rel) if "rel" in metric.options else metric
    metric = metric @ cutoff if metric.cutoff else metric
    assert parse(str(metric)) == metric


def test_every_family_is_a_value_of_its_name():
    for name in NAMES:
        assert getattr(module, name) == Metric(name)
        assert str(getattr(module, name)) == name
    assert len({metric.name for metric in METRICS}) == len(NAMES)  # none is left out above


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R", "R needs a cut-off: R@10"),
        ("R(rel=2)", r"R\(rel=2\) needs a cut-off: R\(rel=2\)@10"),
        ("medR@5", "medR takes no cut-off"),
        ("R@0", "R@0: a cut-off is a whole number from 1 up"),
        ("R@-1", "R@-1: a cut-off is a whole number from 1 up"),
        ("R@1.5", "R@1.5: a cut-off is a whole number from 1 up"),
        ("R@", "R@: a cut-off is a whole number"),
        ("Recall@5", r"'Recall' is no metric; there are: R@K, P@K, .*AP\[@K\].*, medR"),
        ("ndcg@10", "'ndcg' is no metric, did you mean nDCG\\? There are: R@K"),
        ("R@5@6", "R@5@6: a cut-off is"),
        ("", "'' is no metric; metrics look like R@10"),
        ("R@1 0", "'R@1 0' is no metric"),
        ("R(level=2)@5", "R has no option 'level'; it has: rel"),
        ("nDCG(rel=2)@5", "nDCG has no option 'rel'$"),
        ("P(denominator=min)@5", "P has no option 'denominator'; it has: rel"),
        ("AP(denominator=max)@5", "AP: denominator is n_gt or min, not 'max'"),
        ("R(rel=x)@5", r"R\(rel=x\)@5: rel is a number above 0, not 'x'"),
        ("R(rel=0)@5", "R: rel is a number above 0, not 0"),
        ("R(rel=nan)@5", "R: rel is a number above 0, not nan"),
        ("R(rel=inf)@5", "R: rel is a number above 0, not inf"),
        ("R()@5", None),
    ],
)
def test_what_cannot_be_parsed_says_why(text, message):
    if message is None:
        assert parse(text) == R @ 5
    else:
        with pytest.raises(ValueError, match=message):
            parse(text)


def test_what_cannot_be_built_says_why(stands):
    with pytest.raises(ValueError, match="medR takes no cut-off"):
        medR @ 5
    with pytest.raises(ValueError, match="nDCG has no option 'rel'"):
        nDCG(rel=2)
    with pytest.raises(ValueError, match="'X' is no metric"):
        Metric("X")
    with pytest.raises(ValueError, match="R needs a cut-off: R@10"):
        R.values(stands)
    with pytest.raises(TypeError):
        R @ 1.5


def test_units_and_directions():
    assert {metric.name for metric in METRICS if metric.unit == "rank"} == {"medR"}
    assert {metric.name for metric in METRICS if not metric.higher_is_better} == {"medR"}
    counts = {"num_q", "num_ret", "num_rel", "num_rel_ret"}
    assert {metric.name for metric in METRICS if metric.unit == "count"} == counts
    assert {metric.unit for metric in METRICS} == {"fraction", "rank", "count"}
    assert (R @ 10).cutoff == 10
    assert AP.cutoff is None
    assert replace(R @ 10, cutoff=5) == R @ 5
