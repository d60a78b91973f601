"""Results of runs as the stage `score` leaves them, made up."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rankledger.benchmarks import NAMES, benchmark
from rankledger.scoring import Value
from rankledger.tables import to_json, write_text
from tests.projects import Small

PARAMETERS = {name: benchmark(name).parameters({"source": "sample"}) for name in NAMES}


def value(
    mean: float, interval: tuple[float, float] | None = None, unit: str = "percent", up: bool = True, **more: Any
) -> dict[str, Any]:
    plain = Value(mean, 0.0, 250, 1, "R@1", unit, up, False)._replace(**more)
    return {**plain._asdict(), "interval": interval and list(interval)}


def place(project: Small, run: str, name: str, found: dict[str, Any], notes: tuple[str, ...] = (), **more: Any) -> None:
    project.list_run(run, name)
    parameters = {**PARAMETERS[name], **more.pop("parameters", {})}
    result = {"run": run, "benchmark": name, "metrics": found, "notes": list(notes), **more}
    result["protocol"] = {"parameters": parameters, **more.get("protocol", {})}
    write_text(to_json(result), project.scores(run, name) / "result.json")


def ranks(
    project: Small, run: str, name: str, task: str, view: str, low: list[int], high: list[int] | None = None
) -> None:
    """A per-query table of one view, pools of 100."""
    n = len(low)
    columns = {"task": [task] * n, "view": [view] * n, "repeat": [0] * n, "query_id": [str(i) for i in range(n)]}
    table = pa.table({**columns, "rank_min": low, "rank_max": high or low, "n_candidates": [100] * n})
    project.scores(run, name).mkdir(parents=True, exist_ok=True)
    pq.write_table(table, project.scores(run, name) / f"{task}.parquet")
