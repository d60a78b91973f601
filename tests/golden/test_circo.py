"""CIRCO on its real files: the golden values of the protocol."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from tests.golden.conftest import Official, rankings, values

Make = Callable[..., Official]
CUTS = (5, 10, 25, 50)


def records(circo: Official) -> list[dict]:
    return json.loads((circo.project.raw("circo") / "val.json").read_bytes())


def right(record: dict) -> list[str]:
    return [str(x) for x in record["gt_img_ids"]]


def others(circo: Official, record: dict) -> Iterator[str]:
    """Gallery images that are neither right nor the reference."""
    known = {*right(record), str(record["reference_img_id"])}
    return (x for x in gallery(circo) if x not in known)


def gallery(circo: Official) -> list[str]:
    if not hasattr(circo, "gallery"):
        circo.gallery = sorted(circo.subset.pools["candidate_id"].to_pylist())
    return circo.gallery


def lists(circo: Official, first: Callable[[dict], list[str]]) -> pa.Table:
    """The given candidates first, then wrong ones, 60 in all."""
    found = {}
    for record in records(circo):
        head = first(record)
        tail = (x for x in others(circo, record) if x not in head)
        found[str(record["id"])] = head + list(islice(tail, 60 - len(head)))
    return rankings(found)


def at(scored, name: str) -> list[float]:
    found = values(scored, "val")
    return [found[f"{name}@{k}"] for k in CUTS]


def test_the_authors_sample_submission(official: Make, shared: Path) -> None:
    circo = official("circo")
    said = json.loads((shared / "runs" / "circo" / "submission_val.json").read_bytes())
    scored = circo.score(val=rankings({q: [str(x) for x in names] for q, names in said.items()}))
    assert at(scored, "mAP") == [0.4861, 0.5178, 0.5400, 0.6020]
    assert at(scored, "R") == [0.9091, 0.9091, 1.3636, 3.6364]
    assert values(scored, "aspects") == {
        "addition": 0.0871,
        "cardinality": 0,
        "comparative_statement": 1.05,
        "compare_change": 0.0242,
        "direct_addressing": 0.9197,
        "negation": 0,
        "spatial_relations_background": 0.1808,
        "statement_with_conjunction": 0.6183,
        "viewpoint": 0.6173,
    }


@pytest.mark.parametrize(
    ("denominator", "perfect", "one_wrong"),
    [
        ("min", [100, 100, 100, 100], [58.3071, 64.7493, 65.3596, 65.3596]),
        ("n_gt", [90.5135, 99.4018, 100, 100], [53.1527, 64.3264, 65.3596, 65.3596]),
    ],
)
def test_both_denominators(official: Make, denominator: str, perfect: list[float], one_wrong: list[float]) -> None:
    circo = official("circo", ap_denominator=denominator)
    assert at(circo.score(val=lists(circo, right)), "mAP") == perfect
    wrong = circo.score(val=lists(circo, lambda r: [next(others(circo, r)), *right(r)]))
    assert at(wrong, "mAP") == one_wrong


def test_reference_kept_or_removed(official: Make) -> None:
    for reference, value in (("kept", 58.3071), ("removed", 100)):
        circo = official("circo", reference=reference)
        found = circo.score(val=lists(circo, lambda r: [str(r["reference_img_id"]), *right(r)]))
        assert at(found, "mAP")[0] == value


def test_recall_looks_at_the_single_target(official: Make) -> None:
    circo = official("circo")

    def target_last(record: dict) -> list[str]:
        target = str(record["target_img_id"])
        return [*(x for x in right(record) if x != target), target]

    assert at(circo.score(val=lists(circo, target_last)), "R") == [74.0909, 95.9091, 100, 100]


def test_constant_scores_give_chance(official: Make) -> None:
    wanted = {
        "min": [0.0022, 0.0024, 0.0031, 0.0036],
        "n_gt": [0.0019, 0.0024, 0.0031, 0.0036],
    }
    for denominator, chance in wanted.items():
        circo = official("circo", ap_denominator=denominator)
        queries = [q["query_id"] for q in circo.queries("val")]
        tables = {
            side: pa.table({"id": ids, "embedding": [[3.0, 4.0]] * len(ids)})
            for side, ids in (("query", queries), ("image", gallery(circo)))
        }
        scored = circo.score(**tables)
        assert at(scored, "mAP") == chance
        assert at(scored, "R") == [0.0041, 0.0081, 0.0203, 0.0405]
        mean = scored.values[("val", "mAP@5")].mean
        assert round(mean, 6) == {"min": 0.002165, "n_gt": 0.001850}[denominator]


def test_gallery_has_123403_images(official: Make) -> None:
    circo = official("circo")
    assert len(gallery(circo)) == 123_403
    assert (len(circo.queries("val")), len(circo.queries("test"))) == (220, 800)
