"""GeneCIS: pools, repeats and chance on the real object files; ids and bad raw files on the sample."""

import json
from collections import Counter

import pytest

from rankledger.benchmarks import benchmark

TASKS = ("focus_attribute", "change_attribute", "focus_object", "change_object")
OBJECTS = ["change_object", "focus_object"]


@pytest.fixture(scope="module")
def real(shared, built):
    return built("genecis", shared / "mirror" / "genecis", tasks=OBJECTS)


def chance(trials, k):
    """R@K of constant scores, in percent: every order of a pool is as likely as any other."""
    shares = [sum(t.gains(t.pool)) * min(k, len(t.pool)) / len(t.pool) for t in trials]
    return 100 * sum(shares) / len(shares)


def test_counts_and_pools(real, asked):
    subset, _ = real
    for task in OBJECTS:
        trials = asked(subset, task, "all")
        assert len(trials) == 1960
        assert {t.query["query_id"] for t in trials} == {f"{task}/{i}" for i in range(1960)}
        sizes = {t.query["query_id"]: len(t.pool) for t in trials}
        assert {query: size for query, size in sizes.items() if size != 15} == (
            {"change_object/19": 14} if task == "change_object" else {}
        )
    assert set(subset.trials["task"].to_pylist()) == set(OBJECTS)


def test_record_19(real, asked, shared):
    record = json.loads((shared / "mirror" / "genecis" / "change_object.json").read_bytes())[19]
    assert record["target"] in record["gallery"]
    trial = next(t for t in asked(real[0], "change_object", "all") if t.query["query_id"] == "change_object/19")
    assert trial.right == {str(record["target"]["val_image_id"]): 1.0}
    assert set(trial.pool) == {str(image["val_image_id"]) for image in record["gallery"]}
    assert "change_object: 1 record(s) list a candidate twice, which counts once: 19" in real[1]


def test_repeats_stay(real, asked):
    subset, notes = real
    for task, repeats in (("focus_object", 427), ("change_object", 167)):
        same = Counter(
            (t.query["reference_id"], t.query["text"], tuple(t.pool), tuple(t.right))
            for t in asked(subset, task, "all")
        )
        assert sum(n - 1 for n in same.values()) >= repeats  # the same pool in another order is more than a copy
        assert f"{task}: {repeats} record(s) repeat an earlier one in full; each is a query" in notes


def test_chance(real, asked):
    golden = {"focus_object": (6.6667, 13.3333, 20.0), "change_object": (6.6669, 13.3338, 20.0007)}
    for task, values in golden.items():
        trials = asked(real[0], task, "all")
        assert tuple(round(chance(trials, k), 4) for k in (1, 2, 3)) == values


def test_every_query_has_its_target(real, asked, shared):
    for task in OBJECTS:
        records = json.loads((shared / "mirror" / "genecis" / f"{task}.json").read_bytes())
        for trial in asked(real[0], task, "all"):
            record = records[int(trial.query["query_id"].split("/")[1])]
            assert trial.right == {str(record["target"]["val_image_id"]): 1.0}
            assert trial.gains(trial.pool).count(1.0) == 1
            assert trial.query["reference_id"] == str(record["reference"]["val_image_id"])
            assert trial.query["text"] == record["condition"]


def test_official_counts(real, asked):
    parameters = benchmark("genecis").parameters({"source": "official"})
    expected = benchmark("genecis").expected(parameters)
    published = {count.task: count.number for count in expected.counts}
    assert published == {
        "focus_attribute": 2000,
        "change_attribute": 2112,
        "focus_object": 1960,
        "change_object": 1960,
    }
    assert sum(published.values()) == 8032
    assert expected.pool_sizes == {(task, "all"): 10 if task == "focus_attribute" else 15 for task in TASKS}
    assert expected.odd_pools == {"change_object/19": 14}
    few = benchmark("genecis").expected(parameters | {"tasks": ["focus_object"]})
    assert not few.odd_pools
    assert set(few.pool_sizes) == {("focus_object", "all")}
    assert not benchmark("genecis").expected(benchmark("genecis").parameters({})).counts


def test_sample_keeps_to_what_is_expected(built, asked):
    subset, _ = built("genecis")
    expected = benchmark("genecis").expected(benchmark("genecis").parameters({}))
    for task in TASKS:
        trials = asked(subset, task, "all")
        assert len(trials) == 80
        for trial in trials:
            size = expected.odd_pools.get(trial.query["query_id"], expected.pool_sizes[task, "all"])
            assert len(trial.pool) == size
            assert trial.gains(trial.pool).count(1.0) == 1
            assert trial.query["reference_id"] not in trial.pool
    pools = set(subset.trials["pool_id"].to_pylist())
    assert set(expected.odd_pools) <= pools


def test_numbers_stand_as_the_file_writes_them(built, tmp_path):
    found = benchmark("genecis")
    image = '{{"image_id": {}, "instance_bbox": [{}]}}'
    crops = [image.format(2300000 + i, f"{i}, 8.0, 1e1, 10.50") for i in range(11)]
    record = '[{{"condition": "red", "reference": {}, "target": {}, "gallery": [{}]}}]'
    (tmp_path / "focus_attribute.json").write_text(record.format(crops[0], crops[1], ", ".join(crops[2:])))
    subset, _ = found.build(tmp_path, found.parameters({"tasks": ["focus_attribute"]}))
    assert subset.queries.to_pylist() == [
        {
            "query_id": "focus_attribute/0",
            "task": "focus_attribute",
            "reference_id": "2300000:0,8.0,1e1,10.50",
            "text": "red",
        }
    ]
    assert subset.qrels.to_pylist() == [
        {"query_id": "focus_attribute/0", "candidate_id": "2300001:1,8.0,1e1,10.50", "relevance": 1.0}
    ]
    assert subset.pools.num_rows == 10
    ids = [row["id"] for row in subset.universe.to_pylist() if row["side"] == "image"]
    assert sorted(ids) == sorted(f"{2300000 + i}:{i},8.0,1e1,10.50" for i in range(11))


def test_the_position_is_the_id(built, edited, fingerprints):
    """Turning the records round is another benchmark; turning a gallery round is the same."""
    before = fingerprints(built("genecis")[0])

    def records(content):
        content.reverse()

    def galleries(content):
        for record in content:
            record["gallery"].reverse()

    assert fingerprints(edited("genecis", "focus_object.json", records)) != before
    assert fingerprints(edited("genecis", "focus_object.json", galleries)) == before


def test_plan_and_files_follow_the_tasks():
    found = benchmark("genecis")
    every = found.plan(found.parameters({}))
    assert [t.name for t in every.tasks] == list(TASKS)
    assert [(m.task, m.view, m.metric, m.key) for m in every.measures] == [
        (task, "all", f"R@{k}", (task, f"R@{k}")) for task in TASKS for k in (1, 2, 3)
    ]
    assert [m.key for m in every.means] == [("mean", f"R@{k}") for k in (1, 2, 3)]
    assert all(m.of == tuple((task, m.key[1]) for task in TASKS) for m in every.means)
    assert found.files(found.parameters({})) == tuple(f"{task}.json" for task in TASKS)
    two = found.parameters({"tasks": OBJECTS})
    assert [t.name for t in found.plan(two).tasks] == ["focus_object", "change_object"]
    assert found.plan(two).means == ()
    assert found.files(two) == ("focus_object.json", "change_object.json")


def test_the_order_of_tasks_in_params_does_not_matter(built, fingerprints):
    one, other = (built("genecis", tasks=tasks)[0] for tasks in (OBJECTS, OBJECTS[::-1]))
    assert fingerprints(one) == fingerprints(other)


def test_sample_is_the_same_each_time(tmp_path):
    for folder in ("one", "two"):
        benchmark("genecis").sample(tmp_path / folder)
    names = {p.name for p in (tmp_path / "one").iterdir()}
    assert names == {f"{task}.json" for task in TASKS}
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)


def put(i, key, value):
    def change(records):
        records[i][key] = value

    return change


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("focus_object.json", put(3, "condition", None), "'condition' is missing or of a wrong type"),
        ("focus_object.json", put(3, "condition", 5), "'condition' is missing or of a wrong type"),
        ("focus_object.json", put(3, "target", {"image_id": 1}), "'target.val_image_id' is missing"),
        ("focus_object.json", put(3, "target", {"val_image_id": None}), "'target.val_image_id' is missing"),
        ("change_object.json", put(3, "gallery", [{"val_image_id": 1}, {}]), "'gallery' is missing or of"),
        ("focus_attribute.json", put(3, "reference", {"val_image_id": 1}), "'reference.image_id' is missing"),
        (
            "focus_attribute.json",
            put(3, "reference", {"image_id": 1, "instance_bbox": [1, 2, 3]}),
            "an instance_bbox that is not 4 numbers in 1 record (3)",
        ),
        (
            "change_attribute.json",
            put(3, "target", {"image_id": 1, "instance_bbox": [1, 2, 3, "4"]}),
            "'target.instance_bbox' is missing or of a wrong type in 1 record (3)",
        ),
        ("focus_object.json", lambda records: [], "an empty list"),
        ("focus_object.json", lambda records: {"0": records[0]}, "its content is missing or of a wrong type"),
    ],
)  # fmt: skip
def test_bad_raw_files(refusal, file, change, says):
    assert says in refusal("genecis", file, change)
