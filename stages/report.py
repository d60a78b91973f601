"""Stage `report`: all results → `reports/metrics.json` for programs and `reports/summary.md` for people."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Key, Plan
from rankledger.tables import read_json, to_json, write_text
from stages.project import Project

ARROWS = {True: "↑", False: "↓"}
DIGITS = 6  # of metrics.json
NEAR = 0.1  # a median rank this near to that of constant scores reads as chance
UNITS = {"percent": "percent", "fraction": "0–1", "rank": "rank", "count": "count"}


def report(project: Project) -> None:
    """Write the reports from the runs that `params.yaml` lists; warn of score folders that no run owns."""
    from stages.page import page
    from stages.plots import write_plots

    runs = project.runs()
    results: dict[str, Any] = {}
    for key, entry in runs.items():
        path = project.scores(entry["run"], entry["benchmark"]) / "result.json"
        results[key] = read_json(path) if path.is_file() else None
    orphans = find_orphans(project)
    write_text(to_json(metrics(results)), project.root / "reports" / "metrics.json")
    write_text(summary(runs, results, orphans), project.root / "reports" / "summary.md")
    write_text(page(project, runs, results, orphans), project.root / "reports" / "index.html")
    write_plots(project, runs, results)
    for warning in orphans:
        print(f"warning: {warning}: no run in params.yaml owns these scores; they are in no report", file=sys.stderr)
    for key, result in results.items():
        if result is None:
            print(f"warning: {key} is not scored: `dvc repro score@{key}` says why", file=sys.stderr)
    scored = sum(result is not None for result in results.values())
    print(f"{scored} of {len(results)} runs: reports/index.html, reports/summary.md, reports/metrics.json")


def find_orphans(project: Project) -> list[str]:
    """Folders below `data/scores` that belong to no run, sorted."""
    owned = {project.scores(e["run"], e["benchmark"]) for e in project.runs().values()}
    scores = project.root / "data" / "scores"
    found = [b for run in scores.glob("*") if run.is_dir() for b in run.iterdir() if b.is_dir() and b not in owned]
    found += [run for run in scores.glob("*") if run.is_dir() and not any(run.iterdir())]
    return sorted(project.relative(f) for f in found)


def metrics(results: Mapping[str, Any]) -> dict[str, Any]:
    """run → benchmark → task [→ view] → metric, rounded; `_std` beside a mean over draws."""
    tree: dict[str, Any] = {}
    for result in results.values():
        if result:
            for key, number in rounded(leaves(result["metrics"])).items():
                node = tree
                for part in (result["run"], result["benchmark"], *key[:-1]):
                    node = node.setdefault(part, {})
                node[key[-1]] = number
    return tree


def leaves(node: Mapping[str, Any], *path: str) -> Iterator[tuple[Key, dict[str, Any]]]:
    """The entries below `metrics` of a result, by key."""
    for name, child in node.items():
        if "mean" in child and "repeats" in child:
            yield (*path, name), child
        else:
            yield from leaves(child, *path, name)


def rounded(values: Iterable[tuple[Key, Mapping[str, Any]]]) -> dict[Key, float]:
    """The numbers of `leaves` as they stand in metrics.json: made of the 12 digits of `result.json`."""
    found = {}
    for key, value in values:
        found[key] = round(float(f"{value['mean']:.12g}"), DIGITS)
        if value["shows_std"]:
            found[(*key[:-1], f"{key[-1]}_std")] = round(float(f"{value['std']:.12g}"), DIGITS)
    return found


def leaf(result: Mapping[str, Any], key: Key) -> dict[str, Any] | None:
    """The value at a key of a result, none where it is absent."""
    node: dict[str, Any] = result["metrics"]
    for part in key:
        node = node.get(part, {})
    return node or None


def summary(runs: Mapping[str, Any], results: Mapping[str, Any], orphans: Iterable[str]) -> str:
    """The text of `summary.md`: per benchmark its protocol and a table per task and view."""
    legend = (
        "↑ higher is better, ↓ lower is better; ± is the standard deviation over the draws; [ ] is a 95 % bootstrap "
        "interval over the queries. *Constant scores* say nothing: that is chance; no ranking beats *perfect ranking*."
    )
    lines = ["# Results", "", legend, ""]
    for name in dict.fromkeys(e["benchmark"] for e in runs.values()):
        mine = {entry["run"]: results[key] for key, entry in runs.items() if entry["benchmark"] == name}
        lines += _section(name, mine)
    if warned := list(orphans):
        lines += ["## Warnings", "", *(f"- {w}: no run owns these scores; they are in no table" for w in warned), ""]
    return "\n".join(lines)


def _section(name: str, mine: Mapping[str, Any]) -> list[str]:
    found = benchmark(name)
    lines = [f"## {found.title}", ""]
    scored = {run: r for run, r in mine.items() if r}
    if scored:
        protocol = next(iter(scored.values()))["protocol"]
        plan = found.plan(protocol["parameters"])
        choices = ", ".join(f"{k} {_word(v)}" for k, v in protocol["parameters"].items())
        if protocol["parameters"].get("source") == "sample":
            lines += [
                "**Made-up sample data**, not the benchmark's own: these numbers compare with no published ones.",
                "",
            ]
        lines += [f"Protocol: {choices}. Paper: {found.paper}.", ""]
        for prefix in dict.fromkeys(key[:-1] for key in all_keys(plan)):
            lines += _table(prefix, [k for k in all_keys(plan) if k[:-1] == prefix], mine)
    else:
        lines += [f"- {run}: not scored" for run in mine] + [""]
    said = [f"- {note}" for note in [*notes(scored), *near_chance(scored)]]
    return [*lines, *said, *([""] if said else [])]


def notes(scored: Mapping[str, Any]) -> list[str]:
    """Each note of the results once, with the runs that it is of."""
    runs: dict[str, list[str]] = {}
    for run, result in scored.items():
        for note in result["notes"]:
            runs.setdefault(note, []).append(run)
    return [f"{'all runs' if len(of) == len(scored) > 1 else ', '.join(of)}: {note}" for note, of in runs.items()]


def near_chance(scored: Mapping[str, Any]) -> list[str]:
    """Median ranks that a random or misaligned model gets; `chance` is meant to have them."""
    said = []
    for run, result in scored.items():
        for key, x in leaves(result["metrics"]):
            chance = x.get("chance")
            if run != "chance" and x["unit"] == "rank" and chance and abs(x["mean"] / chance - 1) < NEAR:
                said.append(
                    f"{run}: {' / '.join(key)} is {x['mean']:.1f}, and constant scores give {chance:.1f}: "
                    "are queries and candidates matched by the right ids?"
                )
    return said


def all_keys(plan: Plan) -> list[Key]:
    """All metrics of a plan, in its order."""
    return [*(m.key for m in plan.measures), *(m.key for m in plan.means)]


def _table(prefix: Key, of: list[Key], mine: Mapping[str, Any]) -> list[str]:
    leaves = {key: [leaf(r, key) for r in mine.values() if r] for key in of}
    shown = {key: next(x for x in found if x) for key, found in leaves.items() if any(found)}
    if not shown:
        return []
    units = dict.fromkeys(UNITS[x["unit"]] for x in shown.values())
    counts = dict.fromkeys(
        f"{x['n']:,}" + (f" × {x['repeats']} draws" if x["repeats"] > 1 else "") for x in shown.values()
    )
    head = " · ".join([" / ".join(prefix), f"n = {', '.join(counts)}", ", ".join(units)])
    titles = [f"{key[-1]} {ARROWS[x['higher_is_better']]}" for key, x in shown.items()]
    rows = [["run", *titles]]
    for run, result in mine.items():
        cells = [leaf(result, key) if result else None for key in shown]
        rows.append([_label(run, result), *("not scored" if result is None else _cell(c) for c in cells)])
    for level, name in (("chance", "*constant scores*"), ("ceiling", "*perfect ranking*")):
        if any(x.get(level) is not None for x in shown.values()):
            rows.append([name, *(_number(x, x[level]) for x in shown.values())])
    rule = ["---", *("---:" for _ in titles)]
    return [f"**{head}**", "", *("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:])), ""]


def _label(run: str, result: Mapping[str, Any] | None) -> str:
    variant = result["protocol"].get("variant") if result else None
    return f"{run} ({variant.replace('_', '-')})" if variant else run


def _cell(value: Mapping[str, Any] | None) -> str:
    if value is None:
        return "–"
    text = _number(value, value["mean"])
    if value["shows_std"]:
        text += f" ± {_number(value, value['std'])}"
    if limits := value.get("interval"):
        text += f" [{_number(value, limits[0])}, {_number(value, limits[1])}]"
    return text


def _number(value: Mapping[str, Any], number: float | None) -> str:
    digits = {"percent": 2, "fraction": 4, "rank": 1, "count": 0}[value["unit"]]
    return "–" if number is None else f"{number:.{digits}f}"


def _word(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(map(str, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
