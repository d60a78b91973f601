"""CIRCO: golden values on the real files by a slow reading of the tables; each bad raw file is refused."""

import json
import random
import zipfile

import pytest

from rankledger.benchmarks import benchmark
from rankledger.tables import InputError

CUTOFFS = (5, 10, 25, 50)
IMAGES = "image_info_unlabeled2017.zip"


@pytest.fixture(scope="module")
def raw(shared):
    return shared / "mirror" / "circo"


@pytest.fixture(scope="module")
def records(raw):
    return {str(r["id"]): r for r in json.loads((raw / "val.json").read_bytes())}


@pytest.fixture(scope="module")
def trials(raw, built, asked):
    """The 220 trials of val, with the reference kept or removed."""

    def of(reference="kept"):
        return asked(built("circo", raw, reference=reference)[0], "val", "all")

    return of


def ap(trial, ranking, k, denominator):
    """AP@K: the precision at each hit, over all right images, or over as many of them as fit in K."""
    hits = [gain > 0 for gain in trial.gains(ranking)[:k]]
    total = sum(sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit)
    return total / {"n_gt": len(trial.right), "min": min(len(trial.right), k)}[denominator]


def recall(trial, ranking, k):
    """Whether the target, the one of relevance 2, is among the top K."""
    return float(2 in trial.gains(ranking)[:k])


def percent(values):
    return round(100 * sum(values) / len(values), 4)


def m_ap(trials, ranking, denominator="min"):
    return [percent([ap(t, ranking(t), k, denominator) for t in trials]) for k in CUTOFFS]


def right_ones(record):
    return [str(image) for image in record["gt_img_ids"]]


def test_counts(raw, built, asked):
    subset, notes = built("circo", raw)
    for task, number in (("val", 220), ("test", 800)):
        found = asked(subset, task, "all")
        assert {t.query["query_id"] for t in found} == {str(i) for i in range(number)}
        assert {len(t.members) for t in found} == {123_403}
    assert notes == []
    assert set(subset.qrels["task"].to_pylist()) == {"val"}
    sides = subset.universe["side"].to_pylist()
    assert {side: sides.count(side) for side in set(sides)} == {
        "image": 123_403,
        "query": 220,
        "test_query": 800,
    }
    expected = benchmark("circo").expected({"source": "official"})
    assert {(c.what, c.task, c.number) for c in expected.counts} == {
        ("queries", "val", 220),
        ("queries", "test", 800),
        ("candidates", "val", 123_403),
        ("candidates", "test", 123_403),
    }
    assert not benchmark("circo").expected({"source": "sample"}).counts


def test_right_images(trials, records):
    for trial in trials():
        record = records[trial.query["query_id"]]
        assert sorted(trial.right) == sorted(right_ones(record))
        assert [image for image, gain in trial.right.items() if gain == 2] == [str(record["target_img_id"])]
        assert trial.query["aspects"] == sorted(record["semantic_aspects"])
        assert trial.query["shared_concept"] == record["shared_concept"]
        assert trial.query["text"] == record["relative_caption"]


def test_sample_submission(shared, trials):
    lists = json.loads((shared / "runs" / "circo" / "submission_val.json").read_bytes())

    def ranking(trial):
        return [str(image) for image in lists[trial.query["query_id"]]]

    for reference in ("kept", "removed"):  # this file cannot tell them apart
        assert m_ap(trials(reference), ranking) == [0.4861, 0.5178, 0.54, 0.602]
    recalls = [percent([recall(t, ranking(t), k) for t in trials()]) for k in CUTOFFS]
    assert recalls == [0.9091, 0.9091, 1.3636, 3.6364]
    aspects = {}
    for trial in trials():
        for aspect in trial.query["aspects"]:
            aspects.setdefault(aspect, []).append(ap(trial, ranking(trial), 10, "min"))
    assert {aspect: percent(values) for aspect, values in aspects.items()} == {
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


def test_both_denominators(trials, records):
    wrong = "533083"
    assert all(wrong not in trial.right for trial in trials())

    def perfect(trial):
        return right_ones(records[trial.query["query_id"]])

    def one_wrong(trial):
        return [wrong, *perfect(trial)]

    assert m_ap(trials(), perfect, "min") == [100, 100, 100, 100]
    assert m_ap(trials(), perfect, "n_gt") == [90.5135, 99.4018, 100, 100]
    assert m_ap(trials(), one_wrong, "min") == [58.3071, 64.7493, 65.3596, 65.3596]
    assert m_ap(trials(), one_wrong, "n_gt") == [53.1527, 64.3264, 65.3596, 65.3596]


def test_reference_kept_or_removed(trials, records):
    def reference_first(trial):
        return [trial.query["reference_id"], *right_ones(records[trial.query["query_id"]])]

    assert m_ap(trials("kept"), reference_first)[0] == 58.3071
    assert m_ap(trials("removed"), reference_first)[0] == 100


def test_exclusions_are_those_of_the_task(raw, built, asked):
    """Query "0" of val and of test are two: the reference of one stays in the pool of the other."""
    subset, _ = built("circo", raw, reference="removed")
    references = {}
    for task in ("val", "test"):
        for trial in asked(subset, task, "all"):
            assert trial.out == {trial.query["reference_id"]}
            references[task, trial.query["query_id"]] = trial.query["reference_id"]
    assert references["val", "0"] != references["test", "0"]
    assert subset.exclusions.num_rows == 1020
    assert built("circo", raw)[0].exclusions.num_rows == 0


def test_recall_is_of_the_target(trials, records):
    def target_last(trial):
        first, *others = right_ones(records[trial.query["query_id"]])
        return [*others, first]

    recalls = [percent([recall(t, target_last(t), k) for t in trials()]) for k in CUTOFFS]
    assert recalls == [74.0909, 95.9091, 100, 100]


def test_plan():
    found = benchmark("circo")
    plan = found.plan(found.parameters({}))
    rows = [(m.task, m.view, m.metric, m.key, m.where) for m in plan.measures]
    assert rows[:8] == [
        *(("val", "all", f"AP(denominator=min)@{k}", ("val", f"mAP@{k}"), None) for k in CUTOFFS),
        *(("val", "all", f"R(rel=2)@{k}", ("val", f"R@{k}"), None) for k in CUTOFFS),
    ]
    assert len(rows) == 8 + 9
    for task, view, metric, (group, aspect), where in rows[8:]:
        assert (task, view, metric, group, where) == (
            "val",
            "all",
            "AP(denominator=min)@10",
            "aspects",
            ("aspects", aspect),
        )
    assert {t.name: t.hidden for t in plan.tasks} == {"val": False, "test": True}
    by_n_gt = found.plan(found.parameters({"ap_denominator": "n_gt"}))
    assert {m.metric for m in by_n_gt.measures if m.key[1].startswith("mAP")} == {f"AP@{k}" for k in CUTOFFS}
    assert {m.metric for m in by_n_gt.measures if m.key[0] == "aspects"} == {"AP@10"}


def test_sample(built, asked, tmp_path):
    subset, _ = built("circo")
    found = asked(subset, "val", "all")
    aspects = {m.key[1] for m in benchmark("circo").plan({"ap_denominator": "min"}).measures if m.where}
    assert {aspect for t in found for aspect in t.query["aspects"]} == aspects
    assert len(aspects) == 9
    assert max(len(t.right) for t in found) > 10
    assert min(len(t.right) for t in found) == 1
    assert all(list(t.right.values()).count(2) == 1 and t.members >= set(t.right) for t in found)
    assert all(t.query["reference_id"] not in t.right for t in found)
    for folder in ("one", "two"):
        benchmark("circo").sample(tmp_path / folder)
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == sorted(benchmark("circo").files({}))
    for file in benchmark("circo").files({}):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_order_of_the_raw_lists_does_not_matter(built, edited, fingerprints):
    def shuffle(records):
        random.Random(1).shuffle(records)
        for record in records:
            record.get("gt_img_ids", []).reverse()
            record.get("semantic_aspects", []).reverse()

    before = fingerprints(built("circo", reference="removed")[0])
    for file in ("val.json", "test.json"):
        assert fingerprints(edited("circo", file, shuffle, reference="removed")) == before


def test_an_absent_aspect_is_noted(tmp_path):
    found = benchmark("circo")
    found.sample(tmp_path)
    records = json.loads((tmp_path / "val.json").read_bytes())
    for record in records:
        record["semantic_aspects"] = [a for a in record["semantic_aspects"] if a != "negation"]
    (tmp_path / "val.json").write_text(json.dumps(records))
    assert found.build(tmp_path, found.parameters({}))[1] == ["val: no record has the aspect negation"]


def test_denominator_is_in_the_plan_only(built, fingerprints):
    one, other = (fingerprints(built("circo", ap_denominator=d)[0]) for d in ("min", "n_gt"))
    assert one == other


def put(i, key, value):
    def change(records):
        records[i][key] = value

    return change


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("val.json", put(3, "id", 2), "an id that an earlier record has in 1 record (3)"),
        ("val.json", put(3, "id", "3"), "'id' is missing or of a wrong type in 1 record (3)"),
        ("val.json", put(3, "reference_img_id", 5), f"a reference that {IMAGES} does not list in 1"),
        ("test.json", put(3, "reference_img_id", 5), f"a reference that {IMAGES} does not list in 1"),
        ("val.json", put(3, "gt_img_ids", [5]), f"a right image that {IMAGES} does not list in 1 record (3)"),
        ("val.json", put(3, "target_img_id", 5), "a target that is not among gt_img_ids in 1 record (3)"),
        ("val.json", put(3, "semantic_aspects", ["size"]), "an unknown semantic aspect in 1 record (3)"),
        ("val.json", put(3, "gt_img_ids", []), "a target that is not among gt_img_ids in 1 record (3)"),
        ("test.json", put(3, "relative_caption", None), "'relative_caption' is missing or of a wrong type"),
        ("test.json", lambda records: records.append([]), "the record is missing or of a wrong type"),
    ],
)  # fmt: skip
def test_bad_raw_files(refusal, file, change, says):
    assert says in refusal("circo", file, change)


def test_contradictions(refusal):
    def twice(records):
        records[7]["gt_img_ids"].append(records[7]["target_img_id"])

    assert "a right image named twice in 1 record (7)" in refusal("circo", "val.json", twice)

    def own(records):
        records[7]["gt_img_ids"].append(records[7]["reference_img_id"])

    assert "a reference that is among gt_img_ids in 1 record (7)" in refusal("circo", "val.json", own)


def archive(path, name, text):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, text)


NAME = "annotations/image_info_unlabeled2017.json"


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "not a whole zip file"),
        (lambda path: path.write_text("<html>log in</html>"), "not a whole zip file"),
        (lambda path: path.unlink(), "no such file"),
        (lambda path: archive(path, "annotations/other.json", "{}"), "no image_info_unlabeled2017.json"),
        (lambda path: archive(path, NAME, "{"), "not JSON"),
        (lambda path: archive(path, NAME, '{"images": [{"file_name": "1.jpg"}]}'), "'images' is missing"),
        (lambda path: archive(path, NAME, '{"images": [{"id": 1}, {"id": 1}]}'), "an image id that an"),
    ],
)  # fmt: skip
def test_bad_archives(tmp_path, write, says):
    found = benchmark("circo")
    found.sample(tmp_path)
    write(tmp_path / IMAGES)
    with pytest.raises(InputError, match=says) as caught:
        found.build(tmp_path, found.parameters({}))
    assert "\n" not in str(caught.value)
    assert IMAGES in str(caught.value)


def test_a_damaged_archive(tmp_path):
    """A byte changed inside the member: its checksum differs."""
    found = benchmark("circo")
    found.sample(tmp_path)
    content = bytearray((tmp_path / IMAGES).read_bytes())
    content[3000] ^= 1
    (tmp_path / IMAGES).write_bytes(content)
    with pytest.raises(InputError, match="not a whole zip file"):
        found.build(tmp_path, found.parameters({}))
