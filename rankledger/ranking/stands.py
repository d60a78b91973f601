"""Where the judged candidates stand: all that any retrieval metric needs to know of a ranking."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stands:
    """The judged candidates of n trials, one entry each, m in all.

    A trial is one query ranked against one pool. A candidate of the qrels that is not in the pool (or, where unscored
    candidates are not retrieved, has no score) keeps its entry: it counts in R and in the ideal DCG and adds 0.

    Attributes:
        sizes: int64[n], pool size after exclusions (under trec: candidates retrieved).
        trial: int64[m], ascending; the trial of each entry.
        gain: float64[m], the relevance in the qrels, any sign.
        better: int64[m], pool candidates that score higher (`b` of TIES.md); −1 where the candidate is not in the pool.
        tied: int64[m], pool candidates of equal score, itself included (`t`); 0 where it is not in the pool.
        before: int64[m], those of the tied whose id is greater, bytewise: trec_eval puts them first.
    """

    sizes: Ints
    trial: Ints
    gain: Floats
    better: Ints
    tied: Ints
    before: Ints
