"""The benchmarks, one module each, imported only where one is asked for."""

from importlib import import_module

from rankledger.benchmarks.base import Benchmark
from rankledger.tables import InputError, meant

NAMES = ("recipe1m", "cirr", "circo", "fashioniq", "genecis", "visual_genome", "open_images", "deft2013")


def benchmark(name: str) -> Benchmark:
    """The benchmark of that name; raises `InputError` where there is none.

    >>> benchmark("cirr").title
    'CIRR'
    """
    if name not in NAMES:
        raise InputError(f"no benchmark {name!r}; there are: {', '.join(NAMES)}{meant(name, NAMES)}")
    module = import_module(f"rankledger.benchmarks.{name}")
    found: Benchmark = module.BENCHMARK
    return found
