"""Two sides of 50,000 vectors of 1,024 components, ranked for each other in one pass over their products."""

from functools import partial
from pathlib import Path

import numpy as np

from bench.common import Goal, cached, peer, python
from bench.vectors import Maker, ids, write

N, D = 50_000, 1024
CASES = (("trained", "float32"), ("trained", "float16"), ("chance", "float32"), ("collapsed", "float32"))


def main() -> None:
    """Measure trained, chance-level and collapsed embeddings, and trained ones stored as float16."""
    with Goal("embeddings", f"{N:,} × {N:,} embeddings, d = {D:,}, both directions") as goal:
        for kind, dtype in CASES:
            folder = cached(f"sides-{N}-{D}-{kind}-{dtype}", partial(_sides, kind=kind, dtype=dtype))
            if (kind, dtype) == ("trained", "float32"):
                bare = goal.measure(
                    "the bare product, float32", python("bench.vectors", "product", folder), inside=True
                )
                for name in ("numpy_count", "torch_topk"):
                    goal.measure(name, peer(name, folder), against=bare, inside=True, runs=1)
            stored = 2 * N * D * np.dtype(dtype).itemsize / 2**20
            goal.measure(
                f"both directions, {kind}, {dtype}",
                python("bench.vectors", "count", folder),
                against=bare,
                time=1.25,
                mib=stored + 512,
                inside=True,
            )


def _sides(folder: Path, kind: str, dtype: str) -> None:
    for number, side in enumerate(("query", "image")):
        write(folder, side, ids(side, N), D, Maker(kind, number), np.dtype(dtype).type)


if __name__ == "__main__":
    main()
