"""The page `reports/index.html`: all results in one file that needs no network, with pictures and what to beware of."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, StrictUndefined

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Benchmark, Key, Plan
from rankledger.tables import read_json, read_table
from stages.latex import DIGITS, TIES
from stages.pictures import COLOURS, pictures
from stages.project import SHIPPED_RUNS, Project
from stages.published import Row, published
from stages.report import UNITS, all_keys, leaf, near_chance, notes

TEMPLATE = Path(__file__).with_name("page.html")
LEVELS = {"chance": "chance level", "ceiling": "ceiling"}
MATTERS = 0.05  # percentage points from which on it is said what ties could move


@dataclass(frozen=True)
class Cell:
    """A value as it is shown, and as it is sorted and compared."""

    text: str
    sort: float | None = None
    below: str = ""
    best: bool = False
    level: bool = False  # with the best: its interval overlaps the best's
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """A row of a table: a run, a published method or a level."""

    label: str
    cells: Sequence[Cell]
    colour: str | None = None
    title: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its heads, and which way is better."""

    name: str
    above: str = ""
    link: str = ""
    higher: bool = True
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A table: runs, then published methods, then the levels between which values lie."""

    caption: str
    columns: Sequence[Column]
    lines: Sequence[Line]
    published: Sequence[Line] = ()
    levels: Sequence[Line] = ()


@dataclass
class Section:
    """What the page says of a benchmark."""

    name: str
    found: Benchmark
    unscored: list[str]
    protocol: list[tuple[str, str]] = field(default_factory=list)
    sample: bool = False
    warnings: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    subset: list[tuple[str, str, str]] = field(default_factory=list)
    pictures: list[Any] = field(default_factory=list)


def page(
    project: Project, runs: Mapping[str, Mapping[str, Any]], results: Mapping[str, Any], orphans: Iterable[str]
) -> str:
    """The page as text; arguments as in `stages.report.summary`. It holds no clock, path, host or version."""
    names = list(dict.fromkeys(entry["run"] for entry in runs.values()))
    colours = {run: COLOURS[i % len(COLOURS)] for i, run in enumerate(names)}
    by_benchmark: dict[str, dict[str, Any]] = {}
    for key, entry in runs.items():
        by_benchmark.setdefault(entry["benchmark"], {})[entry["run"]] = results[key]
    sections = [_section(project, name, mine, colours) for name, mine in by_benchmark.items()]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = _code
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    overview = _overview(by_benchmark, names, colours)
    return template.render(overview=overview, sections=sections, orphans=list(orphans)) + "\n"


def _code(escaped: str) -> str:
    """HTML in which what stood in `backquotes` is marked as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escaped))


def main_metric(plan: Plan) -> Key:
    """The metric that stands for a benchmark in the overview."""
    return plan.main or plan.measures[0].key


def _overview(by_benchmark: Mapping[str, Mapping[str, Any]], names: Sequence[str], colours: Mapping[str, str]) -> Table:
    """Runs × benchmarks, the main metric of each."""
    columns, cells, levels = [], [], []
    for name, mine in by_benchmark.items():
        found = benchmark(name)
        parameters = next((r["protocol"]["parameters"] for r in mine.values() if r), found.parameters({}))
        key = main_metric(found.plan(parameters))
        leaves = {run: leaf(result, key) if result else None for run, result in mine.items()}
        shown = next((x for x in leaves.values() if x), None)
        higher, unit = (shown["higher_is_better"], [UNITS[shown["unit"]]]) if shown else (True, [])
        made = ["made-up data"] if shown and parameters.get("source") == "sample" else []
        below = ", ".join([" / ".join(key[:-1]), *unit, *made])
        columns.append(Column(key[-1], found.title, f"#{name}", higher, below))
        column = _compared(leaves)
        absent = {run: Cell("not scored" if mine[run] is None else "–") for run in mine if column[run].sort is None}
        cells.append({**column, **absent})
        levels.append([_level(shown, name) for name in LEVELS])
    lines = [Line(run, [column.get(run, Cell("")) for column in cells], colours[run]) for run in names]
    feet = [Line(label, [both[i] for both in levels]) for i, label in enumerate(LEVELS.values())]
    return Table("The main metric of each benchmark, run by run", columns, lines, levels=feet)


def _section(project: Project, name: str, mine: Mapping[str, Any], colours: Mapping[str, str]) -> Section:
    found = benchmark(name)
    section = Section(name, found, unscored=[run for run, result in mine.items() if not result])
    scored = {run: result for run, result in mine.items() if result}
    if not scored:
        return section
    first = next(iter(scored.values()))
    parameters = first["protocol"]["parameters"]
    plan = found.plan(parameters)
    keys = all_keys(plan)
    leaves = {run: {key: x for key in keys if (x := leaf(r, key))} for run, r in scored.items()}
    section.sample = parameters.get("source") == "sample"
    section.protocol = _protocol(scored)
    rows, withheld = published(project, name, parameters)
    for prefix in dict.fromkeys(key[:-1] for key in keys):
        shown = [key for key in keys if key[:-1] == prefix and any(key in held for held in leaves.values())]
        if shown:
            section.tables.append(_table(" / ".join(prefix), shown, mine, leaves, rows, colours))
    tables = {run: per_query(project.scores(run, name)) for run in scored}
    manifest = project.subset(name) / "manifest.json"
    described = read_json(manifest) if manifest.is_file() else {"notes": [], "counts": {}}
    section.warnings = [*_warnings(plan, scored, leaves, tables), *(f"data: {note}" for note in described["notes"])]
    section.withheld = withheld
    prints = first.get("inputs", {}).get("subset", {})
    section.subset = [(table, _count(described["counts"].get(table)), prints[table]) for table in prints]
    section.pictures = pictures(plan, leaves, tables, list(colours))
    return section


def per_query(folder: Path) -> dict[str, pa.Table]:
    """The per-query tables of a run on a benchmark, by task."""
    return {path.stem: read_table(path) for path in sorted(folder.glob("*.parquet"))}


def _protocol(scored: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The choices in words."""
    protocol = next(iter(scored.values()))["protocol"]
    said = [(_words(k), _words(v)) for k, v in protocol["parameters"].items() if k != "ties"]
    rules: dict[str, list[str]] = {}
    for task, rule in protocol.get("tasks", {}).items():
        rules.setdefault(TIES[rule["ties"]], []).append(task)
    for words, tasks in rules.items():
        said.append(("ties" + (f" ({', '.join(tasks)})" if len(rules) > 1 else ""), words))
    zero = [task for task, rule in protocol.get("tasks", {}).items() if rule["missing"] == "zero"]
    if zero:
        said.append(("queries without a prediction", f"count 0 ({', '.join(zero)})"))
    kinds: dict[str, list[str]] = {}
    for run, result in scored.items():
        if kind := result["protocol"].get("similarity"):
            kinds.setdefault(kind, []).append(run)
    if kinds:
        said.append(("similarity of embeddings", "; ".join(f"{k} ({', '.join(runs)})" for k, runs in kinds.items())))
    return said


def _table(
    place: str,
    keys: Sequence[Key],
    mine: Mapping[str, Any],
    leaves: Mapping[str, Mapping[Key, Any]],
    rows: Sequence[Row],
    colours: Mapping[str, str],
) -> Table:
    shown = {key: next(held[key] for held in leaves.values() if key in held) for key in keys}
    counts = dict.fromkeys(
        f"{x['n']:,}" + (f" × {x['repeats']} draws" if x["repeats"] > 1 else "") for x in shown.values()
    )
    columns = [Column(key[-1], higher=x["higher_is_better"], unit=UNITS[x["unit"]]) for key, x in shown.items()]
    by_key = {key: _compared({run: leaves.get(run, {}).get(key) for run in mine}) for key in keys}
    lines = []
    for run, result in mine.items():
        variant = result["protocol"].get("variant") if result else None
        label = f"{run} ({variant.replace('_', '-')})" if variant else run
        cells = [by_key[key][run] if result else Cell("not scored") for key in keys]
        lines.append(Line(label, cells, colours[run]))
    others = [_other(row, keys) for row in rows if row.cells.keys() & set(keys)]
    levels = [Line(label, [_level(x, name) for x in shown.values()]) for name, label in LEVELS.items()]
    return Table(f"{place} · n = {', '.join(counts)}", columns, lines, others, levels)


def _compared(leaves: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Cell]:
    """The cells of a column: the best in bold, and what does not differ from it beyond its interval.

    `chance` and `sample` are no rivals of other runs: `sample` is made from the right answers.
    """
    rivals = {run: x for run, x in leaves.items() if x and run not in SHIPPED_RUNS} or {
        r: x for r, x in leaves.items() if x
    }
    top: Mapping[str, Any] | None = None
    if len(rivals) > 1:
        top = max(rivals.values(), key=lambda x: x["mean"] if x["higher_is_better"] else -x["mean"])
    return {run: _cell(x, top if run in rivals else None) for run, x in leaves.items()}


def _cell(value: Mapping[str, Any] | None, top: Mapping[str, Any] | None) -> Cell:
    if value is None:
        return Cell("–")
    text, span = number(value, value["mean"]), value.get("interval")
    if value["shows_std"]:
        text += f" ± {number(value, value['std'])}"
    below = f"[{number(value, span[0])}, {number(value, span[1])}]" if span else ""
    best = top is not None and number(value, top["mean"]) == number(value, value["mean"])
    other = top.get("interval") if top else None
    level = bool(not best and span and other and span[0] <= other[1] and other[0] <= span[1])
    return Cell(text, value["mean"], below, best, level)


def number(value: Mapping[str, Any], x: float) -> str:
    """`x` with the digits of its unit."""
    return f"{x:,.{DIGITS[value['unit']]}f}"


def _level(value: Mapping[str, Any] | None, name: str) -> Cell:
    x = value.get(name) if value else None
    return Cell("–") if value is None or x is None else Cell(number(value, x), x)


def _other(row: Row, keys: Iterable[Key]) -> Line:
    """A published row as far as these columns go."""
    cells = []
    for key in keys:
        cell = row.cells.get(key)
        cells.append(
            Cell("–") if cell is None else Cell(str(cell.value), float(cell.value), mark="" if cell.verified else "†")
        )
    read = dict.fromkeys(text for c in row.cells.values() for text in (c.where, c.note) if text)
    source = f"{row.paper} ({row.year})" if row.year else row.paper
    unstated = [f"not stated: {', '.join(map(_words, row.unstated))}"] if row.unstated else []
    return Line(row.name + (" ‡" if row.unstated else ""), cells, title="; ".join([source, *unstated, *read]))


def _warnings(
    plan: Plan,
    scored: Mapping[str, Any],
    leaves: Mapping[str, Mapping[Key, Any]],
    tables: Mapping[str, Mapping[str, pa.Table]],
) -> list[str]:
    """What a reader must know before comparing."""
    said = [*notes(scored), *near_chance(scored)]
    everything = {key for held in leaves.values() for key in held}
    for run, result in scored.items():
        lacking = [key for key in everything if key not in leaves[run]]
        if lacking:
            places = dict.fromkeys(" / ".join(key[:-1]) for key in sorted(lacking))
            said.append(f"{run}: {len(lacking)} metrics that other runs have are missing, in {', '.join(places)}")
        said += _tied(plan, run, tables[run], result["protocol"].get("tasks", {}))
    return said


def _tied(plan: Plan, run: str, tables: Mapping[str, pa.Table], rules: Mapping[str, Any]) -> list[str]:
    """Where it depends on the order of tied candidates what stands at rank 1."""
    said = []
    for task, table in tables.items():
        for view in pc.unique(table["view"]).to_pylist():
            rows = table.filter(pc.equal(table["view"], view))
            ties = rules.get(task, {}).get("ties", "expected")
            if plan.task(task).labels or ties == "trec":
                continue
            first, last = (pc.fill_null(pc.equal(rows[name], 1), False) for name in ("rank_min", "rank_max"))
            high, low = (100 * float(pc.mean(pc.cast(at, pa.float64())).as_py()) for at in (first, last))
            tied = int(pc.sum(pc.fill_null(pc.greater(rows["rank_max"], rows["rank_min"]), False)).as_py() or 0)
            if high - low > MATTERS:
                said.append(
                    f"{run}: {task} / {view}: equal scores in {tied:,} of {len(rows):,} trials; with them a right "
                    f"candidate is first in {low:.2f} to {high:.2f} % of trials, by their order (shown: {TIES[ties]})"
                )
    return said


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    return str(value).replace("_", " ")
