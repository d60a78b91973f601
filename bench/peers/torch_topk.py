"""Torch's product and its ten best of each row; one direction, not exact, and no rank beyond ten."""

import sys
import time
from pathlib import Path

import torch

from bench.peers.numpy_count import read

left, right = (torch.from_numpy(read(Path(sys.argv[1]) / f"{side}.parquet")) for side in ("query", "image"))
begin, first = time.perf_counter(), 0
for start in range(0, len(left), 1024):
    best = torch.topk(left[start : start + 1024] @ right.T, 10, dim=1).indices
    first += int((best[:, 0] == torch.arange(start, start + len(best))).sum())
print("R@1", first / len(left))
print(time.perf_counter() - begin)
