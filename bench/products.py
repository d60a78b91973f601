"""`python -m bench.products ROWS COLUMNS D`: float32 products of that many numbers, block by block; prints seconds."""

import sys
import time

import numpy as np

from bench.vectors import product
from rankledger.ranking.vectors import block_length

rows, columns, d = map(int, sys.argv[1:])
left = np.random.default_rng(0).standard_normal((rows, d), np.float32)
right = np.random.default_rng(1).standard_normal((block_length(d), d), np.float32)
seconds = 0.0
for start in range(0, columns, len(right)):
    begin = time.perf_counter()
    product(left, right[: columns - start])
    seconds += time.perf_counter() - begin
print(seconds)
