"""Intervals and paired tests: against slow definitions, in simulations, the same whatever the order or the machine."""

import itertools
import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankledger.ranking import labels, statistics
from rankledger.ranking.statistics import Aggregate, Trials, compared, holm, interval, mean, mean_of, median, resampled

ONE = "a text"


def once(values: np.ndarray) -> Trials:
    """One trial a query."""
    return Trials(np.arange(len(values)), np.zeros(len(values), np.int64), np.asarray(values, float))


def measure(aggregate: Aggregate, trials: Trials, weights: np.ndarray) -> float:
    """The metric under one set of weights."""
    measured = aggregate(trials, len(weights))
    sums = np.array([[weights @ s + c for s, c in measured.sums]])
    return float(measured.finish(sums, weights[None, :].astype(float))[0])


def repeated(trials: Trials, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and repeats, each as often as its weight says: the slow way to weigh."""
    times = weights[trials.query]
    if trials.outside is not None:
        times = np.where(trials.outside, 1 - times, times)
    return np.repeat(trials.values, times), np.repeat(trials.repeat, times)


trials_and_weights = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, 2), st.sampled_from([1.0, 2.0, 2.5, 7.0, math.nan])),
            min_size=1,
            max_size=25,
        ),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


@given(trials_and_weights)
def test_weighted_median_is_the_median_of_the_repeated_values(
    drawn: tuple[list[tuple[int, int, float]], list[int]],
) -> None:
    rows, weights = drawn
    query, repeat, values = (np.array(column) for column in zip(*rows, strict=True))
    trials = Trials(query, repeat, values)
    all_values, all_repeats = repeated(trials, np.array(weights))
    expected = [np.median(np.where(np.isnan(v), np.inf, v)) for r in range(3) if len(v := all_values[all_repeats == r])]
    if expected:
        assert measure(median, trials, np.array(weights)) == np.mean(expected)


def test_weighted_median_far_from_the_middle() -> None:
    """The window around the middle does not hold it: all the weight lies on the smallest values."""
    values = np.arange(1000.0)
    weights = np.where(values < 9, 3, 0)
    assert measure(median, once(values), weights) == np.median(np.repeat(values, weights)) == 4.0
    assert measure(median, once(values), weights[::-1]) == 995.0


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 3), st.booleans()), min_size=2, max_size=30).filter(
        lambda rows: any(w != out for _, w, out in rows) and all(w <= 1 for _, w, out in rows if out)
    )
)
def test_weighted_mean_is_the_mean_of_the_repeated_values(rows: list[tuple[float, int, bool]]) -> None:
    values, weights, outside = (np.array(column) for column in zip(*rows, strict=True))
    trials = Trials(np.arange(len(rows)), np.zeros(len(rows), np.int64), values, outside)
    all_values, _ = repeated(trials, weights)
    if len(all_values):
        assert measure(mean, trials, weights) == pytest.approx(np.mean(all_values), rel=1e-12, abs=1e-12)


def test_macro_averages_are_those_of_the_answers_drawn() -> None:
    draw = np.random.default_rng(1)
    gold, given_ = draw.integers(0, 4, (2, 60))
    weights = draw.integers(0, 3, 60)
    for name, metric in labels.METRICS.items():
        aggregate = statistics.of_pairs(metric.of_pairs, 4)
        expected = metric.total(np.repeat(gold, weights), np.repeat(given_, weights))
        assert measure(aggregate, once(gold * 4.0 + given_), weights) == pytest.approx(expected), name


def test_draws_are_as_many_as_queries_and_even() -> None:
    weights = np.concatenate(list(statistics._draws(7, ONE)))
    assert weights.shape == (statistics.RESAMPLES, 7)
    assert (weights.sum(axis=1) == 7).all()
    # each count has mean 1 and variance 6/7; the mean of 2,000 has a standard error of .021
    assert np.abs(weights.mean(axis=0) - 1).max() < 0.1
    assert np.abs(weights.var(axis=0) - 6 / 7).max() < 0.12


def test_coins_are_fair() -> None:
    weights = np.concatenate(list(statistics._coins(70, ONE)))
    assert weights.shape == (statistics.EXCHANGES, 70)
    assert set(np.unique(weights)) == {0.0, 1.0}
    assert np.abs(weights.mean(axis=0) - 0.5).max() < 0.05


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [np.concatenate(list(make(90, ONE))) for make in (statistics._draws, statistics._coins)]
    monkeypatch.setattr(statistics, "_HELD", 1000)
    after = [np.concatenate(list(make(90, ONE))) for make in (statistics._draws, statistics._coins)]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_queries_are_tested_exactly() -> None:
    old = np.array([0.0, 0, 0, 0, 0, 1, 1, 1])
    new = np.array([1.0, 1, 1, 1, 0, 0, 1, 1])
    (found,) = compared([(mean, once(old), once(new))], 8, ONE)
    differences = (new - old)[new != old]
    as_great = [
        abs(np.dot(signs, differences)) >= abs(differences.sum()) - 1e-9
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    assert found.difference == 3 / 8
    assert found.p == np.mean(as_great) == 12 / 32


def test_random_exchanges_come_close_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    old, new = draw.normal(size=(2, 10))
    new += 0.5
    for aggregate in (mean, median):
        (exact,) = compared([(aggregate, once(old), once(new))], 10, ONE)
        monkeypatch.setattr(statistics, "ENUMERATED", 0)
        (random,) = compared([(aggregate, once(old), once(new))], 10, ONE)
        monkeypatch.undo()
        assert exact.enumerated is not None
        assert random.enumerated is None
        assert exact.p == pytest.approx(random.p, abs=0.02)


def test_no_difference_is_no_evidence() -> None:
    values = np.arange(50.0)
    for aggregate in (mean, median):
        (found,) = compared([(aggregate, once(values), once(values))], 50, ONE)
        assert (found.difference, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


def test_a_great_difference_is_evidence() -> None:
    draw = np.random.default_rng(5)
    old = draw.normal(size=200)
    (found,) = compared([(mean, once(old), once(old + 1 + draw.normal(size=200)))], 200, ONE)
    assert found.p == 1 / (statistics.EXCHANGES + 1)
    assert found.interval is not None
    assert 0.7 < found.interval[0] < found.difference < found.interval[1] < 1.3


def test_infinite_medians_have_no_interval_and_no_p() -> None:
    old = np.full(20, math.nan)
    (found,) = compared([(median, once(old), once(np.ones(20)))], 20, ONE)
    assert found.interval is None
    assert found.p is None


@pytest.mark.parametrize("aggregate", [mean, median])
def test_order_of_rows_does_not_show(aggregate: Aggregate) -> None:
    draw = np.random.default_rng(7)
    query = np.concatenate([draw.permutation(40)[:30] for _ in range(3)])
    repeat, old, new = np.repeat(np.arange(3), 30), draw.normal(size=90), draw.normal(size=90)
    (before,) = compared([(aggregate, Trials(query, repeat, old), Trials(query, repeat, new))], 40, ONE)
    a, b = draw.permutation(90), draw.permutation(90)
    shuffled = Trials(query[a], repeat[a], old[a]), Trials(query[b], repeat[b], new[b])
    (after,) = compared([(aggregate, *shuffled)], 40, ONE)
    assert before.difference == after.difference
    assert before.p == after.p
    np.testing.assert_array_equal(before.drawn, after.drawn)


def test_a_query_in_several_repeats_is_drawn_once() -> None:
    """Ten copies of each trial tell nothing new: the interval is that of one copy, not √10 times narrower."""
    values = np.random.default_rng(9).normal(size=100)
    copies = Trials(np.tile(np.arange(100), 10), np.repeat(np.arange(10), 100), np.tile(values, 10))
    (single,), (tenfold,) = (resampled([(mean, t)], 100, ONE) for t in (once(values), copies))
    np.testing.assert_allclose(single, tenfold, rtol=0, atol=1e-12)


def test_parts_on_the_same_queries_move_together() -> None:
    draw = np.random.default_rng(11)
    old, new = draw.normal(size=(2, 80))
    two = compared([(mean, once(old), once(new)), (mean, once(-old), once(-new))], 80, ONE)
    assert mean_of(two).difference == 0.0
    np.testing.assert_allclose(mean_of(two).drawn, 0, atol=1e-12)
    apart = compared([(mean, once(-old), once(-new))], 80, "another text")
    assert mean_of([two[0], *apart]).drawn.std() > 0.05


@pytest.mark.parametrize(("aggregate", "n"), [(mean, 31), (median, 101)])
def test_p_values_are_uniform_where_no_run_is_better(
    aggregate: Aggregate, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A median of few queries takes few values; their ties make its p a little too great, so it gets more queries."""
    monkeypatch.setattr(statistics, "RESAMPLES", 49)
    monkeypatch.setattr(statistics, "EXCHANGES", 499)
    draw = np.random.default_rng(13)
    p_values = []
    for trial in range(400):
        old, new = draw.exponential(size=(2, n))
        (found,) = compared([(aggregate, once(old), once(new))], n, str(trial))
        assert found.p is not None
        p_values.append(found.p)
    distance = np.abs(np.sort(p_values) - np.arange(1, 401) / 400).max()
    assert distance < 1.63 / math.sqrt(400)  # Kolmogorov–Smirnov, one in a hundred
    assert 0.02 < np.mean(np.array(p_values) <= 0.05) < 0.09


def _normal(draw: np.random.Generator) -> np.ndarray:
    return draw.normal(0.3, 1, 120)


def _hits(draw: np.random.Generator) -> np.ndarray:
    return (draw.random(120) < 0.3) * 1.0 - (draw.random(120) < 0.1)


@pytest.mark.parametrize(("make", "truth"), [(_normal, 0.3), (_hits, 0.2)])
def test_intervals_cover_at_their_rate(
    make: Callable[[np.random.Generator], np.ndarray], truth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    draw = np.random.default_rng(17)
    covered = 0
    for trial in range(400):
        found = interval(resampled([(mean, once(make(draw)))], 120, str(trial))[0])
        assert found is not None
        covered += found[0] <= truth <= found[1]
    assert 0.92 <= covered / 400 <= 0.98  # .95 ± 2.75 standard errors


def test_median_intervals_cover_at_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 999)
    draw = np.random.default_rng(19)
    covered = 0
    for trial in range(300):
        found = interval(resampled([(median, once(draw.exponential(size=121)))], 121, str(trial))[0])
        assert found is not None
        covered += found[0] <= math.log(2) <= found[1]
    assert 0.91 <= covered / 300 <= 0.985


def test_holm_against_an_example_by_hand() -> None:
    # sorted: .005·4, .01·3, .03·2, .04·1, each at least the one before
    assert holm([0.01, 0.04, None, 0.03, 0.005]) == pytest.approx([0.03, 0.06, None, 0.06, 0.02], nan_ok=True)
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_same_in_another_process() -> None:
    """No hash seed, thread count or kernel of BLAS shows."""
    code = (
        "import numpy as np; from rankledger.ranking.statistics import *\n"
        "v = np.random.default_rng(1).random((2, 3000))\n"
        "t = [Trials(np.arange(3000), np.zeros(3000, int), x) for x in v]\n"
        "f = compared([(a, *t) for a in (mean, median)], 3000, 'k')\n"
        "print([(x.difference, x.interval, x.p) for x in f])"
    )
    said = set()
    for threads, kernel, seed in (("1", "Prescott", "1"), ("2", "Haswell", "2")):
        environment = {"OPENBLAS_NUM_THREADS": threads, "OPENBLAS_CORETYPE": kernel, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        said.add(done.stdout)
    assert len(said) == 1
