"""Any run against any qrels, without a benchmark: what `rankledger evaluate` and a notebook call."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rankledger.predictions.reading import Ids
from rankledger.predictions.rows import Blocks, Odd, key
from rankledger.predictions.runs import EmbeddingRun, Given, Listing, Qrels, Run, open_run, read_qrels
from rankledger.ranking.blocks import Engine
from rankledger.ranking.cluster import engine_at
from rankledger.ranking.counting import Judged, Ragged, Trials, stand
from rankledger.ranking.listed import Tally
from rankledger.ranking.metrics import Metric
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.stands import TIE_RULES, Floats, Ints, Stands, settle
from rankledger.ranking.trec import named
from rankledger.tables import InputError, few

MISSING = ("error", "zero", "skip")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a run reaches.

    Attributes:
        metrics: by name as asked for: the mean over the queries, 0 to 1; of medR the median rank, of num_* the sum.
        per_query: query_id (ascending, bytewise) and a column for each metric; medR is null where no right
            candidate is ranked.
        notes: what a reader must know.
    """

    metrics: dict[str, float]
    per_query: pa.Table
    notes: list[str]


def evaluate(
    run: Run | Listing | EmbeddingRun | Given,
    qrels: Qrels | Given,
    metrics: str | Metric | Iterable[str | Metric],
    *,
    ties: str = "expected",
    missing: str = "error",
    relevance_level: float = 1,
    engine: str | None = None,
) -> Evaluation:
    """Evaluate a run.

    A query's pool is what the run lists for it (of embeddings, all candidates): a right candidate that is not
    listed adds 0 under every tie rule, one that is not judged is not right, and no list is too short. A query
    without right candidates scores 0 and counts. AP@K divides by all right candidates, as trec_eval's map_cut.
    For medR a query with no right candidate listed stands behind all others; a median among those is an error.

    Args:
        run, qrels: what `read_run` and `read_qrels` give, or what they take.
        metrics: "R@1,R@10,map" or [R @ 10, "MRR"]: the metrics here, trec_eval's names, `all_trec`.
        ties: the order of equal scores: expected (the mean over all orders), trec (the greater id first),
            optimistic or pessimistic.
        missing: what a query of the qrels is that the run lacks: an error, zero, or skip (it leaves the mean).
        relevance_level: the least relevance that is right, for metrics that name none; nDCG counts every one
            above 0.
        engine: a Dask cluster, dask://host:port, whose workers count; of embeddings only. It changes no number.

    Raises:
        InputError: bad input, an unknown metric or rule, or a metric that the tie rule has no formula for.

    >>> evaluate({"q1": {"a": 2.0, "b": 1.0}}, {"q1": {"b": 1}}, "MRR,R@1").metrics
    {'MRR': 0.5, 'R@1': 0.0}
    """
    asked = _asked(metrics, ties, relevance_level)
    if missing not in MISSING:
        raise InputError(f"missing {missing!r}: it is one of {', '.join(MISSING)}")
    qrels = qrels if isinstance(qrels, Qrels) else read_qrels(qrels)
    if isinstance(run, Run):
        run = Listing.of(run)
    elif not isinstance(run, Listing | EmbeddingRun):
        run = open_run(run)
    if isinstance(run, EmbeddingRun):
        queries, candidates, source = run.towards(qrels)
        found, notes = _compare(run.name, queries, qrels, missing)
        with engine_at(engine) as counting:
            stands = _similar(source, found, candidates, qrels, counting)
    else:
        queries, stands = _listed(run, qrels, ordered=ties == "trec")
        found, notes = _compare(run.name, queries, qrels, missing)
        if engine:
            notes.append(f"{engine} is not used: a cluster counts embeddings, and {run.name} holds none")
    if len(stands.tied) and not stands.tied.any():
        first = run.first() if isinstance(run, Listing) else candidates.names(np.arange(1))
        if first:
            one = few(qrels.candidates.names(np.arange(1)))
            notes.append(f"no judged candidate is in the run; do ids like {one} and {few(first)} mean the same?")

    counts = found >= 0 if missing == "skip" else np.ones(len(found), bool)
    mine = stands.take(counts[stands.trial])
    stands = replace(mine, sizes=stands.sizes[counts], trial=(np.cumsum(counts) - 1)[mine.trial])
    settled = settle(stands, ties)
    values = {name: metric.values(settled) for name, metric in asked.items()}
    columns = {
        name: pa.array(values[name], pa.int64() if metric.unit == "count" else pa.float64(), from_pandas=True)
        for name, metric in asked.items()
    }
    ids = qrels.queries.values.filter(pa.array(counts)).cast(pa.string())
    totals = {name: _total(run.name, name, metric, values[name]) for name, metric in asked.items()}
    return Evaluation(totals, pa.table({"query_id": ids, **columns}), notes)


def _asked(metrics: str | Metric | Iterable[str | Metric], ties: str, level: float) -> dict[str, Metric]:
    """The metrics by name, at the relevance level unless they name one."""
    if ties not in TIE_RULES:
        raise InputError(f"ties {ties!r}: it is one of {', '.join(TIE_RULES)}")
    names = str(metrics) if isinstance(metrics, str | Metric) else ",".join(map(str, metrics))
    try:
        asked = {
            name: metric(rel=level) if "rel" in metric.options and "rel=" not in name else metric
            for name, metric in named(names).items()
        }
    except ValueError as error:
        raise InputError(str(error)) from None
    orderly = [name for name, metric in asked.items() if metric.needs_order]
    if ties == "expected" and orderly:
        raise InputError(f"{', '.join(orderly)}: no formula for the mean over the orders of ties; use --ties trec")
    return asked


def _compare(name: str, queries: Ids, qrels: Qrels, missing: str) -> tuple[Ints, list[str]]:
    """By query of the qrels its index in the run, and notes on queries that only one of the two has.

    Raises `InputError` where that may not be.
    """
    found = queries.index(qrels.queries.values)
    if not (found >= 0).any():
        ids = [few(side.names(np.arange(min(2, len(side))))) or "none" for side in (queries, qrels.queries)]
        raise InputError(f"{name}: no query is in {qrels.name}; ids here look like {ids[0]}, there like {ids[1]}")
    absent = np.flatnonzero(found < 0)
    first = few(qrels.queries.names(absent[:4]))
    if len(absent) and missing == "error":
        raise InputError(
            f"{name}: {len(absent)} of {len(found)} queries of {qrels.name} are missing: {first}; "
            f"--missing zero counts them 0, --missing skip leaves them out"
        )
    notes = []
    if len(absent):
        count = "count 0" if missing == "zero" else "are left out"
        notes.append(f"{len(absent)} of {len(found)} queries of the qrels are missing and {count}: {first}")
    extra = np.setdiff1d(np.arange(len(queries)), found)
    if len(extra):
        first = few(queries.names(extra[:4]))
        notes.append(f"{len(extra)} of {len(queries)} queries of the run are not in the qrels and are ignored: {first}")
    return found, notes


def _listed(run: Listing, qrels: Qrels, ordered: bool) -> tuple[Ids, Stands]:
    """The run's queries, and where the judged stand in their lists, by query of the qrels."""
    judged = Judged.group(qrels.query, qrels.candidate, qrels.value, len(qrels.queries))
    ids = qrels.candidates.values
    blocks, tally = Blocks(run.batches, run.n_rows, qrels.queries), Tally(judged, ids, key(ids), ordered)
    try:
        blocks.give(tally.add)
    except Odd:
        run.whole()  # says what is odd
        raise
    return run.queries or blocks.queries(), tally.stands()


def _similar(source: Embeddings, query: Ints, candidates: Ids, qrels: Qrels, engine: Engine) -> Stands:
    """Where the judged stand among all candidates, by query of the qrels; −1 is one that the run lacks."""
    n, present, pool = len(query), query >= 0, len(source.candidate_row)
    right = candidates.index(qrels.candidates.values)
    judged = Judged.group(qrels.query, right[qrels.candidate], qrels.value, n)
    pools = Ragged(np.array([0, pool, pool]), np.arange(pool))  # all candidates; none
    none = Ragged(np.zeros(n + 1, np.int64), np.zeros(0, np.int64))
    by_trial = replace(source, query_row=np.where(present, source.query_row[query], -1), engine=engine)
    stands, _ = stand(by_trial, Trials(np.arange(n), np.where(present, 0, 1), pools, judged, none))
    return stands


def _total(run: str, name: str, metric: Metric, values: Floats) -> float:
    """The aggregate, a count as int; raises `InputError` where it is a rank that there is not."""
    total = metric.total(values)
    if total == np.inf:
        lost = np.count_nonzero(np.isnan(values))
        raise InputError(
            f"{run}: {name} falls among the {lost} of {len(values)} queries that list no right candidate; leave it out"
        )
    return int(total) if metric.unit == "count" else total
