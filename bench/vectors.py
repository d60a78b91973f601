"""Made-up embeddings of two sides, and the bare work on them that others are compared with.

`python -m bench.vectors product FOLDER` computes the float32 products of the two sides' vectors and does nothing with
them, `count FOLDER` ranks both sides for each other in one pass, `draws FOLDER` does so within Recipe1M+'s draws; all
print their seconds, reading not included.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankledger.predictions.vectors import read_vectors
from rankledger.ranking.counting import Judged, Ragged, Trials, stand_both
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.stands import Ints
from rankledger.ranking.vectors import Vectors

PART = 50_000  # vectors in a part file
BLOCK = 1024, 8192
DRAWS, SIZES = 10, (1_000, 10_000)  # of Recipe1M+


def ids(side: str, n: int) -> list[str]:
    return [f"{side}{i:07d}" for i in range(n)]


def write(folder: Path, side: str, names: list[str], d: int, make: "Maker", dtype: type = np.float32) -> None:
    """A side: a file, or a folder of part files where there are more vectors than one holds."""
    many = len(names) > PART
    folder = folder / side if many else folder
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(names), PART):
        some = names[start : start + PART]
        numbers = make(start, len(some), d).astype(dtype, copy=False).ravel()
        table = pa.table({"id": some, "embedding": pa.FixedSizeListArray.from_arrays(pa.array(numbers), d)})
        pq.write_table(table, folder / (f"{start:09d}.parquet" if many else f"{side}.parquet"), row_group_size=8192)


class Maker:
    """Vectors by seed: `kind` says how they lie.

    trained: what two sides of a pair share is worth a small part of their length, so that R@1 is high but not 1;
    chance: nothing is shared; collapsed: all vectors are equal.
    """

    def __init__(self, kind: str, side: int, shared: float = 0.19):
        self.kind, self.side, self.shared = kind, side, shared

    def __call__(self, start: int, n: int, d: int) -> np.ndarray:  # type: ignore[type-arg]
        if self.kind == "collapsed":
            return np.tile(np.random.default_rng(0).standard_normal(d, np.float32), (n, 1))
        own = np.random.default_rng((1 + self.side, start)).standard_normal((n, d), np.float32)
        if self.kind == "chance":
            return own
        both = np.random.default_rng((0, start)).standard_normal((n, d), np.float32)
        return own + both * np.float32((self.shared / (1 - self.shared)) ** 0.5)


def product(left: np.ndarray, right: np.ndarray) -> None:  # type: ignore[type-arg]
    """In blocks as the counting has them, somewhat larger, for the BLAS's own threads are faster with those."""
    rows, columns = BLOCK
    space = np.empty(BLOCK, np.float32)
    for column in range(0, len(right), columns):
        there = right[column : column + columns].T
        for row in range(0, len(left), rows):
            here = left[row : row + rows]
            np.matmul(here, there, out=space[: len(here), : there.shape[1]])


def count(left: Vectors, right: Vectors, pools: list[Ints]) -> None:
    """Both directions within each pool, in which a vector and that of the same row on the other side are a pair."""
    n = np.arange(len(left))
    none = Ragged(np.zeros(len(n) + 1, np.int64), np.zeros(0, np.int64))
    all_pools = Ragged(np.cumsum([0, *map(len, pools)]), np.concatenate(pools))
    owner = np.repeat(np.arange(len(pools)), list(map(len, pools)))
    trials = Trials(all_pools.values, owner, all_pools, Judged.group(n, n, np.ones(len(n)), len(n)), none)
    source = Embeddings(left, right, n, n)
    for (stands, _), direction in zip(stand_both(source, trials, trials), ("there", "back"), strict=True):
        print(direction, "R@1", np.mean(stands.better + stands.tied == 1), "medR", np.median(stands.better) + 1)


def draws(n: int, size: int) -> list[Ints]:
    return [np.sort(np.random.default_rng(seed).permutation(n)[:size]) for seed in range(DRAWS)]


def read(path: Path) -> Vectors:
    return read_vectors(path, pq.read_table(path, columns=["id"])["id"], cosine=True)


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    sides = ("image", "recipe") if what == "draws" else ("query", "image")
    left, right = (read(folder / side if what == "draws" else folder / f"{side}.parquet") for side in sides)
    begin = time.perf_counter()
    if what == "product":
        product(left.stored, right.stored)
    elif what == "count":
        count(left, right, [np.arange(len(left))])
    else:
        for size in SIZES:
            count(left, right, draws(len(left), size))
    print(time.perf_counter() - begin)
