"""`rankledger diff` and `rankledger compare`: what moved, whether that is more than noise, and what moved it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow.compute as pc
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from rankledger.benchmarks.base import Key
from rankledger.provenance.attribution import FACTORS
from rankledger.provenance.comparison import Row, flatten, moved
from rankledger.ranking.statistics import Paired, holm
from rankledger.tables import InputError
from rankledger.uncertainty import compare as test
from stages.causes import Causes
from stages.evidence import Evidence, split
from stages.project import Project
from stages.revision import Commit, Revision, Workspace


class Number(NamedTuple):
    """A number on both sides: its dotted key, its key below run → benchmark, its values."""

    metric: str
    key: Key
    old: float | None
    new: float | None


@dataclass(frozen=True)
class Comparison:
    """What moved between two sides, what a reader must know of it, and all keys that there are."""

    old: str
    new: str
    rows: Sequence[Row]
    notes: Sequence[str]
    keys: frozenset[str]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"rows": [row.to_dict() for row in self.rows], "notes": list(self.notes)}


def diff(project: Project, rev: str, rev2: str | None = None) -> Comparison:
    """All numbers that moved between a revision and the workspace, or another revision.

    Raises `InputError` where a revision is none, or has no metrics.
    """
    old = Commit(project, rev)
    new: Revision = Commit(project, rev2) if rev2 else Workspace(project)
    olds, news = flatten(old.metrics), flatten(new.metrics)
    pairs: dict[tuple[str, str], list[Number]] = {}
    for metric in moved(olds, news):
        run, name, key = split(metric)
        pairs.setdefault((run, name), []).append(Number(metric, key, olds.get(metric), news.get(metric)))
    explained = [
        explain(f"{run}.{name}", Evidence(old, run, name), Evidence(new, run, name), numbers)
        for (run, name), numbers in pairs.items()
    ]
    return _collected(rev, new.name, explained, olds.keys() | news.keys())


def compare(project: Project, run1: str, run2: str, name: str | None = None) -> Comparison:
    """All numbers that differ between two runs of the workspace, the first being the old one; keys lack the run.

    Raises `InputError` where a run has no metrics, where the two share no benchmark, or are of two variants.
    """
    here = Workspace(project)
    for run in (run1, run2):
        if run not in here.metrics:
            raise InputError(f"reports/metrics.json has no run {run!r}; it has: {', '.join(here.metrics)}")
    names = [n for n in here.metrics[run1] if n in here.metrics[run2] and name in (None, n)]
    pairs = {n: (Evidence(here, run1, n), Evidence(here, run2, n)) for n in names}
    alike = [n for n, sides in pairs.items() if len({side.entry.get("variant") for side in sides}) == 1]
    apart = [f"{n}: {run1} and {run2} are of two variants, which never share a row" for n in names if n not in alike]
    if not alike:
        nothing = f"{run1} and {run2} have no metrics of {name or 'one benchmark'} in common"
        raise InputError("; ".join(apart) or nothing)
    explained: list[tuple[list[Row], list[str]]] = [([], apart)]
    keys: set[str] = set()
    for n in alike:
        olds, news = (flatten(here.metrics[run][n], n) for run in (run1, run2))
        numbers = [Number(m, tuple(m.split(".")[1:]), olds.get(m), news.get(m)) for m in moved(olds, news)]
        explained.append(explain(n, *pairs[n], numbers))
        keys |= olds.keys() | news.keys()
    return _collected(run1, run2, explained, keys)


def _collected(old: str, new: str, explained: Iterable[tuple[list[Row], list[str]]], keys: Iterable[str]) -> Comparison:
    """All rows in the order of their keys, p corrected for how many they are."""
    rows, notes = [], []
    for some, said in explained:
        rows += some
        notes += said
    rows.sort(key=lambda row: row.metric)
    corrected = holm([row.p for row in rows])
    return Comparison(
        old,
        new,
        [replace(row, p=p) for row, p in zip(rows, corrected, strict=True)],
        list(dict.fromkeys(notes)),
        frozenset(keys),
    )


def explain(title: str, old: Evidence, new: Evidence, numbers: Sequence[Number]) -> tuple[list[Row], list[str]]:
    """The rows of one run on one benchmark, p not yet corrected, and notes."""
    notes: list[str] = []
    both = [n for n in numbers if n.old is not None and n.new is not None]
    tested = _tested(title, old, new, [n.key for n in both], notes) if both else {}
    causes = Causes(title, old, new, notes)
    rows = []
    for number in numbers:
        row = Row(number.metric, number.old, number.new, causes=dict.fromkeys(FACTORS))
        if number in both:
            assert row.delta is not None
            higher = new.higher_is_better(number.key)
            row = replace(row, better=None if higher is None else (row.delta > 0) == higher)
            if paired := tested.get(number.key):
                row = replace(row, interval=paired.interval, p=paired.p)
            row = causes.attribute(row, number.key)
        rows.append(row)
    return rows, notes


def _tested(title: str, old: Evidence, new: Evidence, keys: Sequence[Key], notes: list[str]) -> dict[Key, Paired]:
    """The paired tests, as far as both sides' per-query values are known."""
    try:
        found = test(new.name, new.plan.means, old.observed, new.observed, keys)
    except InputError as error:
        notes.append(f"{title}: nothing to test on: {old.revision.plain(error)}")
        return {}
    for task in dict.fromkeys(o.of[0] for o in new.observed.values()):
        asked = [
            {i for o in side.observed.values() if o.of[0] == task for i in pc.unique(o.query_id).to_pylist()}
            for side in (old, new)
        ]
        shared = len(asked[0] & asked[1])
        if asked[0] != asked[1]:
            notes.append(
                f"{new.name}: intervals and p of {task} are of the {shared:,} queries that both ask, "
                f"of {len(asked[0]):,} and {len(asked[1]):,}"
            )
    return found


def show(comparison: Comparison) -> None:
    """Print the comparison as a table."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=240)
    rows = _shown(comparison)
    if rows:
        table = Table(
            *(Column(title, justify="left" if i in (0, 6) else "right") for i, title in enumerate(_titles(comparison)))
        )
        for row in rows:
            style = {"better": "green", "worse": "red"}.get(row.verdict.split(",")[0], "")
            table.add_row(*map(Text, _cells(row, comparison)), style=style)
        console.print(table)
    for line in _remarks(comparison):
        console.print(line, markup=False, soft_wrap=True)


def markdown(comparison: Comparison) -> str:
    """The comparison for a pull request."""
    lines = []
    if rows := _shown(comparison):
        titles = _titles(comparison)
        lines += [
            titles,
            ["---" if i in (0, 6) else "---:" for i in range(len(titles))],
            *(_cells(r, comparison) for r in rows),
        ]
    table = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([*table, *([""] if table else []), *(f"- {line}" for line in _remarks(comparison))])


def _shown(comparison: Comparison) -> list[Row]:
    """The rows for people: a standard deviation is neither better nor worse, and only JSON has its row."""
    return [row for row in comparison.rows if not row.metric.endswith("_std")]


def _titles(comparison: Comparison) -> list[str]:
    names = [name if len(name) < 20 else name[:12] for name in (comparison.old, comparison.new)]
    return ["metric", *names, "move", "95 % interval", "p", "verdict", *FACTORS, *_code(comparison)]


def _code(comparison: Comparison) -> list[str]:
    """A further column where a change of the code moved something."""
    return ["code"] if any(row.code for row in comparison.rows) else []


def _cells(row: Row, comparison: Comparison) -> list[str]:
    span = "–" if row.interval is None else f"{_signed(row.interval[0])} … {_signed(row.interval[1])}"
    p = "–" if row.p is None else f"{row.p:.4f}"
    parts = ["–" if row.delta is None else "?" if part is None else _signed(part) for part in row.causes.values()]
    code = [_signed(row.code or 0.0) for _ in _code(comparison)]
    return [row.metric, _number(row.old), _number(row.new), _signed(row.delta), span, p, row.verdict, *parts, *code]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 4):.10g}"


def _signed(value: float | None) -> str:
    return "–" if value is None else "0" if not round(value, 4) else f"{round(value, 4):+.10g}"


def _remarks(comparison: Comparison) -> list[str]:
    """What stands below the table."""
    rows = _shown(comparison)
    if not rows:
        only = " but standard deviations over draws, which --json shows" if comparison.rows else ""
        return [f"No number moved between {comparison.old} and {comparison.new}{only}.", *comparison.notes]
    counts = Counter(row.verdict.split(",")[0] for row in rows)
    said = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()) if verdict)
    lines = [
        f"{comparison.old} → {comparison.new}: {len(rows)} of {len(comparison.keys)} numbers moved: {said}.",
        "Within noise: p ≥ 0.05 (paired randomisation test on the shared queries, Holm-corrected over these rows). "
        "The interval is the paired bootstrap's.",
        "The last columns split the move: predictions (the files), subset (who is asked against whom), protocol "
        "(what is right, metrics, ties, similarity); ? is not known.",
    ]
    return [*lines, *comparison.notes]
