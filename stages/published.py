"""Published results beside a user's own: only where split and protocol match, unverified ones marked."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Benchmark, Key, Plan
from rankledger.tables import InputError, few
from stages.project import Project

KEYS = ("task", "view", "metric")
COLUMNS = ("method", "backbone", "split", *KEYS, "value", "paper", "year", "verified", "where", "note")
# The split of a benchmark's results, where its tasks are not named after it and no parameter chooses it.
SPLITS = {"recipe1m": "test", "fashioniq": "val", "genecis": "test", "deft2013": "test"}


class Cell(NamedTuple):
    """A published number.

    Attributes:
        value: in the unit of metrics.json, with the digits of its source.
        verified: whether it was read at its source.
        where: where it was read.
        note: what a reader should know, or "".
    """

    value: Decimal
    verified: bool
    where: str
    note: str


@dataclass(frozen=True)
class Row:
    """A published method, as a row beside runs.

    Attributes:
        method, backbone, paper, year: as the file has them; the backbone and the year may be "".
        unstated: parameters of the protocol that the source says nothing of.
        cells: its numbers by their place in metrics.json below run → benchmark.
    """

    method: str
    backbone: str
    paper: str
    year: str
    unstated: tuple[str, ...]
    cells: dict[Key, Cell] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The method with its backbone, where there is one."""
        return f"{self.method} ({self.backbone})" if self.backbone else self.method


def published(project: Project, name: str, parameters: Mapping[str, Any]) -> tuple[list[Row], list[str]]:
    """The published rows that may stand beside results under these parameters, and why others may not.

    A number stands beside results of the same task, view and metric, on the same split, under the same value of every
    parameter that its line names, unless it does not depend on it ("any"). A parameter that the line leaves blank, for
    the source does not state it, holds it back from nothing, but the row says so (`unstated`). Nothing stands beside
    made-up data (`source: sample`). Raises `InputError` on a file that is not as it should be.
    """
    if parameters["source"] == "sample":
        return [], []
    found = benchmark(name)
    plan = found.plan(parameters)
    keys = _keys(plan)
    hidden = {task.name for task in plan.tasks if task.hidden}
    rows: dict[tuple[Any, ...], Row] = {}
    withheld: dict[str, dict[str, None]] = {}
    for line in _lines(project.root / "data" / "published" / f"{name}.csv", found):
        protocol = {column: value for column, value in line.items() if column not in COLUMNS}
        unstated = tuple(column for column, value in protocol.items() if not value)
        row = Row(line["method"], line["backbone"], line["paper"], line["year"], unstated)
        key = tuple(line[part] for part in KEYS if line[part])
        if line["task"] in hidden:
            why = f"on {line['task']}, where only the benchmark's server knows what is right"
        elif line["split"] != (split := SPLITS.get(name, parameters.get("split", line["task"]))):
            why = f"on {line['split']}; these results are on {split}"
        elif other := {p: v for p, v in protocol.items() if v not in ("", "any", str(parameters[p]))}:
            why = "; ".join(f"with {p} {v}; these results have {parameters[p]}" for p, v in other.items())
        elif key in keys:
            row = rows.setdefault((row.name, row.paper, unstated), row)
            row.cells[key] = Cell(Decimal(line["value"]), line["verified"] == "yes", line["where"], line["note"])
            continue
        else:
            continue  # a size, a gallery or a task that these results don't have
        withheld.setdefault(why, {})[row.name] = None
    notes = [f"{len(names)} published methods do not compare: {why}" for why, names in withheld.items()]
    return list(rows.values()), notes


def _keys(plan: Plan) -> set[Key]:
    return {measure.key for measure in plan.measures} | {mean.key for mean in plan.means}


def _lines(path: Path, found: Benchmark) -> Iterator[dict[str, str]]:
    """The lines of a file, each checked; none where there is no file."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or ()
        if lacking := [column for column in COLUMNS if column not in columns]:
            raise InputError(f"{path}: lacks the column {few(lacking)}; README.md beside it says what they hold")
        if other := [column for column in columns if column not in (*COLUMNS, *found.defaults)]:
            raise InputError(f"{path}: the column {few(other)} is no parameter of {found.name}")
        plan = found.plan(found.parameters({}))
        for line in reader:
            if wrong := _fault(line, plan):
                raise InputError(f"{path}, line {reader.line_num}: {wrong}")
            yield line


def _fault(line: Mapping[str, Any], plan: Plan) -> str | None:
    """What is wrong with a line, if anything is."""
    if None in line or None in line.values():
        return "another number of fields than the header has"
    tasks = {task.name for task in plan.tasks} | {key[0] for key in _keys(plan)}
    if line["task"] not in tasks:
        return f"task is {line['task']!r}; it should be one of {', '.join(sorted(tasks))}"
    if line["verified"] not in ("yes", "no"):
        return f"verified is {line['verified']!r}; it should be yes or no"
    try:
        value = Decimal(line["value"])
    except InvalidOperation:
        return f"value is {line['value']!r}; it should be a number"
    most = Decimal("inf") if line["metric"] == "medR" else 100 if plan.percent else 1
    if not (value.is_finite() and 0 <= value <= most):
        return f"value is {value}; in the unit of metrics.json it should be between 0 and {most}"
    return None
