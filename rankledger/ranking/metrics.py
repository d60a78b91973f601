"""Metrics as values: `R @ 10` prints as "R@10", parses from it, and knows its unit, direction and values.

Every formula is the metric's mean over the random orders of tied candidates, in closed form, and the plain
metric where nothing is tied (docs/metrics.md; McSherry & Najork, ECIR 2008, and linearity of expectation). They are
written with b better, t tied, r relevant among the tied, c relevant among the better, m places of the tied
within the cut-off K, and R relevant in the qrels.
"""

import difflib
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Self

import numpy as np

from rankledger.ranking.stands import Floats, Ints, Stands, place_in_run, starts_run

DENOMINATORS = ("n_gt", "min")


@dataclass(frozen=True)
class Metric:
    """A metric, with its cut-off and options: `R @ 10`, `R(rel=2) @ 5`, `AP(denominator="min") @ 5`, `MRR`.

    Attributes:
        name: one of `NAMES`.
        cutoff: the K of `R@K`: only the first K places count; None for the whole ranking.
        rel: the least relevance that counts as relevant, above 0 (nDCG and Best weigh every one above 0).
        denominator: what AP@K divides by: "n_gt", all relevant candidates (as trec_eval's map_cut), or "min",
            as many of them as K places hold.

    Raises `ValueError` on a name, a cut-off or an option that does not exist.
    """

    name: str
    cutoff: int | None = None
    rel: float = 1
    denominator: str = "n_gt"

    def __post_init__(self) -> None:
        if self.name not in _FAMILIES:
            raise ValueError(_unknown(self.name))
        if self.cutoff is not None and self._family.cutoff == "none":
            raise ValueError(f"{self.name} takes no cut-off, but got @{self.cutoff}")
        if self.cutoff is not None and self.cutoff < 1:
            raise ValueError(f"{self.name}@{self.cutoff}: a cut-off is a whole number from 1 up")
        if not 0 < self.rel < math.inf:
            raise ValueError(f"{self.name}: rel is a number above 0, not {self.rel}")
        if self.denominator not in DENOMINATORS:
            there = " or ".join(DENOMINATORS)
            raise ValueError(f"{self.name}: denominator is {there}, not {self.denominator!r}")
        for option, default in _DEFAULTS.items():
            if getattr(self, option) != default and option not in self.options:
                raise ValueError(_no_option(self.name, option))

    def __matmul__(self, cutoff: int) -> Self:
        return replace(self, cutoff=operator.index(cutoff))

    def __call__(self, *, rel: float | None = None, denominator: str | None = None) -> Self:
        """The same metric with other options."""
        return replace(
            self,
            rel=self.rel if rel is None else rel,
            denominator=self.denominator if denominator is None else denominator,
        )

    def __str__(self) -> str:
        given = {option: getattr(self, option) for option in sorted(_DEFAULTS)}
        shown = [f"{o}={_plain(v)}" for o, v in given.items() if v != _DEFAULTS[o]]
        options = f"({','.join(shown)})" if shown else ""
        return self.name + options + (f"@{self.cutoff}" if self.cutoff else "")

    @property
    def _family(self) -> "_Family":
        return _FAMILIES[self.name]

    @property
    def options(self) -> tuple[str, ...]:
        """The options that this metric has: of "rel" and "denominator"."""
        return self._family.options

    @property
    def unit(self) -> Literal["fraction", "rank", "count"]:
        """What a value is: a share of one, a rank (from 1), or a number of things."""
        return self._family.unit

    @property
    def higher_is_better(self) -> bool:
        """The direction: False for a rank."""
        return self.unit != "rank"

    @property
    def needs_order(self) -> bool:
        """Whether there is no formula for ties, so that only a tie rule that settles them will do."""
        return self._family.needs_order

    def values(self, stands: Stands) -> Floats:
        """The metric of each trial: float64[n], fractions of one, ranks or counts.

        A trial without a relevant candidate in its pool scores 0, and its rank is NaN. The order of the
        entries of `stands` does not matter, to the last bit. Raises `ValueError` where the metric needs a
        cut-off, or an order that is not settled.
        """
        if self._family.cutoff == "needed" and self.cutoff is None:
            raise ValueError(f"{self.name} needs a cut-off: {self.name}@10")
        if self.needs_order and (stands.tied > 1).any():
            raise ValueError(f"{self} has no formula for ties; settle them first, e.g. by trec_eval's rule")
        return self._family.values(stands.in_order, self)

    def total(self, values: Floats) -> float:
        """The aggregate of `values` over trials: the mean, for ranks the median, for counts the sum.

        It does not depend on the order of the trials. The median of an even number is the mean of the middle
        two; a trial without a rank (NaN) stands behind all others, and where the median falls among those it
        is infinite. Raises `ValueError` where a mean or median has no trials.
        """
        if self.unit == "count":
            return math.fsum(values)
        if len(values) == 0:
            raise ValueError(f"{self}: no trials, so there is nothing to average")
        if self.unit == "rank":
            return float(np.median(np.where(np.isnan(values), np.inf, values)))
        return math.fsum(values) / len(values)


def parse(text: str) -> Metric:
    """The metric that prints as `text`; options may stand in any order, and defaults may be written out.

    Raises `ValueError` saying what is wrong and what there is.

    >>> parse("AP(denominator=min)@5") == AP(denominator="min") @ 5
    True
    """
    match = re.fullmatch(r"\s*([^\s()@]+)(?:\(([^()]*)\))?(?:@(\S*))?\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is no metric; metrics look like R@10, MRR or AP(denominator=min)@5")
    name, options, cutoff = match.groups()
    if name not in _FAMILIES:
        raise ValueError(_unknown(name))
    metric = Metric(name)
    for option in options.split(",") if options else ():
        key, _, value = (part.strip() for part in option.partition("="))
        if key not in metric.options:
            raise ValueError(_no_option(name, key))
        metric = metric(rel=_number(text, value)) if key == "rel" else metric(denominator=value)
    if cutoff is not None:
        if not re.fullmatch("[0-9]+", cutoff):
            raise ValueError(f"{text}: a cut-off is a whole number from 1 up, not {cutoff!r}")
        metric = metric @ int(cutoff)
    if metric.cutoff is None and metric._family.cutoff == "needed":
        raise ValueError(f"{text} needs a cut-off: {metric @ 10}")
    return metric


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{text}: rel is a number above 0, not {value!r}") from None


def _plain(value: float | str) -> str:
    """Numbers without a needless ".0"."""
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.casefold(), [n.casefold() for n in _FAMILIES], n=1)
    meant = "".join(f", did you mean {n}? There" for n in _FAMILIES if close == [n.casefold()])
    cutoff = {"needed": "@K", "optional": "[@K]", "none": ""}
    forms = ", ".join(name + cutoff[family.cutoff] for name, family in _FAMILIES.items())
    return f"{name!r} is no metric{meant or '; there'} are: {forms}"


def _no_option(name: str, option: str) -> str:
    there = ", ".join(_FAMILIES[name].options)
    return f"{name} has no option {option!r}" + (f"; it has: {there}" if there else "")


# ---- groups of tied candidates -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Groups:
    """The groups of tied candidates that hold a relevant one, by trial and from the best score down."""

    trial: Ints
    b: Ints
    t: Ints
    r: Ints
    c: Ints

    def places(self, depth: Ints | int | None) -> Ints:
        """m: how many places of each group lie within the first `depth` (None: all)."""
        return _places(self.b, self.t, depth)

    def best(self) -> "_Groups":
        """The best group of each trial that has one."""
        first = starts_run(self.trial)
        return _Groups(*(a[first] for a in (self.trial, self.b, self.t, self.r, self.c)))


def _places(better: Ints, tied: Ints, depth: Ints | int | None) -> Ints:
    return tied if depth is None else np.clip(depth - better, 0, tied)


def _groups(stands: Stands, rel: float) -> _Groups:
    """The groups; `stands` in order."""
    relevant = stands.take((stands.gain >= rel) & (stands.tied > 0))
    first = np.flatnonzero(starts_run(relevant.trial, relevant.better))
    return _Groups(
        trial=relevant.trial[first],
        b=relevant.better[first],
        t=relevant.tied[first],
        r=np.diff(first, append=len(relevant.trial)),
        c=place_in_run(relevant.trial)[first],
    )


def _relevant(stands: Stands, rel: float) -> Ints:
    """int64[n]: R, relevant candidates in the qrels, also those outside the pool."""
    return np.bincount(stands.trial[stands.gain >= rel], minlength=len(stands.sizes))


def _per_trial(stands: Stands, trial: Ints, values: Floats) -> Floats:
    """float64[n]: the sum of `values` in each trial, added in their order."""
    return np.bincount(trial, weights=values, minlength=len(stands.sizes)).astype(np.float64)


def _share(part: Floats, whole: Ints | Floats) -> Floats:
    """part / whole, and 0 where there is no whole."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


# ---- sums over the places of a group -----------------------------------------------------------------------


class _Sums:
    """Sums of x_{b+1} … x_{b+m}, as differences of prefix sums that keep what rounding takes from each.

    Plain prefix sums would be off by b times the rounding error where b is large and m small.
    """

    def __init__(self, terms: Floats, beyond: Floats | float = 0.0) -> None:
        """`terms`: x_1, x_2, …; `beyond`: what the terms themselves lost in rounding."""
        high = np.concatenate(([0.0], np.cumsum(terms)))
        step = high[1:] - high[:-1]
        lost = (high[:-1] - (high[1:] - step)) + (terms - step)
        self.high = high
        self.low = np.concatenate(([0.0], np.cumsum(lost + beyond)))

    def pair(self, b: Ints, m: Ints) -> tuple[Floats, Floats]:
        """The sums as two parts, the second far smaller than the first."""
        return self.high[b + m] - self.high[b], self.low[b + m] - self.low[b]

    def __call__(self, b: Ints, m: Ints) -> Floats:
        high, low = self.pair(b, m)
        return high + low


def _less_product(m: Ints | float, n: Ints, x: Floats) -> Floats:
    """m − n·x where the two are close: n times the upper 24 bits of x is exact (n < 2**29)."""
    upper = x.astype(np.float32).astype(np.float64)
    return (m - n * upper) - n * (x - upper)


def _size(b: Ints, m: Ints) -> int:
    """How many terms a table for these groups needs, rounded up so that metrics share it."""
    return 1 << int(np.max(b + m, initial=1)).bit_length()


@lru_cache(maxsize=1)
def _reciprocals(size: int) -> _Sums:
    """Sums of 1/i."""
    i = np.arange(1, size + 1)
    return _Sums(1 / i, beyond=_less_product(1.0, i, 1 / i) / i)


@lru_cache(maxsize=1)
def _discounts(size: int) -> _Sums:
    """Sums of 1/log2(i + 1), by the C library's logarithm: NumPy's differs between processors."""
    return _Sums(1 / np.fromiter(map(math.log2, range(2, size + 2)), np.float64, size))


# ---- the metrics; `stands` in order ------------------------------------------------------------------------


def _hits(stands: Stands, rel: float, depth: Ints | int | None) -> Floats:
    """E[relevant candidates in the first `depth` places] = Σ r·m/t (docs/metrics.md, 1); one depth, or int64[n]."""
    groups = _groups(stands, rel)
    m = groups.places(depth[groups.trial] if isinstance(depth, np.ndarray) else depth)
    return _per_trial(stands, groups.trial, groups.r * m / groups.t)


def _recall(stands: Stands, metric: Metric) -> Floats:
    return _share(_hits(stands, metric.rel, metric.cutoff), _relevant(stands, metric.rel))


def _precision(stands: Stands, metric: Metric) -> Floats:
    assert metric.cutoff is not None
    return _hits(stands, metric.rel, metric.cutoff) / metric.cutoff


def _r_precision(stands: Stands, metric: Metric) -> Floats:
    relevant = _relevant(stands, metric.rel)
    return _share(_hits(stands, metric.rel, relevant), relevant)


def _success(stands: Stands, metric: Metric) -> Floats:
    """Whether any relevant candidate is within the cut-off (docs/metrics.md, 2)."""
    best = _groups(stands, metric.rel).best()
    return _per_trial(stands, best.trial, _any_within(best.t, best.r, best.places(metric.cutoff)))


def _any_within(t: Ints, r: Ints, m: Ints) -> Floats:
    """1 − C(t−r, m)/C(t, m): the chance that one of r among t stands in the first m places.

    The product over the lesser of r and m (the two may be exchanged), grown as 1 − Π(1 − x) so that a small
    chance keeps all its digits.
    """
    few, many = np.minimum(r, m), np.maximum(r, m)
    chance = np.zeros(len(t))
    for i in range(int(np.max(few, initial=0))):
        live = np.flatnonzero(few > i)
        chance[live] += (1 - chance[live]) * np.minimum(many[live] / (t[live] - i), 1)
    return chance


def _reciprocal_rank(stands: Stands, metric: Metric) -> Floats:
    """E[1/rank of the first relevant candidate], 0 beyond the cut-off (docs/metrics.md, 3)."""
    best = _groups(stands, metric.rel).best()
    m = best.places(metric.cutoff)
    values = _reciprocals(_size(best.b, m))(best.b, m) / best.t  # for r = 1
    several = np.flatnonzero(best.r > 1)
    cases = np.stack((np.minimum(m, best.t - best.r + 1), best.b, best.t, best.r))[:, several]
    distinct, case = np.unique(cases, axis=1, return_inverse=True)
    values[several] = _reciprocal_of_first(*distinct)[case]
    return _per_trial(stands, best.trial, values)


def _reciprocal_of_first(m: Ints, b: Ints, t: Ints, r: Ints) -> Floats:
    """Σ_{j=1..m} p_j/(b+j), p_j the chance that the first of r relevant stands at place j; m ascending."""
    values, p = np.zeros(len(m)), r / t
    for j in range(1, int(np.max(m, initial=0)) + 1):
        live = slice(int(np.searchsorted(m, j)), None)
        values[live] += p[live] / (b[live] + j)
        p[live] *= (t[live] - j - r[live] + 1) / np.maximum(t[live] - j, 1)  # t = j: the last place of all
    return values


def _average_precision(stands: Stands, metric: Metric) -> Floats:
    """E[AP] = Σ_groups A(m) / D (docs/metrics.md, 4).

    A(m) = (r/t) · Σ_{j=1..m} (c + 1 + q·(j−1)) / (b+j), q = (r−1)/(t−1), where Σ (j−1)/(b+j) is
    m − (b+1) · Σ 1/(b+j).
    """
    groups = _groups(stands, metric.rel)
    m = groups.places(metric.cutoff)
    high, low = _reciprocals(_size(groups.b, m)).pair(groups.b, m)  # together Σ 1/(b+j)
    earlier = _less_product(m, groups.b + 1, high) - (groups.b + 1) * low  # Σ (j−1)/(b+j)
    q = (groups.r - 1) / np.maximum(groups.t - 1, 1)
    sums = (groups.c + 1) * (high + low) + q * earlier
    found = _per_trial(stands, groups.trial, groups.r / groups.t * sums)
    whole = _relevant(stands, metric.rel)
    if metric.denominator == "min" and metric.cutoff is not None:
        whole = np.minimum(whole, metric.cutoff)
    return np.minimum(_share(found, whole), 1)  # rounding must not carry a perfect run beyond 1


def _ndcg(stands: Stands, metric: Metric) -> Floats:
    """E[DCG]/IDCG with linear gains; what is not in the pool counts in the ideal (docs/metrics.md, 5)."""
    gains = stands.take(stands.gain > 0)
    m = _places(gains.better, gains.tied, metric.cutoff)
    ideal = gains.take(np.lexsort((-gains.gain, gains.trial)))
    rank = place_in_run(ideal.trial)
    one = _places(rank, np.ones_like(rank), metric.cutoff)
    discounts = _discounts(max(_size(gains.better, m), _size(rank, one)))
    share = gains.gain / np.maximum(gains.tied, 1)
    dcg = _per_trial(stands, gains.trial, share * discounts(np.maximum(gains.better, 0), m))
    return np.minimum(_share(dcg, _per_trial(stands, ideal.trial, ideal.gain * discounts(rank, one))), 1)


def _best_weight(stands: Stands, metric: Metric) -> Floats:
    """E[highest weight within the cut-off], floor 0 (docs/metrics.md, 6), as Σ w·(rise of the chance of a hit).

    The candidates are taken by descending weight; the chance that one of those taken so far is within the
    cut-off rises from one to the next by the chance that this one is the best.
    """
    taken = stands.take((stands.gain > 0) & (stands.tied > 0))
    taken = taken.take(np.lexsort((taken.better, -taken.gain, taken.trial)))
    # the best group so far: a running minimum that starts anew with each trial, for each lies below the last
    lowest = np.minimum.accumulate(taken.better - taken.trial * (np.max(taken.better, initial=0) + 1))
    since = np.arange(len(lowest)) - place_in_run(lowest)
    b, t = taken.better[since], taken.tied[since]
    in_best = np.cumsum(taken.better == b)
    r = in_best - in_best[since] + 1
    chance = _any_within(t, r, _places(b, t, metric.cutoff))
    rise = chance - np.where(starts_run(taken.trial), 0, np.roll(chance, 1))
    return _per_trial(stands, taken.trial, taken.gain * rise)


def _rank_of_first(stands: Stands, metric: Metric) -> Floats:
    """E[rank of the first relevant candidate] = b + (t+1)/(r+1) (docs/metrics.md, 3)."""
    best = _groups(stands, metric.rel).best()
    values = np.full(len(stands.sizes), np.nan)
    values[best.trial] = best.b + (best.t + 1) / (best.r + 1)
    return values


def _bpref(stands: Stands, metric: Metric) -> Floats:
    """The share of non-relevant candidates behind the relevant ones (Buckley & Voorhees, SIGIR 2004).

    As trec_eval counts: the mean over the R relevant of 1 − min(judged non-relevant before it, R) /
    min(judged non-relevant, R), 0 for one that is not retrieved. A negative relevance is no judgement.
    """
    judged = stands.take(stands.gain >= 0)
    wrong = judged.gain < metric.rel
    n_right = _relevant(stands, metric.rel)
    n_wrong = np.bincount(judged.trial[wrong], minlength=len(stands.sizes))
    retrieved, wrong = judged.take(judged.tied > 0), wrong[judged.tied > 0]
    earlier_trials = np.bincount(retrieved.trial[wrong] + 1, minlength=len(stands.sizes) + 1).cumsum()
    right = retrieved.trial[~wrong]
    before = (np.cumsum(wrong) - earlier_trials[retrieved.trial])[~wrong]
    most = np.minimum(n_wrong, n_right)[right]
    preferred = 1 - np.minimum(before, n_right[right]) / np.maximum(most, 1)
    return _share(_per_trial(stands, right, preferred), n_right)


def _trials(stands: Stands, metric: Metric) -> Floats:
    return np.ones(len(stands.sizes))


def _retrieved(stands: Stands, metric: Metric) -> Floats:
    return stands.sizes.astype(np.float64)


def _relevant_judged(stands: Stands, metric: Metric) -> Floats:
    return _relevant(stands, metric.rel).astype(np.float64)


def _relevant_retrieved(stands: Stands, metric: Metric) -> Floats:
    return _relevant(stands.take(stands.tied > 0), metric.rel).astype(np.float64)


@dataclass(frozen=True)
class _Family:
    """What metrics of one name have in common."""

    values: Callable[[Stands, Metric], Floats]
    cutoff: Literal["needed", "optional", "none"]
    options: tuple[str, ...] = ("rel",)
    unit: Literal["fraction", "rank", "count"] = "fraction"
    needs_order: bool = False


_DEFAULTS = {"rel": Metric.rel, "denominator": Metric.denominator}
_FAMILIES = {
    "R": _Family(_recall, "needed"),
    "P": _Family(_precision, "needed"),
    "Success": _Family(_success, "needed"),
    "Best": _Family(_best_weight, "needed", options=()),
    "AP": _Family(_average_precision, "optional", options=("rel", "denominator")),
    "MRR": _Family(_reciprocal_rank, "optional"),
    "nDCG": _Family(_ndcg, "optional", options=()),
    "Rprec": _Family(_r_precision, "none"),
    "bpref": _Family(_bpref, "none", needs_order=True),
    "medR": _Family(_rank_of_first, "none", unit="rank"),
    "num_q": _Family(_trials, "none", options=(), unit="count"),
    "num_ret": _Family(_retrieved, "none", options=(), unit="count"),
    "num_rel": _Family(_relevant_judged, "none", unit="count"),
    "num_rel_ret": _Family(_relevant_retrieved, "none", unit="count"),
}
NAMES = tuple(_FAMILIES)

R = Metric("R")
P = Metric("P")
Success = Metric("Success")
Best = Metric("Best")
AP = Metric("AP")
MRR = Metric("MRR")
nDCG = Metric("nDCG")
Rprec = Metric("Rprec")
bpref = Metric("bpref")
medR = Metric("medR")
num_q = Metric("num_q")
num_ret = Metric("num_ret")
num_rel = Metric("num_rel")
num_rel_ret = Metric("num_rel_ret")
