"""Scores retrieval models so that a number can be trusted, reproduced and explained.

>>> import rankledger as rl
>>> rl.evaluate({"q1": {"a": 2.0, "b": 1.0}}, {"q1": {"b": 1}}, [rl.R @ 1, rl.MRR]).metrics
{'R@1': 0.0, 'MRR': 0.5}
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankledger.benchmarks import benchmark
    from rankledger.evaluation import Evaluation, evaluate
    from rankledger.predictions.runs import read_qrels, read_run
    from rankledger.ranking.metrics import (
        AP,
        MRR,
        Best,
        Metric,
        P,
        R,
        Rprec,
        Success,
        bpref,
        medR,
        nDCG,
        num_q,
        num_rel,
        num_rel_ret,
        num_ret,
    )
    from rankledger.tables import InputError

__all__ = [
    "AP",
    "MRR",
    "Best",
    "Evaluation",
    "InputError",
    "Metric",
    "P",
    "R",
    "Rprec",
    "Success",
    "benchmark",
    "bpref",
    "evaluate",
    "medR",
    "nDCG",
    "num_q",
    "num_rel",
    "num_rel_ret",
    "num_ret",
    "read_qrels",
    "read_run",
]

_ELSEWHERE = {  # what does not come from ranking.metrics
    "benchmark": "benchmarks",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "read_qrels": "predictions.runs",
    "read_run": "predictions.runs",
    "InputError": "tables",
}


def __getattr__(name: str) -> object:
    """Import at the first use: `import rankledger` alone costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'ranking.metrics')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
