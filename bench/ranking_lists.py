"""Rankings as lists, 10,000 queries × 1,000 candidates: `python -m bench.ranking_lists`."""

from bench.common import Goal
from bench.long_scores import evaluate
from bench.tables import lists, qrels, scores


def main() -> None:
    with Goal("ranking_lists", "Lists of 10,000 queries × 1,000 candidates, one right") as goal:
        for gallery, what in ((1000, "1,000 ids"), (100_000, "100,000 ids"), (None, "10 M ids")):
            right = qrels(gallery=gallery)
            long = goal.measure(f"scores, {what}", evaluate(right, scores(gallery=gallery)))
            goal.measure(f"lists, {what}", evaluate(right, lists(gallery=gallery)), against=long, time=1)


if __name__ == "__main__":
    main()
