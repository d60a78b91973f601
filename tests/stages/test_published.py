"""Published results: the shipped numbers, and what may stand beside what."""

import csv
import itertools
import re
import shutil
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from rankledger.benchmarks import NAMES, benchmark
from rankledger.benchmarks.base import Key
from rankledger.tables import InputError
from stages.project import Project
from stages.published import COLUMNS, Row, published

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "data" / "published").glob("*.csv"))
# Every size, gallery and task, so that each line that can be reached at all has its metric in the plan.
WIDEST = {"fashioniq": {"galleries": ["original", "val"]}}


def lines(name: str) -> list[dict[str, str]]:
    with (ROOT / "data" / "published" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def key_of(line: dict[str, str]) -> Key:
    return tuple(line[part] for part in ("task", "view", "metric") if line[part])


def beside(name: str, **given: Any) -> tuple[list[Row], list[str]]:
    parameters = benchmark(name).parameters({"source": "official", **given})
    return published(Project(ROOT), name, parameters)


def names(rows: list[Row]) -> set[str]:
    return {row.method for row in rows}


# The shipped numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_line_has_its_place_in_the_metrics(path: Path) -> None:
    found = benchmark(path.stem)
    plan = found.plan(found.parameters(WIDEST.get(path.stem, {})))
    known = {m.key for m in plan.measures} | {m.key for m in plan.means}
    hidden = {task.name for task in plan.tasks if task.hidden}
    unhidden = {key[-1] for key in known}
    for line in lines(path.stem):
        assert line["method"]
        assert line["paper"]
        assert line["where"]
        assert re.fullmatch(r"(19|20)\d\d|", line["year"])
        if line["task"] in hidden:
            assert line["split"] == line["task"]
            assert line["metric"] in unhidden
        elif line["split"] == "val" and path.stem == "recipe1m":
            assert line["metric"] in unhidden
        else:
            assert key_of(line) in known, line


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_numbers_are_in_range_and_grow_with_the_cutoff(path: Path) -> None:
    percent = benchmark(path.stem).plan(benchmark(path.stem).parameters({})).percent
    methods: dict[tuple[str, ...], dict[str, Decimal]] = defaultdict(dict)
    for line in lines(path.stem):
        value = Decimal(line["value"])
        if line["metric"] == "medR":
            assert value >= 1
        else:
            assert 0 < value < (100 if percent else 1)
        where = (line["method"], line["backbone"], line["split"], line["task"], line["view"])
        assert line["metric"] not in methods[where], f"twice: {line}"
        methods[where][line["metric"]] = value
    grown = 0
    for found in methods.values():
        for kind in ("R", "Rsubset", "mAP"):
            by_k = sorted((int(m.split("@")[1]), v) for m, v in found.items() if m.split("@")[0] == kind)
            for (_, low), (_, high) in itertools.pairwise(by_k):
                assert low <= high, (found, kind)
                grown += 1
    assert grown or path.stem in ("deft2013", "genecis")


@pytest.mark.parametrize("name", ["fashioniq", "genecis"])
def test_published_means_are_those_of_their_tasks(name: str) -> None:
    plan = benchmark(name).plan(benchmark(name).parameters({}))
    methods: dict[tuple[str, str], dict[Key, Decimal]] = defaultdict(dict)
    for line in lines(name):
        methods[line["method"], line["backbone"]][key_of(line)] = Decimal(line["value"])
    compared = 0
    for found in methods.values():
        for mean in plan.means:
            if mean.key in found and all(key in found for key in mean.of):
                of = sum(found[key] for key in mean.of) / len(mean.of)
                assert abs(found[mean.key] - of) < Decimal("0.11"), (mean.key, found)
                compared += 1
    assert compared >= 6


def test_verified_are_only_the_numbers_that_were_read_at_their_source() -> None:
    found = {
        (path.stem, line["method"], line["metric"], line["task"])
        for path in FILES
        for line in lines(path.stem)
        if line["verified"] == "yes" and path.stem != "deft2013"
    }
    magiclens = {f"MagicLens-{size}{weights}" for size in "BL" for weights in ("", " (converted weights)")}
    assert found == {
        *(("circo", method, f"mAP@{k}", "test") for method in magiclens for k in (5, 10, 25, 50)),
        ("genecis", "Combiner", "R@1", "mean"),
        *(("recipe1m", f"AdaMine ({of})", "R@1", "im2recipe") for of in ("adamine", "avg")),
        *(("recipe1m", "RecipeSnap", metric, "im2recipe") for metric in ("medR", "R@1", "R@5", "R@10")),
    }
    assert {line["verified"] for line in lines("deft2013")} == {"yes"}


def test_the_tables_of_cirr_and_circo_are_as_collected(shared: Path) -> None:
    text = (shared / "published.md").read_text(encoding="utf-8")
    metrics = {
        "cirr": ["R@1", "R@5", "R@10", "R@50", "Rsubset@1", "Rsubset@2", "Rsubset@3"],
        "circo": ["mAP@5", "mAP@10", "mAP@25", "mAP@50"],
    }
    found = {
        (name, line["method"], line["backbone"], line["metric"]): Decimal(line["value"])
        for name in metrics
        for line in lines(name)
    }
    seen = 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 12 and re.match(r"[\d–]", cells[1]):
            values = {"cirr": cells[1:8], "circo": cells[8:]}
            method, backbone = cells[0], "ViT-L/14"
        elif len(cells) == 4 and "/" in cells[1] and cells[1][0].isdigit():
            method, _, size = cells[0].rpartition(" ")
            backbone = f"ViT-{size}"
            group = cells[3].split("/") if "/" in cells[3] else ["–"] * 3
            values = {"cirr": [*cells[2].split("/"), *group], "circo": cells[1].split("/")}
        else:
            continue
        for name, row in values.items():
            for metric, cell in zip(metrics[name], row, strict=True):
                number = re.match(r"[\d.]+", cell)
                value = found.get((name, method, backbone, metric))
                assert value == (Decimal(number[0]) if number else None), (name, method, metric)
                seen += value is not None
    assert seen > 190


def test_the_numbers_of_the_other_benchmarks_are_as_collected(shared: Path) -> None:
    """Every number of the file is one of the text's, in the text's digits or, where it is a share, times 100."""
    text = (shared / "published.md").read_text(encoding="utf-8")
    sections = {
        "fashioniq": text.split("## 3 ")[1].split("## 4 ")[0],
        "genecis": text.split("## 4 ")[1].split("## 5 ")[0] + text.split("## 1 ")[0],
        "recipe1m": text.split("## 5 ")[1].split("---\n## DEFT")[0].split("-----------\n")[0],
        "deft2013": text.split("## DEFT 2013")[1],
    }
    for name, section in sections.items():
        numbers = {Decimal(n) for n in re.findall(r"(?<![\w.])\d*\.?\d+(?![\w.]*\w)", section)}
        numbers |= {100 * n for n in numbers if n < 1}
        assert not [line for line in lines(name) if Decimal(line["value"]) not in numbers], name
    searle = [line["value"] for line in lines("fashioniq") if line["method"] == "SEARLE-XL"]
    assert searle == ["20.48", "43.13", "26.89", "45.58", "29.32", "49.97", "25.56", "46.23"]
    assert [line["value"] for line in lines("genecis") if line["method"] == "MMRet-Base"] == (
        ["18.3", "15.2", "16.6", "21.7", "18.0"]
    )
    titles = [line["value"] for line in lines("deft2013") if (line["task"], line["metric"]) == ("title", "MRR")]
    assert titles == ["0.430", "0.423", "0.434", "0.036", "0.241", "0.133", "0.127"]


# What stands beside what --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_nothing_stands_beside_made_up_data(name: str) -> None:
    assert published(Project(ROOT), name, benchmark(name).parameters({"source": "sample"})) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_a_number_stands_beside_results_of_its_own_split_task_and_protocol_only(name: str) -> None:
    """Every choice of every parameter, against the lines of the file."""
    found = benchmark(name)
    choices = {p: [o if not isinstance(d, list) else [o] for o in found.choices[p]]
               for p, d in found.defaults.items() if p in found.choices}  # fmt: skip
    split = {"recipe1m": "test", "genecis": "test", "deft2013": "test"}.get(name, "val")
    for chosen in itertools.product(*choices.values()):
        parameters = found.parameters({"source": "official", **dict(zip(choices, chosen, strict=True))})
        plan = found.plan(parameters)
        known = {m.key for m in plan.measures} | {m.key for m in plan.means}
        rows, _ = published(Project(ROOT), name, parameters)
        shown = {(row.name, key, cell.value) for row in rows for key, cell in row.cells.items()}
        expected = set()
        for line in lines(name) if any(path.stem == name for path in FILES) else []:
            protocol = {p: v for p, v in line.items() if p in found.defaults and v not in ("", "any")}
            if (
                key_of(line) in known
                and line["split"] == split
                and all(str(parameters[p]) == v for p, v in protocol.items())
            ):
                shown_as = f"{line['method']} ({line['backbone']})" if line["backbone"] else line["method"]
                expected.add((shown_as, key_of(line), Decimal(line["value"])))
        assert shown == expected


@pytest.mark.parametrize(("name", "split"), [("cirr", "test1"), ("circo", "test")])
def test_hidden_splits_never_stand_beside_results(name: str, split: str) -> None:
    rows, notes = beside(name)
    assert rows == []
    (note,) = notes
    methods = {(line["method"], line["backbone"]) for line in lines(name)}
    assert note == (
        f"{len(methods)} published methods do not compare: "
        f"on {split}, where only the benchmark's server knows what is right"
    )


def test_fashioniq_stands_beside_the_original_gallery_only() -> None:
    rows, notes = beside("fashioniq", galleries=["original", "val"])
    assert {"Pic2Word", "SEARLE-XL", "MagicLens-L", "FiRE"} <= names(rows)
    assert notes == []
    assert {key[1] for row in rows for key in row.cells} == {"original"}
    assert beside("fashioniq", galleries=["val"]) == ([], [])


def test_a_stated_reference_must_match_and_one_that_is_not_stated_is_told() -> None:
    rows, notes = beside("fashioniq", reference="removed")
    assert not names(rows) & {"Pic2Word", "SEARLE", "SEARLE-XL", "SEARLE-XL-OTI"}
    assert notes == ["5 published methods do not compare: with reference kept; these results have removed"]
    assert {row.unstated for row in rows} == {("reference",)}
    rows, notes = beside("fashioniq")
    told = {row.method: row.unstated for row in rows}
    assert (told["Pic2Word"], told["LDRE"], notes) == ((), ("reference",), [])


def test_recipe1m_has_test_numbers_by_filter_and_size() -> None:
    rows, notes = beside("recipe1m", filter="official")
    assert names(rows) == {"im2recipe JE", "SIMMER"}
    assert notes == ["3 published methods do not compare: on val; these results are on test"]
    rows, notes = beside("recipe1m", sizes=[1000])
    assert {key: str(cell.value) for row in rows for key, cell in row.cells.items()} == {
        ("im2recipe", "1k", "R@1"): "87.5"
    }
    assert "1 published methods do not compare: with filter official; these results have corrected" in notes


def test_deft_says_that_the_edrm_of_its_rows_is_uncertain_and_of_nothing_else() -> None:
    for dmax in ("class", 3):
        rows, notes = beside("deft2013", dmax=dmax)
        assert notes == []
        assert {(key[0], row.unstated) for row in rows for key in row.cells} == {
            ("difficulty", ("dmax",)), ("dish_type", ()), ("title", ()), ("ingredients", ()),
        }  # fmt: skip


def test_a_method_is_one_row_with_its_digits_and_marks() -> None:
    rows, _ = beside("genecis")
    (row,) = [row for row in rows if row.name == "Combiner (RN50x4)"]
    assert str(row.cells["focus_attribute", "R@1"].value) == "19.0"
    assert not row.cells["focus_attribute", "R@1"].verified
    assert row.cells["mean", "R@1"].verified
    rows, _ = beside("genecis", tasks=["focus_object"])
    assert {key for row in rows for key in row.cells} == {("focus_object", "R@1")}


# A user's own lines -------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Project:
    shutil.copytree(ROOT / "data" / "published", tmp_path / "data" / "published")
    return Project(tmp_path)


def ask(project: Project, name: str = "cirr") -> list[Row]:
    return published(project, name, benchmark(name).parameters({"source": "official"}))[0]


def test_a_line_of_ones_own_stands_beside_results(project: Project) -> None:
    path = project.root / "data" / "published" / "cirr.csv"
    with path.open("a") as file:
        file.write('"Mine, with a comma",,val,val,,R@1,40.5,hard,removed,a paper,2025,yes,its table 2,\n')
        file.write("Other,,val,val,,R@1,41.5,soft,removed,a paper,2025,yes,its table 2,\n")
    (row,) = ask(project)
    assert (row.method, row.cells["val", "R@1"].value) == ("Mine, with a comma", Decimal("40.5"))


def test_a_benchmark_without_a_file_has_none(project: Project) -> None:
    assert ask(project, "visual_genome") == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("M,,val,vall,,R@1,40,hard,removed,p,2025,yes,w,", "task is 'vall'; it should be one of test1, val"),
        ("M,,val,val,,R@1,4O,hard,removed,p,2025,yes,w,", "value is '4O'; it should be a number"),
        ("M,,val,val,,R@1,NaN,hard,removed,p,2025,yes,w,", "value is NaN"),
        ("M,,val,val,,R@1,140,hard,removed,p,2025,yes,w,", "value is 140; in the unit of metrics.json"),
        ("M,,val,val,,R@1,-1,hard,removed,p,2025,yes,w,", "should be between 0 and 100"),
        ("M,,val,val,,R@1,40,hard,removed,p,2025,maybe,w,", "verified is 'maybe'; it should be yes or no"),
        ("M,,val,val,,R@1,40,hard,removed,p,2025,yes,w", "another number of fields"),
        ("M,,val,val,,R@1,40,hard,removed,p,2025,yes,w,n,x", "another number of fields"),
    ],
)
def test_a_bad_line_is_named(project: Project, line: str, says: str) -> None:
    path = project.root / "data" / "published" / "cirr.csv"
    number = len(path.read_text().splitlines()) + 1
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError) as error:
        ask(project)
    assert f"cirr.csv, line {number}: " in str(error.value)
    assert says in str(error.value)


def test_a_share_must_be_a_share_where_metrics_are_shares(project: Project) -> None:
    path = project.root / "data" / "published" / "deft2013.csv"
    path.write_text(path.read_text() + "M,,test,title,,MRR,43.4,any,p,2013,yes,w,\n")
    with pytest.raises(InputError, match=r"between 0 and 1$"):
        ask(project, "deft2013")


def test_a_bad_header_is_named(project: Project) -> None:
    path = project.root / "data" / "published" / "cirr.csv"
    text = path.read_text()
    path.write_text(text.replace("verified", "checked", 1))
    with pytest.raises(InputError, match="lacks the column 'verified'"):
        ask(project)
    path.write_text(text.replace("labels", "label", 1))
    with pytest.raises(InputError, match="the column 'label' is no parameter of cirr"):
        ask(project)


def test_the_readme_explains_every_column() -> None:
    text = (ROOT / "data" / "published" / "README.md").read_text()
    for column in COLUMNS:
        assert f"`{column}`" in text
