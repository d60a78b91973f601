"""The page of the sample in a real browser: headless Chromium, without a network."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.integration.browser import THEMES, browser, opened
from tests.integration.conftest import Workspace

# Looks at the page from inside and leaves what it found in an element of its own.
PROBE = """
<script>
const violations = [];
document.addEventListener("securitypolicyviolation", event => violations.push(event.blockedURI));
function channels(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function luminance(colour) {
  const [r, g, b] = channels(colour).slice(0, 3)
    .map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor, alpha = channels(colour)[3];
    if (alpha === undefined || alpha > 0) return colour;
  }
}
function contrast(element, colour) {
  const [a, b] = [luminance(colour), luminance(ground(element))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
addEventListener("load", () => setTimeout(() => {
  const kinds = "h1, h2, h3, h4, p, li, th, td, dt, dd, a, button, span, figcaption, svg text";
  const texts = [...document.querySelectorAll(kinds)]
    .filter(e => e.textContent.trim() && e.getClientRects().length);
  const colour = e => getComputedStyle(e)[e.tagName === "text" ? "fill" : "color"];
  const low = texts.map(e => [contrast(e, colour(e)), e.textContent]).sort((a, b) => a[0] - b[0])[0];
  const plots = [...document.querySelectorAll("svg.plot")].map(svg => {
    const marks = [...svg.querySelectorAll(".role-mark path, .role-mark line, .role-mark rect")];
    const seen = marks.filter(m => { const box = m.getBBox(); return box.width > 0 || box.height > 0; });
    const inside = svg.getBoundingClientRect();
    const labels = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim());
    const out = labels.filter(t => {
      const b = t.getBoundingClientRect();
      return b.left < inside.left - 1 || b.right > inside.right + 1 || b.bottom > inside.bottom + 1;
    });
    const drawn = seen.map(m => getComputedStyle(m)).flatMap(s => [s.fill, s.stroke]).filter(c => c.startsWith("rgb("));
    const faint = drawn.map(c => contrast(svg, c)).sort((a, b) => a - b)[0];
    return { marks: seen.length, labels: labels.length, out: out.map(t => t.textContent), faint };
  });
  const table = document.querySelector("#overview table");
  const column = () => [...table.tBodies[0].rows].map(r => r.cells[1].dataset.sort ?? null);
  const head = table.tHead.rows[0].cells[1], orders = [];
  for (let i = 0; i < 2; i++) {
    head.querySelector("button").click();
    orders.push([head.getAttribute("aria-sort"), column()]);
  }
  table.tHead.rows[0].cells[0].querySelector("button").click();
  parent.postMessage(JSON.stringify({
    violations, plots, orders, names: [...table.tBodies[0].rows].map(r => r.cells[0].textContent),
    contrast: low, background: getComputedStyle(document.body).backgroundColor,
    resources: performance.getEntriesByType("resource").map(e => e.name),
    width: innerWidth, wide: document.documentElement.scrollWidth,
  }), "*");
}, 50));
</script>
"""
Look = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def look(reproduced: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Look:
    """Opens the page of the sample and says what was found there."""
    text = (reproduced.root / "reports" / "index.html").read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("browser")
    return partial(opened, text.replace("</body>", f"{PROBE}</body>"), folder, browser())


@pytest.mark.parametrize("theme", THEMES)
def test_the_page_opens_without_an_error_and_without_a_request(theme: str, look: Look) -> None:
    seen = look(theme)
    assert seen["console"] == []
    assert seen["violations"] == []
    assert seen["resources"] == []
    assert seen["requests"] == []


def test_both_themes_are_legible(look: Look) -> None:
    dark, light = look("dark"), look("light")
    assert dark["background"] != light["background"]
    for seen in (dark, light):
        assert seen["contrast"][0] >= 4.5, seen["contrast"]  # WCAG 2 AA, for text
        assert min(plot["faint"] for plot in seen["plots"]) >= 2.0


def test_each_plot_has_marks_and_its_labels_are_inside(look: Look) -> None:
    plots = look()["plots"]
    assert len(plots) > 20
    for plot in plots:
        assert plot["marks"] > 0
        assert plot["labels"] > 0
        assert plot["out"] == []


def test_a_click_sorts_by_the_better_end_first_and_another_turns_it_round(look: Look) -> None:
    seen = look()
    (first, down), (second, up) = seen["orders"]
    assert (first, second) == ("ascending", "descending")  # medR: the lowest is best
    assert [float(v) for v in down] == sorted(float(v) for v in down)
    assert up == down[::-1]
    assert len(set(down)) > 1
    assert seen["names"] == sorted(seen["names"])


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_is_wider_than_the_window(width: int, look: Look) -> None:
    seen = look(width=width)
    assert seen["wide"] <= seen["width"]


def test_the_page_of_the_sample_is_small(reproduced: Workspace) -> None:
    assert (reproduced.root / "reports" / "index.html").stat().st_size < 1_500_000
