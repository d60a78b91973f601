"""What machine this is and what it can do at best, as JSON: `python -m bench.machine`."""

import ctypes
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import cached

PRODUCT = 4096  # rows and columns of the matrices
COPIED = 256 * 2**20  # bytes
ROWS, QUERIES = 5_000_000, 5_000


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of three runs: a limit is what the machine can do, not what it did at an odd moment."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def kernel() -> str:
    """The kernel that NumPy's OpenBLAS chose for this processor, asked of the library itself."""
    libraries = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "openblas" in line}
    for path in sorted(libraries):
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
            if hasattr(library, name):
                ask = getattr(library, name)
                ask.restype = ctypes.c_char_p
                return str(ask().decode())
    return "not OpenBLAS"


def product_rate() -> float:
    """GFLOP/s of a float32 matrix product."""
    left, right = np.random.default_rng(0).random((2, PRODUCT, PRODUCT), dtype=np.float32)
    out = np.empty_like(left)
    return 2 * PRODUCT**3 / best(lambda: np.matmul(left, right.T, out=out)) / 1e9


def memory_rate() -> float:
    """GB/s of a copy, reading and writing counted."""
    source = np.ones(COPIED, dtype=np.uint8)
    target = np.empty_like(source)
    return 2 * COPIED / best(lambda: np.copyto(target, source)) / 1e9


def _scores(path: Path) -> None:
    rng = np.random.default_rng(0)
    query = pa.DictionaryArray.from_arrays(
        np.repeat(np.arange(5000, dtype=np.int32), 1000), pa.array(map(str, range(5000)))
    )
    score = pa.array(rng.random(ROWS, dtype=np.float32))
    pq.write_table(pa.table({"query_id": query.cast(pa.string()), "score": score}), path)


def parquet_rate() -> float:
    """Million rows/s of reading a string and a float32 column, strings kept as dictionaries."""
    path = cached(f"machine-{ROWS}.parquet", _scores)
    return ROWS / best(lambda: pq.read_table(path, read_dictionary=["query_id"])) / 1e6


if __name__ == "__main__":
    described = {
        "processor": model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas_kernel": kernel(),
        "product_gflop_per_s": round(product_rate(), 1),
        "memory_gb_per_s": round(memory_rate(), 1),
        "parquet_mrows_per_s": round(parquet_rate(), 1),
    }
    print(json.dumps(described))
