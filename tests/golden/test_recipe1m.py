"""Recipe1M+: the official procedure, written slowly, and collapsed embeddings."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.golden.conftest import Official, values


def make(folder: Path, **parameters: object) -> Official:
    return Official(folder / "project", "recipe1m", {"source": "sample", **parameters}, None).make()


def side(ids: list[str], vectors: np.ndarray) -> pa.Table:
    order = np.random.default_rng(5).permutation(len(ids))
    flat = pa.array(vectors[order].astype(np.float32).ravel())
    return pa.table(
        {"id": [ids[i] for i in order], "embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}
    )


def slow(left: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """The official procedure on one draw: sort every row, look up the place of the right one."""
    left = left / np.linalg.norm(left, axis=1, keepdims=True)
    right = right / np.linalg.norm(right, axis=1, keepdims=True)
    ranks = []
    for i in range(len(left)):
        order = np.argsort(-(right @ left[i]))
        ranks.append(int(np.flatnonzero(order == i)[0]) + 1)
    found = {f"R@{k}": 100 * sum(r <= k for r in ranks) / len(ranks) for k in (1, 5, 10)}
    return {"medR": float(np.median(ranks)), **found}


@pytest.mark.parametrize("sampler", ["official", "hash"])
def test_metrics_equal_the_official_procedure(tmp_path: Path, sampler: str) -> None:
    recipe1m = make(tmp_path, sizes=[1000, 700], repeats=3, sampler=sampler)
    ids = sorted(
        recipe1m.subset.universe.filter(pa.compute.equal(recipe1m.subset.universe["side"], "image"))["id"].to_pylist()
    )
    rng = np.random.default_rng(1)
    recipes = rng.normal(size=(len(ids), 48))
    images = recipes + 2.2 * rng.normal(size=recipes.shape)
    found = recipe1m.score(image=side(ids, images), recipe=side(ids, recipes))
    place = {x: i for i, x in enumerate(ids)}
    images, recipes = images.astype(np.float32).astype(float), recipes.astype(np.float32).astype(float)
    for view, size in (("1k", 1000), ("700", 700)):
        draws = [[place[x] for x in sorted(recipe1m.pool(f"{view}/{s}"))] for s in range(3)]
        assert [len(d) for d in draws] == [size] * 3
        for task, left, right in (("im2recipe", images, recipes), ("recipe2im", recipes, images)):
            wanted = [slow(left[d], right[d]) for d in draws]
            for name in wanted[0]:
                each = [w[name] for w in wanted]
                value = found.values[(task, view, name)]
                assert value.mean == pytest.approx(np.mean(each), abs=1e-9)
                assert value.std == pytest.approx(np.std(each), abs=1e-9)
    if sampler == "official":
        kept = recipe1m.manifest["notes"][0]
        n = int(kept.split()[0])
        assert len(set(random.Random(1234).sample(range(n), 1000))) == 1000


def test_collapsed_embeddings_give_exactly_chance(tmp_path: Path) -> None:
    recipe1m = make(tmp_path, sizes=[1000], repeats=10)
    ids = recipe1m.subset.universe.filter(pa.compute.equal(recipe1m.subset.universe["side"], "image"))["id"].to_pylist()
    one = np.random.default_rng(2).normal(size=700)
    flat = side(ids, np.tile(one, (len(ids), 1)))
    found = recipe1m.score(image=flat, recipe=flat)
    for task in ("im2recipe", "recipe2im"):
        assert values(found, task, "1k") == {"medR": 500.5, "R@1": 0.1, "R@5": 0.5, "R@10": 1.0}
        assert all(found.values[(task, "1k", m)].std == 0 for m in ("medR", "R@1", "R@5", "R@10"))
        assert values(found, task, "10way") == {"R@1": 10.0}


def test_recipe_ids_are_strings_and_a_ranking_serves_every_draw(tmp_path: Path) -> None:
    recipe1m = make(tmp_path, sizes=[50], repeats=2, ten_way=False)
    ids = sorted({c for s in range(2) for c in recipe1m.pool(f"50/{s}")})
    lists = pa.table({"query_id": ids, "candidate_ids": [[q, *(c for c in ids if c != q)] for q in ids]})
    found = recipe1m.score(im2recipe=lists)
    assert values(found, "im2recipe", "50") == {"medR": 1.0, "R@1": 100.0, "R@5": 100.0, "R@10": 100.0}
    assert not values(found, "recipe2im", "50")
