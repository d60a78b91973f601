"""CIRR on its real files: the golden values of the protocol."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.golden.conftest import Official, rankings, same_ranking, values

Make = Callable[..., Official]


def raw(cirr: Official) -> list[dict]:
    return json.loads((cirr.project.raw("cirr") / "cap.rc2.val.json").read_bytes())


def by_name(cirr: Official) -> pa.Table:
    return same_ranking([q["query_id"] for q in cirr.queries("val")], sorted(cirr.pool("val/gallery")))


def members(cirr: Official, kept: bool = False) -> pa.Table:
    return rankings(
        {str(r["pairid"]): [m for m in r["img_set"]["members"] if kept or m != r["reference"]] for r in raw(cirr)}
    )


@pytest.mark.parametrize(
    ("labels", "wanted"), [("hard", (20.1148, 39.9187, 59.3877)), ("soft", (20.1937, 39.9689, 59.4236))]
)
def test_members_in_file_order(official: Make, labels: str, wanted: tuple[float, ...]) -> None:
    cirr = official("cirr", labels=labels)
    found = values(cirr.score(val_subset=members(cirr)), "val")
    assert found == dict(zip(["Rsubset@1", "Rsubset@2", "Rsubset@3"], wanted, strict=True))


def test_gallery_by_name(official: Make) -> None:
    cirr = official("cirr")
    found = values(cirr.score(val=by_name(cirr)), "val")
    assert {k: found[k] for k in ("R@1", "R@5", "R@10", "R@50")} == {
        "R@1": 0.0478,
        "R@5": 0.1196,
        "R@10": 0.3109,
        "R@50": 2.2004,
    }
    assert "Rsubset@1" in found, "the whole gallery is ranked, so the group is too"
    kept = official("cirr", reference="kept")
    assert values(kept.score(val=by_name(kept)), "val")["R@50"] == 2.1765


@pytest.mark.parametrize(("labels", "first"), [("hard", 100.0), ("soft", 99.0122)])
def test_target_first(official: Make, labels: str, first: float) -> None:
    cirr = official("cirr", labels=labels)
    gallery = sorted(cirr.pool("val/gallery"))
    lists = {
        str(r["pairid"]): [r["target_hard"], *(n for n in gallery if n != r["target_hard"])][:52] for r in raw(cirr)
    }
    found = cirr.score(val=rankings(lists))
    assert values(found, "val")["R@1"] == first
    assert "Rsubset@1" not in values(found, "val"), "52 names do not hold the group"
    assert any("val_subset" in note for note in found.notes)


def test_perfect_soft_ranking(official: Make) -> None:
    cirr = official("cirr", labels="soft")
    gallery = sorted(cirr.pool("val/gallery"))
    lists, groups = {}, {}
    for record in raw(cirr):
        weights = record["target_soft"]
        best = sorted((n for n in weights if weights[n] > 0 and n in gallery), key=lambda n: -weights[n])
        lists[str(record["pairid"])] = [*best, *(n for n in gallery[:70] if n not in best)]
        group = [m for m in record["img_set"]["members"] if m != record["reference"]]
        groups[str(record["pairid"])] = sorted(group, key=lambda n: -weights.get(n, 0))
    found = values(cirr.score(val=rankings(lists), val_subset=rankings(groups)), "val")
    assert (found["R@1"], found["Rsubset@1"]) == (99.9043, 99.5456)


def test_hit_matrix_of_a_real_model(official: Make, shared: Path) -> None:
    with zipfile.ZipFile(shared / "runs" / "cirr" / "cirr_stageII_labels_val.pt") as archive:
        name = next(n for n in archive.namelist() if n.endswith("data/0"))
        hits = np.frombuffer(archive.read(name), np.uint8).reshape(4181, 200).astype(bool)
    cirr = official("cirr")
    gallery = sorted(cirr.pool("val/gallery"))
    lists = {}
    for record, row in zip(raw(cirr), hits, strict=True):
        wrong = iter([n for n in gallery if n not in (record["target_hard"], record["reference"])][:200])
        lists[str(record["pairid"])] = [record["target_hard"] if hit else next(wrong) for hit in row]
    found = values(cirr.score(val=rankings(lists)), "val")
    assert [found[f"R@{k}"] for k in (1, 5, 10, 50)] == [52.906, 82.851, 90.0741, 98.0148]


@pytest.mark.parametrize(
    ("labels", "gallery", "group"),
    [
        ("hard", (0.0436, 0.2178, 0.4355, 2.1777), (20.0, 40.0, 60.0)),
        ("soft", (0.0439, 0.2193, 0.4387, 2.1930), (20.0230, 39.9876, 59.8952)),
    ],
)
def test_constant_scores_give_chance(
    official: Make, labels: str, gallery: tuple[float, ...], group: tuple[float, ...]
) -> None:
    cirr = official("cirr", labels=labels)
    flat = {"query": cirr.queries("val"), "image": [{"query_id": n} for n in cirr.pool("val/gallery")]}
    tables = {
        side: pa.table({"id": [r["query_id"] for r in rows], "embedding": [[0.6, 0.8]] * len(rows)})
        for side, rows in flat.items()
    }
    found = values(cirr.score(**tables), "val")
    assert [found[f"R@{k}"] for k in (1, 5, 10, 50)] == list(gallery)
    assert [found[f"Rsubset@{k}"] for k in (1, 2, 3)] == list(group)


def test_reference_left_in_the_group_is_one_in_six(official: Make) -> None:
    cirr = official("cirr", reference="kept")
    queries = cirr.queries("val")
    lists = members(cirr, kept=True)
    rows = {"query_id": [], "candidate_id": [], "score": []}
    for query, names in zip(lists["query_id"].to_pylist(), lists["candidate_ids"].to_pylist(), strict=True):
        rows["query_id"] += [query] * 6
        rows["candidate_id"] += names
        rows["score"] += [0.5] * 6
    found = values(cirr.score(val_subset=pa.table(rows)), "val")
    assert len(queries) == 4181
    assert found["Rsubset@1"] == round(100 / 6, 4)


def test_counts_are_the_published_ones(official: Make) -> None:
    cirr = official("cirr")
    assert (len(cirr.queries("val")), len(cirr.pool("val/gallery"))) == (4181, 2297)
    assert (len(cirr.queries("test1")), len(cirr.pool("test1/gallery"))) == (4148, 2315)
