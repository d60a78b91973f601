"""The stage: what it reads, writes, prints and answers."""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from rich.console import Console

from rankledger.benchmarks.base import Benchmark, Measure, Plan, Task
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset, write_subset
from rankledger.tables import InputError, read_table, write_table
from rankledger.validation import Check
from stages import validate as stage
from stages.project import Project


class Toy(Benchmark):
    """One query, two candidates."""

    name = "toy"
    title = "Toy"
    paper = licence = access = ""
    defaults: ClassVar = {"seed": 1}

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        return ("toy.json",)

    def sample(self, folder: Path) -> None:
        raise NotImplementedError

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        raise NotImplementedError

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        return Plan((Task("val"),), (Measure("val", "all", "R@1", ("val", "R@1")),))


def rows(schema: pa.Schema, *values: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the benchmark `toy`, built."""
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "params.yaml").write_text("benchmarks: {toy: {seed: 1}}\n")
    monkeypatch.setattr(stage, "benchmark", lambda name: Toy())
    subset = Subset(
        queries=rows(pa.schema([("task", pa.string()), ("query_id", pa.string())]), ("val", "q[1]")),
        pools=rows(POOLS, ("p", "a"), ("p", "b")),
        trials=rows(TRIALS, ("val", "all", 0, "q[1]", "p")),
        qrels=rows(QRELS, ("q[1]", "a", 1.0)),
        exclusions=rows(EXCLUSIONS),
        universe=rows(UNIVERSE, ("query", "q[1]"), ("image", "a"), ("image", "b")),
    )
    sources = [{"name": "toy.json", "checksum": "none", "sha256": "ab" * 32}]
    project = Project(tmp_path)
    write_subset(subset, project.subset("toy"), "toy", Toy().parameters({"seed": 1}), sources, ["a note"])
    return project


def report(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.validation("toy").read_bytes())
    return found


def spoil(project: Project) -> None:
    """Take the right answer out, in a table and so that the manifest no longer fits."""
    path = project.subset("toy") / "qrels.parquet"
    write_table(read_table(path).slice(0, 0), path)


def test_a_good_subset(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.validate(project, "toy") is True
    found = report(project)
    assert (found["benchmark"], found["ok"]) == ("toy", True)
    assert {tuple(sorted(check)) for check in found["checks"]} == {("detail", "name", "status", "subject")}
    assert {check["status"] for check in found["checks"]} == {"passed", "note"}
    passed = sum(check["status"] == "passed" for check in found["checks"])
    assert capsys.readouterr().out.splitlines() == [
        f"note    source  toy.json: no official checksum is known; this file has sha256 {'ab' * 32}",
        "note    build-note  build: a note",
        f"toy: {passed} checks passed, 2 notes, 0 failed",
    ]


def test_a_second_run_writes_the_same_bytes(project: Project) -> None:
    stage.validate(project, "toy")
    first = project.validation("toy").read_bytes()
    stage.validate(project, "toy")
    assert project.validation("toy").read_bytes() == first
    assert str(project.root).encode() not in first
    assert first.endswith(b"}\n")


def test_a_failure_is_written_shown_first_and_says_what_to_do(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(project)
    assert stage.validate(project, "toy") is False
    found = report(project)
    assert found["ok"] is False
    failed = [(check["name"], check["subject"]) for check in found["checks"] if check["status"] == "failed"]
    assert failed == [("fingerprint", "qrels"), ("answer-in-pool", "val/all")]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["failed", "failed", "note", "note"]
    assert lines[1] == ("failed  answer-in-pool  val/all: 1 queries have no right answer in their pool: 'q[1]'")
    assert lines[4].endswith("2 notes, 2 failed")
    for advice in ("dvc repro -s -f build@toy", "data/raw/toy", "git checkout reports/validation/toy.json"):
        assert advice in lines[5]


def test_params_that_the_subset_was_not_built_with(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.root / "params.yaml").write_text("benchmarks: {toy: {seed: 2}}\n")
    assert stage.validate(project, "toy") is False
    assert "seed: 1 for 2" in capsys.readouterr().out


def test_a_subset_that_is_not_built(project: Project) -> None:
    (project.subset("toy") / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"^data/subsets/toy: not built; run `dvc repro build@toy` first$"):
        stage.validate(project, "toy")
    assert not project.validation("toy").exists()


def test_a_table_that_is_lost_or_cut_off(project: Project) -> None:
    path = project.subset("toy") / "pools.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"pools\.parquet: not a whole Parquet file"):
        stage.validate(project, "toy")
    path.unlink()
    with pytest.raises(InputError, match=r"pools\.parquet: no such file"):
        stage.validate(project, "toy")


def test_a_benchmark_that_is_not_listed_or_not_known(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "params.yaml").write_text("benchmarks: {cirr: {}}\n")
    with pytest.raises(InputError, match="lists no 'toy'"):
        stage.validate(project, "toy")
    monkeypatch.undo()
    with pytest.raises(InputError, match="no benchmark 'toy'"):
        stage.validate(project, "toy")


CHECKS = [
    Check("schema", "passed", "pools", "2 rows"),
    Check("build-note", "note", "build", "a [bold]note[/bold]"),
    Check("answer-in-pool", "failed", "val/all", "1 queries: 'q[1]'"),
]


def shown(checks: list[Check], terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=78, highlight=False)
    stage.show(console, "toy", checks)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_gets_a_table_and_a_pipe_plain_lines() -> None:
    table = re.sub(r"\x1b\[[0-9;]*m", "", shown(CHECKS, terminal=True))
    assert "┃ check" in table
    assert table.index("failed") < table.index("note")
    assert "'q[1]'" in table
    assert "[bold]" in table
    assert "2 rows" not in table
    assert "\x1b" in shown(CHECKS, terminal=True)
    assert shown(CHECKS, terminal=False).splitlines() == [
        "failed  answer-in-pool  val/all: 1 queries: 'q[1]'",
        "note    build-note  build: a [bold]note[/bold]",
        "toy: 1 checks passed, 1 notes, 1 failed",
    ]


def test_where_all_passed_a_line_is_enough() -> None:
    for terminal in (True, False):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown(CHECKS[:1], terminal))
        assert plain == "toy: 1 checks passed, 0 notes, 0 failed\n"


def test_a_long_line_of_a_pipe_is_not_broken() -> None:
    long = Check("build-note", "note", "build", "word " * 60)
    assert len(shown([long], terminal=False).splitlines()) == 2
