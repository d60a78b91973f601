"""Between what a value lies: that of constant scores, and that of a perfect ranking of the same pools."""

from dataclasses import replace

import numpy as np

from rankledger.ranking.counting import Counts, Group
from rankledger.ranking.stands import Ints, Stands, place_in_run


class Constant:
    """A source (see `rankledger.ranking.counting`) whose scores are all equal: every order of a pool is as likely."""

    def listed(self, query: int) -> Ints:
        """Nothing: constant scores rank whole pools."""
        return np.zeros(0, np.int64)

    def count(self, group: Group) -> Counts:
        """A pool is one group of tied candidates."""
        none = np.zeros(len(group.row), np.int64)
        return Counts(none, group.sizes[group.row], none, group.sizes)


def perfect(stands: Stands) -> Stands:
    """The same pools without a fault: right candidates first, by descending relevance, those judged wrong last."""
    inside = np.flatnonzero(stands.tied > 0)
    order = inside[np.lexsort((-stands.gain[inside], stands.trial[inside]))]
    trial = stands.trial[order]
    place = place_in_run(trial)
    unjudged = (stands.sizes - np.bincount(trial, minlength=len(stands.sizes)))[trial]
    better = stands.better.copy()
    better[order] = np.where(stands.gain[order] > 0, place, unjudged + place)
    return replace(stands, better=better, tied=np.minimum(stands.tied, 1), before=np.zeros_like(stands.before))
