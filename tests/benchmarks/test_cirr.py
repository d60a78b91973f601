"""CIRR: counts, pools, labels and golden values on the real files; each bad raw file is refused."""

import json
import random
import zipfile

import pytest

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Count

VIEWS = {"gallery": (1, 5, 10, 50), "group": (1, 2, 3)}


@pytest.fixture(scope="module")
def raw(shared):
    return shared / "mirror" / "cirr"


@pytest.fixture(scope="module")
def records(raw):
    return {str(r["pairid"]): r for r in json.loads((raw / "cap.rc2.val.json").read_bytes())}


def best(trials, cutoffs, ranking):
    """Mean over the queries of the highest relevance among the top K, in percent: for hard labels, R@K."""
    rows = [trial.gains(ranking(trial)) for trial in trials]
    return [round(100 * sum(max(row[:k], default=0) for row in rows) / len(rows), 4) for k in cutoffs]


def by_name(trial):
    return trial.pool[:51]


@pytest.mark.parametrize("labels", ["hard", "soft"])
@pytest.mark.parametrize("reference", ["removed", "kept"])
def test_counts_and_pools(raw, built, asked, labels, reference):
    subset, _ = built("cirr", raw, labels=labels, reference=reference)
    left = {"removed": 1, "kept": 0}[reference]
    for task, queries, gallery in (("val", 4181, 2297), ("test1", 4148, 2315)):
        trials = asked(subset, task, "gallery")
        assert len({t.query["query_id"] for t in trials}) == len(trials) == queries
        assert {len(set(t.pool)) for t in trials} == {gallery - left}
        groups = asked(subset, task, "group")
        assert len(groups) == queries
        assert {len(set(t.pool)) for t in groups} == {6 - left}
        assert all((t.query["reference_id"] in t.pool) == (reference == "kept") for t in (*trials, *groups))
        assert all(t.query["reference_id"] not in t.right for t in trials) or (labels, task) == (
            "soft",
            "val",
        )
    assert subset.universe.num_rows == 4181 + 4148 + 2297 + 2315
    assert all(not t.right for t in asked(subset, "test1", "gallery"))


def test_facts_of_the_real_files(raw, built, records):
    subset, notes = built("cirr", raw, labels="soft", reference="removed")
    rows = subset.queries.to_pylist()
    val = [row for row in rows if row["task"] == "val"]
    assert len(val) - len({(row["reference_id"], row["text"]) for row in val}) == 6
    assert [row["query_id"] for row in rows if not row["text"].strip()] == ["27098"]
    weights = {query: {} for query in records}
    for row in subset.qrels.to_pylist():
        weights[row["query_id"]][row["candidate_id"]] = row["relevance"]
    hard = {query: record["target_hard"] for query, record in records.items()}
    lack = [query for query in hard if records[query]["reference"] in weights[query]]
    assert len(lack) == 37
    assert all(weights[query][records[query]["reference"]] == 1 for query in lack)
    assert not any(hard[query] in weights[query] for query in lack)
    assert sum(weights[query].get(hard[query]) != 1 for query in hard) == 37 + 5
    assert {w for given in weights.values() for w in given.values()} == {1.0, 0.5, 0.2}
    assert notes == [
        "val: 37 record(s) give target_hard no weight, 5 one other than 1",
        "test1: 1 blank caption(s), kept as they are",
    ]


@pytest.mark.parametrize(
    ("labels", "reference", "unanswerable"),
    [
        ("hard", "removed", (0, 0)),
        ("hard", "kept", (0, 0)),
        ("soft", "removed", (3, 18)),
        ("soft", "kept", (3, 3)),
    ],
)
def test_unanswerable(raw, built, asked, labels, reference, unanswerable):
    subset, _ = built("cirr", raw, labels=labels, reference=reference)
    found = {view: sum(not any(t.gains(t.pool)) for t in asked(subset, "val", view)) for view in VIEWS}
    assert tuple(found.values()) == unanswerable
    expected = benchmark("cirr").expected({"source": "official", "labels": labels, "reference": reference})
    if labels == "soft":
        assert {c for c in expected.counts if c.what == "unanswerable"} == {
            Count("unanswerable", "val", view, number) for view, number in found.items()
        }
        assert set(expected.unanswerable) == {("val", "gallery"), ("val", "group")}
    else:
        assert not expected.unanswerable


def test_target_first(raw, built, asked, records):
    def first(trial):
        return [records[trial.query["query_id"]]["target_hard"]]

    for labels, value in (("hard", 100), ("soft", 99.0122)):
        subset, _ = built("cirr", raw, labels=labels, reference="removed")
        assert best(asked(subset, "val", "gallery"), (1,), first) == [value]


def test_perfect_soft_ranking(raw, built, asked):
    subset, _ = built("cirr", raw, labels="soft", reference="removed")
    for view, value in (("gallery", 99.9043), ("group", 99.5456)):

        def perfect(trial):
            return sorted(trial.right, key=lambda name: -trial.right[name])

        assert best(asked(subset, "val", view), VIEWS[view], perfect) == [value] * len(VIEWS[view])


def test_members_in_file_order(raw, built, asked, records):
    def order(trial):
        return records[trial.query["query_id"]]["img_set"]["members"]

    for labels, values in (("hard", [20.1148, 39.9187, 59.3877]), ("soft", [20.1937, 39.9689, 59.4236])):
        subset, _ = built("cirr", raw, labels=labels, reference="removed")
        assert best(asked(subset, "val", "group"), (1, 2, 3), order) == values


def test_gallery_by_name(raw, built, asked):
    removed, _ = built("cirr", raw, labels="hard", reference="removed")
    assert best(asked(removed, "val", "gallery"), VIEWS["gallery"], by_name) == [
        0.0478,
        0.1196,
        0.3109,
        2.2004,
    ]
    kept, _ = built("cirr", raw, labels="hard", reference="kept")
    assert best(asked(kept, "val", "gallery"), (50,), by_name) == [2.1765]


def test_a_real_models_hits(raw, built, asked, records, shared):
    with zipfile.ZipFile(shared / "runs" / "cirr" / "cirr_stageII_labels_val.pt") as pickled:
        name = next(n for n in pickled.namelist() if n.endswith("/data/0"))
        hits = pickled.read(name)
    places = {query: hits[200 * i : 200 * i + 200].find(1) for i, query in enumerate(records)}
    assert len(hits) == 200 * len(places)

    def order(trial):
        """The target where the matrix has a hit, wrong images elsewhere."""
        place = places[trial.query["query_id"]]
        wrong = [name for name in trial.pool[:202] if name not in trial.right]
        return wrong if place < 0 else [*wrong[:place], *trial.right]

    subset, _ = built("cirr", raw, labels="hard", reference="removed")
    assert best(asked(subset, "val", "gallery"), VIEWS["gallery"], order) == [
        52.906,
        82.851,
        90.0741,
        98.0148,
    ]


def test_chance(raw, built, asked):
    """Constant scores give one in the pool's size, for there is one target in it."""
    for reference, value in (("removed", 20.0), ("kept", 100 / 6)):
        subset, _ = built("cirr", raw, labels="hard", reference=reference)
        chances = [sum(t.gains(t.pool)) / len(t.pool) for t in asked(subset, "val", "group")]
        assert 100 * sum(chances) / len(chances) == pytest.approx(value, abs=1e-9)


def test_official_counts(raw, built, asked):
    """What `validate` will compare is what the files hold; on other sources nothing is claimed."""
    subset, _ = built("cirr", raw, labels="hard", reference="removed")
    expected = benchmark("cirr").expected({"source": "official", "labels": "hard", "reference": "removed"})
    for count in expected.counts:
        trials = asked(subset, count.task, count.view)
        found = {"queries": len(trials), "candidates": len(trials[0].pool) + 1}[count.what]
        assert found == count.number
    assert len(expected.counts) == 6
    assert expected.pool_sizes == {("val", "group"): 5, ("test1", "group"): 5}
    other = benchmark("cirr").expected({"source": "sample", "labels": "hard", "reference": "kept"})
    assert other.counts == ()
    assert other.pool_sizes == {("val", "group"): 6, ("test1", "group"): 6}


def test_plan():
    plan = benchmark("cirr").plan(benchmark("cirr").parameters({}))
    rows = [(m.task, m.view, m.metric, m.key) for m in plan.measures]
    assert rows == [
        *(("val", "gallery", f"R@{k}", ("val", f"R@{k}")) for k in (1, 5, 10, 50)),
        *(("val", "group", f"R@{k}", ("val", f"Rsubset@{k}")) for k in (1, 2, 3)),
    ]
    assert [(m.key, m.of) for m in plan.means] == [(("val", "mean"), (("val", "R@5"), ("val", "Rsubset@1")))]
    assert {t.name: t.hidden for t in plan.tasks} == {"val": False, "test1": True}
    assert plan.files == {("val", "group"): "val_subset", ("test1", "group"): "test1_subset"}
    soft = benchmark("cirr").plan({"source": "sample", "labels": "soft", "reference": "kept"})
    assert [m.metric.partition("@")[0] for m in soft.measures] == ["Best"] * 7
    assert [m.key for m in soft.measures] == [m.key for m in plan.measures]


def test_sample_has_every_oddity(built, asked, tmp_path):
    subset, notes = built("cirr", labels="soft", reference="removed")
    trials = {view: asked(subset, "val", view) for view in VIEWS}
    assert len(trials["gallery"]) == 250
    assert {len(t.pool) for t in trials["group"]} == {5}
    unanswerable = {view: sum(not any(t.gains(t.pool)) for t in trials[view]) for view in VIEWS}
    assert 0 < unanswerable["gallery"] < unanswerable["group"]
    assert any(t.query["reference_id"] in t.right for t in trials["gallery"])
    assert {w for t in trials["gallery"] for w in t.right.values()} == {1.0, 0.5, 0.2}
    assert len(notes) == 2
    for folder in ("one", "two"):
        benchmark("cirr").sample(tmp_path / folder)
    for file in benchmark("cirr").files({}):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == sorted(benchmark("cirr").files({}))


def test_order_of_the_raw_lists_does_not_matter(built, edited, fingerprints):
    def shuffle(records):
        random.Random(1).shuffle(records)
        for record in records:
            record["img_set"]["members"].reverse()
            record["target_soft"] = dict(reversed(record["target_soft"].items()))

    def turned(gallery):
        return dict(reversed(gallery.items()))

    for labels in ("hard", "soft"):
        before = fingerprints(built("cirr", labels=labels)[0])
        assert fingerprints(edited("cirr", "cap.rc2.val.json", shuffle, labels=labels)) == before
        assert fingerprints(edited("cirr", "split.rc2.test1.json", turned, labels=labels)) == before


def test_labels_change_the_qrels_only(built, fingerprints):
    hard, soft = (fingerprints(built("cirr", labels=labels)[0]) for labels in ("hard", "soft"))
    assert {name for name in hard if hard[name] != soft[name]} == {"qrels"}


def at(i, *path, value=None):
    """A change that sets (or, with no value, deletes) one place of record i."""

    def change(records):
        place = records[i]
        for key in path[:-1]:
            place = place[key]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value

    return change


VAL, TEST1 = "cap.rc2.val.json", "cap.rc2.test1.json"


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        (VAL, at(4, "reference"), "'reference' is missing or of a wrong type in 1 record (4)"),
        (VAL, at(4, "img_set", "members", value="a b c"), "'img_set.members' is missing or of a wrong type"),
        (VAL, at(4, "img_set", "members", 2, value=7), "'img_set.members' is missing or of a wrong type"),
        (VAL, at(4, "target_soft", value=["x"]), "'target_soft' is missing or of a wrong type"),
        (VAL, at(4, "target_soft", "dev-1-1-img1", value="1"), "'target_soft.dev-1-1-img1' is missing or of"),
        (VAL, at(4, "target_soft", "dev-1-1-img1", value=float("inf")), "not JSON (Infinity is no number)"),
        (VAL, at(4, "pairid", value=True), "'pairid' is missing or of a wrong type"),
        (VAL, at(4, "pairid", value=12060), "a pairid that an earlier record has in 1 record (4)"),
        (TEST1, at(4, "pairid", value=12060), "a pairid that the other split has in 1 record (4)"),
        (VAL, at(4, "target_hard", value="dev-4-0-img0"), "target_hard equal to the reference in 1 record"),
        (VAL, at(3, "target_hard", value="dev-300-0-img0"), "a group without target_hard in 1 record (3)"),
        (VAL, at(3, "reference", value="dev-300-0-img0"), "a group without the reference in 1 record (3)"),
        (VAL, at(3, "target_soft", "dev-9999", value=1), "a soft label outside the split file in 1 record"),
        (VAL, at(3, "caption", value="\ud800"), "'caption' is missing or of a wrong type"),
        (VAL, lambda records: {"records": records}, "its content is missing or of a wrong type"),
        (VAL, lambda records: [], "an empty list"),
        (VAL, lambda records: [*records, 5], "the record is missing or of a wrong type in 1 record (250)"),
        ("split.rc2.val.json", lambda names: list(names), "its content is missing or of a wrong type"),
    ],
)  # fmt: skip
def test_bad_raw_files(refusal, file, change, says):

    assert says in refusal("cirr", file, change)


def test_groups_and_gallery_must_agree(refusal, tmp_path):
    def doubled(records):
        for i in (0, 1, 2, 3):
            records[i]["img_set"]["members"][1] = records[i]["img_set"]["members"][0]

    assert "a group that is not 6 images in 4 records (0, 1, 2, …)" in refusal("cirr", VAL, doubled)

    def foreign(records):
        members = records[0]["img_set"]["members"]
        members[members.index("dev-5-1-img1")] = "dev-9999-0-img0"

    assert "an image that the split file does not list in 1 record (0)" in refusal("cirr", VAL, foreign)


def test_a_name_twice_in_one_object_is_refused(tmp_path):
    found = benchmark("cirr")
    found.sample(tmp_path)
    split = tmp_path / "split.rc2.val.json"
    split.write_text('{"a": "x", "b": "y", "a": "z"}')
    with pytest.raises(Exception, match="the key 'a' twice in one object"):
        found.build(tmp_path, found.parameters({}))
    split.write_text("<html>log in</html>")
    with pytest.raises(Exception, match=r"split\.rc2\.val\.json: not JSON"):
        found.build(tmp_path, found.parameters({}))
    split.unlink()
    with pytest.raises(Exception, match=r"split\.rc2\.val\.json: no such file"):
        found.build(tmp_path, found.parameters({}))
