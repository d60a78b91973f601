"""The data and the page of `dvc plots show` and `dvc plots diff`: the page's pictures, with a series a revision.

`reports/plots/` has a file for each run on a benchmark, and one for the overview of all; every row says what it is part
of, and the template `.dvc/plots/results.json` draws each part by itself, with a colour a revision. DVC's own page takes
its scripts from the net; `plots.html_template` in `.dvc/config` names ours instead, which has them inside.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import Environment, StrictUndefined

import stages.pictures as pictures
import stages.specs as specs
from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Key, Plan
from rankledger.tables import whole_folder, write_text
from stages.page import main_metric, per_query
from stages.pictures import CONFIG, SHORT_NUMBERS, VEGA_LITE, place
from stages.project import Project
from stages.report import ARROWS, UNITS, all_keys, leaf, leaves
from stages.specs import BANDS, DASHES, DOT, INK, SHADES, Spec, label

COLUMNS = ("part", "place", "name", "at", "value", "low", "high")
PAGE = Path(__file__).with_name("plots.html")
EXPORTED = "window.draw = vegaEmbed;"  # what the page calls of the scripts
TEMPLATE = Path(".dvc") / "plots" / "results.json"
BAND_NAMES = [*pictures.band_names(BANDS), f"above {BANDS[-1]:,}"]
WIDTH, HEIGHT, ACROSS = 210, 130, 4

Row = dict[str, Any]


def write_plots(project: Project, runs: Mapping[str, Mapping[str, Any]], results: Mapping[str, Any]) -> None:
    """Write `reports/plots/`, and the page for them unless it is there; arguments as in `stages.report.summary`."""
    scored = [(entry["run"], entry["benchmark"], results[key]) for key, entry in runs.items() if results[key]]
    with whole_folder(project.root / "reports" / "plots") as folder:
        write_text(_table(_overview(scored)), folder / "overview.tsv")
        for run, name, result in scored:
            rows = _rows(_plan(name, result), dict(leaves(result["metrics"])), per_query(project.scores(run, name)))
            write_text(_table(rows), folder / name / f"{run}.tsv")
    path, mark = project.root / "reports" / "plots.html", _mark()
    if not path.is_file() or mark not in path.read_text(encoding="utf-8"):
        write_text(_page(mark, _scripts()), path)


# ---- rows --------------------------------------------------------------------------------------------------


def _plan(name: str, result: Mapping[str, Any]) -> Plan:
    return benchmark(name).plan(result["protocol"]["parameters"])


def _overview(scored: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[Row]:
    """The main metric of each benchmark, a bar a run."""
    rows = []
    for run, name, result in scored:
        key = main_metric(_plan(name, result))
        if value := leaf(result, key):
            title = f"{benchmark(name).title}: {' / '.join(key)} {_unit(value)}"
            rows.append({"part": "bar", "place": title, "name": run, **pictures.bar(value)})
    return rows


def _rows(plan: Plan, values: Mapping[Key, Mapping[str, Any]], tables: Mapping[str, pa.Table]) -> list[Row]:
    """All there is to draw of a run on a benchmark: its metrics, its draws, its curves, how its ranks spread."""
    rows: list[Row] = []
    draws = {m.key: drawn for m in plan.measures if (drawn := pictures.per_draw(plan, m, values, tables))}
    for key in (key for key in all_keys(plan) if key in values):
        if key in draws:
            here = {"part": "draw", "place": " / ".join(key)}
            rows += [{**here, "at": i, "value": pictures.short(x)} for i, x in enumerate(draws[key])]
        else:
            here = {"part": "bar", "place": f"{' / '.join(key[:-1])} {_unit(values[key])}"}
            rows.append({**here, "name": key[-1], **pictures.bar(values[key])})
    for task, view in pictures.deep_views(plan):
        ranks = pictures.of_view(tables[task], view) if task in tables else ()
        if len(ranks) and (largest := pictures.pool(ranks)) >= pictures.SMALLEST:
            where = place(task, view)
            dots = {dot["at"]: dot for dot in pictures.points_on(plan, task, view, values, ranks)}
            points = {point["at"]: point for point in pictures.curve(ranks, largest)} | dots
            rows += [{"part": "curve", "place": where, **points[at]} for at in sorted(points)]
            shares = pictures.spread(ranks, [*BANDS, largest])[: len(BAND_NAMES)]
            rows += [{"part": "band", "place": where, **band} for band in pictures.stacked(BAND_NAMES, shares)]
    return rows


def _unit(value: Mapping[str, Any]) -> str:
    return f"({UNITS[value['unit']]} {ARROWS[value['higher_is_better']]})"


def _table(rows: Iterable[Row]) -> str:
    """Rows as tab-separated text; DVC wants the same columns in each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# ---- template ----------------------------------------------------------------------------------------------


def template() -> Spec:
    """The Vega-Lite spec that DVC fills in: `<DVC_METRIC_…>` stands for what it knows."""
    colour = "<DVC_METRIC_COLOR>"
    dash = {"field": "rev", "type": "nominal", "sort": None, "legend": None, "scale": {"range": list(DASHES)}}
    share, by_rank = (
        {"scale": {"domain": [0, 100]}, "axis": {"title": title, "values": [0, 25, 50, 75, 100]}}
        for title in ("% of queries", "% of queries by rank")
    )
    depth = {
        "scale": {"type": "log", "nice": False},
        "axis": {"title": "K", "grid": False, "labelExpr": f"test(/^[13]/, datum.value) ? ({SHORT_NUMBERS}) : ''"},
    }
    rank = {"scale": {"zero": False}, "axis": {"title": "rank", "tickCount": 4}}
    plain = {"axis": {"title": None, "tickCount": 4}}
    revision = label("rev", axis={"title": None})
    blank = "\u00a0"  # where a legend has no entries it needs a title, or Vega finds no size for the plot
    fill = {"scale": {"range": list(SHADES)}, "legend": {"title": blank}}
    names = {"axis": {"title": None}, "scale": {"paddingInner": 0.25}}
    offset = {"field": "rev", "type": "nominal", "sort": None}
    dots = {"condition": {"test": "isValid(datum.low)", **DOT}, "value": 0}
    panels = [
        _panel("bar", specs.bars({}, {}, plain, names, offset, colour), {"step": 13}),
        _panel("draw", specs.draws({}, rank, revision, colour), {"step": 20}),
        _panel("curve", specs.curves({}, {}, depth, share, colour, dash, dots), HEIGHT),
        _panel("band", specs.bands({}, by_rank, revision, fill), {"step": 20}),
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": "<DVC_METRIC_TITLE>", "anchor": "start"},
        "data": {
            "values": "<DVC_METRIC_DATA>",
            "format": {"parse": dict.fromkeys(("at", "value", "low", "high"), "number")},
        },
        "transform": [{"window": [{"op": "row_number", "as": "row"}]}],
        "vconcat": panels,
        "config": {"mark": {"tooltip": True}, "rule": {"color": "#808080"}, "concat": {"spacing": 24}},
    }


def _panel(part: str, layers: list[Spec], height: Any) -> Spec:
    """The rows of a part, a panel a place, in the order of the data; nothing where there are none."""
    return {
        "transform": [{"filter": {"field": "part", "equal": part}}],
        "facet": {**label("place"), "title": None, "sort": {"field": "row", "op": "min"}},
        "columns": ACROSS,
        "spec": {"width": WIDTH, "height": height, "layer": layers},
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
    }


# ---- page --------------------------------------------------------------------------------------------------


@cache
def _scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, to stand in a page. Takes seconds."""
    import vl_convert

    return str(vl_convert.javascript_bundle(EXPORTED, VEGA_LITE))


def _mark() -> str:
    """What the page is made of, in short: where it is the same, the page is."""
    return hashlib.sha256(f"{version('vl-convert-python')} {VEGA_LITE} {EXPORTED} {_page('', '')}".encode()).hexdigest()


def _page(mark: str, scripts: str) -> str:
    environment = Environment(autoescape=False, undefined=StrictUndefined, keep_trailing_newline=True)
    legend = {"labelColor": INK, "titleColor": INK}
    inks = {"title": {"color": INK}, "header": {"labelColor": INK}, "legend": legend, "mark": {"tooltip": True}}
    config = {**CONFIG, **inks}
    return environment.from_string(PAGE.read_text(encoding="utf-8")).render(mark=mark, scripts=scripts, config=config)


if __name__ == "__main__":  # after a change to `template`
    write_text(json.dumps(template(), ensure_ascii=False, indent=1) + "\n", TEMPLATE)
