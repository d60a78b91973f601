"""LaTeX tables: their form, what is best, what stands in the caption, what stands beside what."""

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rankledger.benchmarks import NAMES, benchmark
from rankledger.benchmarks.base import Key
from rankledger.tables import InputError, read_json, to_json, write_text
from stages.latex import escape, latex
from stages.predict import predict
from stages.project import Project
from tests.projects import Small

ROOT = Path(__file__).resolve().parents[2]
LOWER = ("medR",)
Value = Callable[[Key], float | None]


class Results:
    """A project that has nothing but results."""

    def __init__(self, root: Path):
        self.project = Project(root)
        self.runs: dict[str, Any] = {}
        self.benchmarks: dict[str, Any] = {}
        shutil.copytree(ROOT / "data" / "published", root / "data" / "published")
        (root / "dvc.yaml").touch()

    def list_run(self, run: str, name: str, given: Mapping[str, Any]) -> None:
        self.benchmarks[name] = dict(given)
        self.runs[f"{run}-{name}"] = {"run": run, "benchmark": name}
        with (self.project.root / "params.yaml").open("w") as file:
            YAML().dump({"benchmarks": self.benchmarks, "runs": self.runs}, file)

    def put(self, run: str, name: str, value: Value, given: Mapping[str, Any] | None = None, **leaf: Any) -> Path:
        """A run's result.json, with `value(key)` for each metric of the plan."""
        given = {"source": "official", **(given or {})}
        self.list_run(run, name, given)
        parameters = benchmark(name).parameters(given)
        plan = benchmark(name).plan(parameters)
        tree: dict[str, Any] = {}
        for key in [*(m.key for m in plan.measures), *(m.key for m in plan.means)]:
            if (mean := value(key)) is None:
                continue
            node = tree
            for part in key[:-1]:
                node = node.setdefault(part, {})
            unit = "rank" if key[-1] in LOWER else "percent" if plan.percent else "fraction"
            node[key[-1]] = {
                "mean": mean, "std": 0.0, "n": 1234, "repeats": 1, "metric": key[-1], "unit": unit,
                "higher_is_better": key[-1] not in LOWER, "shows_std": False, **leaf,
            }  # fmt: skip
        tasks = {task.name: {"ties": task.ties, "missing": task.missing} for task in plan.tasks}
        path = self.project.scores(run, name) / "result.json"
        protocol = {"parameters": parameters, "similarity": "cosine", "tasks": tasks}
        result = {"run": run, "benchmark": name, "metrics": tree, "protocol": protocol, "notes": []}
        write_text(to_json({**result, "inputs": {"subset": {"queries": "ab12"}, "predictions": {}}}), path)
        return path

    def change(self, path: Path, **changes: Any) -> None:
        write_text(to_json({**read_json(path), **changes}), path)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path)


def of(text: str, name: str) -> str:
    """The table of a benchmark."""
    (found,) = [part for part in text.split("\n\n") if rf"\label{{tab:{name}}}" in part]
    return found


def caption(table: str) -> str:
    (line,) = [line for line in table.splitlines() if line.startswith(r"\caption{")]
    return line


def rows(table: str) -> list[list[str]]:
    """Rows of all tabulars as cells, without comments and rules."""
    lines = [re.sub(r"(?<!\\)%.*", "", line).strip() for line in table.splitlines()]
    return [[c.strip() for c in re.split(r"(?<!\\)&", line[:-2])] for line in lines if line.endswith(r"\\")]


def row(table: str, label: str) -> list[str]:
    """The numbers of the rows with this label, in all tabulars."""
    return [cell for cells in rows(table) if cells[0] == label for cell in cells[1:]]


def bold(table: str) -> list[str]:
    return re.findall(r"\\textbf\{([^}]*)\}", table)


def check_form(text: str) -> None:
    """Braces and environments are balanced, and every row of a tabular has the columns that it promises."""
    code = "\n".join(re.sub(r"(?<!\\)%.*", "", line) for line in text.splitlines())
    plain = re.sub(r"\\[{}\\]", "", code)
    assert plain.count("{") == plain.count("}")
    assert code.count("$") % 2 == 0
    stack: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", code):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    assert all(ord(char) < 128 for char in code)
    tabulars = re.findall(r"\\begin\{tabular\}\{(l)(r+)\}(.*?)\\end\{tabular\}", code, re.DOTALL)
    assert len(tabulars) == code.count(r"\begin{tabular}") > 0
    for left, right, body in tabulars:
        columns = len(left + right)
        for cells in rows(body):
            spans = [re.match(r"\\multicolumn\{(\d+)\}", cell) for cell in cells]
            assert sum(int(span[1]) if span else 1 for span in spans) == columns, cells
        for first, last in re.findall(r"\\cmidrule\(lr\)\{(\d+)-(\d+)\}", body):
            assert 2 <= int(first) <= int(last) <= columns
        assert [body.count(rule) for rule in (r"\toprule", r"\bottomrule")] == [1, 1]


def of_all(results: Results) -> str:
    """Three runs on every benchmark, beside whatever is published."""
    for name in NAMES:
        for i, run in enumerate(("chance", "sample", "my_model")):
            results.put(run, name, lambda key, i=i: 0.3 + 0.1 * i, interval=[0.1, 0.25], shows_std=True)
    return latex(results.project)


def test_the_form_is_right_for_every_benchmark(results: Results) -> None:
    text = of_all(results)
    check_form(text)
    assert [re.search(r"tab:(\w+)", part)[1] for part in text.split("\n\n")[1:]] == list(NAMES)  # type: ignore[index]
    for name in NAMES:
        table = of(text, name)
        plan = benchmark(name).plan(benchmark(name).parameters({}))
        for key in [*(m.key for m in plan.measures), *(m.key for m in plan.means)]:
            assert escape(" / ".join(key[:-1])) in table
            assert escape(key[-1]) + (r" $\downarrow$" if key[-1] in LOWER else r" $\uparrow$") in table
        shown = len(plan.measures) + len(plan.means)
        assert len(row(table, r"my\_model")) == len(row(table, "chance")) == shown


def test_it_compiles(results: Results, tmp_path: Path) -> None:
    if not shutil.which("pdflatex") or not shutil.which("kpsewhich"):
        pytest.skip("no pdflatex")
    for package in ("booktabs.sty", "graphicx.sty"):
        if subprocess.run(["kpsewhich", package], capture_output=True, check=False).returncode:
            pytest.skip(f"no {package}")
    text = of_all(results)
    head = "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n"
    (tmp_path / "t.tex").write_text(f"{head}{text}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_the_best_is_bold_by_direction_and_ties_share_it(results: Results) -> None:
    scores = {"a": (5.0, 41.001), "b": (4.0, 41.003), "c": (9.0, 12.0)}
    for run, (rank, share) in scores.items():
        results.put(run, "recipe1m", lambda key, r=rank, s=share: r if key[-1] == "medR" else s, {"sizes": [100]})
    table = of(latex(results.project), "recipe1m")
    assert row(table, "a") == ["5.0", *[r"\textbf{41.00}"] * 3] * 2
    assert row(table, "b") == [r"\textbf{4.0}", *[r"\textbf{41.00}"] * 3] * 2
    assert row(table, "c") == ["9.0", *["12.00"] * 3] * 2


@pytest.mark.parametrize(("mine", "won"), [(34.81, False), (45.11, True), (45.12, True), (45.10, False)])
def test_published_rows_take_part(results: Results, mine: float, won: bool) -> None:
    results.put("mymodel", "fashioniq", lambda key: mine if key == ("mean", "original", "R@10") else None)
    table = of(latex(results.project), "fashioniq")
    assert row(table, "mymodel") == [rf"\textbf{{{mine:.2f}}}" if won else f"{mine:.2f}"]
    assert ("45.11" in bold(table)) == (mine <= 45.11)


def test_shipped_runs_are_no_rivals_of_others_but_of_each_other(results: Results) -> None:
    results.put("chance", "cirr", lambda key: 20.0)
    results.put("sample", "cirr", lambda key: 99.0)
    assert set(bold(latex(results.project))) == {"99.00"}
    assert "Bold: the best of a column.}" in caption(of(latex(results.project), "cirr"))
    results.put("mymodel", "cirr", lambda key: 40.0)
    text = latex(results.project)
    assert not bold(text), "it has no rival"
    assert "Bold" not in text
    results.put("other", "cirr", lambda key: 30.0)
    assert set(bold(latex(results.project))) == {"40.00"}
    assert "Bold: the best of a column, chance and sample aside.}" in caption(of(latex(results.project), "cirr"))


def test_published_rows_stand_below_a_rule_and_unverified_ones_are_marked(results: Results) -> None:
    results.put("mymodel", "genecis", lambda key: 10.0)
    table = of(latex(results.project), "genecis")
    tabulars = table.split(r"\begin{tabular}")[1:]
    for part in tabulars:
        mine, others = part.split("mymodel")
        assert others.index(r"\midrule") < others.index("Combiner (RN50x4)")
        assert "Combiner" not in mine
    cells = row(table, r"SQUARE (ViT-B/32)$^{\dagger}$")
    numbers = [re.sub(r"\\textbf\{(.*)\}", r"\1", cell) for cell in cells]
    assert numbers == [
        "25.6",
        "--",
        "--",
        "19.0",
        "--",
        "--",
        "17.3",
        "--",
        "--",
        "16.8",
        "--",
        "--",
        "19.7",
        "--",
        "--",
    ]
    assert row(table, "Combiner (ViT-B/16)") == ["17.6", "--", "--"], "read at its source: no mark"
    assert r"$^{\dagger}$ As reprinted by others, not verified at the source." in caption(table)
    assert "arXiv 2509.26330; a compilation by a third party" in table


def test_what_a_source_does_not_state_is_marked(results: Results) -> None:
    results.put("mymodel", "fashioniq", lambda key: 10.0)
    table = of(latex(results.project), "fashioniq")
    assert row(table, r"LinCIR (ViT-L/14)$^{\dagger,\ddagger}$")
    assert row(table, r"Pic2Word (ViT-L/14)$^{\dagger}$")
    assert "$^{\\ddagger}$ The source does not state: reference." in caption(table)


def test_the_protocol_stands_in_the_caption(results: Results) -> None:
    results.put("mymodel", "cirr", lambda key: 10.0, {"labels": "soft", "reference": "kept"})
    results.put("mymodel", "recipe1m", lambda key: 10.0, {"sizes": [1000], "seed": 7}, repeats=10, shows_std=True)
    results.put("mymodel", "deft2013", lambda key: 0.5)
    text = latex(results.project)
    assert (
        "Protocol: labels soft, reference kept. Ties: mean over the orders of equal scores. Values in percent." in text
    )
    recipes = caption(of(text, "recipe1m"))
    for words in (
        "sizes 1000,",
        "seed 7",
        "repeats 10",
        "ten way yes",
        r"$\pm$: standard deviation",
        "ranks and percent",
    ):
        assert words in recipes
    assert "$n$ = $1{,}234$ in 10 draws" in text
    assert "Ties: equal scores by id, descending." in caption(of(text, "deft2013")), "labels have no ties"
    assert "Made-up" not in text
    assert "bootstrap" not in text


def test_made_up_data_say_so_and_have_nothing_beside_them(results: Results) -> None:
    results.put("mymodel", "fashioniq", lambda key: 10.0, {"source": "sample"})
    table = of(latex(results.project), "fashioniq")
    assert "Made-up sample data, not the benchmark's own." in caption(table)
    assert "published" not in table
    assert "Pic2Word" not in table


def test_intervals_stand_below_their_values_where_there_are_any(results: Results) -> None:
    path = results.put("mymodel", "cirr", lambda key: 41.234, interval=[38.1, 44.456])
    results.put("other", "cirr", lambda key: 12.0, interval=None)
    lines = rows(of(latex(results.project), "cirr"))
    at = next(i for i, cells in enumerate(lines) if cells[0] == "mymodel")
    assert lines[at][1:] == [r"\textbf{41.23}"] * 8
    assert lines[at + 1] == ["", *[r"{\scriptsize [38.10, 44.46]}"] * 8]
    assert lines[at + 2] == ["other", *["12.00"] * 8], "no empty row"
    assert r"95\,\% bootstrap intervals" in latex(results.project)
    path.unlink()
    assert "bootstrap" not in latex(results.project)


def test_deviations_stand_beside_their_values(results: Results) -> None:
    results.put("mymodel", "recipe1m", lambda key: 12.0, {"sizes": [50]}, std=0.126, shows_std=True)
    assert row(of(latex(results.project), "recipe1m"), "mymodel")[0] == r"12.0 $\pm$ 0.1"
    results.put("other", "recipe1m", lambda key: 13.0, {"sizes": [50]}, std=0.126, shows_std=True)
    assert row(of(latex(results.project), "recipe1m"), "mymodel")[0] == r"\textbf{12.0} $\pm$ 0.1"


def test_a_variant_is_part_of_the_name(results: Results) -> None:
    path = results.put("my_model", "visual_genome", lambda key: 0.5)
    results.change(path, protocol={**read_json(path)["protocol"], "variant": "location_bound"})
    assert row(of(latex(results.project), "visual_genome"), r"my\_model (location-bound)")


def test_a_metric_without_a_value_is_left_out_and_a_run_without_one_gets_a_dash(results: Results) -> None:
    results.put("mymodel", "cirr", lambda key: 10.0 if key[-1].startswith("R@") else None)
    table = of(latex(results.project), "cirr")
    assert "Rsubset" not in table
    results.put("other", "cirr", lambda key: 10.0)
    table = of(latex(results.project), "cirr")
    assert row(table, "mymodel")[-4:] == ["--"] * 4
    check_form(table)


def test_what_is_not_shown_stands_in_comments(results: Results) -> None:
    path = results.put("mymodel", "cirr", lambda key: 10.0)
    results.change(path, notes=["val: a % and a\nnew line"])
    results.list_run("unscored", "cirr", {})
    text = latex(results.project)
    assert "% unscored on cirr: not scored\n" in text
    assert "% mymodel: val: a % and a new line\n" in text
    assert re.search(r"% \d+ published methods do not compare: on test1, where only the benchmark's server", text)
    assert "Pic2Word" not in text, "test1 beside val"
    check_form(text)


@pytest.mark.parametrize("what", ["parameters", "ties", "subset"])
def test_results_of_different_protocols_share_no_table(results: Results, what: str) -> None:
    results.put("one", "cirr", lambda key: 10.0)
    path = results.put("two", "cirr", lambda key: 10.0)
    latex(results.project)
    result = read_json(path)
    if what == "parameters":
        result["protocol"]["parameters"]["labels"] = "soft"
    elif what == "ties":
        result["protocol"]["tasks"]["val"]["ties"] = "optimistic"
    else:
        result["inputs"]["subset"]["queries"] = "cd34"
    results.change(path, **result)
    with pytest.raises(InputError, match=r"cirr: one and two .* `dvc repro`"):
        latex(results.project)


def test_special_characters() -> None:
    assert escape(r"50% of a_b & c# {$x} ~^\ <|>") == (
        r"50\% of a\_b \& c\# \{\$x\} \textasciitilde{}\textasciicircum{}\textbackslash{} "
        r"\textless{}\textbar{}\textgreater{}"
    )


def test_the_command_prints_and_writes_nothing(tmp_path: Path) -> None:
    small = Small.make(tmp_path / "project", {"cirr": {"source": "sample"}})
    predict(small, "cirr")
    small.list_run("sample", "cirr", similarity="dot")
    assert small.run("score", "sample", "cirr").code == 0
    before = small.snapshot()
    done = small.run("report", "--latex")
    assert (done.code, done.err) == (0, "")
    check_form(done.out)
    assert "Made-up sample data" in done.out
    (value,) = {read_json(small.scores("sample", "cirr") / "result.json")["metrics"]["val"]["R@1"]["mean"]}
    assert f"{value:.2f}" in row(done.out, "sample")
    assert small.snapshot() == before
