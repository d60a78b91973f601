"""`rankledger` alone: what to do next, at once."""

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from stages import cli, project
from stages.welcome import SHIPPED_RUNS, welcome
from tests.command import rankledger

COMMANDS = set(typer.main.get_command(cli.app).commands)  # type: ignore[attr-defined]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("dvc.yaml", "params.yaml"):
        (tmp_path / name).touch()
    return tmp_path


def score(root: Path, run: str, name: str, source: str = "official", listed: bool = True) -> None:
    if listed:
        add(root, run, name)
    folder = root / "data" / "scores" / run / name
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"protocol": {"parameters": {"source": source}}}))


def add(root: Path, run: str, name: str) -> None:
    path = root / "params.yaml"
    line = f"  {run}-{name}: {{run: {run}, benchmark: {name}}}\n"
    if line not in (text := path.read_text() or "runs:\n"):
        path.write_text(text + line)


def test_outside_a_project_it_says_where_to_go_and_what_works_there(tmp_path: Path) -> None:
    text = welcome(tmp_path)
    assert f"{tmp_path} is in no project" in text
    assert "rankledger evaluate" in text
    assert "dvc repro" not in text


def test_in_a_fresh_project_it_says_to_run_the_pipeline(root: Path) -> None:
    text = welcome(root)
    assert "Nothing is scored yet. Next:\n  dvc repro " in text
    assert "rankledger add" not in text
    (root / "data" / "inbox").mkdir(parents=True)
    assert welcome(root / "data" / "inbox") == text


def test_after_the_first_results_it_shows_the_reports_and_how_to_add_a_run(root: Path) -> None:
    for run in ("sample", "chance"):
        for name in ("cirr", "circo"):
            score(root, run, name)
    text = welcome(root)
    assert "4 results of chance, sample." in text
    assert "reports/summary.md" in text
    assert "rankledger add mymodel cirr val.parquet" in text
    assert "Nothing is scored" not in text
    (root / "reports").mkdir()
    (root / "reports" / "index.html").touch()
    assert "reports/index.html" in welcome(root)


def test_predictions_that_wait_are_named(root: Path) -> None:
    score(root, "sample", "cirr")
    for name in ("cirr", "fashioniq"):
        add(root, "mymodel", name)
    assert "Not scored yet: mymodel on cirr, mymodel on fashioniq. Next:\n  dvc repro\n" in welcome(root)
    score(root, "mymodel", "cirr")
    assert "Not scored yet: mymodel on fashioniq. Next:" in welcome(root)
    score(root, "mymodel", "fashioniq")
    text = welcome(root)
    assert "Not scored" not in text
    assert "3 results of mymodel, sample." in text
    assert "made-up" not in text
    assert "rankledger add" not in text, "they know how to"


def test_runs_are_those_of_params_and_no_folders(root: Path) -> None:
    for name in ("cirr", "circo"):
        add(root, "sample", name)
    assert "Nothing is scored yet." in welcome(root), "what ships with the project is not worth a list"
    score(root, "sample", "cirr")
    score(root, "old", "cirr", listed=False)
    text = welcome(root)
    assert "1 result of sample." in text
    assert "Not scored yet: sample on circo. Next:" in text
    for name in ("deft2013", "fashioniq", "genecis", "recipe1m"):
        add(root, "mymodel", name)
    assert "mymodel on genecis, 1 more. Next:" in welcome(root)


def test_what_is_made_up_says_so(root: Path) -> None:
    score(root, "mymodel", "cirr")
    score(root, "mymodel", "circo", "sample")
    assert "On made-up data, not the benchmark's own: circo.\n" in welcome(root)


@pytest.mark.parametrize("text", ["runs: [", "runs: 3", "- a", "runs: {a: 1, b: {run: b}}", "\t", "\x00"])
def test_params_that_cannot_be_read_end_in_no_traceback(text: str, root: Path) -> None:
    (root / "params.yaml").write_text(text)
    assert "rankledger doctor" in welcome(root)


def test_every_command_that_it_names_is_there(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    texts = [welcome(tmp_path_factory.mktemp("none")), welcome(root)]
    score(root, "sample", "cirr")
    texts.append(welcome(root))
    named = {name for text in texts for name in re.findall(r"rankledger ([a-z]+)", text)}
    assert {"add", "doctor", "evaluate", "template"} <= named <= COMMANDS
    assert all(len(line) <= 120 for text in texts for line in text.splitlines() if "no project" not in line)


def test_the_shipped_runs_are_those_of_the_project() -> None:
    assert set(project.SHIPPED_RUNS) == SHIPPED_RUNS


def test_the_command_alone_shows_it_and_imports_nothing_heavy(root: Path) -> None:
    code = (
        "import sys\n"
        "from stages.cli import main\n"
        "sys.argv = ['rankledger']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'numpy', 'pyarrow', 'polars', 'pandera', 'rich', 'rankledger', 'dvc'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{welcome(root)}\n[]\n"


def test_a_wrong_command_is_still_an_error(root: Path) -> None:
    code = "import sys; from stages.cli import main; sys.argv = ['rankledger', 'nonsense']; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such command" in done.stderr
    assert not done.stdout


def test_the_version_is_that_of_the_package() -> None:
    done = rankledger("--version")
    assert (done.code, done.out, done.err) == (0, f"rankledger {importlib.metadata.version('rankledger')}\n", "")
