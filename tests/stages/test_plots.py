"""What `dvc plots` draws: a file a run and benchmark, rows that keep every series apart, a template and a page."""

import csv
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankledger.benchmarks import NAMES
from stages.plots import BAND_NAMES, COLUMNS, template
from tests.projects import Small
from tests.results import place, ranks, value

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Small:
    return Small.bare(tmp_path / "project", {name: {"source": "sample"} for name in NAMES})


def report(project: Small) -> None:
    done = project.run("report")
    assert done.code == 0, done.err


def rows(project: Small, name: str, **where: str) -> list[dict[str, str]]:
    with (project.root / "reports" / "plots" / name).open(newline="") as file:
        found = list(csv.DictReader(file, delimiter="\t"))
    assert found
    assert tuple(found[0]) == COLUMNS
    return [row for row in found if where.items() <= row.items()]


def files(project: Small) -> set[str]:
    folder = project.root / "reports" / "plots"
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# ---- rows --------------------------------------------------------------------------------------------------


def test_each_run_on_a_benchmark_has_its_own_file(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(10), "mean": value(20)}})
    place(project, "two", "cirr", {"val": {"R@1": value(30)}})
    place(project, "one", "genecis", {"mean": {"R@1": value(40)}})
    project.list_run("unscored", "cirr")
    report(project)
    assert files(project) == {"overview.tsv", "cirr/one.tsv", "cirr/two.tsv", "genecis/one.tsv"}
    assert [row["value"] for row in rows(project, "cirr/one.tsv")] == ["10.0", "20.0"]
    assert [row["value"] for row in rows(project, "cirr/two.tsv")] == ["30.0"]


def test_a_run_that_is_taken_out_leaves_no_file(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(10)}})
    place(project, "two", "cirr", {"val": {"R@1": value(30)}})
    report(project)
    params = project.root / "params.yaml"
    params.write_text(re.sub(r"  two-cirr:\n    run: two\n    benchmark: cirr\n", "", params.read_text()))
    assert "two" not in params.read_text()
    report(project)
    assert files(project) == {"overview.tsv", "cirr/one.tsv"}


def test_the_overview_has_the_main_metric_of_every_run(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(10), "mean": value(20, (18.0, 22.0))}})
    place(project, "two", "cirr", {"val": {"mean": value(30)}})
    place(project, "two", "visual_genome", {"graph2image": {"R-Precision@10": value(0.1, unit="fraction")}})
    place(project, "three", "cirr", {"val": {"R@1": value(1)}})  # without the main metric
    report(project)
    cirr = "CIRR: val / mean (percent ↑)"
    assert [(r["place"], r["name"], r["value"], r["low"], r["high"]) for r in rows(project, "overview.tsv")] == [
        (cirr, "one", "20.0", "18.0", "22.0"),
        (cirr, "two", "30.0", "", ""),
        ("Visual Genome: graph2image / R-Precision@10 (0–1 ↑)", "two", "0.1", "", ""),
    ]


def test_metrics_stand_in_the_order_of_the_plan_and_units_do_not_mix(project: Small) -> None:
    found = {"R@10": value(3), "R@5": value(2), "R@1": value(1), "medR": value(50.5, unit="rank", up=False)}
    place(project, "one", "recipe1m", {"im2recipe": {"1k": found}})
    report(project)
    assert [(r["place"], r["name"]) for r in rows(project, "recipe1m/one.tsv", part="bar")] == [
        ("im2recipe / 1k (rank ↓)", "medR"),
        ("im2recipe / 1k (percent ↑)", "R@1"),
        ("im2recipe / 1k (percent ↑)", "R@5"),
        ("im2recipe / 1k (percent ↑)", "R@10"),
    ]


def orders(low: list[int | None], high: list[int | None], depth: int) -> float:
    """In percent, how many trials have the best right candidate in the first `depth`, over all places it may have."""
    found = 0.0
    for first, last in zip(low, high, strict=True):
        if first is not None and last is not None:
            places = range(first, last + 1)
            found += sum(place <= depth for place in places) / len(places)
    return 100 * found / len(low)


def test_a_curve_is_the_share_that_is_found_with_the_intervals_of_its_metrics(project: Small) -> None:
    low, high = [1, 1, 4, 11, 40, None], [1, 3, 4, 20, 90, None]
    share = orders(low, high, 10)
    place(project, "one", "cirr", {"val": {"R@10": value(share, (10.0, 90.0)), "R@5": value(7.0, (1.0, 9.0))}})
    ranks(project, "one", "cirr", "val", "gallery", low, high)
    report(project)
    curve = rows(project, "cirr/one.tsv", part="curve", place="val / gallery")
    assert [int(r["at"]) for r in curve] == [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100]
    for row in curve:
        assert float(row["value"]) == pytest.approx(orders(low, high, int(row["at"])), rel=1e-5)
    spans = {r["at"]: (r["low"], r["high"]) for r in curve if r["low"]}
    assert spans == {"10": ("10.0", "90.0")}, "R@5 is no point of the curve"


def test_a_cut_off_between_the_steps_is_a_point_of_the_curve(project: Small) -> None:
    low = [1, 25, 26, 99]
    place(project, "one", "circo", {"val": {"R@25": value(50.0, (40.0, 60.0)), "mAP@5": value(3)}})
    ranks(project, "one", "circo", "val", "all", low)
    report(project)
    curve = rows(project, "circo/one.tsv", part="curve")
    at = [int(r["at"]) for r in curve]
    assert 25 in at
    assert at == sorted(set(at))


def test_bands_follow_each_other_and_end_where_all_that_is_found_is(project: Small) -> None:
    low = [1, 1, 3, 60, None]
    place(project, "one", "cirr", {"val": {"R@1": value(40)}})
    ranks(project, "one", "cirr", "val", "gallery", low)
    report(project)
    bands = rows(project, "cirr/one.tsv", part="band")
    assert [band["name"] for band in bands] == BAND_NAMES
    shares = {band["name"]: float(band["high"]) - float(band["low"]) for band in bands}
    assert {name: share for name, share in shares.items() if share} == {"1": 40.0, "2–5": 20.0, "51–100": 20.0}
    assert bands[0]["low"] == "0.0"
    assert all(one["high"] == next_["low"] for one, next_ in itertools.pairwise(bands))


def test_a_metric_that_is_a_rank_has_a_dot_a_draw(project: Small) -> None:
    found = {"medR": value(3.0, unit="rank", up=False, repeats=2), "R@1": value(40.0, repeats=2)}
    place(project, "one", "recipe1m", {"im2recipe": {"1k": found}})
    at = [1, 2, 3, 3, 4, 100]
    table = {
        "view": ["1k"] * 6,
        "repeat": [0] * 3 + [1] * 3,
        "query_id": list("abcabc"),
        "n_candidates": [1000] * 6,
    }
    path = project.scores("one", "recipe1m") / "im2recipe.parquet"
    pq.write_table(pa.table({**table, "rank_min": at, "rank_max": at, "medR": at, "R@1": [0.0] * 6}), path)
    report(project)
    draws = rows(project, "recipe1m/one.tsv", part="draw")
    assert [(r["place"], r["at"], r["value"]) for r in draws] == [
        ("im2recipe / 1k / medR", "0", "2.0"),
        ("im2recipe / 1k / medR", "1", "4.0"),
    ]
    assert [r["name"] for r in rows(project, "recipe1m/one.tsv", part="bar")] == ["R@1"]


def test_label_tasks_have_bars_only(project: Small) -> None:
    place(project, "one", "deft2013", {"difficulty": {"F_micro": value(0.5, unit="fraction")}})
    pq.write_table(
        pa.table({"view": ["all"], "repeat": [0], "query_id": ["a"], "F_micro": [1.0]}),
        project.scores("one", "deft2013") / "difficulty.parquet",
    )
    report(project)
    assert {row["part"] for row in rows(project, "deft2013/one.tsv")} == {"bar"}


# ---- template ----------------------------------------------------------------------------------------------


def layers(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "mark" in node and "encoding" in node:
            yield node
        for child in node.values():
            yield from layers(child)
    elif isinstance(node, list):
        for child in node:
            yield from layers(child)


def test_the_template_that_dvc_reads_is_the_one_made_here() -> None:
    written = json.loads((ROOT / ".dvc" / "plots" / "results.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(template())), "run `python -m stages.plots`"


def test_every_mark_of_the_template_tells_revisions_apart() -> None:
    found = list(layers(template()))
    assert len(found) == 7
    for layer in found:
        told = {channel for channel, of in layer["encoding"].items() if of == "<DVC_METRIC_COLOR>"}
        told |= {
            channel for channel, of in layer["encoding"].items() if isinstance(of, dict) and of.get("field") == "rev"
        }
        assert told & {"color", "y", "yOffset"}, layer
        x = layer["encoding"]["x"]
        if layer["mark"]["type"] == "bar" and "x2" not in layer["encoding"]:
            assert x["stack"] is None, "Vega-Lite stacks bars unless it is told not to"


# ---- page --------------------------------------------------------------------------------------------------


def test_the_page_has_its_scripts_inside_and_a_place_for_what_dvc_fills_in(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(10)}})
    report(project)
    page = (project.root / "reports" / "plots.html").read_text(encoding="utf-8")
    assert page.count("{plot_divs}") == page.count("{refresh_tag}") == 1
    assert "{scripts}" not in page
    assert page.count("<script>") == page.count("</script>") == 2
    assert not re.search(r"<script[^>]*src|<link[^>]*https?:|@import", page)
    assert re.search(r"Content-Security-Policy\" content=\"default-src 'none';", page)
    assert len(page) < 1_200_000


def test_the_page_is_made_anew_only_where_it_is_another(project: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(10)}})
    report(project)
    page = project.root / "reports" / "plots.html"
    made = page.read_bytes()
    monkeypatch.setattr("stages.plots._scripts", lambda: "other scripts")
    report(project)
    assert page.read_bytes() == made
    page.write_bytes(re.sub(rb'(name="made-of" content=")[0-9a-f]{64}', rb"\g<1>another", made))
    report(project)
    assert b"other scripts" in page.read_bytes()
    page.unlink()
    report(project)
    assert b"other scripts" in page.read_bytes()


def test_the_same_results_make_the_same_bytes(project: Small) -> None:
    for run in ("one", "two"):
        place(project, run, "cirr", {"val": {"R@1": value(25, (0.5, 1.5))}})
        ranks(project, run, "cirr", "val", "gallery", [1, 2, 3, 50], [1, 2, 4, 90])
    report(project)
    reports = project.root / "reports"

    def made() -> dict[str, bytes]:
        return {
            path.relative_to(reports).as_posix(): path.read_bytes() for path in reports.rglob("*") if path.is_file()
        }

    before = made()
    assert {"plots/overview.tsv", "plots/cirr/one.tsv", "plots/cirr/two.tsv", "plots.html"} <= before.keys()
    (reports / "plots.html").unlink()
    env = {**os.environ, "PYTHONHASHSEED": "7", "HOME": str(project.root), "TZ": "Asia/Tokyo", "PYTHONPATH": str(ROOT)}
    code = "from pathlib import Path; from stages.project import Project; from stages.report import report; "
    code += "report(Project(Path.cwd()))"
    subprocess.run([sys.executable, "-c", code], cwd=project.root, env=env, check=True, capture_output=True)
    assert made() == before
    assert not any(str(project.root).encode() in content for content in before.values())
