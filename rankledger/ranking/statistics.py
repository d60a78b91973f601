"""What a number on so many queries is worth: bootstrap intervals, paired randomisation tests, Holm's correction.

Queries are what is drawn: a query that is asked in several repeats keeps all its trials together, for they are not
independent (Recipe1M+'s draws share queries). Random numbers are whole, from PCG64 seeded by the SHA-256 of a text,
and every sum is one of whole numbers below 2⁵³, exact in any order: results are the same on every machine, whatever
BLAS, threads and vector units there are.

B. Efron, Annals of Statistics 7 (1979): the percentile interval. M. Smucker, J. Allan, B. Carterette, CIKM 2007: the
randomisation test, with which two runs of a retrieval experiment are compared.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.stands import Floats, Ints

RESAMPLES = 2_000  # of an interval
EXCHANGES = 10_000  # of a test: the least p is 1 in so many, and Holm multiplies it by the number of rows
LEVEL = 0.95
ENUMERATED = 12  # up to so many queries that differ, all ways to swap them are gone through
_HELD = 1 << 20  # weights that are held at once
_CACHED = 1 << 16  # draws that are counted at once: they and the counts fit into a processor's own cache

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Trials:
    """The trials of one metric, in any order.

    Attributes:
        query: int64[m], which of n queries is asked (0 … n − 1).
        repeat: int64[m], in which repeat.
        values: float64[m], what the metric gives; NaN for a query without a rank.
        outside: bool[m]: whether the trial counts where its query is left out, instead of where it is taken.
    """

    query: Ints
    repeat: Ints
    values: Floats
    outside: NDArray[np.bool_] | None = None

    def per_query(self, amounts: Floats, n: int) -> tuple[Floats, float]:
        """s[n] and c such that w @ s + c is the sum of the whole `amounts` under the weights w."""
        outside = np.zeros(len(amounts), bool) if self.outside is None else self.outside
        sums = np.bincount(self.query, np.where(outside, -amounts, amounts), n).astype(np.float64)
        return sums, float(amounts[outside].sum())


@dataclass(frozen=True, eq=False)
class Measured:
    """A metric as a function of the queries' weights w[b, n]: whole numbers, how often each query counts.

    Attributes:
        sums: one (s[n], c) for each sum w @ s + c that the metric needs; whole numbers.
        finish: from these sums, float64[b, k], and the weights to the metric, float64[b].
    """

    sums: list[tuple[Floats, float]]
    finish: Callable[[Floats, Floats], Floats]


Aggregate = Callable[[Trials, int], Measured]
"""From trials on n queries to the metric as a function of the queries' weights."""


def mean(trials: Trials, n: int) -> Measured:
    """The mean over all trials."""
    largest = np.bincount(trials.query, np.abs(trials.values), n).max(initial=0.0)
    most = max(n * largest + np.abs(trials.values).sum(), 1.0)
    scale = 2.0 ** (51 - math.frexp(most)[1])  # no sum of values, in these units, reaches 2⁵³
    sums = [trials.per_query(amounts, n) for amounts in (np.rint(trials.values * scale), np.ones(len(trials.values)))]
    return Measured(sums, lambda found, weights: found[:, 0] / found[:, 1] / scale)


def median(trials: Trials, n: int) -> Measured:
    """The median of each repeat (of an even number: the mean of the middle two), then the mean over the repeats.

    A trial without a rank stands behind all others. A repeat none of whose queries is drawn does not count.
    """
    repeats = [_Sorted.of(trials, np.flatnonzero(trials.repeat == r), n) for r in np.unique(trials.repeat)]

    def finish(found: Floats, weights: Floats) -> Floats:
        medians = np.stack([one.medians(found[:, 2 * i : 2 * i + 2], weights) for i, one in enumerate(repeats)])
        there = ~np.isnan(medians)
        return np.asarray(np.where(there, medians, 0.0).sum(axis=0) / there.sum(axis=0))

    return Measured([pair for one in repeats for pair in one.sums], finish)


@dataclass(frozen=True, eq=False)
class _Sorted:
    """The trials of a repeat in the order of their values.

    Under any likely weights the median lies near the middle: what lies below a window around it is only summed up, and
    the window is gone through. Where the median lies elsewhere after all, the window is everything.
    """

    trials: Trials
    sums: list[tuple[Floats, float]]  # of what lies below the window, and of all
    window: slice

    @classmethod
    def of(cls, trials: Trials, mine: Ints, n: int) -> "_Sorted":
        values = np.where(np.isnan(trials.values[mine]), np.inf, trials.values[mine])
        order = np.argsort(values, kind="stable")
        outside = None if trials.outside is None else trials.outside[mine][order]
        ordered = Trials(trials.query[mine][order], trials.repeat[mine][order], values[order], outside)
        middle, width = len(order) // 2, 2 * math.isqrt(len(order)) + 8
        window = slice(max(0, middle - width), middle + width)
        below = np.where(np.arange(len(order)) < window.start, 1.0, 0.0)
        return cls(ordered, [ordered.per_query(amounts, n) for amounts in (below, np.ones(len(order)))], window)

    def medians(self, sums: Floats, weights: Floats) -> Floats:
        """float64[b], NaN where no trial counts."""
        found, lost = self._medians(sums, weights, self.window)
        if lost.any():
            all_sums = sums[lost] * [0, 1]
            found[lost], _ = self._medians(all_sums, weights[lost], slice(0, len(self.trials.values)))
        return found

    def _medians(self, sums: Floats, weights: Floats, window: slice) -> tuple[Floats, NDArray[np.bool_]]:
        """The medians, and where they are not in the window."""
        before, size = sums.T
        values = self.trials.values[window]
        inside = weights[:, self.trials.query[window]]
        if self.trials.outside is not None:
            inside = np.where(self.trials.outside[window], 1 - inside, inside)
        upto = np.cumsum(inside, axis=1)
        low, high = np.floor((size + 1) / 2) - before, np.floor(size / 2) + 1 - before
        at_low, at_high = (np.count_nonzero(upto < at[:, None], axis=1) for at in (low, high))
        lost = (size > 0) & ((low <= 0) | (at_high == len(values)))
        at_low, at_high = np.minimum([at_low, at_high], len(values) - 1)
        return np.where(size > 0, (values[at_low] + values[at_high]) / 2, np.nan), lost


def of_pairs(total: Callable[[Ints], Floats], classes: int) -> Aggregate:
    """An aggregate of label tasks; trials then hold gold · classes + answer as their values.

    `total` takes int64[b, classes, classes], how many queries of a class (row) got an answer (column).
    """

    def aggregate(trials: Trials, n: int) -> Measured:
        cells = range(classes * classes)
        sums = [trials.per_query(np.where(trials.values == cell, 1.0, 0.0), n) for cell in cells]
        return Measured(sums, lambda found, weights: total(found.astype(np.int64).reshape(-1, classes, classes)))

    return aggregate


def resampled(measures: Sequence[tuple[Aggregate, Trials]], n: int, key: str) -> list[Floats]:
    """Each metric on `RESAMPLES` draws of n queries from the n, with replacement; the same draws for all of them."""
    return _over(_draws(n, key), [aggregate(trials, n) for aggregate, trials in measures])


@dataclass(frozen=True, eq=False)
class Paired:
    """A metric on the same queries in two runs: the difference, new − old, and what chance makes of it.

    Attributes:
        difference: as it is.
        drawn: float64[`RESAMPLES`], on queries drawn with replacement.
        swapped: float64[`EXCHANGES`], with the two runs' trials exchanged for a random half of the queries.
        enumerated: with all ways to exchange them, where few queries differ.
    """

    difference: float
    drawn: Floats
    swapped: Floats
    enumerated: Floats | None = None

    @property
    def interval(self) -> Interval | None:
        """The 95 % percentile interval of the difference; none where it is not always finite."""
        return interval(self.drawn)

    @cached_property
    def p(self) -> float | None:
        """Two-sided: how often chance alone makes a difference as great. None where the difference is not finite.

        If no run were better, exchanging the two runs on a query would change nothing; so the difference is held
        against those after random exchanges, the one seen being one of them: (1 + as great) / (1 + all). A mean's
        difference only changes the sign of its terms then (the sign-flip test); a median is taken anew.
        """
        if not math.isfinite(self.difference):
            return None
        others = self.swapped if self.enumerated is None else self.enumerated
        great = np.count_nonzero(~(np.abs(others) < abs(self.difference) - 1e-9))
        return great / len(others) if self.enumerated is not None else (1 + great) / (1 + len(others))


def compared(measures: Sequence[tuple[Aggregate, Trials, Trials]], n: int, key: str) -> list[Paired]:
    """Each metric (how it is made, old trials, new trials) on the n queries that both runs were asked."""
    olds = [aggregate(old, n) for aggregate, old, _ in measures]
    news = [aggregate(new, n) for aggregate, _, new in measures]
    alone = [_minus(new, old) for old, new in zip(olds, news, strict=True)]
    swaps = [_swap(*measure, n) for measure in measures]
    return [
        Paired(float(difference[0]), drawn, swapped, _enumerated(swap, _differing(old, new), n))
        for difference, drawn, swapped, swap, (_, old, new) in zip(
            _over([np.ones((1, n))], alone),
            _over(_draws(n, key), alone),
            _over(_coins(n, key), swaps),
            swaps,
            measures,
            strict=True,
        )
    ]


def mean_of(parts: Sequence[Paired]) -> Paired:
    """The unweighted mean of metrics; parts on the same queries move together, others are independent."""
    return Paired(
        math.fsum(p.difference for p in parts) / len(parts),
        np.sum([p.drawn for p in parts], axis=0) / len(parts),
        np.sum([p.swapped for p in parts], axis=0) / len(parts),
    )


def interval(drawn: Floats) -> Interval | None:
    """The 95 % percentile interval; none where some values are not finite."""
    if not np.isfinite(drawn).all():
        return None
    cut = round(len(drawn) * (1 - LEVEL) / 2)
    ordered = np.sort(drawn)
    return float(ordered[cut - 1]), float(ordered[-cut])


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979); None stays and does not count.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    found: list[float | None] = [None] * len(p_values)
    least = 0.0
    for place, (p, i) in enumerate(order):
        least = max(least, min(1.0, p * (len(order) - place)))
        found[i] = least
    return found


def _swap(aggregate: Aggregate, old: Trials, new: Trials, n: int) -> Measured:
    """The difference of a metric after an exchange: a weight of 1 leaves a query's trials, 0 exchanges them."""

    def both(old_outside: bool) -> Measured:
        outside = np.repeat([old_outside, not old_outside], [len(old.query), len(new.query)])
        query, repeat = np.concatenate([old.query, new.query]), np.concatenate([old.repeat, new.repeat])
        return aggregate(Trials(query, repeat, np.concatenate([old.values, new.values]), outside), n)

    return _minus(both(old_outside=True), both(old_outside=False))


def _enumerated(swap: Measured, differing: Ints, n: int) -> Floats | None:
    """The difference after all ways to exchange the queries that differ; none where they are too many."""
    if len(differing) > ENUMERATED:
        return None
    bits = (np.arange(1 << len(differing))[:, None] >> np.arange(len(differing))) & 1
    step = _rows(n)

    def ways() -> Iterator[Floats]:
        for start in range(0, len(bits), step):
            weights = np.ones((len(bits[start : start + step]), n))
            weights[:, differing] = bits[start : start + step]
            yield weights

    return _over(ways(), [swap])[0]


def _differing(old: Trials, new: Trials) -> Ints:
    """The queries whose trials are not the same in both: all, where not the same trials were made."""
    orders = [np.lexsort((t.values, t.repeat, t.query)) for t in (old, new)]
    for name in ("query", "repeat"):
        left, right = (getattr(t, name)[order] for t, order in zip((old, new), orders, strict=True))
        if not np.array_equal(left, right):
            return np.unique(np.concatenate([old.query, new.query]))
    left, right = (t.values[order] for t, order in zip((old, new), orders, strict=True))
    return np.unique(old.query[orders[0]][~((left == right) | (np.isnan(left) & np.isnan(right)))])


def _minus(left: Measured, right: Measured) -> Measured:
    k = len(left.sums)

    def finish(found: Floats, weights: Floats) -> Floats:
        with np.errstate(invalid="ignore"):  # two infinite medians
            return left.finish(found[:, :k], weights) - right.finish(found[:, k:], weights)

    return Measured(left.sums + right.sums, finish)


def _over(chunks: Iterable[Floats], measures: Sequence[Measured]) -> list[Floats]:
    """Each metric on the weights of all chunks. The product is exact: its terms and sums are whole numbers."""
    sums = np.stack([s for m in measures for s, _ in m.sums], axis=1)
    left = np.array([c for m in measures for _, c in m.sums])
    ends = np.cumsum([len(m.sums) for m in measures])
    parts: list[list[Floats]] = [[] for _ in measures]
    for weights in chunks:
        found = weights @ sums + left
        for part, measured, mine in zip(parts, measures, np.split(found, ends[:-1], axis=1), strict=True):
            part.append(measured.finish(mine, weights))
    return [np.concatenate(part) for part in parts]


def _rows(n: int) -> int:
    return max(1, _HELD // n)


def _words(key: str, total: int, n: int, width: int) -> Iterator[NDArray[np.uint64]]:
    """`total` rows of `width` random 64-bit words, in chunks for n queries; the same for a text everywhere."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest())
    source = np.random.PCG64(np.random.SeedSequence(seed))
    for start in range(0, total, _rows(n)):
        rows = min(_rows(n), total - start)
        yield source.random_raw(rows * width).astype("<u8", copy=False).reshape(rows, width)


def _draws(n: int, key: str) -> Iterator[Floats]:
    """`RESAMPLES` times how often each of n queries is drawn in n draws with replacement, in chunks [b, n].

    A draw is a 32-bit word times n, without its lower 32 bits: off from uniform by less than n/2³² of itself.
    """
    rows = max(1, _CACHED // n)
    for words in _words(f"draws {key}", RESAMPLES, n, (n + 1) // 2):
        weights = np.empty((len(words), n))
        for start in range(0, len(words), rows):
            drawn = words[start : start + rows].view("<u4")[:, :n].astype(np.int64)
            drawn *= n
            drawn >>= 32
            drawn += n * np.arange(len(drawn))[:, None]
            weights[start : start + rows] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(-1, n)
        yield weights


def _coins(n: int, key: str) -> Iterator[Floats]:
    """`EXCHANGES` times 0 or 1 for each of n queries, in chunks [b, n]."""
    for words in _words(f"coins {key}", EXCHANGES, n, (n + 63) // 64):
        yield np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :n].astype(np.float64)
