"""Intervals and paired tests of whole plans, on the embedded samples."""

import dataclasses
import math
import statistics
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Key, Plan
from rankledger.ranking.statistics import mean
from rankledger.scoring import Scored, score
from rankledger.subset import Subset
from rankledger.uncertainty import Observed, compare, intervals, observe
from stages.predict import predictions
from tests.projects import Small

PARAMETERS = {
    "cirr": {"labels": "soft"},
    "circo": {},
    "deft2013": {},
    "fashioniq": {},
    "recipe1m": {"sizes": [1000], "repeats": 2},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A benchmark with its two shipped runs scored."""

    name: str
    plan: Plan
    subset: Subset
    files: dict[str, dict[str, Path]]
    scored: dict[str, Scored]

    def observed(self, run: str) -> dict[Key, Observed]:
        return observe(self.plan, self.subset, self.scored[run].tables, self.files[run])


@pytest.fixture(scope="module", params=PARAMETERS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    name = request.param
    root = tmp_path_factory.mktemp("uncertainty") / "project"
    project = Small.make(root, {name: PARAMETERS[name]})
    subset = project.built(name)
    plan = benchmark(name).plan(benchmark(name).parameters(PARAMETERS[name]))
    files: dict[str, dict[str, Path]] = {}
    for run in ("chance", "sample"):
        tables = predictions(subset, plan, guided=run == "sample")
        files[run] = {file: root / f"{run}-{file}.parquet" for file in tables}
        for file, table in tables.items():
            pq.write_table(table, files[run][file])
    return Case(name, plan, subset, files, {run: score(subset, plan, files[run], "dot") for run in files})


def test_the_difference_that_is_tested_is_the_one_that_is_reported(case: Case) -> None:
    old, new = case.scored["chance"].values, case.scored["sample"].values
    found = compare(case.name, case.plan.means, case.observed("chance"), case.observed("sample"), new)
    assert set(found) == set(new)
    for key, paired in found.items():
        assert paired.difference == pytest.approx(new[key].mean - old[key].mean, abs=1e-9), key
        assert paired.interval is not None
        assert paired.interval[0] - 1e-9 <= paired.difference <= paired.interval[1] + 1e-9
        assert paired.p is not None
        assert 0 < paired.p <= 1


def test_intervals_hold_their_number(case: Case) -> None:
    values = case.scored["sample"].values
    found = intervals(case.name, case.plan.means, case.observed("sample"), values)
    assert set(found) == set(values)
    for key, span in found.items():
        assert span is not None
        assert span[0] - 1e-9 <= values[key].mean <= span[1] + 1e-9, key


def test_intervals_are_as_wide_as_theory_says(case: Case) -> None:
    """± 1.96 standard errors for a mean of values that are not all alike, one trial a query."""
    for key, one in case.observed("chance").items():
        several = len(one.values) > len(set(one.query_id.to_pylist()))
        if one.aggregate is not mean or several or len(one.values) < 100 or np.count_nonzero(one.values) < 30:
            continue
        span = intervals(case.name, (), {key: one}, [key])[key]
        assert span is not None
        assert span[1] - span[0] == pytest.approx(3.92 * one.values.std() / math.sqrt(len(one.values)), rel=0.1), key


@pytest.mark.parametrize("case", ["cirr"], indirect=True)
def test_a_mean_over_the_same_queries_is_drawn_as_one(case: Case) -> None:
    keys = [("val", "mean"), ("val", "R@5"), ("val", "Rsubset@1")]
    observed = case.observed("chance"), case.observed("sample")
    both, *parts = (compare("cirr", case.plan.means, *observed, [key])[key] for key in keys)
    np.testing.assert_allclose(both.drawn, (parts[0].drawn + parts[1].drawn) / 2)
    apart = math.sqrt(parts[0].drawn.var() + parts[1].drawn.var()) / 2
    together = math.sqrt(np.cov(parts[0].drawn, parts[1].drawn).sum()) / 2
    assert both.drawn.std() == pytest.approx(together, rel=0.01)
    assert abs(together / apart - 1) > 0.01, "on this sample the two views are not independent"


def test_only_shared_queries_are_compared(case: Case) -> None:
    """Where each side lacks some queries, the test is of those that both have."""
    tables = {run: dict(case.scored[run].tables) for run in case.scored}
    task = next(iter(tables["sample"]))
    ids = pc.unique(tables["sample"][task]["query_id"]).to_pylist()
    for run, lost in (("chance", set(ids[::3])), ("sample", set(ids[1::3]))):
        keep = [q not in lost for q in tables[run][task]["query_id"].to_pylist()]
        tables[run][task] = tables[run][task].filter(pa.array(keep))
    old, new = (observe(case.plan, case.subset, tables[run], case.files[run]) for run in tables)
    measure = next(
        m for m in case.plan.measures if m.task == task and m.metric.startswith(("R@", "Best@", "AP", "EDRM_mi"))
    )
    column = measure.key[-1]
    rows = {
        run: {
            (r["repeat"], r["query_id"]): r[column] for r in tables[run][task].to_pylist() if r["view"] == measure.view
        }
        for run in tables
    }
    shared = rows["chance"].keys() & rows["sample"].keys()
    assert 0 < len(shared) < len(rows["sample"])
    expected = statistics.fmean(rows["sample"][k] - rows["chance"][k] for k in shared)
    found = compare(case.name, case.plan.means, old, new, [measure.key])[measure.key]
    assert found.difference == pytest.approx(expected, abs=1e-9)


def test_without_a_shared_query_there_is_no_test(case: Case) -> None:
    old, new = case.observed("chance"), case.observed("sample")
    key, one = next((k, o) for k, o in new.items() if k in old)
    others = pc.binary_join_element_wise(
        one.query_id, pa.scalar("other", pa.large_string()), pa.scalar("-", pa.large_string())
    )
    assert compare(case.name, case.plan.means, old, {key: dataclasses.replace(one, query_id=others)}, [key]) == {}


@pytest.mark.parametrize("case", ["deft2013"], indirect=True)
def test_macro_averages_need_the_answers(case: Case) -> None:
    with_files = case.observed("sample")
    without = observe(case.plan, case.subset, case.scored["sample"].tables, {})
    lost = with_files.keys() - without.keys()
    assert ("dish_type", "F_macro") in lost
    assert ("dish_type", "F_micro") in without
    assert ("title", "MRR") in without
