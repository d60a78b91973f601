"""What moved, in which direction, and what a gate makes of it."""

from typing import Any

import pytest

from rankledger.provenance.comparison import Row, breaches, flatten, moved, tolerances, unknown_key
from rankledger.tables import InputError


def row(metric: str, old: float | None, new: float | None, **more: Any) -> Row:
    return Row(metric, old, new, **more)


def test_numbers_by_dotted_key() -> None:
    assert flatten({"m": {"cirr": {"val": {"R@1": 1.0, "note": "text"}}}, "n": 2}) == {"m.cirr.val.R@1": 1.0, "n": 2}


def test_moved_keys_are_sorted_and_hold_those_that_came_and_went() -> None:
    old = {"b.R@1": 1.0, "a.R@1": 1.0, "gone": 0.5, "same": 7.0}
    new = {"b.R@1": 2.0, "a.R@1": 0.0, "new": 0.5, "same": 7.0}
    assert moved(old, new) == ["a.R@1", "b.R@1", "gone", "new"]
    assert moved(old, old) == []


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (row("m", 1.0, 2.0, better=True, p=0.01), "better"),
        (row("m", 1.0, 2.0, better=False, p=0.01), "worse"),
        (row("m", 1.0, 2.0, better=True, p=0.05), "within noise"),
        (row("m", 1.0, 2.0, better=False), "worse, untested"),
        (row("m", None, 2.0), "appeared"),
        (row("m", 1.0, None), "gone"),
        (row("m_std", 1.0, 2.0), ""),
    ],
)
def test_verdicts(found: Row, verdict: str) -> None:
    assert found.verdict == verdict


def test_row_as_json() -> None:
    found = row(
        "m", 0.1, 0.3, better=True, interval=(-0.0000001, 0.4), p=0.1234567, causes={"subset": 0.2, "protocol": None}
    )
    assert found.to_dict() == {
        "metric": "m",
        "old": 0.1,
        "new": 0.3,
        "delta": 0.2,
        "better": True,
        "interval": [0.0, 0.4],
        "p": 0.123457,
        "causes": {"subset": 0.2, "protocol": None},
    }
    assert row("m", 0.1, 0.3, code=0.1).to_dict()["code"] == 0.1
    assert row("m", None, 0.3).to_dict()["delta"] is None


KEYS = ["a.cirr.val.R@1", "b.cirr.val.R@1", "a.recipe1m.im2recipe.1k.medR"]


def test_tolerances_are_of_a_metric_or_of_one_key() -> None:
    assert tolerances(["R@1=-0.5", "medR=2", "a.cirr.val.R@1=0"], KEYS) == {
        "R@1": 0.5,
        "medR": 2.0,
        "a.cirr.val.R@1": 0.0,
    }


@pytest.mark.parametrize("text", ["R@1", "=1", "R@1=", "R@1=much", "R@1=nan", "R@1=inf"])
def test_a_tolerance_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"should look like R@1=-0\.5"):
        tolerances([text], KEYS)


def test_a_slip_does_not_open_the_gate() -> None:
    with pytest.raises(InputError, match=r"'R@11' is no metric.*did you mean 'R@1'"):
        tolerances(["R@11=-0.5"], KEYS)


def test_breaches_respect_directions_and_limits() -> None:
    rows = [
        row("a.cirr.val.R@1", 50.0, 49.5, better=False),
        row("b.cirr.val.R@1", 50.0, 49.4, better=False),
        row("a.recipe1m.im2recipe.1k.medR", 5.0, 7.0, better=False),
        row("a.recipe1m.im2recipe.10k.medR", 7.0, 5.0, better=True),
        row("c.cirr.val.R@1", 50.0, None),
    ]
    assert [b.split()[0] for b in breaches(rows, {"R@1": 0.5, "medR": 1.0})] == [
        "b.cirr.val.R@1",
        "a.recipe1m.im2recipe.1k.medR",
    ]
    assert list(breaches(rows, {"medR": 2.0})) == []
    assert [b.split()[0] for b in breaches(rows, {"R@1": 9.0, "a.cirr.val.R@1": 0.1})] == ["a.cirr.val.R@1"]


def test_unknown_keys_have_neighbours() -> None:
    assert "did you mean 'a.cirr.val.R@1'" in unknown_key("a.cirr.val.R@2", KEYS)
    assert "did you mean 'a.cirr.val.R@1', 'b.cirr.val.R@1'?" in unknown_key("cirr.val.R@1", KEYS), "as in `compare`"
    assert "did you mean 'a.recipe1m.im2recipe.1k.medR'?" in unknown_key("a.recipe1m.medr", KEYS)
    assert "keys look like" in unknown_key("zzz", KEYS)
