"""Two trees of metrics side by side: what moved, in which direction, and whether that is more than is allowed."""

import difflib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankledger.tables import InputError, few

ALPHA = 0.05


@dataclass(frozen=True)
class Row:
    """A number that moved.

    Attributes:
        metric: its dotted key.
        old, new: its values; none where it did not exist.
        delta: new − old.
        unit: of its values: percent, fraction, rank or count; none where not known.
        better: whether it moved in the metric's good direction; none where it did not exist, or has no direction.
        interval: 95 % interval of the difference on the shared queries; none where it can't be tested.
        p: of the same difference, corrected for the number of rows.
        causes: what predictions, subset and protocol contribute to `delta`, in its unit; none where not known.
        code: what a change of the code contributes, where there is one.
    """

    metric: str
    old: float | None
    new: float | None
    unit: str | None = None
    better: bool | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    causes: Mapping[str, float | None] = field(default_factory=dict)
    code: float | None = None

    @property
    def delta(self) -> float | None:
        """New − old."""
        return None if self.old is None or self.new is None else self.new - self.old

    @property
    def verdict(self) -> str:
        """The row in a word or two."""
        if self.old is None or self.new is None:
            return "appeared" if self.old is None else "gone"
        if self.better is None:
            return ""
        word = "better" if self.better else "worse"
        return f"{word}, untested" if self.p is None else word if self.p < ALPHA else "within noise"

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: differences to 12 decimals, intervals and p to 6."""
        return {
            "metric": self.metric,
            "old": self.old,
            "new": self.new,
            "delta": _round(self.delta, 12),
            "better": self.better,
            "interval": None if self.interval is None else [_round(x, 6) for x in self.interval],
            "p": _round(self.p, 6),
            "causes": {name: _round(part, 12) for name, part in self.causes.items()},
            **({} if self.code is None else {"code": _round(self.code, 12)}),
        }


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits) + 0.0  # no −0.0


def flatten(tree: Mapping[str, Any], *path: str) -> dict[str, float]:
    """The numbers of nested mappings by dotted key.

    >>> flatten({"a": {"b": 1.0}, "c": 2.0})
    {'a.b': 1.0, 'c': 2.0}
    """
    found: dict[str, float] = {}
    for name, node in tree.items():
        if isinstance(node, Mapping):
            found |= flatten(node, *path, name)
        elif isinstance(node, int | float) and math.isfinite(node):
            found[".".join((*path, name))] = node
    return found


def moved(old: Mapping[str, float], new: Mapping[str, float]) -> list[str]:
    """The keys whose values differ, or that only one has, sorted."""
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def unknown_key(key: str, known: Collection[str]) -> str:
    """What to say of a key that is none of the known: those that have all its parts, else those spelt alike."""
    parts = key.lower().split(".")
    close = [k for k in sorted(known) if _has(k.lower().split("."), parts)]
    close = close or difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    there = f"did you mean {few(close)}?" if close else f"keys look like {few(sorted(known))}"
    return f"{key!r} is no metric of reports/metrics.json; {there}"


def _has(whole: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether all parts stand in the whole, in this order."""
    rest = iter(whole)
    return all(part in rest for part in parts)


def tolerances(texts: Sequence[str], keys: Collection[str]) -> dict[str, float]:
    """What "R@1=-0.5" allows: by metric, or dotted key, by how much it may get worse.

    Raises `InputError` on another form, and on a metric that no key ends in: a slip must not open a gate.
    """
    found = {}
    names = {key.rsplit(".", 1)[-1] for key in keys} | set(keys)
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            limit = abs(float(number))
        except ValueError:
            limit = math.nan
        if not name or not math.isfinite(limit):
            raise InputError(
                f"--fail-below {text!r}: should look like R@1=-0.5, the metric and by how much it may get worse"
            )
        if name not in names:
            raise InputError(f"--fail-below: {unknown_key(name, names)}")
        found[name] = limit
    return found


def breaches(rows: Sequence[Row], allowed: Mapping[str, float]) -> Iterator[str]:
    """A line for each row that got worse by more than is allowed."""
    for row in rows:
        limits = [allowed[name] for name in (row.metric, row.metric.rsplit(".", 1)[-1]) if name in allowed]
        if limits and row.delta is not None and row.better is False and abs(row.delta) > limits[0] + 1e-9:
            yield f"{row.metric} got worse by {abs(row.delta):g}, more than {limits[0]:g}: {row.old:g} → {row.new:g}"
