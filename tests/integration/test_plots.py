"""`dvc plots` in a small repository: every series by itself, old beside new, and a page that needs no network."""

import csv
import json
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rankledger.benchmarks import NAMES
from stages.plots import COLUMNS
from tests.integration.browser import THEMES, browser, opened
from tests.integration.conftest import ROOT, Workspace
from tests.projects import Small
from tests.results import place, ranks, value

OLD, NEW = [1, 3, 12, 40], [1, 1, 3, 70]
FILES = {"overview.tsv", "cirr/one.tsv", "cirr/two.tsv", "circo/one.tsv"}
EMPTY = "genecis/one.tsv"
# Looks at the plots from inside, when they are drawn.
PROBE = """
<script>
const violations = [];
document.addEventListener("securitypolicyviolation", event => violations.push(event.blockedURI));
addEventListener("load", () => setTimeout(() => {
  const box = mark => { const b = mark.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; };
  const plots = Object.fromEntries([...document.querySelectorAll(".plot")].map(plot => [plot.id, {
    shown: plot.getClientRects().length > 0,
    text: plot.textContent,
    bars: [...plot.querySelectorAll(".mark-rect.role-mark path")].map(box),
    lines: [...plot.querySelectorAll(".mark-line.role-mark path")].map(path => getComputedStyle(path).stroke),
    dots: plot.querySelectorAll(".mark-symbol.role-mark path").length,
  }]));
  const header = document.querySelector("header").innerText;
  document.querySelector("#same").click();
  parent.postMessage(JSON.stringify({
    violations, plots, header,
    all: [...document.querySelectorAll(".plot")].every(plot => plot.getClientRects().length > 0),
    resources: performance.getEntriesByType("resource").map(e => e.name),
    wide: document.documentElement.scrollWidth, width: innerWidth,
    background: getComputedStyle(document.body).backgroundColor,
    inks: [...document.querySelectorAll("svg text")].map(text => getComputedStyle(text).fill),
  }), "*");
}, 3000));
</script>
"""


def score(project: Small, run: str, name: str, task: str, view: str, at: list[int]) -> None:
    share = 100 * sum(rank <= 5 for rank in at) / len(at)
    found = value(share, (max(share - 20, 0.0), min(share + 20, 100.0)))
    place(project, run, name, {task: {"R@5": found, "mean" if name == "cirr" else "mAP@5": found}})
    ranks(project, run, name, task, view, at)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Three results and their report; since the commit one of them has changed."""
    root = tmp_path_factory.mktemp("plots") / "repository"
    project = Small.bare(root, {name: {"source": "sample"} for name in NAMES})
    for name in ("dvc.yaml", ".gitignore", ".dvc/config", ".dvc/plots/results.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    workspace = Workspace(root)
    workspace.run("git", "init", "-qb", "main")
    score(project, "one", "cirr", "val", "gallery", OLD)
    score(project, "two", "cirr", "val", "gallery", OLD)
    score(project, "one", "circo", "val", "all", OLD)
    place(project, "one", "genecis", {})
    assert project.run("report").code == 0
    workspace.commit("before")
    score(project, "two", "cirr", "val", "gallery", NEW)
    assert project.run("report").code == 0
    return workspace


def plots(workspace: Workspace, *command: str) -> dict[str, Any]:
    """By file, the spec that DVC makes."""
    found = json.loads(workspace.run("dvc", "plots", *command, "--json").stdout)
    assert not found.get("errors")
    specs = {name.removeprefix("reports/plots/"): one for name, one in found["data"].items()}
    assert specs.pop(EMPTY) == []
    assert specs.keys() == FILES
    return {name: one["content"] for name, (one,) in specs.items()}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def of(spec: dict[str, Any], revision: str) -> list[dict[str, str]]:
    """The rows of a revision, without what DVC adds."""
    mine = [row for row in spec["data"]["values"] if row["rev"] == revision]
    assert all(row.keys() == {*COLUMNS, "rev"} for row in mine)
    return [{column: row[column] for column in COLUMNS} for row in mine]


def test_each_plot_that_is_shown_has_the_rows_of_its_file_only(repository: Workspace) -> None:
    for name, spec in plots(repository, "show").items():
        assert of(spec, "workspace") == rows((repository.root / "reports/plots" / name).read_text())
        assert len(of(spec, "workspace")) == len(spec["data"]["values"])


def test_a_diff_has_old_and_new_each_with_a_colour_of_its_own(repository: Workspace) -> None:
    for name, spec in plots(repository, "diff", "HEAD").items():
        path = f"reports/plots/{name}"
        old, new = of(spec, "HEAD"), of(spec, "workspace")
        assert new == rows((repository.root / path).read_text())
        assert old == rows(repository.run("git", "show", f"HEAD:{path}").stdout)
        assert (old != new) == (name in ("cirr/two.tsv", "overview.tsv")), name
        assert "DVC_METRIC" not in json.dumps(spec)
        line = spec["vconcat"][2]["spec"]["layer"][0]["encoding"]["color"]
        assert line["field"] == "rev"
        assert sorted(line["scale"]["domain"]) == ["HEAD", "workspace"]
        assert len(set(line["scale"]["range"])) == 2


@pytest.fixture(scope="module")
def look(repository: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Opens the page of `dvc plots diff` and says what was found there."""
    chromium = browser()
    repository.run("dvc", "plots", "diff", "HEAD")
    text = (repository.root / "dvc_plots" / "index.html").read_text(encoding="utf-8")
    assert not repository.run("git", "status", "--porcelain", "dvc_plots", "reports/plots.html").stdout
    page = text.replace("</body>\n</html>", f"{PROBE}</body>\n</html>")
    return partial(opened, page, tmp_path_factory.mktemp("look"), chromium)


@pytest.mark.parametrize("theme", THEMES)
def test_the_page_asks_for_nothing_and_is_legible(theme: str, look: Callable[..., dict[str, Any]]) -> None:
    seen = look(theme=theme)
    assert [line for line in seen["console"] if '"WARN ' not in line] == []  # of Vega-Lite, on heights that it counts
    assert seen["violations"] == []
    assert seen["resources"] == []
    assert seen["requests"] == []
    assert len(set(seen["inks"])) == 1
    dark = [sum(map(int, colour[4:-1].split(","))) < 3 * 128 for colour in (seen["background"], seen["inks"][0])]
    assert dark == [theme == "dark", theme == "light"]


def test_every_series_is_drawn_by_itself(look: Callable[..., dict[str, Any]]) -> None:
    seen = look()["plots"]
    assert seen.keys() == {f"reports_plots_{name}".replace("/", "_").replace(".", "_") for name in FILES}
    for name, plot in seen.items():
        assert "Error" not in plot["text"]
        if "overview" not in name:
            assert len(plot["lines"]) == len(set(plot["lines"])) == 2
            assert plot["dots"] > 0
    two = seen["reports_plots_cirr_two_tsv"]
    (left, right), (top, bottom) = ([bar[i : i + 2] for bar in two["bars"][:2]] for i in (0, 2))
    assert left[0] == right[0], "bars start at 0, none where another ends"
    assert top[1] <= bottom[0] + 1 or bottom[1] <= top[0] + 1, "bars stand below each other"


def test_plots_that_are_the_same_in_all_revisions_are_shown_on_demand(look: Callable[..., dict[str, Any]]) -> None:
    seen = look()
    shown = {name for name, plot in seen["plots"].items() if plot["shown"]}
    assert shown == {"reports_plots_cirr_two_tsv", "reports_plots_overview_tsv"}
    assert "and the 2 in which all revisions are the same" in seen["header"]
    assert seen["all"]


def test_the_page_is_no_wider_than_a_phone(look: Callable[..., dict[str, Any]]) -> None:
    seen = look(width=390)
    assert seen["wide"] <= seen["width"]
