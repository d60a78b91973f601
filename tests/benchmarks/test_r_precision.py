"""What both scene-graph benchmarks share: pools of consecutive images, and the measures by a slow oracle."""

import random
from collections import defaultdict
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.r_precision import tables

TASKS = ("graph2image", "image2graph")
CUTS = (10, 50, 100)


def score_of(subset, measure, similarity):
    """The mean of a measure over its trials, an exact fraction; the tied stand in every order alike."""
    pools, right = defaultdict(list), {}
    for row in subset.pools.to_pylist():
        pools[row["pool_id"]].append(row["candidate_id"])
    for row in subset.qrels.to_pylist():
        assert row["query_id"] not in right
        assert row["relevance"] == 1
        right[row["query_id"]] = row["candidate_id"]
    metric, k = measure.metric.split("@")
    found = []
    for row in subset.trials.to_pylist():
        if (row["task"], row["view"]) == (measure.task, measure.view):
            query, pool = row["query_id"], pools[row["pool_id"]]
            assert right[query] in pool
            own = similarity(query, right[query])
            scores = [similarity(query, candidate) for candidate in pool]
            better, tied = sum(s > own for s in scores), sum(s == own for s in scores)
            hit = Fraction(min(tied, max(0, int(k) - better)), tied)
            found.append(hit / int(k) if metric == "P" else hit)
    return sum(found) / len(found)


@pytest.fixture(scope="module", params=["visual_genome", "open_images"])
def subset_and_measures(request, built):
    """The sample's subset, cut to its first 120 images to keep the oracle quick, and the plan by key."""
    found = benchmark(request.param)
    whole, _ = built(request.param)
    order = pools_of(whole, "pool10")
    images = [image for pool in order for image in pool][:123]
    subset, _ = tables(images, images, {})
    return subset, images, {m.key: m for m in found.plan(found.parameters({})).measures}


def pools_of(subset, view):
    """The pools of a view, in the order of their numbers."""
    pools = defaultdict(list)
    for row in subset.pools.to_pylist():
        pools[row["pool_id"]].append(row["candidate_id"])
    names = {row["pool_id"] for row in subset.trials.to_pylist() if row["view"] == view}
    return [pools[name] for name in sorted(names, key=lambda name: int(name.split("/")[1]))]


def test_constant_scores_are_chance(subset_and_measures):
    subset, images, measures = subset_and_measures
    for task in TASKS:
        for k in CUTS:
            pooled, all_, recall = (
                score_of(subset, measures[task, f"{name}@{k}"], lambda query, candidate: 7)
                for name in ("R-Precision_pool", "R-Precision", "R")
            )
            assert pooled == Fraction(1, k)
            assert all_ == Fraction(1, len(images))
            assert recall == Fraction(k, len(images))


def test_a_perfect_run_reaches_the_ceilings(subset_and_measures):
    subset, _, measures = subset_and_measures
    for task in TASKS:
        for k in CUTS:
            pooled, all_, recall = (
                score_of(subset, measures[task, f"{name}@{k}"], lambda query, candidate: query == candidate)
                for name in ("R-Precision_pool", "R-Precision", "R")
            )
            assert (pooled, all_, recall) == (1, Fraction(1, k), 1)


def test_a_score_matrix_as_the_authors_and_the_brief_score_it(subset_and_measures):
    subset, images, measures = subset_and_measures
    n, place = len(images), {image: i for i, image in enumerate(images)}
    draw = random.Random(5)
    matrix = [[draw.random() + (i == j) * draw.random() for j in range(n)] for i in range(n)]  # row: graph
    for task in TASKS:
        rows = matrix if task == "graph2image" else [list(column) for column in zip(*matrix, strict=True)]

        def similarity(query, candidate, rows=rows):
            return rows[place[query]][place[candidate]]

        for k in CUTS:
            hits = 0
            for start in range(0, n - k + 1, k):
                block = [row[start : start + k] for row in rows[start : start + k]]
                hits += sum(row.index(max(row)) == i for i, row in enumerate(block))
            pooled = score_of(subset, measures[task, f"R-Precision_pool@{k}"], similarity)
            assert pooled == Fraction(hits, n // k * k)
            top = sum(i in sorted(range(n), key=row.__getitem__)[::-1][:k] for i, row in enumerate(rows))
            assert score_of(subset, measures[task, f"R-Precision@{k}"], similarity) == Fraction(top, k * n)
            assert score_of(subset, measures[task, f"R@{k}"], similarity) == Fraction(top, n)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 333), st.randoms())
def test_pools_are_consecutive(n, draw):
    images = [f"{i:03d}" for i in range(n)]
    draw.shuffle(images)
    subset, notes = tables(images, [*images, "x"], {"objects": pa.array(range(n), pa.int64())})
    trials = subset.trials.to_pylist()
    for task in TASKS:
        assert {t["query_id"] for t in trials if (t["task"], t["view"]) == (task, "all")} == set(images)
    for k in CUTS:
        pools = pools_of(subset, f"pool{k}")
        assert pools == [images[i : i + k] for i in range(0, n - k + 1, k)]
        assert (n % k > 0) == any(note.startswith(f"pool{k}:") for note in notes)
        for task in TASKS:
            asked = [t for t in trials if (t["task"], t["view"]) == (task, f"pool{k}")]
            assert sorted((t["pool_id"], t["query_id"]) for t in asked) == sorted(
                (f"pool{k}/{i}", image) for i, pool in enumerate(pools) for image in pool
            )
    assert {row["query_id"] for row in subset.qrels.to_pylist()} == set(images)
    assert subset.universe.num_rows == 2 * (n + 1)
    graphs = {(row["task"], row["query_id"]): row["objects"] for row in subset.queries.to_pylist()}
    for i, image in enumerate(images):
        assert graphs["graph2image", image] == i
        assert graphs["image2graph", image] is None  # there the graph is the answer


@pytest.mark.parametrize("name", ["visual_genome", "open_images"])
def test_the_plan(name):
    found = benchmark(name)
    plan = found.plan(found.parameters({}))
    assert [m.key for m in plan.measures] == [
        (task, f"{metric}@{k}") for task in TASKS for metric in ("R-Precision", "R-Precision_pool", "R") for k in CUTS
    ]
    assert not plan.percent
    assert not plan.means
    sides = {t.name: (t.query_side, t.candidate_side, t.guided_side) for t in plan.tasks}
    assert sides == {"graph2image": ("graph", "image", "image"), "image2graph": ("image", "graph", "image")}
    assert found.variants == ("location_free", "location_bound")
    assert benchmark("cirr").variants == ()


@pytest.mark.parametrize("name", ["visual_genome", "open_images"])
def test_the_sample(name, tmp_path, fingerprints):
    found = benchmark(name)
    for folder in ("a", "b"):
        found.sample(tmp_path / folder)
    files = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    for split in found.choices["split"]:
        parameters = found.parameters({"split": split})
        for file in found.files(parameters):
            assert any(one in files for one in file.removesuffix("?").split("|"))
        subset, _ = found.build(tmp_path / "a", parameters)
        assert fingerprints(subset) == fingerprints(found.build(tmp_path / "b", parameters)[0])
        expected = found.expected(parameters)
        assert expected.counts == ()
        for (_, view), size in expected.pool_sizes.items():
            sizes = {len(pool) for pool in pools_of(subset, view)}
            assert sizes == {size}
        text = subset.queries.filter(pa.compute.equal(subset.queries["task"], "graph2image"))["text"]
        assert text.null_count == 0
        assert sum(len(one) > 0 for one in text.to_pylist()) > 300


def counts_of(found, **given):
    """Published numbers by what, task and view."""
    expected = found.expected(found.parameters({"source": "official", **given}))
    assert len(expected.counts) == len({(c.what, c.task, c.view) for c in expected.counts})
    return {(c.what, c.task, c.view): c.number for c in expected.counts}


@pytest.mark.parametrize(
    ("name", "given_", "numbers"),
    [
        ("visual_genome", {}, (32422, 32420, 32400, 32400)),
        ("visual_genome", {"split": "sgg"}, (26446, 26440, 26400, 26400)),
        ("open_images", {}, (5322, 5320, 5300, 5300)),
    ],
)
def test_published_counts(name, given_, numbers):
    views = dict(zip(("all", "pool10", "pool50", "pool100"), numbers, strict=True))
    assert counts_of(benchmark(name), **given_) == {
        (what, task, view): number
        for what in ("queries", "candidates")
        for task in TASKS
        for view, number in views.items()
    }


def test_no_count_where_none_is_published():
    assert counts_of(benchmark("open_images"), split="train") == {}
