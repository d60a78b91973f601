"""Tables for a paper: LaTeX with booktabs, the protocol in the caption, published results below a rule."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Key, Plan
from rankledger.tables import InputError, read_json
from stages.project import SHIPPED_RUNS, Project
from stages.published import Row, published
from stages.report import leaf, notes

DIGITS = {"percent": 2, "fraction": 4, "rank": 1, "count": 0}
UNITS = {"percent": "percent", "fraction": "fractions of 1", "rank": "ranks", "count": "counts"}
TIES = {
    "expected": "mean over the orders of equal scores",
    "trec": "equal scores by id, descending",
    "pessimistic": "right candidates last among equal scores",
    "optimistic": "right candidates first among equal scores",
}
ESCAPES = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)
COLUMNS = 6  # of numbers side by side, where one task and view has no more
WIDE = 10  # characters of a column's title from which on the titles stand upright
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # shrunk where it is too wide


@dataclass(frozen=True)
class Entry:
    """A number in a table: as it is compared, and as it is printed."""

    value: Decimal
    beside: str = ""
    below: str = ""


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    label: str
    entries: Mapping[Key, Entry]
    shipped: bool = False
    comment: str = ""


def latex(project: Project) -> str:
    """A `table` for each benchmark that has results; what is not shown stands in comments.

    Raises `InputError` where results that would share a table were reached under different protocols.
    """
    runs = project.runs()
    parts = [r"% needs \usepackage{booktabs,graphicx}"]
    for name in dict.fromkeys(entry["benchmark"] for entry in runs.values()):
        mine: dict[str, Any] = {}
        for run in (entry["run"] for entry in runs.values() if entry["benchmark"] == name):
            path = project.scores(run, name) / "result.json"
            if path.is_file():
                mine[run] = read_json(path)
            else:
                parts.append(_comment(f"{run} on {name}: not scored"))
        if mine:
            parts.append(_float(project, name, mine))
    return "\n\n".join(parts) + "\n"


def escape(text: object) -> str:
    """Text as LaTeX prints it.

    >>> escape("R-Precision_pool@10 & 50%")
    'R-Precision\\\\_pool@10 \\\\& 50\\\\%'
    """
    return str(text).translate(ESCAPES)


def _comment(text: str) -> str:
    return "% " + " ".join(text.split())


def _float(project: Project, name: str, mine: Mapping[str, Any]) -> str:
    protocol = _protocol(name, mine)
    found = benchmark(name)
    plan = found.plan(protocol["parameters"])
    rows, withheld = published(project, name, protocol["parameters"])
    shown = {
        key: values[0]
        for key in [*(measure.key for measure in plan.measures), *(mean.key for mean in plan.means)]
        if (values := [x for x in (leaf(r, key) for r in mine.values()) if x])
    }
    if not shown:
        return _comment(f"{name}: no result has a value")
    own = [_own(run, result, shown) for run, result in mine.items()]
    rows = [row for row in rows if row.cells.keys() & shown.keys()]
    tabulars = "\n\\par\\medskip\n".join(_tabulars(shown, own, rows))
    sentences = [*_caption(found.title, protocol, plan, shown, rows), *_legend(tabulars, own, rows)]
    return "\n".join(
        [
            *map(_comment, [*notes(mine), *withheld]),
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{' '.join(sentences)}}}",
            rf"\label{{tab:{name}}}\par\medskip\footnotesize",
            tabulars,
            r"\end{table}",
        ]
    )


def _protocol(name: str, mine: Mapping[str, Any]) -> Mapping[str, Any]:
    """The protocol that all results share."""
    first, *others = mine
    for run in others:
        for part in ("parameters", "tasks"):
            if mine[run]["protocol"][part] != mine[first]["protocol"][part]:
                raise InputError(f"{name}: {first} and {run} were scored under different protocols; run `dvc repro`")
        if mine[run]["inputs"]["subset"] != mine[first]["inputs"]["subset"]:
            raise InputError(f"{name}: {first} and {run} were scored on different subsets; run `dvc repro`")
    found: Mapping[str, Any] = mine[first]["protocol"]
    return found


def _own(run: str, result: Mapping[str, Any], shown: Iterable[Key]) -> Line:
    entries = {}
    for key in shown:
        if found := leaf(result, key):
            digits = DIGITS[found["unit"]]
            spread = rf" $\pm$ {found['std']:.{digits}f}" if found["shows_std"] else ""
            limits = found.get("interval")
            below = f"[{limits[0]:.{digits}f}, {limits[1]:.{digits}f}]" if limits else ""
            entries[key] = Entry(Decimal(f"{found['mean']:.{digits}f}"), spread, below)
    variant = result["protocol"].get("variant")
    label = f"{run} ({variant.replace('_', '-')})" if variant else run
    return Line(escape(label), entries, run in SHIPPED_RUNS)


def _other(row: Row, keys: Iterable[Key]) -> Line:
    """A published row as far as these columns go."""
    cells = {key: row.cells[key] for key in keys if key in row.cells}
    marks = [r"\dagger"] * any(not cell.verified for cell in cells.values()) + [r"\ddagger"] * bool(row.unstated)
    read = dict.fromkeys(text for cell in cells.values() for text in (cell.where, cell.note) if text)
    return Line(
        escape(row.name) + (f"$^{{{','.join(marks)}}}$" if marks else ""),
        {key: Entry(cell.value) for key, cell in cells.items()},
        comment=f" {_comment('; '.join([row.paper, *read]))}",
    )


def _caption(
    title: str, protocol: Mapping[str, Any], plan: Plan, shown: Mapping[Key, Any], rows: Sequence[Row]
) -> list[str]:
    """The sentences of a caption: the protocol, and what the marks mean."""
    parameters = protocol["parameters"]
    chosen = ", ".join(f"{_words(k)} {_words(v)}" for k, v in parameters.items() if k not in ("source", "ties"))
    ranked = {measure.task for measure in plan.measures if measure.key in shown and not plan.task(measure.task).labels}
    rules: dict[str, list[str]] = {}
    for task, rule in protocol["tasks"].items():
        if task in ranked:
            rules.setdefault(TIES[rule["ties"]], []).append(task)
    ties = "; ".join(rule + (f" ({_words(tasks)})" if len(rules) > 1 else "") for rule, tasks in rules.items())
    cells = [row.cells[key] for row in rows for key in row.cells if key in shown]
    unstated = dict.fromkeys(_words(parameter) for row in rows for parameter in row.unstated)
    values = shown.values()
    sentences = {
        f"{escape(title)}.": True,
        "Made-up sample data, not the benchmark's own.": parameters["source"] == "sample",
        f"Protocol: {chosen}.": chosen,
        f"Ties: {ties}.": ties,
        f"Values in {' and '.join(dict.fromkeys(UNITS[x['unit']] for x in values))}.": True,
        r"$\pm$: standard deviation over the draws.": any(x["shows_std"] for x in values),
        r"In brackets: 95\,\% bootstrap intervals.": any(x.get("interval") for x in values),
        "Below the rule: published results.": rows,
        r"$^{\dagger}$ As reprinted by others, not verified at the source.": not all(cell.verified for cell in cells),
        rf"$^{{\ddagger}}$ The source does not state: {', '.join(unstated)}.": unstated,
    }
    return [sentence for sentence, said in sentences.items() if said]


def _legend(tabulars: str, own: Sequence[Line], rows: Sequence[Row]) -> list[str]:
    """What bold means, where there is any."""
    if r"\textbf" not in tabulars:
        return []
    aside = [line.label for line in own if line.shipped] if rows or not all(line.shipped for line in own) else []
    return [f"Bold: the best of a column{', ' * bool(aside)}{' and '.join(aside)}{' aside' * bool(aside)}."]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return escape("/".join(map(str, value)).replace("_", " "))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else escape(str(value).replace("_", " "))


def _tabulars(shown: Mapping[Key, Any], own: Sequence[Line], rows: Sequence[Row]) -> list[str]:
    """The tasks and views side by side, in as many tabulars as they need."""
    groups: dict[Key, list[Key]] = {}
    for key in shown:
        groups.setdefault(key[:-1], []).append(key)
    packed: list[list[list[Key]]] = []
    for keys in groups.values():
        if packed and sum(map(len, packed[-1])) + len(keys) <= COLUMNS:
            packed[-1].append(keys)
        else:
            packed.append([keys])
    return [_tabular(together, shown, own, rows) for together in packed]


def _tabular(
    groups: Sequence[Sequence[Key]], shown: Mapping[Key, Any], own: Sequence[Line], rows: Sequence[Row]
) -> str:
    keys = [key for group in groups for key in group]
    heads, rules, at = [""], [], 2
    for group in groups:
        title = rf"\emph{{{escape(' / '.join(group[0][:-1]))}}}, {_count(group, shown)}"
        heads.append(rf"\multicolumn{{{len(group)}}}{{c}}{{{title}}}")
        rules.append(rf"\cmidrule(lr){{{at}-{at + len(group) - 1}}}")
        at += len(group)
    titles = [
        escape(key[-1]) + (r" $\uparrow$" if shown[key]["higher_is_better"] else r" $\downarrow$") for key in keys
    ]
    if any(len(key[-1]) > WIDE for key in keys):
        titles = [rf"\rotatebox{{90}}{{{title}}}" for title in titles]
    others = [_other(row, keys) for row in rows if any(key in row.cells for key in keys)]
    mine = [line for line in own if any(key in line.entries for key in keys)]
    # `sample` is made from the right answers, and so no rival of other runs.
    rivals = [line for line in (*mine, *others) if not line.shipped] or mine
    best = {key: _best(key, rivals, shown[key]["higher_is_better"]) for key in keys}
    lines = [FITTED, rf"\begin{{tabular}}{{l{'r' * len(keys)}}}", r"\toprule"]
    lines += [_row(heads), "".join(rules), _row(["", *titles]), r"\midrule"]
    for line in mine:
        lines += _printed(line, keys, best if line in rivals else {})
    if others:
        lines.append(r"\midrule")
    for line in others:
        lines += _printed(line, keys, best)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}"])


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _best(key: Key, lines: Iterable[Line], higher: bool) -> Decimal | None:
    """The best value of a column; none where there is nothing to compare."""
    values = [line.entries[key].value for line in lines if key in line.entries]
    return (max if higher else min)(values) if len(values) > 1 else None


def _printed(line: Line, keys: Sequence[Key], best: Mapping[Key, Decimal | None]) -> list[str]:
    """A row of values and, where a value has one, a row of intervals below."""
    cells, below = [line.label], [""]
    for key in keys:
        entry = line.entries.get(key)
        won = entry and entry.value == best.get(key)
        cells.append((rf"\textbf{{{entry.value}}}" if won else str(entry.value)) + entry.beside if entry else "--")
        below.append(rf"{{\scriptsize {entry.below}}}" if entry and entry.below else "")
    return [_row(cells) + line.comment, *([_row(below)] if any(below) else [])]


def _count(keys: Iterable[Key], shown: Mapping[Key, Any]) -> str:
    """How many queries a block's values are over."""
    counts = sorted({shown[key]["n"] for key in keys})
    repeats = max(shown[key]["repeats"] for key in keys)
    limits = [f"${n:,}$".replace(",", "{,}") for n in dict.fromkeys((counts[0], counts[-1]))]
    return "$n$ = " + " to ".join(limits) + (f" in {repeats} draws" if repeats > 1 else "")
