"""The example in CONTRIBUTING.md is a whole benchmark: it builds, validates and scores."""

import re
import types
from pathlib import Path

import pyarrow.parquet as pq

from rankledger.benchmarks.base import Benchmark
from rankledger.scoring import score
from rankledger.subset import read_subset, write_subset
from rankledger.validation import validate
from stages.predict import predictions

ROOT = Path(__file__).resolve().parents[1]


def test_the_example_is_a_whole_benchmark_in_under_60_lines(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) < 60
    module = types.ModuleType("captions")
    exec(compile(code, "captions.py", "exec"), module.__dict__)
    example: Benchmark = module.BENCHMARK
    parameters = example.parameters({})
    (tmp_path / "raw").mkdir()
    example.sample(tmp_path / "raw")
    subset, notes = example.build(tmp_path / "raw", parameters)
    write_subset(subset, tmp_path / "subset", example.name, parameters, [], notes)
    subset, manifest = read_subset(tmp_path / "subset")
    plan = example.plan(parameters)
    assert all(check.status != "failed" for check in validate(subset, manifest, example, parameters))
    files = {}
    for side, table in predictions(subset, plan, guided=True).items():
        files[side] = tmp_path / f"{side}.parquet"
        pq.write_table(table, files[side])
    found = score(subset, plan, files, "dot")
    assert found.values[("caption2photo", "R@1")].mean > 90
    assert found.values[("caption2photo", "medR")].mean == 1
