"""The page: its structure, what it marks and warns of, and that its bytes depend on nothing but the results."""

import itertools
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankledger.benchmarks import NAMES, benchmark
from rankledger.tables import to_json, write_text
from stages.page import main_metric
from tests.projects import Small
from tests.results import PARAMETERS, place, ranks, value

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """The page as a reader's program sees it."""

    def __init__(self, text: str):
        super().__init__()
        self.text, self.open, self.tags, self.ids, self.urls = text, [], [], [], []
        self.tables: list[list[list[dict[str, Any]]]] = []
        self.captions: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if "id" in given:
            self.ids.append(given["id"])
        self.urls += [(tag, given[name]) for name in ("src", "href", "xlink:href", "srcset", "data") if name in given]
        if tag == "table":
            self.tables.append([])
        elif tag == "caption":
            self.captions.append("")
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append({"tag": tag, "text": "", "strong": False, **given})
        elif tag == "strong" and "td" in self.open:
            self.tables[-1][-1][-1]["strong"] = True
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if "caption" in self.open:
            self.captions[-1] += data
        elif {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1]["text"] += data

    def table(self, caption: str) -> dict[str, list[dict[str, Any]]]:
        """The rows of a table by their head."""
        at = next(i for i, shown in enumerate(self.captions) if shown.startswith(caption))
        return {row[0]["text"].strip(): row[1:] for row in self.tables[at]}


@pytest.fixture
def project(tmp_path: Path) -> Small:
    return Small.bare(tmp_path / "project", {name: {"source": "sample"} for name in NAMES})


def shown(project: Small) -> Page:
    done = project.run("report")
    assert done.code == 0, done.err
    return Page((project.root / "reports" / "index.html").read_text(encoding="utf-8"))


# ---- structure ---------------------------------------------------------------------------------------------


def test_every_benchmark_has_its_section_with_all_its_metrics(project: Small) -> None:
    for name in NAMES:
        tree: dict[str, Any] = {}
        plan = benchmark(name).plan(PARAMETERS[name])
        for i, key in enumerate([*(m.key for m in plan.measures), *(m.key for m in plan.means)]):
            node = tree
            for part in key[:-1]:
                node = node.setdefault(part, {})
            node[key[-1]] = value(i + 0.25)
        place(project, "one", name, tree)
    page = shown(project)
    assert set(NAMES) <= set(page.ids)
    for name in NAMES:
        plan = benchmark(name).plan(PARAMETERS[name])
        keys = [*(m.key for m in plan.measures), *(m.key for m in plan.means)]
        for i, key in enumerate(keys):
            at = [k for k in keys if k[:-1] == key[:-1]].index(key)
            assert any(
                caption.startswith(f"{' / '.join(key[:-1])} · n = 250")
                and f"{i}.25" in page.tables[t][1][at + 1]["text"]
                for t, caption in enumerate(page.captions)
            ), key


def test_the_overview_has_a_metric_of_each_plan() -> None:
    for name in NAMES:
        plan = benchmark(name).plan(PARAMETERS[name])
        assert main_metric(plan) in {m.key for m in (*plan.measures, *plan.means)}
    assert main_metric(benchmark("cirr").plan(PARAMETERS["cirr"])) == ("val", "mean")
    assert main_metric(benchmark("genecis").plan(PARAMETERS["genecis"])) == ("mean", "R@1")
    two = {**PARAMETERS["genecis"], "tasks": ["focus_object", "change_object"]}
    assert main_metric(benchmark("genecis").plan(two)) == ("focus_object", "R@1")


def test_tables_are_tables_and_the_page_asks_for_nothing(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(10), "mean": value(10)}})
    ranks(project, "one", "cirr", "val", "gallery", [1, 2, 30])
    page = shown(project)
    assert len(page.captions) == len(page.tables) >= 2
    for table in page.tables:
        assert all(cell["tag"] == "th" and cell["scope"] == "col" for cell in table[0])
        assert all(row[0]["tag"] == "th" and row[0]["scope"] == "row" for row in table[1:])
    assert len(page.ids) == len(set(page.ids))
    levels = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), "a level is left out"
    plain = [url for tag, url in page.urls if tag == "a"]
    assert all(url == "data:," for tag, url in page.urls if tag != "a")
    assert all(url[1:] in page.ids for url in plain if url.startswith("#"))
    assert "url(" not in page.text
    assert "@import" not in page.text
    (policy,) = [given["content"] for tag, given in page.tags if given.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert ("html", {"lang": "en"}) in page.tags
    figures = [given for tag, given in page.tags if tag == "figure"]
    assert figures
    assert all(given["aria-label"] for given in figures)
    assert page.text.count("<figcaption>") == len(figures)


def test_no_runs_make_a_page_that_says_what_to_do(project: Small) -> None:
    assert "rankledger add" in shown(project).text


def test_runs_that_are_not_scored_are_named(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"mean": value(10)}})
    project.list_run("two", "cirr")
    project.list_run("two", "genecis")
    page = shown(project)
    assert page.table("The main metric")["two"][0]["text"] == "not scored"
    assert "Not scored: two." in page.text
    (project.root / "data/scores/old/cirr").mkdir(parents=True)
    assert "data/scores/old/cirr: no run owns these scores" in shown(project).text


# ---- best, ties, intervals, levels -------------------------------------------------------------------------


def test_the_best_is_bold_and_what_overlaps_it_is_marked(project: Small) -> None:
    for run, mean, interval in (
        ("a", 50.0, (48.0, 52.0)),
        ("b", 47.0, (45.0, 48.5)),
        ("c", 40.0, (38.0, 42.0)),
        ("d", 39.0, None),
        ("sample", 99.0, (98.0, 100.0)),
    ):
        place(project, run, "cirr", {"val": {"R@1": value(mean, interval)}})
    table = shown(project).table("val")
    assert {run: row[0]["strong"] for run, row in table.items() if run in "abcdsample"} == {
        "a": True,
        "b": False,
        "c": False,
        "d": False,
        "sample": False,  # it is made from the right answers
    }
    assert [run for run, row in table.items() if "≈" in row[0]["text"]] == ["b"]
    assert "[45.00, 48.50]" in table["b"][0]["text"]
    assert "[" not in table["d"][0]["text"]


def test_of_ranks_the_lowest_is_best_and_equals_are_all_bold(project: Small) -> None:
    for run, mean in (("a", 12.0), ("b", 12.0), ("c", 13.0)):
        found = {"im2recipe": {"1k": {"medR": value(mean, unit="rank", up=False)}}}
        place(project, run, "recipe1m", found)
    table = shown(project).table("im2recipe / 1k")
    assert [table[run][0]["strong"] for run in "abc"] == [True, True, False]


def test_a_single_run_has_no_rival(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(10.0, (9.0, 11.0))}})
    assert not shown(project).table("val")["one"][0]["strong"]


def test_the_shipped_runs_are_held_against_each_other_where_no_other_run_is(project: Small) -> None:
    for run, mean in (("chance", 1.0), ("sample", 99.0)):
        place(project, run, "cirr", {"val": {"R@1": value(mean)}})
    assert shown(project).table("val")["sample"][0]["strong"]
    place(project, "one", "cirr", {"val": {"R@1": value(10.0)}})
    table = shown(project).table("val")
    assert not any(table[run][0]["strong"] for run in ("chance", "sample", "one"))


def test_what_is_made_up_is_marked_in_the_overview_and_the_summary(project: Small) -> None:
    found = {"val": {"R@1": value(10.0), "mean": value(10.0)}}
    for source, marked in (("sample", True), ("official", False)):
        place(project, "one", "cirr", found, parameters={"source": source})
        page = shown(project)
        (head,) = [cell["text"] for cell in page.tables[0][0] if "CIRR" in cell["text"]]
        assert head.rstrip().endswith("val, percent, made-up data" if marked else "val, percent")
        assert ("Made-up sample data" in (project.root / "reports" / "summary.md").read_text()) is marked


def test_chance_and_ceiling_stand_below_the_values(project: Small) -> None:
    found = {
        "R-Precision@10": value(0.0996, unit="fraction", chance=0.0022, ceiling=0.1),
        "R@10": value(0.5, unit="fraction"),
    }
    place(project, "one", "visual_genome", {"graph2image": found})
    table = shown(project).table("graph2image")
    assert [cell["text"] for cell in table["chance level"]] == ["0.0022", "–"]
    assert [cell["text"] for cell in table["ceiling"]] == ["0.1000", "–"]


def test_the_summary_shows_intervals(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(52.914, (51.2, 54.4)), "R@5": value(60.0)}})
    shown(project)
    assert "| one | 52.91 [51.20, 54.40] | 60.00 |" in (project.root / "reports" / "summary.md").read_text()


# ---- what a reader must know -------------------------------------------------------------------------------


def test_notes_are_shown_and_text_is_never_markup(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(1)}}, notes=("<script>alert(1)</script> & more",))
    place(project, "two", "cirr", {"val": {"R@1": value(1)}}, notes=("<script>alert(1)</script> & more",))
    place(project, "three", "cirr", {"val": {"R@1": value(1)}})
    text = shown(project).text
    assert "one, two: &lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in text
    assert "<script>alert" not in text


def test_commands_in_a_warning_are_marked_as_such(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(1)}}, notes=("`rankledger submit` <b> writes",))
    assert "one: <code>rankledger submit</code> &lt;b&gt; writes" in shown(project).text


def test_a_median_at_chance_is_warned_of(project: Small) -> None:
    for run, mean in (("one", 498.0), ("two", 300.0), ("chance", 500.0)):
        found = {"im2recipe": {"1k": {"medR": value(mean, unit="rank", up=False, chance=500.5)}}}
        place(project, run, "recipe1m", found)
    text = shown(project).text
    assert "one: im2recipe / 1k / medR is 498.0, and constant scores give 500.5" in text
    assert "two: im2recipe" not in text
    assert "chance: im2recipe" not in text


def test_partial_coverage_is_warned_of(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(1), "R@5": value(2)}})
    place(project, "two", "cirr", {"val": {"R@1": value(1)}})
    text = shown(project).text
    assert "two: 1 metrics that other runs have are missing, in val" in text
    assert "one: 1 metrics" not in text


def test_ties_that_matter_are_warned_of_with_what_they_span(project: Small) -> None:
    place(project, "one", "cirr", {"val": {"R@1": value(1)}})
    ranks(project, "one", "cirr", "val", "gallery", [1, 1, 1, 7], [1, 5, 4, 9])
    place(project, "two", "cirr", {"val": {"R@1": value(1)}})
    ranks(project, "two", "cirr", "val", "gallery", [1, 2, 3, 7], [1, 2, 4, 9])
    text = shown(project).text
    assert (
        "one: val / gallery: equal scores in 3 of 4 trials; with them a right candidate is first in 25.00 to 75.00 %"
        in text
    )
    assert "two: val / gallery: equal scores" not in text


def test_the_subset_and_its_notes_are_shown(project: Small) -> None:
    prints = {"queries": "ab" * 32, "pools": "cd" * 32}
    place(project, "one", "cirr", {"val": {"R@1": value(1)}}, inputs={"subset": prints})
    manifest = {"counts": {"queries": 4181, "pools": 9}, "notes": ["val: 42 record(s) give target_hard no weight"]}
    write_text(to_json(manifest), project.subset("cirr") / "manifest.json")
    page = shown(project)
    rows = page.table("Tables of the test subset")
    assert [cell["text"] for cell in rows["queries"]] == ["4,181", "ab" * 32]
    assert "<li>data: val: 42 record(s) give target_hard no weight</li>" in page.text


def test_the_protocol_is_said_in_words(project: Small) -> None:
    tasks = {"val": {"ties": "expected", "missing": "error"}}
    place(project, "one", "cirr", {"val": {"R@1": value(1)}}, protocol={"tasks": tasks, "similarity": "dot"})
    text = shown(project).text
    for term, words in (
        ("reference", "removed"),
        ("ties", "mean over the orders of equal scores"),
        ("similarity of embeddings", "dot (one)"),
    ):
        assert f"<dt>{term}</dt><dd>{words}</dd>" in text


def test_published_rows_stand_beside_official_results_only(project: Small) -> None:
    shutil.copytree(ROOT / "data" / "published", project.root / "data" / "published")
    found = {"mean": {"original": {"R@10": value(30), "R@50": value(50), "mean": value(40)}}}
    place(project, "one", "fashioniq", found)
    assert 'class="published"' not in shown(project).text
    place(project, "one", "fashioniq", found, parameters={"source": "official"})
    page = shown(project)
    assert 'class="published"' in page.text
    assert "†" in page.text
    assert "Made-up sample data" not in page.text


# ---- pictures ----------------------------------------------------------------------------------------------


def test_a_curve_says_the_share_that_is_found(project: Small) -> None:
    for run, low in (("one", [1, 5, 11, 40]), ("two", [11, 11, 40, 90])):
        place(project, run, "cirr", {"val": {"R@10": value(100 * np.mean(np.array(low) <= 10), (10.0, 90.0))}})
        ranks(project, run, "cirr", "val", "gallery", low)
    text = shown(project).text
    assert "At K = 10: one 50.0 %, two 0.0 %." in text
    assert "Dots are metrics of the table" in text
    assert "one is better on 4, two on 0, equal on 0 of 4 trials." in text


def test_no_more_than_three_runs_are_held_against_the_best(project: Small) -> None:
    for i in range(6):
        place(project, f"r{i}", "cirr", {"val": {"R@1": value(1)}})
        ranks(project, f"r{i}", "cirr", "val", "gallery", [i + 1] * 5)
    text = shown(project).text
    assert [f"<h4>r0 against r{i}: " in text for i in range(1, 6)] == [True, True, True, False, False]
    assert "2 more runs are not held against it" in text


# ---- the same everywhere -----------------------------------------------------------------------------------


def test_the_same_results_make_the_same_bytes(project: Small) -> None:
    for run in ("one", "two"):
        place(
            project,
            run,
            "cirr",
            {
                "val": {"R@1": value(1, (0.5, 1.5))},
            },
            inputs={"subset": {"queries": "ab"}},
        )
        ranks(project, run, "cirr", "val", "gallery", [1, 2, 3, 50], [1, 2, 4, 90])
    before = shown(project).text
    for seed, home in (("1", "/nonexistent"), ("2", str(project.root))):
        env = {**os.environ, "PYTHONHASHSEED": seed, "HOME": home, "TZ": "Asia/Tokyo", "PYTHONPATH": str(ROOT)}
        code = "from pathlib import Path; from stages.project import Project; from stages.report import report; "
        code += "report(Project(Path.cwd()))"
        subprocess.run([sys.executable, "-c", code], cwd=project.root, env=env, check=True, capture_output=True)
        assert (project.root / "reports" / "index.html").read_text(encoding="utf-8") == before
    assert str(project.root) not in before
