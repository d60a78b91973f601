"""Vega-Lite layers of every picture: on the page a series is a run, in `dvc plots` it is a revision of one.

They all draw rows with the columns `name`, `at`, `value`, `low` and `high`; where these come from, and what tells one
series from another, the caller says.
"""

from collections.abc import Mapping
from typing import Any

Spec = dict[str, Any]
Given = Mapping[str, Any]  # data or a transform, an encoding without its field, or the rest of one

INK = "currentColor"
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
BANDS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000)  # upper ends of the bands of ranks
SHADES = ("#1f5fa8", "#2f7fd0", "#4fa0e0", "#7bb6e6", "#9a8fd0", "#8a6cc0", "#7a4bb0", "#a0559a", "#b5655f", "#8a8f98")
DOT = {"value": 34}
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
}


def number(field: str, **more: Any) -> Spec:
    """A field of numbers as an encoding."""
    return {"field": field, "type": "quantitative", **more}


def label(field: str, **more: Any) -> Spec:
    """A field of names as an encoding, in the order of the data."""
    return {"field": field, "type": "nominal", "sort": None, **more}


def curves(line: Given, dots: Given, x: Given, y: Given, colour: Any, dash: Given, size: Given) -> list[Spec]:
    """A line a series through `line`, and `dots` on it with their intervals."""
    at, value, low = number("at", **x), number("value", **y), number("low", **y)
    return [
        {
            **line,
            "mark": {"type": "line", "strokeWidth": 1.8},
            "encoding": {"x": at, "y": value, "color": colour, "strokeDash": dash},
        },
        {
            **dots,
            "mark": {"type": "rule", "strokeWidth": 2.5, "opacity": 0.7},
            "encoding": {"x": at, "y": low, "y2": {"field": "high"}, "color": colour},
        },
        {
            **dots,
            "mark": {"type": "point", "filled": True, "opacity": 1},
            "encoding": {"x": at, "y": value, "color": colour, "size": size},
        },
    ]


def bands(data: Given, x: Given, y: Given, fill: Given) -> list[Spec]:
    """A bar a series, from `low` to `high` in the colour of each band."""
    return [
        {
            **data,
            "mark": {"type": "bar", "height": {"band": 0.72}},
            "encoding": {"y": y, "x": number("low", **x), "x2": {"field": "high"}, "fill": label("name", **fill)},
        }
    ]


def draws(data: Given, x: Given, y: Given, colour: Any) -> list[Spec]:
    """A dot a draw, so that the spread is seen and not only its standard deviation."""
    return [
        {
            **data,
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.55},
            "encoding": {"y": y, "x": number("value", **x), "color": colour},
        }
    ]


def bars(data: Given, spans: Given, x: Given, y: Given, offset: Given, colour: Any) -> list[Spec]:
    """A bar a name and series, from 0, with the intervals of `spans`."""
    middle = {**offset, "bandPosition": 0.5}
    return [
        {
            **data,
            "mark": {"type": "bar", "opacity": 0.75},
            "encoding": {
                "y": label("name", **y),
                "yOffset": offset,
                "x": number("value", stack=None, **x),
                "color": colour,
            },
        },
        {
            **spans,
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {
                "y": label("name", **y),
                "yOffset": middle,
                "x": number("low", **x),
                "x2": {"field": "high"},
            },
        },
    ]
