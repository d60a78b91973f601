"""FashionIQ: both galleries and golden values on the real files; each bad raw file is refused."""

import json

import pytest

from rankledger.benchmarks import benchmark

TASKS = ("dress", "shirt", "toptee")
GOLDEN = {  # R@10, R@50 of the gallery sorted by ASIN
    "original": {"dress": (0.2975, 1.2395), "shirt": (0.1963, 0.7851), "toptee": (0.204, 0.8669)},
    "val": {"dress": (0.3471, 1.7848), "shirt": (0.3435, 1.6683), "toptee": (0.306, 1.5298)},
}
CHANCE = {
    "original": {"dress": (0.262, 1.3099), "shirt": (0.1576, 0.7879), "toptee": (0.1861, 0.9306)},
    "val": {"dress": (0.3805, 1.9026), "shirt": (0.3237, 1.6186), "toptee": (0.3446, 1.7229)},
}
SIZES = {
    "original": {"dress": 3817, "shirt": 6346, "toptee": 5373},
    "val": {"dress": 2628, "shirt": 3089, "toptee": 2902},
}
BOTH = ["original", "val"]


@pytest.fixture(scope="module")
def raw(shared):
    return shared / "mirror" / "fashioniq"


@pytest.fixture(scope="module")
def subset(raw, built):
    return built("fashioniq", raw, galleries=BOTH)[0]


def recall(trials, ranking, k):
    """Share of the queries with their target among the top K, in percent to 4 decimals."""
    hits = [sum(t.gains(ranking(t))[:k]) for t in trials]
    return round(100 * sum(hits) / len(hits), 4)


@pytest.mark.parametrize("view", BOTH)
@pytest.mark.parametrize("task", TASKS)
def test_counts_and_galleries(subset, asked, task, view):
    trials = asked(subset, task, view)
    number = {"dress": 2017, "shirt": 2038, "toptee": 1961}[task]
    assert {t.query["query_id"] for t in trials} == {f"{task}/{i}" for i in range(number)}
    assert len(trials) == number
    assert {len(t.members) for t in trials} == {SIZES[view][task]}
    assert all(len(t.right) == 1 and t.members >= {*t.right, t.query["reference_id"]} for t in trials)
    if view == "val":
        named = {t.query["reference_id"] for t in trials} | {image for t in trials for image in t.right}
        assert trials[0].members == named
    counts = benchmark("fashioniq").expected({"source": "official", "galleries": BOTH}).counts
    assert {(c.what, c.number) for c in counts if (c.task, c.view) == (task, view)} == {
        ("queries", number),
        ("candidates", SIZES[view][task]),
    }


@pytest.mark.parametrize("view", BOTH)
@pytest.mark.parametrize("task", TASKS)
def test_gallery_by_asin(subset, asked, task, view):
    trials = asked(subset, task, view)
    assert tuple(recall(trials, lambda t: t.everyone[:50], k) for k in (10, 50)) == GOLDEN[view][task]
    assert tuple(round(100 * k / SIZES[view][task], 4) for k in (10, 50)) == CHANCE[view][task]


def test_references_are_no_ids(subset, asked):
    trials = asked(subset, "dress", "original")
    assert len({t.query["reference_id"] for t in trials}) == 1331


def test_captions(raw, built):
    subset, notes = built("fashioniq", raw, galleries=BOTH)
    rows = {row["query_id"]: row for row in subset.queries.to_pylist()}
    for task in TASKS:
        for i, record in enumerate(json.loads((raw / f"cap.{task}.val.json").read_bytes())):
            assert rows[f"{task}/{i}"]["captions"] == record["captions"]
    assert sum(not caption.strip() for row in rows.values() for caption in row["captions"]) == 3
    assert notes == [
        "shirt: 1 blank caption(s), kept as they are",
        "toptee: 2 blank caption(s), kept as they are",
    ]
    assert rows["dress/0"]["text"] == "is shiny and silver with shorter sleeves and fit and flare"
    blank = next(row for row in rows.values() if not row["captions"][0].strip() or not row["captions"][1].strip())
    assert blank["text"] == "".join(caption.strip() for caption in blank["captions"])


@pytest.mark.parametrize("view", BOTH)
def test_reference_kept_or_removed(raw, built, asked, view):
    def tenth_or_eleventh(trial):
        wrong = [c for c in trial.everyone[:12] if c not in {*trial.right, trial.query["reference_id"]}]
        return [*wrong[:9], trial.query["reference_id"], *trial.right]

    for reference, value in (("kept", 0), ("removed", 100)):
        subset, _ = built("fashioniq", raw, galleries=BOTH, reference=reference)
        for task in TASKS:
            assert recall(asked(subset, task, view), tenth_or_eleventh, 10) == value


def test_galleries_are_views(raw, built, fingerprints, subset):
    original, val = (built("fashioniq", raw, galleries=[view])[0] for view in BOTH)
    assert set(original.trials["view"].to_pylist()) == {"original"}
    assert set(val.trials["view"].to_pylist()) == {"val"}
    assert original.trials.num_rows + val.trials.num_rows == subset.trials.num_rows
    one, other, both = map(fingerprints, (original, val, subset))
    assert one["universe"] == other["universe"] == both["universe"]
    assert one["qrels"] == other["qrels"] == both["qrels"]
    assert fingerprints(built("fashioniq", raw, galleries=BOTH[::-1])[0]) == both


def test_plan():
    found = benchmark("fashioniq")
    plan = found.plan(found.parameters({"galleries": BOTH}))
    assert {(m.task, m.view, m.metric, m.key) for m in plan.measures} == {
        (task, view, f"R@{k}", (task, view, f"R@{k}")) for task in TASKS for view in BOTH for k in (10, 50)
    }
    means = {m.key: m.of for m in plan.means}
    for view in BOTH:
        for k in (10, 50):
            assert means["mean", view, f"R@{k}"] == tuple((task, view, f"R@{k}") for task in TASKS)
        for row in (*TASKS, "mean"):
            assert means[row, view, "mean"] == ((row, view, "R@10"), (row, view, "R@50"))
    assert len(means) == 2 * (2 + 4)
    keys = [m.key for m in plan.means]
    assert all(keys.index(of) < i for i, m in enumerate(plan.means) for of in m.of if of in keys)
    assert {m.view for m in found.plan(found.parameters({})).measures} == {"original"}


def test_sample(built, asked, tmp_path):
    subset, notes = built("fashioniq", galleries=BOTH)
    for task in TASKS:
        original, val = (asked(subset, task, view) for view in BOTH)
        assert len(original) == len(val) == 120
        assert val[0].members < original[0].members
        assert all(t.members >= set(t.right) and t.query["reference_id"] not in t.right for t in val)
    assert notes == ["shirt: 1 blank caption(s), kept as they are"]
    for folder in ("one", "two"):
        benchmark("fashioniq").sample(tmp_path / folder)
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == sorted(benchmark("fashioniq").files({}))
    for file in benchmark("fashioniq").files({}):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_position_is_the_id(built, edited, fingerprints):
    before = fingerprints(built("fashioniq", galleries=BOTH)[0])
    assert fingerprints(edited("fashioniq", "cap.shirt.val.json", lambda r: r[::-1], galleries=BOTH)) != before
    assert fingerprints(edited("fashioniq", "split.shirt.val.json", lambda r: r[::-1], galleries=BOTH)) == before


def test_one_changed_caption_shows_in_the_queries_only(built, edited, fingerprints):
    """Copies of the files drift by a letter or two: what differs is in the text, not in ids or answers."""
    before = fingerprints(built("fashioniq")[0])
    after = fingerprints(edited("fashioniq", "cap.dress.val.json", put(3, "captions", ["is redd", "has lace"])))
    assert {name for name in before if before[name] != after[name]} == {"queries"}


def put(i, key, value):
    def change(records):
        records[i][key] = value

    return change


def drop(key):
    def change(records):
        for record in records:
            del record[key]

    return change


CAP, SPLIT = "cap.toptee.val.json", "split.toptee.val.json"


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        (CAP, drop("target"), "'target' is missing or of a wrong type in 120 records (0, 1, 2, …)"),
        (CAP, put(3, "captions", "is red"), "'captions' is missing or of a wrong type in 1 record (3)"),
        (CAP, put(3, "captions", ["is red"]), "captions that are not two in 1 record (3)"),
        (CAP, put(3, "candidate", "B00NOWHERE"), "an image that the split file does not list in 1"),
        (CAP, put(3, "target", "B00NOWHERE"), "an image that the split file does not list in 1"),
        (CAP, lambda r: put(3, "target", r[3]["candidate"])(r), "a target equal to the"),
        (SPLIT, lambda names: [*names, names[0]], "an image that an earlier record is in 1 record (400)"),
        (SPLIT, lambda names: [*names, 7], "the record is missing or of a wrong type in 1 record (400)"),
        (SPLIT, lambda names: [], "an empty list"),
    ],
)  # fmt: skip
def test_bad_raw_files(refusal, file, change, says):
    assert says in refusal("fashioniq", file, change)
