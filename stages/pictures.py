"""Pictures of the page: Vega-Lite specs over per-query tables and results, rendered to SVG that needs no script.

The layout depends on no font: text is placed, but nothing is placed by the width of a text. So the bytes are the same
on every machine.
"""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import stages.specs as specs
from rankledger.benchmarks.base import Key, Measure, Plan
from rankledger.ranking import metrics
from stages.project import SHIPPED_RUNS
from stages.specs import AXIS, BANDS, DASHES, DOT, INK, SHADES, Spec

VEGA_LITE = "6.1"
COLOURS = ("#2f7fd0", "#d9622b", "#2a9d63", "#b4579f", "#a8860a", "#0f96a4", "#d04a5b", "#7a76d1")  # on black and white
WIDTH, HEIGHT, CHARACTER = 300, 180, 6.6
LONGEST = 26  # characters of a name beside a bar
PAIRS = 3  # runs that the best one is held against
SMALLEST = 10  # candidates from which on a pool is worth a curve

Ranks = dict[str, pa.Table]  # by run: repeat, query_id, rank_min, rank_max, n_candidates


@dataclass(frozen=True)
class Picture:
    """A picture with its heading, what it shows in words, and a legend: (colour, text)."""

    title: str
    alt: str
    svg: str
    legend: tuple[tuple[str, str], ...] = ()


def pictures(
    plan: Plan,
    leaves: Mapping[str, Mapping[Key, Any]],
    tables: Mapping[str, Mapping[str, pa.Table]],
    runs: Sequence[str],
) -> list[Picture]:
    """What there is to see of a benchmark.

    Args:
        plan: its metrics.
        leaves: by run, the entries of `result.json` by key.
        tables: by run and task, the per-query tables.
        runs: all runs of the page, for each has its colour on the whole page.
    """
    colours = {run: COLOURS[i % len(COLOURS)] for i, run in enumerate(runs)}
    dashes = {run: DASHES[i // len(COLOURS) % len(DASHES)] for i, run in enumerate(runs)}
    found: list[Picture] = []
    ranked = {at: mine for at in deep_views(plan) if (mine := _ranks(tables, *at)) and _pool(mine) >= SMALLEST}
    for (task, view), mine in ranked.items():
        points = {run: points_on(plan, task, view, leaves[run], table) for run, table in mine.items()}
        found.append(_curves(place(task, view), mine, points, colours, dashes))
    for (task, view), mine in ranked.items():
        found.append(_distribution(place(task, view), mine))
    for measure in plan.measures:
        draws = {run: drawn for run, held in tables.items() if (drawn := per_draw(plan, measure, leaves[run], held))}
        if draws:
            found.append(_draws(" / ".join(measure.key), draws, colours))
    for title, keys in _categories(plan):
        shown = {run: {name: mine[key] for name, key in keys.items() if key in mine} for run, mine in leaves.items()}
        if any(shown.values()):
            found.append(_bars(title, list(keys), shown, colours))
    for (task, view), mine in ranked.items():
        if len(mine) > 1:
            found += _against(place(task, view), mine)
    return found


def place(task: str, view: str) -> str:
    """A view of a task as it is called in a heading."""
    return task if view == "all" else f"{task} / {view}"


def deep_views(plan: Plan) -> list[tuple[str, str]]:
    """The views of tasks in which it matters how far down the right candidate stands."""
    ranked = (m for m in plan.measures if not plan.task(m.task).labels)
    return list(dict.fromkeys((m.task, m.view) for m in ranked if metrics.parse(m.metric).cutoff != 1))


def of_view(table: pa.Table, view: str) -> pa.Table:
    """The rows of a per-query table in this view."""
    return table.filter(pc.equal(table["view"], view))


def pool(table: pa.Table) -> int:
    """How many candidates the largest pool has."""
    return int(pc.max(table["n_candidates"]).as_py())


def _ranks(tables: Mapping[str, Mapping[str, pa.Table]], task: str, view: str) -> Ranks:
    mine = {run: of_view(held[task], view) for run, held in tables.items() if task in held}
    return {run: table for run, table in mine.items() if len(table)}


def _pool(mine: Ranks) -> int:
    return max(map(pool, mine.values()))


def found_within(table: pa.Table, *depths: int) -> list[float]:
    """For each depth the share of trials, in percent, whose best right candidate is not behind it.

    A tied one is anywhere in its group.
    """
    first, last = (np.asarray(pc.fill_null(table[name], 0), np.float64) for name in ("rank_min", "rank_max"))
    size, ranked = last - first + 1, first > 0
    there = (np.clip(depth - first + 1, 0, size) / np.maximum(size, 1) for depth in depths)
    return [100 * float(np.mean(np.where(ranked, share, 0.0))) for share in there]


def depths(largest: int) -> list[int]:
    """Where a curve over pools of this size is drawn."""
    steps = {int(d * 10**e) for e in range(7) for d in (1, 1.5, 2, 3, 5, 7)}
    return sorted(k for k in steps | {largest} if k <= largest)


def curve(table: pa.Table, largest: int) -> list[dict[str, Any]]:
    """The share of trials that have a right candidate in the first K (`at`), in percent."""
    drawn = depths(largest)
    return [{"at": k, "value": short(share)} for k, share in zip(drawn, found_within(table, *drawn), strict=True)]


def points_on(
    plan: Plan, task: str, view: str, leaves: Mapping[Key, Mapping[str, Any]], table: pa.Table
) -> list[dict[str, Any]]:
    """The metrics of a run that lie on its curve, with their intervals."""
    dots = []
    for measure in plan.measures:
        if (measure.task, measure.view) == (task, view) and not measure.where and measure.key in leaves:
            metric, leaf = metrics.parse(measure.metric), leaves[measure.key]
            scale = 1 if leaf["unit"] == "percent" else 100
            if metric.unit == "fraction" and metric.cutoff is not None and metric.cutoff <= pool(table):
                value = scale * leaf["mean"]
                if abs(found_within(table, metric.cutoff)[0] - value) < 1e-6:
                    low, high = leaf.get("interval") or (leaf["mean"], leaf["mean"])
                    spread = {"low": short(scale * low), "high": short(scale * high)}
                    dots.append({"at": metric.cutoff, "value": short(value), **spread})
    return dots


def spread(table: pa.Table, ends: Sequence[int]) -> list[float]:
    """The share of trials, in percent, whose best right candidate's rank is in each band; bands by their upper ends."""
    upto = [0.0, *found_within(table, *ends)]
    return [after - before for before, after in itertools.pairwise(upto)]


def band_names(ends: Sequence[int]) -> list[str]:
    """What the bands of ranks are called, which end at these."""
    return [f"{a + 1:,}–{b:,}" if b > a + 1 else f"{b:,}" for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def stacked(names: Sequence[str], shares: Sequence[float]) -> list[dict[str, Any]]:
    """Each share from where the one before ends."""
    ends = [0.0, *np.cumsum(shares).tolist()]
    return [
        {"name": name, "low": short(low), "high": short(high)}
        for name, low, high in zip(names, ends[:-1], ends[1:], strict=True)
    ]


def per_draw(
    plan: Plan, measure: Measure, leaves: Mapping[Key, Mapping[str, Any]], tables: Mapping[str, pa.Table]
) -> list[float]:
    """A metric that is a rank, of each draw; nothing for other metrics, and where there is one draw only."""
    if plan.task(measure.task).labels or metrics.parse(measure.metric).unit != "rank":
        return []
    if measure.task not in tables or leaves.get(measure.key, {"repeats": 1})["repeats"] == 1:
        return []
    table = of_view(tables[measure.task], measure.view)
    values, repeat = np.asarray(table[measure.key[-1]], np.float64), np.asarray(table["repeat"])
    metric = metrics.parse(measure.metric)
    return [metric.total(values[repeat == r]) for r in np.unique(repeat)]


def _curves(
    place: str,
    mine: Ranks,
    points: Mapping[str, Sequence[Mapping[str, Any]]],
    colours: Mapping[str, str],
    dashes: Mapping[str, Sequence[int]],
) -> Picture:
    """The share of queries that have a right candidate in the first K; metrics that lie on a curve, with intervals."""
    largest = _pool(mine)
    line = [{"run": run, **row} for run, table in mine.items() for row in curve(table, largest)]
    dots = [{"run": run, **dot} for run, mine_too in points.items() for dot in mine_too]
    x = {
        "scale": {"type": "log", "domain": [1, largest], "nice": False},
        "axis": _axis("K", values=_ticks(largest), labelExpr=SHORT_NUMBERS),
    }
    y = {"scale": {"domain": [0, 100]}, "axis": _axis("% of queries", extent=28, values=[0, 25, 50, 75, 100])}
    dash = {**_colours(mine, colours), "scale": {"domain": list(mine), "range": [dashes[run] for run in mine]}}
    layers = specs.curves(_values(line), _values(dots), x, y, _colours(mine, colours), dash, DOT)
    at = 10 if largest > 10 else 1
    said = ", ".join(f"{run} {found_within(t, at)[0]:.1f} %" for run, t in mine.items())
    alt = f"Share of the queries of {place} with a right candidate among the first K. At K = {at}: {said}."
    if dots:
        alt += " Dots are metrics of the table, with their 95 % intervals."
    return Picture(f"Found among the first K: {place}", alt, _render(layers, left=48), _legend(mine, colours))


def _distribution(place: str, mine: Ranks) -> Picture:
    """How the best right candidates' ranks spread, a bar a run."""
    largest = _pool(mine)
    ends = [*(b for b in BANDS if b < largest), largest]
    names, shades = band_names(ends), SHADES[: len(ends)]
    shares = {run: spread(table, ends) for run, table in mine.items()}
    rows = [{"run": run, **row} for run, parts in shares.items() for row in stacked(names, parts)]
    said = [f"{run} {parts[0]:.1f} %{_lost(100 - math.fsum(parts))}" for run, parts in shares.items()]
    left = _room(mine)
    x = {"scale": {"domain": [0, 100]}, "axis": _axis("% of queries", values=[0, 25, 50, 75, 100])}
    fill = {"legend": None, "scale": {"domain": names, "range": list(shades)}}
    layers = specs.bands(_values(rows), x, specs.label("run", axis=_labels(left)), fill)
    alt = f"How the ranks of the best right candidates of {place} spread. At rank 1: {', '.join(said)}."
    svg = _render(layers, left=left + 8, width=WIDTH + 48 - left - 8, height=24 * len(mine) + 6)
    return Picture(f"Rank of the best right candidate: {place}", alt, svg, tuple(zip(shades, names, strict=True)))


def _lost(share: float) -> str:
    return f" ({share:.1f} % have none in the pool)" if share > 0.05 else ""


def _draws(place: str, draws: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> Picture:
    """The values of the draws, a line of dots a run."""
    rows = [{"run": run, "value": short(v)} for run, values in draws.items() for v in values if np.isfinite(v)]
    left = _room(draws)
    x = {"axis": _axis("rank", tickCount=4), "scale": {"zero": False}}
    layers = specs.draws(_values(rows), x, specs.label("run", axis=_labels(left)), _colours(draws, colours))
    said = "; ".join(f"{run} {min(values):,.1f} to {max(values):,.1f}" for run, values in draws.items())
    alt = f"{place} of every draw, a dot each: {said}."
    svg = _render(layers, left=left + 8, width=WIDTH + 48 - left - 8, height=24 * len(draws) + 6)
    return Picture(f"Draw by draw: {place}", alt, svg)


def _categories(plan: Plan) -> list[tuple[str, dict[str, Key]]]:
    """What compares side by side: parts of the queries by a condition, and tasks that have a metric in common."""
    found: list[tuple[str, dict[str, Key]]] = []
    for metric in dict.fromkeys(m.metric for m in plan.measures if m.where):
        parts = {m.key[-1]: m.key for m in plan.measures if m.where and m.metric == metric}
        found.append((f"{metric} by {next(iter(parts.values()))[0]}", parts))
    for one in plan.measures:
        alike = [m for m in plan.measures if (m.view, m.key[-1], m.metric) == (one.view, one.key[-1], one.metric)]
        if len(alike) > 2 and not any(m.where for m in alike):
            return [*found, (f"{one.key[-1]} by task", {m.task: m.key for m in alike})]
    return found


def bar(leaf: Mapping[str, Any]) -> dict[str, Any]:
    """A metric's value and, where it has one, its interval."""
    span = dict(zip(("low", "high"), map(short, leaf.get("interval") or ()), strict=False))
    return {"value": short(leaf["mean"]), **span}


def _bars(
    title: str, names: Sequence[str], shown: Mapping[str, Mapping[str, Any]], colours: Mapping[str, str]
) -> Picture:
    """A bar a category and run, from 0, with its interval."""
    rows = [
        {"run": run, "name": name.replace("_", " "), **bar(leaf)}
        for run, mine in shown.items()
        for name, leaf in mine.items()
    ]
    runs = [run for run, mine in shown.items() if mine]
    labels = [name.replace("_", " ") for name in names]
    unit = next(leaf["unit"] for mine in shown.values() for leaf in mine.values())
    left = _room(labels)
    x = {"axis": _axis("%" if unit == "percent" else "0–1", tickCount=4)}
    y = {"axis": _labels(left), "scale": {"domain": labels, "paddingInner": 0.25}}
    offset = {"field": "run", "type": "nominal", "scale": {"domain": runs}}
    spans = [row for row in rows if "low" in row]
    layers = specs.bars(_values(rows), _values(spans), x, y, offset, _colours(runs, colours))
    said = "; ".join(
        f"{run}: " + ", ".join(f"{name.replace('_', ' ')} {leaf['mean']:.3g}" for name, leaf in mine.items())
        for run, mine in shown.items()
        if mine
    )
    height = len(labels) * (10 * len(runs) + 6)
    svg = _render(layers, left=left + 8, width=WIDTH + 48 - left - 8, height=height)
    return Picture(title.capitalize() if title.islower() else title, f"{title}. {said}.", svg, _legend(runs, colours))


def _against(place: str, mine: Ranks) -> list[Picture]:
    """The ranks of two runs on the same queries: the run with the best mean reciprocal rank against the next best."""
    mine = {run: table for run, table in mine.items() if run not in SHIPPED_RUNS} or mine
    middle = {run: _middle(table) for run, table in mine.items()}
    gain = {run: math.fsum(np.nan_to_num(1 / ranks)) / len(ranks) for run, ranks in middle.items()}
    best, *others = sorted(mine, key=lambda run: -gain[run])
    largest = max(pc.max(t["n_candidates"]).as_py() for t in mine.values())
    left_out = f" {len(others) - PAIRS} more runs are not held against it." if len(others) > PAIRS else ""
    return [_pair(place, best, run, mine, middle, largest, left_out) for run in others[:PAIRS]]


def _middle(table: pa.Table) -> NDArray[np.float64]:
    """The best right candidate's rank, of tied ones the middle; NaN where there is none."""
    return np.asarray((np.asarray(table["rank_min"], np.float64) + np.asarray(table["rank_max"], np.float64)) / 2)


def _pair(
    place: str, one: str, other: str, mine: Ranks, middle: Mapping[str, NDArray[np.float64]], largest: int, more: str
) -> Picture:
    keys = [
        pc.binary_join_element_wise(t["repeat"].cast(pa.string()), t["query_id"], "/") for t in (mine[one], mine[other])
    ]
    at = np.asarray(pc.fill_null(pc.index_in(keys[0], value_set=keys[1].combine_chunks()), -1), np.int64)
    x, y = middle[one][at >= 0], middle[other][at[at >= 0]]
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    cells, counts = np.unique(
        np.stack([np.floor(np.log2(x)), np.floor(np.log2(y))], axis=1), axis=0, return_counts=True
    )
    most = int(counts.max(initial=1))
    rows = [
        {"x": short(2 ** (a + 0.5)), "y": short(2 ** (b + 0.5)), "size": short(max(2.0, 200 * float(c) / most))}
        for (a, b), c in zip(cells.tolist(), counts.tolist(), strict=True)
    ]
    end = 2 ** (int(np.log2(largest)) + 1)
    scale = {"type": "log", "domain": [1, end], "nice": False}
    ticks = _ticks(end)

    def axis(field: str, title: str, **more: Any) -> dict[str, Any]:
        return specs.number(field, scale=scale, axis=_axis(title, values=ticks, labelExpr=SHORT_NUMBERS, **more))

    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"x": 1, "y": 1}, {"x": end, "y": end}]},
            "mark": {"type": "line", "color": INK, "opacity": 0.5, "strokeDash": [3, 3], "strokeWidth": 1},
            "encoding": {
                "x": axis("x", f"rank by {_cut(one, 22)}"),
                "y": axis("y", f"rank by {_cut(other, 22)}", extent=28),
            },
        },
        {
            "data": {"values": rows},
            "mark": {"type": "point", "filled": True, "opacity": 0.75, "color": COLOURS[0]},
            "encoding": {
                "x": axis("x", f"rank by {_cut(one, 22)}"),
                "y": axis("y", f"rank by {_cut(other, 22)}", extent=28),
                "size": {"field": "size", "type": "quantitative", "scale": None, "legend": None},
            },
        },
    ]
    wins, losses = int(np.count_nonzero(x < y)), int(np.count_nonzero(x > y))
    alt = (
        f"Ranks of the best right candidate of {place} in two runs; a dot's area is the number of queries. "
        f"{one} is better on {wins:,}, {other} on {losses:,}, equal on {len(x) - wins - losses:,} of {len(x):,} "
        f"trials.{more}"
    )
    return Picture(f"{one} against {other}: {place}", alt, _render(layers, left=48, height=WIDTH - 60))


# ---- specs -------------------------------------------------------------------------------------------------

SHORT_NUMBERS = "datum.value >= 1000 ? datum.value / 1000 + 'k' : datum.label"
SHORT_NAMES = f"length(datum.label) > {LONGEST} ? slice(datum.label, 0, {LONGEST - 1}) + '…' : datum.label"
CONFIG = {
    "font": "sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": {**AXIS, "labelOverlap": False, "labelLimit": 0, "titleLimit": 0},
    "rule": {"color": INK},
    "aria": False,
    "mark": {"aria": False},
}


def _axis(title: str, extent: int = 16, **more: Any) -> dict[str, Any]:
    return {"title": title, "minExtent": extent, "maxExtent": extent, "titlePadding": 4, "aria": False, **more}


def _labels(extent: int) -> dict[str, Any]:
    shown = {
        "title": None,
        "grid": False,
        "ticks": False,
        "domain": False,
        "labelPadding": 6,
        "aria": False,
        "labelExpr": SHORT_NAMES,
    }
    return {**shown, "minExtent": extent, "maxExtent": extent}


def _ticks(end: int) -> list[int]:
    """Of a logarithmic axis from 1 to `end`."""
    return [k for k in (1, 2, 5, 10, 20, 50) if k <= end] if end < 100 else [10**e for e in range(7) if 10**e <= end]


def _values(rows: Sequence[Mapping[str, Any]]) -> Spec:
    return {"data": {"values": list(rows)}}


def _colours(runs: Iterable[str], colours: Mapping[str, str]) -> dict[str, Any]:
    names = list(runs)
    scale = {"domain": names, "range": [colours[run] for run in names]}
    return {"field": "run", "type": "nominal", "legend": None, "scale": scale}


def _legend(runs: Iterable[str], colours: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((colours[run], run) for run in runs)


def short(number: float) -> float:
    """The number with few enough digits that no machine's rounding shows."""
    return float(f"{number:.6g}")


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def _room(names: Iterable[str]) -> int:
    return int(max((min(len(name), LONGEST) for name in names), default=0) * CHARACTER) + 8


def _render(layers: Sequence[Mapping[str, Any]], left: int, width: int = WIDTH, height: int = HEIGHT) -> str:
    """The layers as an SVG element of this plot size, which scales with the page and is hidden from readers aloud."""
    import vl_convert

    padding = {"left": left, "right": 14, "top": 8, "bottom": 40}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": width,
        "height": height,
        "padding": padding,
        "autosize": {"type": "none"},
        "layer": list(layers),
        "config": CONFIG,
    }
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    size = f"0 0 {width + padding['left'] + padding['right']} {height + padding['top'] + padding['bottom']}"
    return re.sub(
        r"^.*?<svg[^>]*>", f'<svg class="plot" viewBox="{size}" aria-hidden="true">', svg, count=1, flags=re.S
    )
