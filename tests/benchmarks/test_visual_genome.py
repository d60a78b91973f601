"""Visual Genome: the split, the loaders' filter, scene graphs of two versions; each bad file is refused."""

import json
import random
import sys
import zipfile
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.visual_genome import read_objects, read_relations
from rankledger.tables import InputError

CORRUPT = {1592, 1722, 4616, 4617}
TASKS = ("graph2image", "image2graph")


def image_data(ids):
    """Records as in image_data.json."""
    return [
        {
            "image_id": i,
            "url": f"https://example.org/{i}.jpg",
            "width": 800,
            "height": 600,
            "coco_id": None,
            "flickr_id": None,
        }
        for i in ids
    ]


def write_images(folder, ids, **more):
    """image_data.json, and other JSON files by their stem."""
    (folder / "image_data.json").write_text(json.dumps(image_data(ids)))
    for stem, content in more.items():
        (folder / f"{stem}.json").write_text(json.dumps(content))


def build(folder, **parameters):
    found = benchmark("visual_genome")
    return found.build(folder, found.parameters(parameters))


def column(subset, name):
    """A column of the queries of graph2image, by image id."""
    rows = [row for row in subset.queries.to_pylist() if row["task"] == "graph2image"]
    return {int(row["query_id"]): row[name] for row in rows}


@pytest.fixture(scope="module")
def real_ids(shared):
    return [int(line) for line in (shared / "mirror/visual_genome/image_ids.txt").read_text().split()]


@pytest.fixture(scope="module")
def full_size(real_ids, tmp_path_factory):
    folder = tmp_path_factory.mktemp("visual_genome")
    write_images(folder, real_ids)
    return build(folder)


def test_the_split_at_full_size(real_ids, full_size):
    subset, notes = full_size
    assert len(real_ids) == 108_077
    test = [str(i) for i in real_ids if i not in CORRUPT][75_651:]
    assert len(test) == 32_422
    trials = subset.trials.to_pylist()
    for view, k, used in (
        ("all", 32_422, 32_422),
        ("pool10", 10, 32_420),
        ("pool50", 50, 32_400),
        ("pool100", 100, 32_400),
    ):
        for task in TASKS:
            asked = {t["query_id"]: t["pool_id"] for t in trials if (t["task"], t["view"]) == (task, view)}
            assert set(asked) == set(test[:used])
            assert len(set(asked.values())) == used // k
            for pool in range(used // k):
                assert len({asked[query] for query in test[pool * k : (pool + 1) * k]}) == 1
    assert subset.pools.num_rows == 32_422 + 32_420 + 2 * 32_400
    assert subset.universe.num_rows == 2 * 108_077  # corrupt and training images are known, and no candidates
    assert "32,422 test images of 108,073" in notes[0]
    assert [note.split(" ")[3] for note in notes[1:]] == ["2", "22", "22"]


def test_constant_scores_at_full_size(full_size):
    subset, _ = full_size
    sizes = Counter(subset.pools["pool_id"].to_pylist())
    right = {(pool, image) for pool, image in zip(*(c.to_pylist() for c in subset.pools.columns), strict=True)}
    trials = Counter(zip(*(c.to_pylist() for c in subset.trials.columns), strict=True))
    for task in TASKS:
        for k in (10, 50, 100):
            asked = [key for key in trials if key[:2] == (task, f"pool{k}")]
            assert all((pool, image) in right for *_, image, pool in asked)
            chance = Counter(Fraction(1, sizes[pool]) for *_, pool in asked)  # of the right one coming first
            assert chance == {Fraction(1, k): 32_422 // k * k}


def test_the_order_of_the_file_is_the_order_of_the_split(tmp_path, fingerprints):
    ids = [*range(10, 300), *sorted(CORRUPT)]
    prints = []
    for order in (ids, ids[::-1], random.Random(1).sample(ids, len(ids))):
        write_images(tmp_path, order)
        subset, _ = build(tmp_path)
        valid = [str(i) for i in order if i not in CORRUPT]
        assert {row["query_id"] for row in subset.queries.to_pylist()} == set(valid[203:])
        prints.append(fingerprints(subset)["pools"])
    assert len(set(prints)) == 3


@pytest.mark.parametrize("member", ["image_data.json", "dataset/image_data.json"])
def test_zipped_or_not(tmp_path, fingerprints, member):
    write_images(tmp_path, range(10, 300))
    plain = fingerprints(build(tmp_path)[0])
    with zipfile.ZipFile(tmp_path / "image_data.json.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "image_data.json", member)
        archive.writestr("__MACOSX/._image_data.json", "not it")
    (tmp_path / "image_data.json").unlink()
    assert fingerprints(build(tmp_path)[0]) == plain


def test_the_real_scene_graphs(shared):
    folder = shared / "mirror/visual_genome/first5"
    objects = read_objects(folder / "objects.json", {1, 2, 3, 4, 5})
    relations, repeats = read_relations(folder / "relationships.json", {1, 2, 3, 4, 5})
    assert sum(map(len, objects.values())) == 177
    assert repeats == 15
    assert sum(map(len, relations.values())) == 158 - 15
    assert relations[1][5045, "on", 5046] == "shade on street"
    assert all(one in objects[i] for i, g in relations.items() for s, _, o in g for one in (s, o))
    assert set(read_objects(folder / "objects.json", {4})) == {4}


def test_the_real_scene_graphs_in_a_subset(shared, tmp_path):
    for name in ("objects.json", "relationships.json"):
        (tmp_path / name).write_bytes((shared / "mirror/visual_genome/first5" / name).read_bytes())
    write_images(tmp_path, [101, 102, 103, 4, 1])  # 70 % of 5: three for training
    subset, notes = build(tmp_path)
    assert column(subset, "objects") == {4: 24, 1: 40}
    raw = {r["image_id"]: r["relationships"] for r in json.loads((tmp_path / "relationships.json").read_bytes())}
    triples = {
        i: {(r["subject"]["object_id"], r["predicate"].lower(), r["object"]["object_id"]) for r in raw[i]}
        for i in (1, 4)
    }
    assert column(subset, "relations") == {i: len(triples[i]) for i in (1, 4)}
    lines = {i: text.split("\n") for i, text in column(subset, "text").items()}
    assert {i: len(some) for i, some in lines.items()} == column(subset, "relations")
    assert "man wears sneakers" in lines[1]
    assert all(some == sorted(some) and "".join(some).islower() for some in lines.values())
    assert {t["view"] for t in subset.trials.to_pylist()} == {"all"}  # two images fill no pool
    assert len([note for note in notes if note.startswith("pool")]) == 3


def as_version_1(objects, relationships):
    """The content as version 1.0 writes it: `id`, lower-case predicates, `names` and `name` swapped."""

    def renamed(thing):
        names = thing.get("names") or [thing["name"]]
        rest = {k: v for k, v in thing.items() if k not in ("object_id", "names", "name")}
        return rest | {"id": thing["object_id"]} | ({"names": names} if "name" in thing else {"name": names[0]})

    return (
        [{"id": r["image_id"], "objects": [renamed(o) for o in r["objects"]]} for r in objects],
        [
            {
                "id": r["image_id"],
                "relationships": [
                    {
                        "id": x["relationship_id"],
                        "predicate": x["predicate"].lower(),
                        "subject": renamed(x["subject"]),
                        "object": renamed(x["object"]),
                    }
                    for x in r["relationships"]
                ],
            }
            for r in relationships
        ],
    )


def test_both_versions_say_the_same(tmp_path, fingerprints):
    benchmark("visual_genome").sample(tmp_path)
    newer = fingerprints(build(tmp_path)[0])
    files = [tmp_path / "objects.json", tmp_path / "relationships.json"]
    for path, content in zip(files, as_version_1(*(json.loads(p.read_bytes()) for p in files)), strict=True):
        assert "object_id" not in json.dumps(content)
        path.write_text(json.dumps(content))
    assert fingerprints(build(tmp_path)[0]) == newer


def test_the_order_of_the_scene_graphs_does_not_count(tmp_path, fingerprints):
    benchmark("visual_genome").sample(tmp_path)
    subset, notes = build(tmp_path)
    draw = random.Random(3)
    for name, key in (("objects", "objects"), ("relationships", "relationships")):
        records = json.loads((tmp_path / f"{name}.json").read_bytes())
        for record in records:
            draw.shuffle(record[key])
        draw.shuffle(records)
        (tmp_path / f"{name}.json").write_text(json.dumps(records))
    shuffled, told = build(tmp_path)
    assert fingerprints(shuffled) == fingerprints(subset)
    assert told == notes


def relation(subject, predicate, target):
    return {
        "predicate": predicate,
        "subject": {"object_id": subject, "name": f"Thing{subject}"},
        "object": {"object_id": target, "name": f"thing {target}"},
    }


def test_what_the_scene_graphs_lack_is_told(tmp_path):
    graphs = {8: [relation(1, "ON", 2), relation(1, "on ", 2), relation(1, "under", 9)], 9: []}
    write_images(
        tmp_path,
        range(1, 11),  # 8, 9 and 10 are for testing
        objects=[{"image_id": i, "objects": [{"object_id": n, "names": ["thing"]} for n in (1, 2)]} for i in (8, 9)],
        relationships=[{"image_id": i, "relationships": some} for i, some in graphs.items()],
    )
    subset, notes = build(tmp_path)
    assert column(subset, "text") == {8: "thing1 on thing 2\nthing1 under thing 9", 9: "", 10: None}
    assert column(subset, "relations") == {8: 2, 9: 0, 10: None}
    assert column(subset, "objects") == {8: 2, 9: 2, 10: None}
    for told in (
        "objects.json: says nothing of 1 test images (10)",
        "relationships.json: says nothing of 1 test images (10)",
        "relationships.json: 1 relations of test images repeat an earlier one and are left out",
        "relationships.json: 1 ends of relations are objects that objects.json does not list (9)",
    ):
        assert told in notes


def test_without_scene_graphs_there_is_no_text(tmp_path):
    write_images(tmp_path, range(1, 11))
    assert build(tmp_path)[0].queries.column_names == ["query_id", "task"]


h5py = pytest.importorskip("h5py")


def write_h5(folder, **arrays):
    """Ten valid images, of which 4 … 9 are for testing: 5 has no relation, 6 no box, 9 is for validation."""
    content = {
        "split": [0, 0, 0, 0, 2, 2, 2, 2, 2, 1],
        "img_to_first_box": [0, 1, 2, 3, 4, 7, -1, 9, 11, 13],
        "img_to_last_box": [0, 1, 2, 3, 6, 8, -1, 10, 12, 14],
        "img_to_first_rel": [-1, -1, -1, -1, 0, -1, -1, 3, 4, 5],
        "img_to_last_rel": [-1, -1, -1, -1, 2, -1, -1, 3, 4, 5],
        "labels": [[1]] * 4 + [[1], [2], [3], [1], [1], [2], [3], [3], [2], [1], [1]],
        "relationships": [[4, 5], [5, 6], [4, 5], [10, 9], [11, 12], [13, 14]],
        "predicates": [[1], [2], [1], [2], [1], [1]],
        "boxes_512": [[5, 5, 4, 4]] * 15,
        "boxes_1024": [[10, 10, 8, 8]] * 15,
    } | arrays
    with h5py.File(folder / "VG-SGG.h5", "w") as file:
        for name, values in content.items():
            if values is not None:
                file[name] = np.array(values)
    dicts = {
        "idx_to_label": {"1": "airplane", "2": "arm", "3": "bag"},
        "idx_to_predicate": {"1": "above", "2": "on"},
        "label_to_idx": {"airplane": 1, "arm": 2, "bag": 3},
    }
    (folder / "VG-SGG-dicts.json").write_text(json.dumps(dicts))
    write_images(folder, [50, 1592, 51, 52, 53, 1722, 4616, 4617, 54, 55, 56, 57, 58, 59])


def test_the_loaders_filter(tmp_path):
    write_h5(tmp_path)
    subset, notes = build(tmp_path, split="sgg")
    assert column(subset, "text") == {
        54: "airplane above arm\narm on bag",
        57: "bag on arm",
        58: "bag above arm",
    }
    assert column(subset, "relations") == {54: 2, 57: 1, 58: 1}
    assert column(subset, "objects") == {54: 3, 57: 2, 58: 2}
    assert "VG-SGG.h5: 2 test images without boxes or relations are left out" in notes
    assert subset.universe.num_rows == 2 * 14


def test_the_loaders_filter_without_words(tmp_path):
    write_h5(tmp_path)
    (tmp_path / "VG-SGG-dicts.json").unlink()
    subset, _ = build(tmp_path, split="sgg")
    assert column(subset, "relations") == {54: 2, 57: 1, 58: 1}
    assert "text" not in subset.queries.column_names


def test_the_real_words(tmp_path, shared):
    write_h5(tmp_path)
    dicts = (shared / "mirror/visual_genome/VG-SGG-dicts.json").read_bytes()
    (tmp_path / "VG-SGG-dicts.json").write_bytes(dicts)
    content = json.loads(dicts)
    assert (len(content["idx_to_label"]), len(content["idx_to_predicate"])) == (150, 50)
    text = column(build(tmp_path, split="sgg")[0], "text")
    assert text[57] == "arm across animal"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"split": [0] * 9 + [3]}, "'split' holds 3"),
        (
            {"split": [2] * 9},
            "'img_to_first_box', 'img_to_first_rel', 'img_to_last_box', … of a wrong type or shape",
        ),
        ({"split": [0] * 10}, "no test image"),
        ({"labels": [[1.5]] * 15}, "'labels' of a wrong type"),
        ({"relationships": [[0, 1, 2]] * 6}, "'relationships' of a wrong type or shape"),
        ({"predicates": [[1]] * 5}, "'predicates' of a wrong type or shape"),
        ({"predicates": [[1], [2], [1], [2], [3], [1]]}, "a number that idx_to_predicate does not have"),
        ({"labels": [[1]] * 10 + [[0]] * 5}, "a number that idx_to_label does not have"),
        ({"relationships": [[4, 5], [5, 7], [4, 5], [10, 9], [11, 12], [13, 14]]}, "boxes of another image"),
        ({"img_to_last_box": [0, 1, 2, 3, 6, 8, -1, 10, 99, 14]}, "img_to_*_box is no range of labels"),
        (
            {"img_to_last_rel": [-1, -1, -1, -1, -1, -1, -1, 3, 4, 5]},
            "img_to_*_rel is no range of predicates",
        ),
        ({"img_to_first_rel": None}, "not a whole VG-SGG.h5"),
    ],
)
def test_a_bad_h5_is_refused(tmp_path, change, said):
    write_h5(tmp_path, **change)
    with pytest.raises(InputError) as caught:
        build(tmp_path, split="sgg")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_faults_of_the_loaders_files(tmp_path):
    write_h5(tmp_path)
    dicts = json.loads((tmp_path / "VG-SGG-dicts.json").read_text())
    dicts["idx_to_label"] = {"0": "a", "1": "b", "2": "c"}
    (tmp_path / "VG-SGG-dicts.json").write_text(json.dumps(dicts))
    with pytest.raises(InputError, match="idx_to_label should be '1' to '3'"):
        build(tmp_path, split="sgg")
    write_images(tmp_path, range(50, 58))
    with pytest.raises(InputError, match=r"has 10 rows, but image_data\.json has 8 valid images"):
        build(tmp_path, split="sgg")
    (tmp_path / "VG-SGG.h5").write_bytes(b"no HDF5")
    with pytest.raises(InputError, match=r"not a whole VG-SGG\.h5"):
        build(tmp_path, split="sgg")
    (tmp_path / "VG-SGG.h5").unlink()
    with pytest.raises(InputError, match="no such file"):
        build(tmp_path, split="sgg")


def test_without_h5py(tmp_path, monkeypatch):
    write_h5(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"pip install 'rankledger\[h5\]'"):
        build(tmp_path, split="sgg")
    (tmp_path / "sample").mkdir()
    benchmark("visual_genome").sample(tmp_path / "sample")
    assert not (tmp_path / "sample" / "VG-SGG.h5").exists()
    assert build(tmp_path / "sample")[0].qrels.num_rows == 450


GOOD = [{"image_id": i, "relationships": [relation(1, "on", 2)]} for i in range(1, 11)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("image_data", "{", "not JSON"),
        ("image_data", [], "an empty list"),
        ("image_data", image_data(CORRUPT), "no test image"),
        (
            "image_data",
            [{"image_id": 1}, {"image_id": "2"}],
            "'image_id' is missing or of a wrong type in 1 record (1)",
        ),
        ("image_data", [{"image_id": 1}, {"id": 2}], "'image_id' is missing or of a wrong type"),
        ("image_data", image_data([1, 2, 3, 2, 3, 4]), "an image_id that stood earlier in 2 records (3, 4)"),
        ("image_data", {"image_id": 1}, "wrong type"),
        ("relationships", "[{", "not JSON"),
        ("relationships", json.dumps(GOOD)[:-9], "not JSON"),
        ("relationships", {"1": []}, "holds no record"),
        ("relationships", [*GOOD, GOOD[0]], "an image that stood earlier (1) in 1 record (10)"),
        ("relationships", [{"image_id": 8}], "'image_id' or 'relationships' is missing"),
        ("relationships", [{"relationships": []}], "'image_id' or 'relationships' is missing"),
        (
            "relationships",
            [{"image_id": 8, "relationships": [{"predicate": "on"}]}],
            "lacks a part (image 8)",
        ),
        (
            "relationships",
            [
                {
                    "image_id": 8,
                    "relationships": [relation(1, "on", 2) | {"object": {"object_id": 3, "names": []}}],
                }
            ],
            "lacks a part (image 8)",
        ),
        (
            "relationships",
            [{"image_id": 8, "relationships": [relation(1, None, 2)]}],
            "lacks a part (image 8)",
        ),
        ("objects", [{"image_id": 8, "objects": [{"names": ["a"]}]}], "an object without a whole number"),
        ("objects", [{"image_id": 8, "objects": {}}], "'image_id' or 'objects' is missing"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, name, content, said):
    write_images(tmp_path, range(1, 11))
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(InputError) as caught:
        build(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_archive_is_refused(tmp_path):
    path = tmp_path / "image_data.json.zip"
    with pytest.raises(InputError, match=r"neither image_data\.json\.zip nor image_data\.json"):
        build(tmp_path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image_data.json", json.dumps(image_data(range(1, 400))))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a whole zip file"):
        build(tmp_path)
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    with pytest.raises(InputError, match="not a whole zip file"):
        build(tmp_path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("objects.json", "[]")
    with pytest.raises(InputError, match=r"holds 0 files named image_data\.json"):
        build(tmp_path)


def test_files_of_a_split():
    found = benchmark("visual_genome")
    images = "image_data.json.zip|image_data.json"
    assert found.files(found.parameters({})) == (images, "objects.json?", "relationships.json?")
    assert found.files(found.parameters({"split": "sgg"})) == (images, "VG-SGG.h5", "VG-SGG-dicts.json?")
    with pytest.raises(InputError, match=r"benchmarks\.visual_genome\.split is 'test'"):
        found.parameters({"split": "test"})
