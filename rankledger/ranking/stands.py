"""Where the judged candidates stand: all that any retrieval metric needs to know of a ranking."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TIE_RULES = ("expected", "trec", "optimistic", "pessimistic")


@dataclass(frozen=True, eq=False)
class Stands:
    """The judged candidates of n trials, one entry each, m in all.

    A trial is one query ranked against one pool. A candidate of the qrels that is not in the pool (or, where
    unscored candidates are not retrieved, has no score) keeps its entry: it counts in R and in the ideal DCG
    and adds 0.

    Attributes:
        sizes: int64[n], pool size after exclusions (under trec: candidates retrieved).
        trial: int64[m], ascending; the trial of each entry.
        gain: float64[m], the relevance in the qrels, any sign.
        better: int64[m], pool candidates that score higher (`b` of docs/metrics.md); −1 where it is not in the pool.
        tied: int64[m], pool candidates of equal score, itself included (`t`); 0 where it is not in the pool.
        before: int64[m], those of the tied whose id is greater, bytewise: trec_eval puts them first.
    """

    sizes: Ints
    trial: Ints
    gain: Floats
    better: Ints
    tied: Ints
    before: Ints

    @cached_property
    def in_order(self) -> "Stands":
        """The same entries by trial, then from the best score down, then by gain, from the lowest up.

        Sums over them do not depend on the order in which the entries came.
        """
        return self.take(np.lexsort((self.gain, self.better, self.trial)))

    def take(self, entries: NDArray[np.int64] | NDArray[np.bool_]) -> "Stands":
        """Some of the entries, of the same trials: positions, or a mask."""
        chosen = {f.name: getattr(self, f.name)[entries] for f in fields(self) if f.name != "sizes"}
        return replace(self, **chosen)


def settle(stands: Stands, ties: str) -> Stands:
    """The stands after a tie rule, one of `TIE_RULES`.

    "expected" leaves the ties: metrics are means over the random orders of the tied. After the others every
    candidate is a group of one. "trec" puts the greater id first. "optimistic" puts the judged first, by
    descending gain, "pessimistic" last, by ascending gain: the orders in which all metrics are at their best
    and worst (docs/metrics.md, 7). Raises `ValueError` on another rule.
    """
    if ties == "expected":
        return stands
    if ties == "trec":
        better = stands.better + stands.before
    elif ties in ("optimistic", "pessimistic"):
        stands = stands.take(np.lexsort((-stands.gain, stands.better, stands.trial)))
        place = place_in_run(stands.trial, stands.better)
        ranked = stands.better + (place if ties == "optimistic" else stands.tied - 1 - place)
        better = np.where(stands.tied > 0, ranked, stands.better)
    else:
        raise ValueError(f"{ties!r} is no tie rule; there are: {', '.join(TIE_RULES)}")
    tied, before = np.minimum(stands.tied, 1), np.zeros_like(stands.before)
    return replace(stands, better=better, tied=tied, before=before)


def place_in_run(*keys: NDArray[np.number]) -> Ints:
    """int64[m]: how many rows directly before a row have the same keys (0 for the first of a run).

    >>> place_in_run(np.array([0, 0, 1, 1, 1]), np.array([5, 6, 6, 6, 7]))
    array([0, 0, 0, 1, 0])
    """
    rows = np.arange(len(keys[0]))
    return rows - np.maximum.accumulate(np.where(starts_run(*keys), rows, 0))


def starts_run(*keys: NDArray[np.number]) -> NDArray[np.bool_]:
    """bool[m]: whether a row's keys differ from those of the row before; true for the first."""
    first = np.ones(len(keys[0]), dtype=bool)
    if len(first):
        first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first
