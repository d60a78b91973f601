"""Metrics of label tasks: a query has one right class and one answered class, and no ranking."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankledger.ranking.stands import Floats, Ints

POSITIONS = np.array([-2, -1, 1, 2])  # of the classes, in their order, on EDRM's scale
MEASURES = ("EDRM", "P", "R", "F")
AVERAGES = ("micro", "macro")
DMAX = ("class", "3")


@dataclass(frozen=True)
class LabelMetric:
    """A metric of a label task, as in DEFT 2013.

    EDRM (eq. 1 of the DEFT 2013 overview) credits an answer h to a query r with 1 − d(h, r) / dmax(r): d
    is the distance of their positions −2, −1, +1, +2, and dmax(r) the greatest that r's class allows (4,
    3, 3, 4) or, by name, 3 for every class, which gives −1/3 at the opposite end.

    *Micro* is over queries: with one answer a query, P, R and F all are the share of right answers.
    *Macro* is the mean over the classes of the gold; a class that is never answered has a precision of 0,
    and macro F is the harmonic mean of macro P and macro R (0 where both are 0), not the mean of the
    classes' F.

    Attributes:
        measure: EDRM, P, R or F.
        average: micro or macro.
        dmax: for EDRM "class" or "3"; None elsewhere.

    >>> metric = parse("EDRM_micro(dmax=3)")
    >>> metric.total(np.array([0, 1]), np.array([3, 1]))
    0.33333333333333337
    """

    measure: str
    average: str
    dmax: str | None = None
    higher_is_better: ClassVar[bool] = True
    unit: ClassVar[str] = "fraction"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES or self.average not in AVERAGES:
            raise ValueError(f"no label metric {self.measure}_{self.average}")
        if self.dmax not in (DMAX if self.measure == "EDRM" else (None,)):
            raise ValueError(f"no label metric {self}: dmax belongs to EDRM and is one of: {', '.join(DMAX)}")

    def __str__(self) -> str:
        return f"{self.measure}_{self.average}" + ("" if self.dmax is None else f"(dmax={self.dmax})")

    def values(self, gold: Ints, predicted: Ints) -> Floats | None:
        """The value of each query, float64[n]; None for macro P and F, which have none.

        `gold` and `predicted` are int64[n], places in the order of the task's classes. Micro is the mean
        of the values, macro the mean over the gold's classes of their means. Raises `ValueError` on no
        query, on arrays of two lengths, and on a place that is no class.
        """
        _check(gold, predicted)
        if self.average == "macro" and self.measure in ("P", "F"):
            return None
        return self._credit(int(max(gold.max(), predicted.max())) + 1)[gold, predicted]

    def total(self, gold: Ints, predicted: Ints) -> float:
        """The metric over all queries, whatever their order; arguments and errors as in `values`."""
        _check(gold, predicted)
        classes = len(self._credit(int(max(gold.max(), predicted.max())) + 1))
        pairs = np.bincount(gold * classes + predicted, minlength=classes * classes)
        return float(self.of_pairs(pairs.reshape(1, classes, classes))[0])

    def of_pairs(self, pairs: Ints) -> Floats:
        """The metric from counts, float64[b].

        `pairs` is int64[b, classes, classes]: how many queries of a class (row) got an answer (column); EDRM is
        defined for four classes.
        """
        credit = self._credit(pairs.shape[1])
        given, answered, right = pairs.sum(axis=2), pairs.sum(axis=1), np.diagonal(pairs, axis1=1, axis2=2)
        if self.average == "micro":
            return np.asarray((pairs * credit).sum(axis=(1, 2)) / given.sum(axis=1))
        in_gold = given > 0

        def mean(per_class: Floats) -> Floats:
            return np.asarray(np.where(in_gold, per_class, 0).sum(axis=1) / in_gold.sum(axis=1))

        if self.measure == "EDRM":
            return mean((pairs * credit).sum(axis=2) / np.maximum(given, 1))
        precision, recall = mean(right / np.maximum(answered, 1)), mean(right / np.maximum(given, 1))
        if self.measure == "F":
            return 2 * precision * recall / np.where(precision + recall > 0, precision + recall, 1)
        return precision if self.measure == "P" else recall

    def _credit(self, classes: int) -> Floats:
        """float64[classes, classes]: what an answer (column) to a class (row) is worth."""
        if self.dmax is None:
            return np.eye(classes)
        if classes > len(POSITIONS):
            raise ValueError(f"EDRM is defined for {len(POSITIONS)} classes, not for {classes}")
        distance: NDArray[np.int64] = np.abs(POSITIONS[:, None] - POSITIONS)
        greatest = distance.max(axis=1, keepdims=True) if self.dmax == "class" else int(self.dmax)
        return 1 - distance / greatest


def parse(text: str) -> LabelMetric:
    """The metric that prints as `text`, such as "F_macro"; raises `ValueError` where there is none.

    >>> str(parse("EDRM_macro(dmax=class)"))
    'EDRM_macro(dmax=class)'
    """
    try:
        return METRICS[text]
    except KeyError:
        raise ValueError(f"no label metric {text!r}; there are: {', '.join(METRICS)}") from None


METRICS = {
    str(metric): metric
    for measure in MEASURES
    for dmax in (DMAX if measure == "EDRM" else (None,))
    for average in AVERAGES
    for metric in [LabelMetric(measure, average, dmax)]
}


def _check(gold: Ints, predicted: Ints) -> None:
    if gold.shape != predicted.shape or gold.ndim != 1:
        raise ValueError(f"one answer a query: {gold.shape} right classes, {predicted.shape} answers")
    if not len(gold):
        raise ValueError("no query to average over")
    if min(gold.min(), predicted.min()) < 0:
        raise ValueError("a place below 0 is no class")
