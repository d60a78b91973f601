"""`reports/metrics.json` is for DVC, `reports/summary.md` for people; both are of the runs of `params.yaml` only."""

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rankledger.benchmarks import NAMES, benchmark
from rankledger.scoring import Value
from rankledger.tables import to_json, write_text
from stages.report import metrics, summary
from tests.projects import Small

PARAMETERS = {name: benchmark(name).parameters({}) for name in NAMES}
RECIPE = {"sizes": [1000], "repeats": 10, "ten_way": True}


@pytest.fixture
def project(tmp_path: Path) -> Small:
    return Small.bare(tmp_path / "project", {name: {"source": "sample"} for name in NAMES})


def value(
    mean: float,
    unit: str = "percent",
    std: float = 0.0,
    n: int = 250,
    repeats: int = 1,
    up: bool = True,
    shown: bool = False,
) -> dict:
    return Value(mean, std, n, repeats, "R@1", unit, up, shown)._asdict()


def result(run: str, name: str, found: dict[str, Any], notes: tuple[str, ...] = (), **protocol: Any) -> dict[str, Any]:
    parameters = {**PARAMETERS[name], **protocol.pop("parameters", {})}
    return {
        "run": run,
        "benchmark": name,
        "metrics": found,
        "notes": list(notes),
        "protocol": {"parameters": parameters, **protocol},
    }


def place(project: Small, content: dict[str, Any], listed: bool = True) -> None:
    run, name = content["run"], content["benchmark"]
    if listed:
        project.list_run(run, name)
    write_text(to_json(content), project.scores(run, name) / "result.json")


CIRR = {"val": {"R@1": value(1.23456789), "R@5": value(20.0), "mean": value(10.5), "Rsubset@1": value(0.1 + 0.2)}}
DRAWS = {
    "im2recipe": {
        "1k": {
            "medR": value(500.5, "rank", 1.25, 1000, 10, up=False, shown=True),
            "R@1": value(0.1, "percent", 0.0123456789, 1000, 10, shown=True),
        },
        "10way": {"R@1": value(10.0, n=1000, repeats=10)},
    }
}


def reported(project: Small) -> dict[str, Any]:
    done = project.run("report")
    assert done.code == 0, done.err
    return json.loads((project.root / "reports" / "metrics.json").read_bytes())


def text(project: Small) -> str:
    return (project.root / "reports" / "summary.md").read_text()


# ---- metrics.json ------------------------------------------------------------------------------------------


def test_metrics_are_a_tree_rounded_to_6_decimals(project: Small) -> None:
    place(project, result("one", "cirr", CIRR))
    place(project, result("one", "recipe1m", DRAWS, parameters=RECIPE))
    place(project, result("two", "cirr", {"val": {"R@1": value(1e-9)}}))
    assert reported(project) == {
        "one": {
            "cirr": {"val": {"R@1": 1.234568, "R@5": 20.0, "Rsubset@1": 0.3, "mean": 10.5}},
            "recipe1m": {
                "im2recipe": {
                    "1k": {"medR": 500.5, "medR_std": 1.25, "R@1": 0.1, "R@1_std": 0.012346},
                    "10way": {"R@1": 10.0},
                }
            },
        },
        "two": {"cirr": {"val": {"R@1": 0.0}}},
    }


def test_keys_are_sorted_and_the_file_ends_with_a_line(project: Small) -> None:
    place(project, result("two", "cirr", CIRR))
    place(project, result("one", "cirr", CIRR))
    reported(project)
    written = (project.root / "reports" / "metrics.json").read_text()
    assert written == json.dumps(json.loads(written), indent=2, sort_keys=True) + "\n"


def test_no_key_of_any_benchmark_would_confuse_dvc() -> None:
    """DVC takes a dot for a step down and fails on a list or a null."""
    for name in NAMES:
        plan = benchmark(name).plan(PARAMETERS[name])
        for row in (*plan.measures, *plan.means):
            assert all(part and "." not in part for part in (name, *row.key))


def test_what_is_not_finite_is_never_written(project: Small) -> None:
    place(project, result("one", "cirr", CIRR))
    reported(project)
    before = (project.root / "reports" / "metrics.json").read_text()
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_json(metrics({"one-cirr": result("one", "cirr", {"val": {"R@1": value(bad)}})}))
    assert (project.root / "reports" / "metrics.json").read_text() == before


def test_a_run_with_nothing_to_report_has_no_key(project: Small) -> None:
    """Predictions of a hidden task only: no empty branch for DVC to show."""
    place(project, result("one", "cirr", {}))
    assert reported(project) == {}
    assert "not scored" not in text(project)


def test_no_runs_make_an_empty_report(project: Small) -> None:
    assert reported(project) == {}


# ---- what is reported, what is warned of -------------------------------------------------------------------


def test_runs_come_from_params_only(project: Small) -> None:
    place(project, result("one", "cirr", CIRR))
    place(project, result("old", "cirr", CIRR), listed=False)
    place(project, result("one", "genecis", {}), listed=False)
    (project.root / "data" / "scores" / "empty").mkdir()
    (project.root / "data" / "scores" / "a file").touch()
    done = project.run("report")
    assert done.code == 0
    owners = ["data/scores/empty", "data/scores/old/cirr", "data/scores/one/genecis"]
    assert done.err.splitlines() == [
        f"warning: {w}: no run in params.yaml owns these scores; they are in no report" for w in owners
    ]
    assert list(reported(project)) == ["one"]
    assert "| old |" not in text(project)
    for owner in owners:
        assert f"- {owner}: no run owns these scores; they are in no table" in text(project)


def test_runs_that_are_not_scored_have_a_row_that_says_so(project: Small) -> None:
    place(project, result("one", "cirr", CIRR))
    project.list_run("two", "cirr")
    project.list_run("two", "genecis")
    done = project.run("report")
    assert done.code == 0
    assert done.err.splitlines() == [
        "warning: two-cirr is not scored: `dvc repro score@two-cirr` says why",
        "warning: two-genecis is not scored: `dvc repro score@two-genecis` says why",
    ]
    assert done.out == "1 of 3 runs: reports/index.html, reports/summary.md, reports/metrics.json\n"
    assert "| two | not scored | not scored | not scored | not scored |" in text(project)
    assert "## GeneCIS\n\n- two: not scored\n" in text(project)
    assert list(reported(project)) == ["one"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"run": "one", "benchmark": "coco"}, "runs.one-cirr should be called one-coco"),
        ({"run": "One", "benchmark": "cirr"}, "runs.one-cirr should be called One-cirr, the run in [a-z0-9_-]"),
        ({"run": "one"}, "should look like"),
        (None, "should look like"),
        ({"run": "one", "benchmark": "cirr", "similarity": "l2"}, "similarity is 'l2'; it should be cosine or dot"),
    ],
)
def test_a_run_that_is_not_as_it_should_be_is_an_error(entry: object, said: str, project: Small) -> None:
    params = project.params()
    with (project.root / "params.yaml").open("w") as file:
        YAML().dump({**params, "runs": {"one-cirr": entry}}, file)
    done = project.run("report")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (project.root / "reports").exists()


def test_a_run_of_an_unlisted_benchmark_is_an_error(project: Small) -> None:
    params = project.params()
    del params["benchmarks"]["cirr"]
    with (project.root / "params.yaml").open("w") as file:
        YAML().dump({**params, "runs": {"one-cirr": {"run": "one", "benchmark": "cirr"}}}, file)
    done = project.run("report")
    assert done.code == 2
    assert "runs.one-cirr names benchmark 'cirr', which benchmarks does not list" in done.err


# ---- summary.md --------------------------------------------------------------------------------------------


def test_the_summary_has_a_table_a_task_and_view_with_directions(project: Small) -> None:
    place(project, result("one", "recipe1m", DRAWS, parameters=RECIPE))
    reported(project)
    shown = text(project)
    assert "## Recipe1M+" in shown
    assert "**im2recipe / 1k · n = 1,000 × 10 draws · rank, percent**" in shown
    assert "| run | medR ↓ | R@1 ↑ |\n| --- | ---: | ---: |\n| one | 500.5 ± 1.2 | 0.10 ± 0.01 |" in shown
    assert "**im2recipe / 10way · n = 1,000 × 10 draws · percent**" in shown
    assert "recipe2im" not in shown


def test_the_summary_says_the_protocol(project: Small) -> None:
    place(project, result("one", "recipe1m", DRAWS, parameters=RECIPE))
    reported(project)
    (line,) = [one for one in text(project).splitlines() if one.startswith("Protocol: ")]
    for choice in ("sampler hash", "filter corrected", "sizes 1000", "repeats 10", "ties expected", "ten_way yes"):
        assert choice in line
    assert benchmark("recipe1m").paper in line


def test_what_a_run_lacks_is_a_dash(project: Small) -> None:
    place(project, result("one", "cirr", CIRR))
    place(
        project,
        result("two", "cirr", {"val": {"Rsubset@1": value(20.0)}}, notes=("val: no predictions for the view gallery",)),
    )
    reported(project)
    assert "| run | R@1 ↑ | R@5 ↑ | Rsubset@1 ↑ | mean ↑ |" in text(project), "in the order of the plan"
    assert "| one | 1.23 | 20.00 | 0.30 | 10.50 |" in text(project)
    assert "| two | – | – | 20.00 | – |" in text(project)
    assert "- two: val: no predictions for the view gallery" in text(project)


def test_variants_do_not_share_a_name(project: Small) -> None:
    found = {"graph2image": {"R@10": value(0.5, "fraction")}}
    for run, variant in (("one", "location_free"), ("two", "location_bound")):
        place(project, result(run, "visual_genome", found, variant=variant))
    reported(project)
    assert "| one (location-free) | 0.5000 |" in text(project)
    assert "| two (location-bound) | 0.5000 |" in text(project)


def test_every_benchmark_can_be_shown() -> None:
    """A value for each row of each plan is in the table, under its name and with its arrow."""
    for name in NAMES:
        plan = benchmark(name).plan(PARAMETERS[name])
        tree: dict[str, Any] = {}
        keys = [row.key for row in (*plan.measures, *plan.means)]
        for i, key in enumerate(keys):
            node = tree
            for part in key[:-1]:
                node = node.setdefault(part, {})
            node[key[-1]] = value(i + 0.25)
        runs = {f"one-{name}": {"run": "one", "benchmark": name}}
        shown = summary(runs, {f"one-{name}": result("one", name, tree)}, [])
        for i, key in enumerate(keys):
            assert f" {i}.25 |" in shown
            assert f"| {key[-1]} ↑ |" in shown
            assert f"**{' / '.join(key[:-1])} · " in shown


def test_the_same_results_make_the_same_reports(project: Small) -> None:
    place(project, result("one", "cirr", CIRR))
    reported(project)
    before = project.snapshot()
    reported(project)
    assert project.snapshot() == before
