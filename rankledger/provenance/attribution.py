"""Why a number moved: the move split into what predictions, subset and protocol contribute."""

from collections.abc import Callable, Collection, Mapping
from itertools import combinations
from math import factorial, fsum

import pyarrow as pa
import pyarrow.compute as pc

from rankledger.tables import fingerprint

FACTORS = ("predictions", "subset", "protocol")
ASKED = ("queries", "pools", "trials", "exclusions")  # who is asked, against what: the subset's part

Tables = Mapping[str, pa.Table]


class Unknown(Exception):
    """A combination of old and new that can't be scored; the message says why."""


def mixed(asked: Tables, judged: Tables) -> dict[str, pa.Table]:
    """A subset that asks the queries of one and judges them by the other.

    Queries, pools, trials and exclusions come from `asked`: they are the factor "subset". The right answers (`qrels`)
    come from `judged`: they belong to the factor "protocol". Where `judged` does not know all the queries, it must
    agree with `asked` on those that both know; then both judge alike, and the right answers of `asked` serve. The
    universe only says which ids are no mistake, so it is that of both. Raises `Unknown` where they disagree.
    """
    universe = pa.concat_tables([asked["universe"], judged["universe"]]).group_by(["side", "id"]).aggregate([])
    return {**{name: asked[name] for name in ASKED}, "qrels": _qrels(asked, judged), "universe": universe}


def judge_alike(old: Tables, new: Tables) -> bool:
    """Whether two subsets have the same right answers for the queries that both ask."""
    shared = _ids(old) & _ids(new)
    return fingerprint(_of(old["qrels"], shared)) == fingerprint(_of(new["qrels"], shared))


def _qrels(asked: Tables, judged: Tables) -> pa.Table:
    lacking = _ids(asked) - _ids(judged)
    if not lacking:
        return judged["qrels"]
    if judge_alike(asked, judged):
        return asked["qrels"]
    raise Unknown(
        f"the right answers changed too, and for {len(lacking)} queries that only one of the subsets asks nothing says "
        "what the other's are"
    )


def _ids(tables: Tables) -> set[str]:
    """The queries, each with its task where tasks have right answers of their own."""
    return set(_keys(tables["queries"], "task" in tables["qrels"].column_names).to_pylist())


def _of(qrels: pa.Table, ids: Collection[str]) -> pa.Table:
    keys = _keys(qrels, "task" in qrels.column_names)
    return qrels.filter(pc.is_in(keys, value_set=pa.array(sorted(ids), keys.type)))


def _keys(table: pa.Table, by_task: bool) -> pa.ChunkedArray:
    ids = table["query_id"].cast(pa.string())
    return pc.binary_join_element_wise(table["task"].cast(pa.string()), ids, "/") if by_task else ids


def shapley(changed: Collection[str], value: Callable[[frozenset[str]], float | None]) -> dict[str, float | None]:
    """What each of `FACTORS` contributes to the move from value(none of them) to value(all that changed).

    A factor's part is the change that it makes, averaged over all orders in which the factors may change
    (L. Shapley, A value for n-person games, 1953): it favours no order, an unchanged factor gets 0, and the parts sum
    to the move. `value` takes the factors that are new, the others being old; where it is None (not known), so are the
    parts of all that changed.
    """
    known = {frozenset(new): value(frozenset(new)) for k in range(len(changed) + 1) for new in combinations(changed, k)}
    values = {new: found for new, found in known.items() if found is not None}
    if len(values) < len(known):
        return {factor: None if factor in changed else 0.0 for factor in FACTORS}
    n = len(changed)
    parts: dict[str, float | None] = dict.fromkeys(FACTORS, 0.0)
    for factor in changed:
        steps = [
            factorial(len(new)) * factorial(n - len(new) - 1) * (values[new | {factor}] - values[new])
            for new in values
            if factor not in new
        ]
        parts[factor] = fsum(steps) / factorial(n)
    return parts
