"""Long scores, 10,000 queries × 1,000 candidates and ten times as many: `python -m bench.long_scores`."""

from bench.common import Goal, peer, rankledger
from bench.tables import qrels, scores, shuffled, text

METRICS = "R@1,R@10,MRR,AP"
MEASURES = ("recall.1,10", "recip_rank", "map")


def main() -> None:
    right, run, lines = qrels(), scores(), text()
    with Goal("long_scores", "Scores of 10,000 queries × 1,000 candidates, one right") as goal:
        trec = goal.measure("trec_eval, text", peer("trec_eval", right, lines, *MEASURES))
        for library in ("pytrec_eval", "ir_measures", "ranx"):
            goal.measure(library, peer("evaluators", library, right, run), against=trec, runs=1)
        ours = goal.measure("1,000 ids", evaluate(right, run), against=trec, time=1 / 10, memory=1 / 2)
        goal.measure(
            "100,000 ids",
            evaluate(qrels(gallery=100_000), scores(gallery=100_000)),
            against=trec,
            time=1 / 10,
            memory=1 / 2,
        )
        goal.measure("10 M ids", evaluate(qrels(gallery=None), scores(gallery=None)), against=trec)
        goal.measure("all rows shuffled", evaluate(right, shuffled()), against=trec, time=1.5 / 10, memory=1 / 2)
        five = evaluate(qrels(right=5), run, "AP@5,AP@10,AP@25,AP@50")
        goal.measure("five right, mAP at four cut-offs", five, against=trec, time=1.5 / 10, memory=1 / 2)
        goal.measure("TREC text", evaluate(right, lines), against=trec, time=1)
        many = evaluate(qrels(100_000), scores(100_000))
        goal.measure("100 M rows", many, against=ours, time=11, mib=1024)


def evaluate(right: object, run: object, metrics: str = METRICS) -> list[str]:
    return rankledger("evaluate", "--qrels", right, "--run", run, "--metrics", metrics)


if __name__ == "__main__":
    main()
