"""Recipe1M+'s evaluation as its first code does it: per draw a product, then a sort of each row as a Python list."""

import random
import sys
import time
from pathlib import Path

import numpy as np

from bench.peers.numpy_count import read

DRAWS, SIZES = 10, (1_000, 10_000)

image, recipe = (read(Path(sys.argv[1]) / side) for side in ("image", "recipe"))
begin = time.perf_counter()
for size in SIZES:
    for queries, gallery in ((image, recipe), (recipe, image)):
        medians = []
        for _ in range(DRAWS):
            drawn = random.sample(range(len(queries)), size)
            scores = queries[drawn] @ gallery[drawn].T
            ranks = [1 + np.argsort(row)[::-1].tolist().index(i) for i, row in enumerate(scores)]
            medians.append(np.median(ranks))
        print(size, np.mean(medians))
print(time.perf_counter() - begin)
