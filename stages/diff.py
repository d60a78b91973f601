"""`rankledger diff` and `rankledger compare`: what moved, whether that is more than noise, and what moved it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankledger.benchmarks.base import Key
from rankledger.provenance.attribution import FACTORS
from rankledger.provenance.comparison import Row, flatten, moved
from rankledger.ranking.statistics import Paired, holm
from rankledger.tables import InputError, meant
from rankledger.uncertainty import compare as test
from stages.causes import Causes
from stages.evidence import Evidence, split
from stages.latex import DIGITS
from stages.project import SHIPPED_RUNS, Project, runs_in
from stages.revision import Commit, Revision, Workspace

FIRST = 4  # columns that every table has: the metric, both values, the move
LEAST = 6  # decimals of metrics.json; what is less is none


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
    return _collected(rev, new.name, [([], list(_waiting(new))), *explained], olds.keys() | news.keys())


def _waiting(side: Revision) -> Iterator[str]:
    """What the numbers of a side do not tell: runs that are not scored, or had other predictions when they were."""
    unscored, replaced = [], []
    for entry in runs_in(side.params).values():
        run, name = entry["run"], entry["benchmark"]
        if name not in side.metrics.get(run, {}):
            unscored.append(f"{run} on {name}")
        elif run not in SHIPPED_RUNS and len(set(Evidence(side, run, name).predictions)) > 1:
            replaced.append(f"{run} on {name}")
    if unscored:
        yield f"{side.name}, not scored yet: {', '.join(unscored)}; run `dvc repro`"
    if replaced:
        yield f"{side.name}, other predictions now than were scored: {', '.join(replaced)}; run `dvc repro`"


def compare(project: Project, run1: str, run2: str, name: str | None = None) -> Comparison:
    """All numbers that differ between two runs of the workspace, the first being the old one; keys lack the run.

    Raises `InputError` where a run has no metrics, where the two share no benchmark, or are of two variants.
    """
    here = Workspace(project)
    for run in (run1, run2):
        if run not in here.metrics:
            there = f"it has: {', '.join(here.metrics)}{meant(run, here.metrics)}"
            raise InputError(f"reports/metrics.json has no run {run!r}; {there}")
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
        row = Row(number.metric, number.old, number.new, new.unit(number.key), causes=dict.fromkeys(FACTORS))
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
    """Print the comparison as a table, without the columns that say nothing, so that it fits."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=240)
    rows = _shown(comparison)
    sole = _sole(rows)
    if rows:
        columns = zip(_titles(comparison), *(_cells(row, comparison) for row in rows), strict=True)
        kept = [
            column
            for i, column in enumerate(columns)
            if i < FIRST or (set(column[1:]) - {"0", "–"} and not (sole and column[0] in FACTORS))
        ]
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for title, *_ in kept:
            left = title in ("metric", "verdict")
            table.add_column(title, justify="left" if left else "right", overflow="fold", no_wrap=title != "metric")
        for row, *cells in zip(rows, *(column[1:] for column in kept), strict=True):
            style = {"better": "green", "worse": "red"}.get(row.verdict.split(",")[0], "")
            table.add_row(*map(Text, cells), style=style)
        console.print(table)
    for line in _remarks(comparison, sole):
        console.print(line, markup=False, soft_wrap=True)


def _sole(rows: Sequence[Row]) -> str | None:
    """The factor that moved all that is known on both sides; none where there are more, or one is not known."""
    parts = [(name, part) for row in rows if row.delta is not None for name, part in row.causes.items()]
    names = {name for name, part in parts if part is None or round(part, LEAST)}
    known = all(part is not None for _, part in parts) and not any(row.code for row in rows)
    return names.pop() if known and len(names) == 1 else None


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
    """The texts of a row, its numbers with as many decimals as the reports give their unit."""
    digits = DIGITS.get(row.unit or "", 4)

    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.{digits}f}"

    def signed(value: float) -> str:
        return f"{value:+.{digits}f}" if round(value, LEAST) else "0"

    span = "–" if row.interval is None else f"{signed(row.interval[0])} … {signed(row.interval[1])}"
    move = "–" if row.delta is None else signed(row.delta)
    p = "–" if row.p is None else f"{row.p:.4f}"
    parts = ["–" if row.delta is None else "?" if part is None else signed(part) for part in row.causes.values()]
    code = [signed(row.code or 0.0) for _ in _code(comparison)]
    return [row.metric, number(row.old), number(row.new), move, span, p, row.verdict, *parts, *code]


def _remarks(comparison: Comparison, sole: str | None = None) -> list[str]:
    """What stands below the table; `sole` is the factor that moved all, where the table does not split the moves."""
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
    ]
    if sole:
        lines.append(f"All of it comes from the {sole}.")
    elif any(row.delta is not None for row in rows):
        lines.append(
            "The last columns split the move: predictions (the files), subset (who is asked against whom), protocol "
            "(what is right, metrics, ties, similarity); ? is not known."
        )
    return [*lines, *comparison.notes]
