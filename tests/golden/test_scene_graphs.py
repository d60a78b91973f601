"""R-Precision at full size: constant scores give exactly chance, a perfect run the ceilings."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.golden.conftest import Official


def visual_genome(folder: Path, shared: Path) -> Official:
    ids = [int(x) for x in (shared / "mirror" / "visual_genome" / "image_ids.txt").read_text().split()]
    made = Official(folder / "project", "visual_genome", {}, None)
    inbox = made.project.inbox("visual_genome")
    inbox.mkdir(parents=True)
    keys = ("width", "height", "coco_id", "flickr_id")
    rows = [{"image_id": i, "url": f"https://example.org/{i}.jpg", **dict.fromkeys(keys, 1)} for i in ids]
    (inbox / "image_data.json").write_text(json.dumps(rows))
    return made.make()


def open_images(folder: Path) -> Official:
    made = Official(folder / "project", "open_images", {}, None)
    inbox = made.project.inbox("open_images")
    inbox.mkdir(parents=True)
    head = "ImageID,LabelName1,LabelName2,XMin1,XMax1,YMin1,YMax1,XMin2,XMax2,YMin2,YMax2,RelationshipLabel"
    rows = [f"{i:016x},/m/01,/m/02,0,0.5,0,0.5,0.5,1,0.5,1,at" for i in range(5322)]
    (inbox / "oidv6-test-annotations-vrd.csv").write_text("\n".join([head, *rows]) + "\n")
    return made.make()


def sides(ids: list[str], vectors: np.ndarray) -> dict[str, pa.Table]:
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).ravel()), vectors.shape[1])
    return {side: pa.table({"id": ids, "embedding": flat}) for side in ("graph", "image")}


def check(made: Official, counts: dict[str, int]) -> None:
    trials = made.subset.trials
    for view, n in counts.items():
        chosen = trials.filter(pa.compute.equal(trials["view"], view))
        for task in ("graph2image", "image2graph"):
            assert chosen.filter(pa.compute.equal(chosen["task"], task)).num_rows == n
    ids = sorted(q["query_id"] for q in made.queries("graph2image"))
    n = len(ids)
    flat = made.score(**sides(ids, np.ones((n, 2))))
    for task in ("graph2image", "image2graph"):
        for k in (10, 50, 100):
            assert flat.values[(task, f"R-Precision_pool@{k}")].mean == pytest.approx(1 / k, abs=1e-12)
            assert flat.values[(task, f"R-Precision@{k}")].mean == pytest.approx(1 / n, abs=1e-12)
            assert flat.values[(task, f"R@{k}")].mean == pytest.approx(k / n, abs=1e-12)
            assert flat.values[(task, f"R-Precision@{k}")].ceiling == pytest.approx(1 / k, abs=1e-12)


def test_visual_genome(tmp_path: Path, shared: Path) -> None:
    check(visual_genome(tmp_path, shared), {"all": 32_422, "pool10": 32_420, "pool50": 32_400, "pool100": 32_400})


def test_open_images(tmp_path: Path) -> None:
    made = open_images(tmp_path)
    check(made, {"all": 5_322, "pool10": 5_320, "pool50": 5_300, "pool100": 5_300})
    ids = sorted(q["query_id"] for q in made.queries("graph2image"))
    perfect = made.score(**sides(ids, np.random.default_rng(3).normal(size=(len(ids), 24))))
    for task in ("graph2image", "image2graph"):
        for k in (10, 50, 100):
            assert perfect.values[(task, f"R-Precision_pool@{k}")].mean == 1
            assert perfect.values[(task, f"R-Precision@{k}")].mean == pytest.approx(1 / k, abs=1e-12), "its ceiling"
            assert perfect.values[(task, f"R@{k}")].mean == 1
