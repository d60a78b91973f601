"""FashionIQ on its real files: the six pairs of the protocol."""

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.golden.conftest import Official, rankings, same_ranking, values

Make = Callable[..., Official]
TASKS = ("dress", "shirt", "toptee")
BY_ASIN = {
    "original": [(0.2975, 1.2395), (0.1963, 0.7851), (0.2040, 0.8669)],
    "val": [(0.3471, 1.7848), (0.3435, 1.6683), (0.3060, 1.5298)],
}
CHANCE = {
    "original": [(0.2620, 1.3099), (0.1576, 0.7879), (0.1861, 0.9306)],
    "val": [(0.3805, 1.9026), (0.3237, 1.6186), (0.3446, 1.7229)],
}
SIZES = {"original": (3817, 6346, 5373), "val": (2628, 3089, 2902)}


def gallery(fashion: Official, task: str, view: str) -> list[str]:
    trials = fashion.subset.trials.to_pylist()
    pool = next(t["pool_id"] for t in trials if (t["task"], t["view"]) == (task, view))
    return sorted(fashion.pool(pool))


def test_gallery_by_asin_in_both_galleries_at_once(official: Make) -> None:
    fashion = official("fashioniq", galleries=["original", "val"])
    tables = {}
    for task in TASKS:
        everything = sorted({*gallery(fashion, task, "original"), *gallery(fashion, task, "val")})
        tables[task] = same_ranking([q["query_id"] for q in fashion.queries(task)], everything)
    scored = fashion.score(**tables)
    for view, pairs in BY_ASIN.items():
        assert [len(gallery(fashion, t, view)) for t in TASKS] == list(SIZES[view])
        for task, (ten, fifty) in zip(TASKS, pairs, strict=True):
            found = values(scored, task, view)
            assert (found["R@10"], found["R@50"]) == (ten, fifty)
            assert found["mean"] == pytest.approx((ten + fifty) / 2, abs=1e-4)
        mean = scored.values[("mean", view, "R@10")].mean
        assert mean == pytest.approx(sum(scored.values[(t, view, "R@10")].mean for t in TASKS) / 3)
    assert [len(fashion.queries(t)) for t in TASKS] == [2017, 2038, 1961]


def test_constant_scores_give_chance(official: Make) -> None:
    fashion = official("fashioniq", galleries=["original", "val"])
    ids = {
        side: fashion.subset.universe.filter(pa.compute.equal(fashion.subset.universe["side"], side))["id"].to_pylist()
        for side in ("query", "image")
    }
    scored = fashion.score(**{s: pa.table({"id": x, "embedding": [[1.0, 7.0]] * len(x)}) for s, x in ids.items()})
    for view, pairs in CHANCE.items():
        for task, pair in zip(TASKS, pairs, strict=True):
            found = values(scored, task, view)
            assert (found["R@10"], found["R@50"]) == pair


@pytest.mark.parametrize(("reference", "value"), [("kept", 0.0), ("removed", 100.0)])
def test_reference_kept_or_removed(official: Make, reference: str, value: float) -> None:
    fashion = official("fashioniq", reference=reference)
    records = json.loads((fashion.project.raw("fashioniq") / "cap.dress.val.json").read_bytes())
    names = gallery(fashion, "dress", "original")
    lists = {}
    for i, record in enumerate(records):
        ends = (record["candidate"], record["target"])
        wrong = [n for n in names if n not in ends][:60]
        lists[f"dress/{i}"] = [*wrong[:9], *ends, *wrong[9:]]
    scored = fashion.score(dress=rankings(lists))
    same = sum(r["candidate"] == r["target"] for r in records)
    assert same == 0
    assert values(scored, "dress", "original")["R@10"] == value
    assert not values(scored, "mean", "original"), "a mean over categories appears only when all are there"
