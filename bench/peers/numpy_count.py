"""NumPy's product and a count of what is greater than the right candidate's own product; one direction, not exact."""

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def stored(file: Path) -> np.ndarray:
    table = pq.read_table(file, columns=["embedding"])
    values = np.concatenate([np.asarray(chunk.flatten()) for chunk in table["embedding"].chunks])
    return values.reshape(len(table), -1)


def read(file: Path) -> np.ndarray:
    vectors = stored(file)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main() -> None:
    left, right = (read(Path(sys.argv[1]) / f"{side}.parquet") for side in ("query", "image"))
    begin, ranks = time.perf_counter(), []
    for start in range(0, len(left), 1024):
        scores = left[start : start + 1024] @ right.T
        own = scores[np.arange(len(scores)), start + np.arange(len(scores))]
        ranks.append(1 + (scores > own[:, None]).sum(axis=1))
    print("R@1", np.mean(np.concatenate(ranks) == 1))
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
