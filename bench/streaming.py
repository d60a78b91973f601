"""Two million candidates in part files, which do not fit into the memory that they are given."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import Goal, cached, python, rankledger
from bench.vectors import Maker, ids, write

QUERIES, CANDIDATES, D = 10_000, 2_000_000, 256


def main() -> None:
    """Measure `evaluate` against the bare product of as many numbers."""
    folder = cached(f"gallery-{QUERIES}-{CANDIDATES}-{D}", partial(_make, queries=QUERIES, candidates=CANDIDATES))
    with Goal("streaming", f"{CANDIDATES:,} candidates × {QUERIES:,} queries, d = {D}, from disk") as goal:
        bare = goal.measure("the bare product, float32", python("bench.products", QUERIES, CANDIDATES, D), inside=True)
        goal.measure(
            "rankledger evaluate",
            rankledger(
                "evaluate", "--qrels", folder / "qrels.parquet", "--run", folder / "run", "--metrics", "R@1,R@10,MRR"
            ),
            against=bare,
            time=1.43,  # 70 % of its rate
            mib=2048,
        )


def _make(folder: Path, queries: int, candidates: int) -> None:
    write(folder / "run", "query", ids("query", queries), D, Maker("trained", 0, 0.4))
    write(folder / "run", "image", ids("image", candidates), D, Maker("trained", 1, 0.4))
    right = {"query_id": ids("query", queries), "candidate_id": ids("image", queries)}
    pq.write_table(pa.table({**right, "relevance": pa.array([1] * queries)}), folder / "qrels.parquet")


if __name__ == "__main__":
    main()
