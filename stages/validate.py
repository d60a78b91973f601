"""The stage `validate`: is the subset what its benchmark says it is?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankledger.benchmarks import benchmark
from rankledger.subset import read_subset
from rankledger.tables import InputError, to_json, write_text
from stages.project import Project

if TYPE_CHECKING:
    from rankledger.validation import Check


def validate(project: Project, name: str) -> bool:
    """Check the subset of the benchmark `name`, write `reports/validation/<name>.json`, show what was found.

    The file is written whatever was found. Returns whether no check failed. Raises `InputError` where the
    subset is not built, or `params.yaml` does not list the benchmark.
    """
    from rankledger.validation import validate as run_checks  # pandera: half a second

    chosen = benchmark(name)
    parameters = chosen.parameters(project.benchmark_params(name))
    folder = project.subset(name)
    if not (folder / "manifest.json").is_file():
        raise InputError(f"{project.relative(folder)}: not built; run `dvc repro build@{name}` first")
    checks = run_checks(*read_subset(folder), chosen, parameters)
    ok = all(check.status != "failed" for check in checks)
    report = project.validation(name)
    write_text(to_json({"benchmark": name, "ok": ok, "checks": [asdict(check) for check in checks]}), report)
    console = Console(highlight=False)
    show(console, name, checks)
    if not ok:
        raw, found = project.relative(project.raw(name)), project.relative(report)
        advice = (
            "Nothing is scored on this subset. Where a table or a parameter is not as built, build it again: "
            f"`dvc repro -s -f build@{name}`. Else look at the files in {raw}; fetch them again with "
            f"`dvc repro -s -f fetch@{name}`. All checks are in {found}; `git checkout {found}` brings back "
            "the committed ones."
        )
        console.print(advice, markup=False, soft_wrap=not console.is_terminal)
    return ok


def show(console: Console, name: str, checks: Sequence[Check]) -> None:
    """Print what failed, then the notes, then how many passed: a table on a terminal, else a line a check."""
    found = {status: [c for c in checks if c.status == status] for status in ("failed", "note", "passed")}
    shown = [*found["failed"], *found["note"]]
    if console.is_terminal and shown:
        table = Table("", "check", "of", "what was found")
        for check in shown:
            style = "bold red" if check.status == "failed" else "yellow"
            table.add_row(Text(check.status, style), *map(Text, (check.name, check.subject, check.detail)))
        console.print(table)
    else:
        for check in shown:
            line = f"{check.status:6}  {check.name}  {check.subject}: {check.detail}"
            console.print(line, markup=False, soft_wrap=True)
    numbers = f"{len(found['passed'])} checks passed, {len(found['note'])} notes, {len(found['failed'])} failed"
    console.print(f"{name}: {numbers}", markup=False, soft_wrap=True)
