"""The names that trec_eval gives to the measures here."""

import re

from rankledger.ranking.metrics import (
    AP,
    MRR,
    Metric,
    P,
    R,
    Rprec,
    Success,
    bpref,
    nDCG,
    num_q,
    num_rel,
    num_rel_ret,
    num_ret,
    parse,
)

_CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)

# in the order in which trec_eval prints them; with the cut-offs that it takes where none is given
_MEASURES: dict[str, tuple[Metric, tuple[int, ...]]] = {
    "num_q": (num_q, ()),
    "num_ret": (num_ret, ()),
    "num_rel": (num_rel, ()),
    "num_rel_ret": (num_rel_ret, ()),
    "map": (AP, ()),
    "Rprec": (Rprec, ()),
    "bpref": (bpref, ()),
    "recip_rank": (MRR, ()),
    "P": (P, _CUTOFFS),
    "recall": (R, _CUTOFFS),
    "ndcg": (nDCG, ()),
    "ndcg_cut": (nDCG, _CUTOFFS),
    "map_cut": (AP, _CUTOFFS),
    "success": (Success, (1, 5, 10)),
}
_SETS = {"all_trec": tuple(_MEASURES), "official": tuple(_MEASURES)[:9]}


def named(names: str) -> dict[str, Metric]:
    """The metrics that a comma-separated list asks for, by the name that each goes under, without repeats.

    A name is one of `rankledger.ranking.metrics` (`R@10`, `AP(denominator=min)@5`) or one of trec_eval's:
    `map`, `P_10`, `P.5,10`, `P` (with trec_eval's own cut-offs), `official` or `all_trec` (in its order,
    those of its measures that exist here). Raises `ValueError` saying what is wrong and what there is.

    >>> {name: str(metric) for name, metric in named("R@1,map,P.5,10").items()}
    {'R@1': 'R@1', 'map': 'AP', 'P_5': 'P@5', 'P_10': 'P@10'}
    """
    found: dict[str, Metric] = {}
    for name in re.split(r",(?!\s*\d)(?![^()]*\))", names):
        found |= _measures(name.strip())
    return found


def _measures(name: str) -> dict[str, Metric]:
    if name in _SETS:
        return {key: metric for member in _SETS[name] for key, metric in _measures(member).items()}
    match = re.fullmatch(r"([A-Za-z_]+?)(?:[._](\d+(?:\s*,\s*\d+)*))?", name)
    if match is None or match[1] not in _MEASURES:
        try:
            return {name: parse(name)}
        except ValueError as error:
            raise ValueError(f"{error}; of trec_eval's names: {', '.join([*_MEASURES, *_SETS])}") from None
    base, given = match.groups()
    metric, cutoffs = _MEASURES[base]
    if given and not cutoffs:
        raise ValueError(f"{name}: trec_eval's {base} takes no cut-off")
    if given:
        cutoffs = tuple(sorted({int(k) for k in given.split(",")}))
    return {f"{base}_{k}": metric @ k for k in cutoffs} or {base: metric}
