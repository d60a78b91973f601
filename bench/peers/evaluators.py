"""Libraries that evaluate: `python -m bench.peers.evaluators pytrec_eval|ir_measures|ranx QRELS RUN` prints the MRR.

The run is long Parquet; dictionaries, which all three take, are made of it first, as a user must.
"""

import sys
from collections import defaultdict

import pyarrow.parquet as pq

Numbers = dict[str, dict[str, float]]


def judgements(path: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    with open(path) as file:  # noqa: PTH123
        for line in file:
            query, _, candidate, relevance = line.split()
            found[query][candidate] = int(relevance)
    return dict(found)


def scores(path: str) -> Numbers:
    found: Numbers = defaultdict(dict)
    for batch in pq.ParquetFile(path).iter_batches():
        for query, candidate, score in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[query][candidate] = score
    return dict(found)


def main(library: str, qrels: str, run: str) -> float:
    if library == "pytrec_eval":
        import pytrec_eval

        values = pytrec_eval.RelevanceEvaluator(judgements(qrels), {"recip_rank"}).evaluate(scores(run))
        return sum(value["recip_rank"] for value in values.values()) / len(values)
    if library == "ir_measures":
        import ir_measures

        return float(ir_measures.calc_aggregate([ir_measures.RR], judgements(qrels), scores(run))[ir_measures.RR])
    import ranx

    return float(ranx.evaluate(ranx.Qrels(judgements(qrels)), ranx.Run(scores(run)), "mrr"))


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
