"""Every code block of the documentation runs, in order, a page in a project of its own, and prints what is shown."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from rankledger.benchmarks import NAMES
from stages.published import COLUMNS
from tests.integration.conftest import Workspace
from tests.pages import ROOT, RUN, Block, blocks, matches, pages

Make = Callable[[], Workspace]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
# Pages of one project, and the benchmark that they need; None: all.
TOGETHER: list[tuple[tuple[str, ...], str | None]] = [
    (("docs/tutorial.md", "docs/benchmarks/recipe1m.md"), "recipe1m"),
    (("README.md", "docs/benchmarks/cirr.md"), "cirr"),
    *(((f"docs/benchmarks/{name}.md",), name) for name in NAMES if name not in ("recipe1m", "cirr")),
    (("docs/problems.md",), "deft2013"),
    (("docs/published.md",), "fashioniq"),
    (("CONTRIBUTING.md",), None),
]


class Reader:
    """Someone who follows a page in a clone of the project, after `make`."""

    def __init__(self, workspace: Workspace, home: Path):
        self.workspace = workspace
        self.root = workspace.root
        (self.root / ".venv" / "bin").mkdir(parents=True)
        (self.root / ".venv" / "bin" / "activate").symlink_to(Path(sys.executable).parent / "activate")
        # `make` would build the environment that runs this: it only says what it would do.
        tools = home / "tools"
        tools.mkdir(parents=True)
        (tools / "make").write_text(f'#!/bin/sh\nexec {shutil.which("make")} --dry-run "$@" > /dev/null\n')
        (tools / "make").chmod(0o755)
        self.env = {
            f"GIT_{who}_{what}": "reader@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        self.env |= {"GITHUB_STEP_SUMMARY": str(home / "summary.md"), "GITHUB_PATH": str(home / "path")}
        self.prefix = f"export PATH={tools}{os.pathsep}$PATH\n"

    def keep(self, benchmark: str) -> None:
        """Leave one benchmark in the project, so that the pipeline has little to do."""
        params = self.root / "params.yaml"
        other = re.compile(rf"  (?!{benchmark}: |[a-z]+-{benchmark}: )[a-z0-9_-]+: \{{")
        params.write_text("".join(x for x in params.read_text().splitlines(keepends=True) if not other.match(x)))
        lock = self.root / "dvc.lock"  # DVC reads and writes all of it with each stage
        stages = re.split(r"^(?=  \S)", lock.read_text(), flags=re.MULTILINE)
        lock.write_text("".join(s for s in stages if not re.match(rf"  \S+@(?!\S*\b{benchmark}:)", s)))
        for folder in [*self.root.glob("data/raw/*"), *self.root.glob("data/subsets/*"), *self.root.glob("data/*/*/*")]:
            if folder.is_dir() and not {folder.name, folder.parent.name} & {benchmark}:
                shutil.rmtree(folder)
        self.bash("git commit -qam 'one benchmark'")

    def bash(self, text: str, ok: bool = True) -> tuple[int, str]:
        """Run commands; their exit code, and what they print on both streams."""
        done = self.workspace.run(
            "bash", "-euo", "pipefail", "-c", f"exec 2>&1\n{self.prefix}{text}", ok=False, **self.env
        )
        assert not ok or done.returncode == 0, f"{text}\n{done.stdout}"
        return done.returncode, done.stdout

    def follow(self, block: Block) -> None:
        """Do what a block says, and compare what it prints."""
        if block.needs:
            return
        if block.language == "yaml" and block.head == "params.yaml":
            self.edit(block.text)
        elif block.language == "python" and re.fullmatch(r"\w+\.py", block.head):
            (self.root / block.head).write_text(block.text)
        elif block.language == "python":
            script = self.root.parent / "block.py"
            script.write_text(block.text)
            printed = self.bash(f"python {script}")[1]
            if block.output is not None:
                assert matches(block.output, printed), f"{block} prints:\n{printed}"
        elif block.language in RUN:
            for command, shown in block.commands:
                fails = shown is not None and re.search("^(error|fail): ", shown, re.MULTILINE)
                code, printed = self.bash(command, ok=not fails)
                assert not fails or code, f"{block}: {command} does not fail"
                assert shown is None or matches(shown, printed), f"{block}: {command} prints:\n{printed}"

    def edit(self, lines: str) -> None:
        """Put lines of params.yaml in the place of those with the same key."""
        path = self.root / "params.yaml"
        text = path.read_text()
        for line in lines.splitlines()[1:]:
            key = re.match(r" *[\w-]+:", line)
            assert key, line
            text, n = re.subn(rf"^{re.escape(key[0])}.*$", line, text, flags=re.MULTILINE)
            assert n == 1, f"params.yaml has {n} lines {key[0]!r}"
        path.write_text(text)
        YAML(typ="safe").load(path)


def has_commands(page: str) -> bool:
    return any(block.language in RUN and not block.needs for block in blocks(page))


def test_every_page_with_commands_is_followed() -> None:
    followed = [page for some, _ in TOGETHER for page in some] + ["docs/ci.md"]
    assert sorted(followed) == sorted(filter(has_commands, pages()))


@pytest.mark.parametrize(("some", "benchmark"), TOGETHER, ids=[some[0] for some, _ in TOGETHER])
def test_the_blocks_of_a_page_run_and_print_what_is_shown(
    some: tuple[str, ...], benchmark: str | None, workspace: Make, tmp_path: Path
) -> None:
    reader = Reader(workspace(), tmp_path)
    if benchmark:
        reader.keep(benchmark)
    for page in some:
        for block in blocks(page):
            reader.follow(block)


def test_the_workflow_scores_a_pull_request_and_says_what_moved(workspace: Make, tmp_path: Path) -> None:
    """Each step that needs no network runs in a clone, as on GitHub: nothing in DVC's cache, HEAD on no branch."""
    reader = Reader(workspace(), tmp_path)
    reader.keep("cirr")
    for block in blocks("docs/ci.md"):
        reader.follow(block)
    workflow = reader.root / ".github" / "workflows" / "evaluation.yml"
    steps = YAML(typ="safe").load(workflow)["jobs"]["evaluate"]["steps"]
    reader.bash(f"git clone -q . {tmp_path}/pull-request")
    runner = Reader(Workspace(tmp_path / "pull-request"), tmp_path / "runner")
    runner.edit("# params.yaml\n  cirr: {source: sample, labels: soft, reference: removed}\n")
    runner.bash("git commit -qam 'soft labels' && git checkout -q --detach")

    ended = {}
    for step in steps:
        if "run" in step and not step["run"].startswith("gh "):
            ended[step["name"]] = runner.bash(f"set +u +o pipefail\n{step['run']}", ok=False)  # as GitHub runs it
    code, refused = ended.pop("Say what moved, and refuse a loss")
    assert not any(code for code, _ in ended.values()), ended
    moved = (runner.root / "moved.md").read_text()
    assert moved.startswith("| metric | origin/main | workspace |")
    (row,) = [line for line in moved.splitlines() if line.startswith("| sample.cirr.val.R@1 ")]
    assert "?" not in row, "the causes are known: the old predictions were there"
    assert (tmp_path / "runner" / "summary.md").read_text() == moved
    assert code == 1
    assert "fail: sample.cirr.val.R@1 got worse by" in refused
    (comment,) = [step for step in steps if step.get("run", "").startswith("gh ")]
    assert "--body-file moved.md" in comment["run"]
    assert steps[0]["with"]["fetch-depth"] == 0


def shape(shown: Any, real: Any, at: str = "") -> None:
    """Assert that JSON has the keys that the reference shows; "…" there stands for keys that depend on the data."""
    assert type(shown) is type(real) or None in (shown, real) or {type(shown), type(real)} == {int, float}, at
    if isinstance(shown, dict):
        if "…" in shown:
            for key, value in real.items():
                shape(shown["…"], value, f"{at}.{key}")
            return
        assert shown.keys() == real.keys(), at
        for key in shown:
            shape(shown[key], real[key], f"{at}.{key}")
    elif isinstance(shown, list) and shown and real:
        shape(shown[0], real[0], f"{at}[0]")


def test_json_looks_as_the_reference_shows(reproduced: Workspace, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 b 1\nq2 0 a 1\n")
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\nq2 Q0 a 1 0.5 x\n")
    calls = {
        "evaluate": f"--qrels {tmp_path}/qrels --run {tmp_path}/run --metrics MRR,R@1 --per-query",
        "submit": f"sample cirr --out {tmp_path}",
        "benchmarks": "",
        "doctor": "",
        "audit": "",
        "trace": "sample.recipe1m.im2recipe.1k.medR --query QUERY",
        "compare": "chance sample cirr",
    }
    shown = {}
    for name, text in re.findall(r"^### `rankledger (\w+).*?`$(.*?)(?=^##)", REFERENCE, re.MULTILINE | re.DOTALL):
        if "`--json`" in text:
            (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL) or ["null"]
            shown[name] = json.loads(example)
    assert shown.pop("diff")["rows"]
    assert shown["compare"] is None
    shown["compare"] = json.loads(re.findall(r"### `rankledger diff.*?```json\n(.*?)```", REFERENCE, re.DOTALL)[0])
    assert shown.keys() == calls.keys()
    trials = pq.read_table(reproduced.root / "data/subsets/recipe1m/trials.parquet", filters=[("view", "=", "1k")])
    for name, arguments in calls.items():
        words = arguments.replace("QUERY", trials["query_id"][0].as_py()).split()
        done = reproduced.run("rankledger", name, *words, "--json", ok=name != "doctor")
        shape(shown[name], json.loads(done.stdout), name)


def test_a_result_looks_as_the_reference_shows(reproduced: Workspace) -> None:
    text = re.findall(r"result.json`:\n\n```json\n(.*?)```", REFERENCE, re.DOTALL)[0]
    for path in (reproduced.root / "data" / "scores").glob("*/cirr/result.json"):
        shape(json.loads(text), json.loads(path.read_bytes()), str(path))


def test_tables_have_the_columns_that_the_reference_lists(reproduced: Workspace) -> None:
    section = REFERENCE.partition("\n## A test subset\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+\.\w+)` \| (.*) \|$", section, re.MULTILINE))
    for name in NAMES:
        folder = reproduced.root / "data" / "subsets" / name
        assert {path.name for path in folder.iterdir()} == set(rows)
        for file in rows:
            listed = re.findall(r"`(\w+)`", rows[file])
            if file == "manifest.json":
                assert sorted(listed) == sorted(json.loads((folder / file).read_bytes()))
            elif file == "queries.parquet":
                assert {"query_id", "task"} <= set(pq.read_schema(folder / file).names)
            elif file.endswith(".parquet"):
                assert set(pq.read_schema(folder / file).names) - set(listed) <= {"task"}
                assert set(listed) <= set(pq.read_schema(folder / file).names)


def test_the_page_on_published_rows_lists_their_columns() -> None:
    rows = re.findall(r"^\| ((?:`\w+`,? ?)+) ?\|", (ROOT / "docs/published.md").read_text(), re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == list(COLUMNS)
