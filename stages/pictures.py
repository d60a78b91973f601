"""Pictures of the page: Vega-Lite specs over per-query tables and results, rendered to SVG that needs no script.

The layout depends on no font: text is placed, but nothing is placed by the width of a text. So the bytes are the same
on every machine.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.benchmarks.base import Key, Measure, Plan
from rankledger.ranking import metrics
from stages.project import SHIPPED_RUNS

VEGA_LITE = "6.1"
COLOURS = ("#2f7fd0", "#d9622b", "#2a9d63", "#b4579f", "#a8860a", "#0f96a4", "#d04a5b", "#7a76d1")  # on black and white
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
BANDS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000)  # upper ends of the bands of ranks
SHADES = ("#1f5fa8", "#2f7fd0", "#4fa0e0", "#7bb6e6", "#9a8fd0", "#8a6cc0", "#7a4bb0", "#a0559a", "#b5655f", "#8a8f98")
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
    views = dict.fromkeys((m.task, m.view) for m in plan.measures if not plan.task(m.task).labels)
    deep = {
        (m.task, m.view) for m in plan.measures if not plan.task(m.task).labels and metrics.parse(m.metric).cutoff != 1
    }
    ranked = {}
    for task, view in (view for view in views if view in deep):
        mine = {run: _of_view(held[task], view) for run, held in tables.items() if task in held}
        mine = {run: table for run, table in mine.items() if len(table)}
        if mine and max(pc.max(t["n_candidates"]).as_py() for t in mine.values()) >= SMALLEST:
            ranked[task, view] = mine
    for (task, view), mine in ranked.items():
        place = _place(task, view)
        points = [
            (run, m, leaves[run][m.key])
            for m in plan.measures
            for run in mine
            if _is_recall(m, task, view, leaves, run)
        ]
        found.append(_curves(place, mine, points, colours, dashes))
    for (task, view), mine in ranked.items():
        found.append(_distribution(_place(task, view), mine))
    for measure in plan.measures:
        if not plan.task(measure.task).labels and metrics.parse(measure.metric).unit == "rank":
            draws = {
                run: _per_draw(_of_view(held[measure.task], measure.view), measure)
                for run, held in tables.items()
                if measure.task in held and measure.key in leaves[run] and leaves[run][measure.key]["repeats"] > 1
            }
            if draws:
                found.append(_draws(" / ".join(measure.key), draws, colours))
    for title, keys in _categories(plan):
        shown = {run: {name: mine[key] for name, key in keys.items() if key in mine} for run, mine in leaves.items()}
        if any(shown.values()):
            found.append(_bars(title, list(keys), shown, colours))
    for (task, view), mine in ranked.items():
        if len(mine) > 1:
            found += _against(_place(task, view), mine)
    return found


def _place(task: str, view: str) -> str:
    return task if view == "all" else f"{task} / {view}"


def _of_view(table: pa.Table, view: str) -> pa.Table:
    return table.filter(pc.equal(table["view"], view))


def _is_recall(measure: Measure, task: str, view: str, leaves: Mapping[str, Mapping[Key, Any]], run: str) -> bool:
    if (measure.task, measure.view) != (task, view) or measure.where or measure.key not in leaves[run]:
        return False
    metric = metrics.parse(measure.metric)
    return metric.cutoff is not None and metric.unit == "fraction"


def _within(table: pa.Table, depth: int) -> NDArray[np.float64]:
    """How likely each trial's best right candidate is in the first `depth`; a tied one is anywhere in its group."""
    first, last = (np.asarray(pc.fill_null(table[name], 0), np.float64) for name in ("rank_min", "rank_max"))
    there = np.clip(depth - first + 1, 0, last - first + 1) / np.maximum(last - first + 1, 1)
    return np.where(first > 0, there, 0.0)


def _curves(
    place: str,
    mine: Ranks,
    points: Sequence[tuple[str, Measure, Mapping[str, Any]]],
    colours: Mapping[str, str],
    dashes: Mapping[str, Sequence[int]],
) -> Picture:
    """The share of queries that have a right candidate in the first K; metrics that lie on a curve, with intervals."""
    largest = max(pc.max(t["n_candidates"]).as_py() for t in mine.values())
    steps = sorted({int(d * 10**e) for e in range(7) for d in (1, 1.5, 2, 3, 5, 7)} | {largest})
    depths = [k for k in steps if k <= largest]
    line = [
        {"run": run, "K": k, "share": _short(100 * float(np.mean(_within(t, k))))}
        for run, t in mine.items()
        for k in depths
    ]
    dots = []
    for run, measure, leaf in points:
        depth = metrics.parse(measure.metric).cutoff
        scale = 1 if leaf["unit"] == "percent" else 100
        assert depth is not None
        on = depth <= largest and abs(100 * float(np.mean(_within(mine[run], depth))) - scale * leaf["mean"]) < 1e-6
        if on:
            low, high = leaf.get("interval") or (leaf["mean"], leaf["mean"])
            dot = {"run": run, "K": depth, "share": scale * leaf["mean"], "low": scale * low, "high": scale * high}
            dots.append({k: _short(v) if isinstance(v, float) else v for k, v in dot.items()})
    x = {
        "field": "K",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1, largest], "nice": False},
        "axis": _axis("K", values=_ticks(largest), labelExpr=SHORT_NUMBERS),
    }
    y = {
        **_number("share"),
        "scale": {"domain": [0, 100]},
        "axis": _axis("% of queries", extent=28, values=[0, 25, 50, 75, 100]),
    }
    colour = _colours(mine, colours)
    dash = {
        "field": "run",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": list(mine), "range": [dashes[r] for r in mine]},
    }
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": line},
            "mark": {"type": "line", "strokeWidth": 1.8},
            "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash},
        }
    ]
    if dots:
        layers += [
            {
                "data": {"values": dots},
                "mark": {"type": "rule", "strokeWidth": 2.5, "opacity": 0.7},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
            },
            {
                "data": {"values": dots},
                "mark": {"type": "point", "filled": True, "size": 34, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": colour},
            },
        ]
    at = 10 if largest > 10 else 1
    said = ", ".join(f"{run} {100 * float(np.mean(_within(t, at))):.1f} %" for run, t in mine.items())
    alt = f"Share of the queries of {place} with a right candidate among the first K. At K = {at}: {said}."
    if dots:
        alt += " Dots are metrics of the table, with their 95 % intervals."
    return Picture(f"Found among the first K: {place}", alt, _render(layers, left=48), _legend(mine, colours))


def _distribution(place: str, mine: Ranks) -> Picture:
    """How the best right candidates' ranks spread, a bar a run."""
    largest = max(pc.max(t["n_candidates"]).as_py() for t in mine.values())
    ends = [*(b for b in BANDS if b < largest), largest]
    names = [f"{a + 1:,}–{b:,}" if b > a + 1 else f"{b:,}" for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    rows, said = [], []
    for run, table in mine.items():
        shares = np.diff([0.0, *(100 * float(np.mean(_within(table, end))) for end in ends)])
        start = 0.0
        for name, share in zip(names, shares, strict=True):
            rows.append({"run": run, "band": name, "from": _short(start), "to": _short(start + share)})
            start += share
        lost = f" ({100 - start:.1f} % have none in the pool)" if start < 99.95 else ""
        said.append(f"{run} {shares[0]:.1f} %{lost}")
    shades = SHADES[: len(names)]
    left = _room(mine)
    layer = {
        "data": {"values": rows},
        "mark": {"type": "bar", "height": {"band": 0.72}},
        "encoding": {
            "y": {"field": "run", "type": "nominal", "sort": None, "axis": _labels(left)},
            "x": {
                **_number("from"),
                "scale": {"domain": [0, 100]},
                "axis": _axis("% of queries", values=[0, 25, 50, 75, 100]),
            },
            "x2": {"field": "to"},
            "color": {
                "field": "band",
                "type": "nominal",
                "legend": None,
                "scale": {"domain": names, "range": list(shades)},
            },
        },
    }
    alt = f"How the ranks of the best right candidates of {place} spread. At rank 1: {', '.join(said)}."
    svg = _render([layer], left=left + 8, width=WIDTH + 48 - left - 8, height=24 * len(mine) + 6)
    return Picture(f"Rank of the best right candidate: {place}", alt, svg, tuple(zip(shades, names, strict=True)))


def _per_draw(table: pa.Table, measure: Measure) -> list[float]:
    values, repeat = np.asarray(table[measure.key[-1]], np.float64), np.asarray(table["repeat"])
    metric = metrics.parse(measure.metric)
    return [metric.total(values[repeat == r]) for r in np.unique(repeat)]


def _draws(place: str, draws: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> Picture:
    """A dot a draw, so that the spread is seen and not only its standard deviation."""
    rows = [{"run": run, "value": _short(v)} for run, values in draws.items() for v in values if np.isfinite(v)]
    left = _room(draws)
    layer = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.55},
        "encoding": {
            "y": {"field": "run", "type": "nominal", "sort": None, "axis": _labels(left)},
            "x": {**_number("value"), "axis": _axis("rank", tickCount=4), "scale": {"zero": False}},
            "color": _colours(draws, colours),
        },
    }
    said = "; ".join(f"{run} {min(values):,.1f} to {max(values):,.1f}" for run, values in draws.items())
    alt = f"{place} of every draw, a dot each: {said}."
    svg = _render([layer], left=left + 8, width=WIDTH + 48 - left - 8, height=24 * len(draws) + 6)
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


def _bars(
    title: str, names: Sequence[str], shown: Mapping[str, Mapping[str, Any]], colours: Mapping[str, str]
) -> Picture:
    """A bar a category and run, from 0, with its interval."""
    rows = [
        {
            "name": name.replace("_", " "),
            "run": run,
            "value": _short(leaf["mean"]),
            **(
                {"low": _short(leaf["interval"][0]), "high": _short(leaf["interval"][1])}
                if leaf.get("interval")
                else {}
            ),
        }
        for run, mine in shown.items()
        for name, leaf in mine.items()
    ]
    runs = [run for run, mine in shown.items() if mine]
    labels = [name.replace("_", " ") for name in names]
    unit = next(leaf["unit"] for mine in shown.values() for leaf in mine.values())
    left = _room(labels)
    y = {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "axis": _labels(left),
        "scale": {"domain": labels, "paddingInner": 0.25},
    }
    offset = {"field": "run", "type": "nominal", "scale": {"domain": runs}}
    x = {**_number("value"), "axis": _axis("%" if unit == "percent" else "0–1", tickCount=4)}
    colour = _colours(runs, colours)
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": rows},
            "mark": {"type": "bar", "opacity": 0.75},
            "encoding": {"y": y, "yOffset": offset, "x": x, "color": colour},
        }
    ]
    if spans := [row for row in rows if "low" in row]:
        layers.append(
            {
                "data": {"values": spans},
                "mark": {"type": "rule", "strokeWidth": 1.5, "color": INK},
                "encoding": {
                    "y": y,
                    "yOffset": {**offset, "bandPosition": 0.5},
                    "x": {**x, "field": "low"},
                    "x2": {"field": "high"},
                },
            }
        )
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
        {"x": _short(2 ** (a + 0.5)), "y": _short(2 ** (b + 0.5)), "size": _short(max(2.0, 200 * float(c) / most))}
        for (a, b), c in zip(cells.tolist(), counts.tolist(), strict=True)
    ]
    end = 2 ** (int(np.log2(largest)) + 1)
    scale = {"type": "log", "domain": [1, end], "nice": False}
    ticks = _ticks(end)

    def axis(field: str, title: str, **more: Any) -> dict[str, Any]:
        return {**_number(field), "scale": scale, "axis": _axis(title, values=ticks, labelExpr=SHORT_NUMBERS, **more)}

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

INK = "currentColor"
SHORT_NUMBERS = "datum.value >= 1000 ? datum.value / 1000 + 'k' : datum.label"
SHORT_NAMES = f"length(datum.label) > {LONGEST} ? slice(datum.label, 0, {LONGEST - 1}) + '…' : datum.label"
AXIS = {
    "labelColor": INK,
    "titleColor": INK,
    "tickColor": INK,
    "domainColor": INK,
    "gridColor": INK,
    "gridOpacity": 0.13,
    "domainOpacity": 0.45,
    "tickOpacity": 0.45,
    "labelFontSize": 11,
    "titleFontSize": 11,
    "titleFontWeight": "normal",
    "labelOverlap": False,
    "labelLimit": 0,
    "titleLimit": 0,
}
CONFIG = {
    "font": "sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": AXIS,
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


def _number(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative"}


def _colours(runs: Iterable[str], colours: Mapping[str, str]) -> dict[str, Any]:
    names = list(runs)
    scale = {"domain": names, "range": [colours[run] for run in names]}
    return {"field": "run", "type": "nominal", "legend": None, "scale": scale}


def _legend(runs: Iterable[str], colours: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((colours[run], run) for run in runs)


def _short(number: float) -> float:
    """Few enough digits that no machine's rounding shows."""
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
