"""Open Images V6: CSV and processed list at full size, attributes, order; each bad raw file is refused."""

import json
import random

import pytest

from rankledger.benchmarks import benchmark
from rankledger.tables import InputError

HEADER = "ImageID,LabelName1,LabelName2,XMin1,XMax1,YMin1,YMax1,XMin2,XMax2,YMin2,YMax2,RelationshipLabel"
CSV, PROCESSED = "oidv6-test-annotations-vrd.csv", "vrd-test-anno.json"
TASKS = ("graph2image", "image2graph")
BOX, OTHER = "0.1,0.5,0.2,0.6", "0.3,0.9,0.25,1"


def row(image, first="/m/04yx4", second="/m/0342h", label="holds", box=BOX, other=OTHER):
    return f"{image},{first},{second},{box},{other},{label}"


def attribute(image, what="/m/02gy9n", box=BOX):
    return row(image, second=what, label="is", box=box, other=box)


def anno(image, boxes=2, rel=((0, 1, 3),)):
    """A record of the processed list."""
    return {
        "bbox": [[10, 20, 30, 40.5]] * boxes,
        "det_labels": list(range(boxes)),
        "rel": [list(one) for one in rel],
        "img_size": [640, 480],
        "img_fn": image,
    }


def build(folder, rows=None, records=None, **parameters):
    """Build from a CSV with these rows, or from these records."""
    if rows is not None:
        (folder / CSV).write_text("\n".join([HEADER, *rows]) + "\n")
    if records is not None:
        (folder / PROCESSED).write_text(json.dumps(records))
    found = benchmark("open_images")
    return found.build(folder, found.parameters(parameters))


def column(subset, name):
    """A column of the queries of graph2image, by image id."""
    rows = [one for one in subset.queries.to_pylist() if one["task"] == "graph2image"]
    return {one["query_id"]: one[name] for one in rows}


def queries(subset, task, view):
    trials = subset.trials.to_pylist()
    return {t["query_id"] for t in trials if (t["task"], t["view"]) == (task, view)}


@pytest.fixture(scope="module")
def ids():
    """5,322 ids in the form of Open Images, in no order."""
    draw = random.Random(6)
    return [f"{number:016x}" for number in draw.sample(range(16**12), 5_322)]


@pytest.mark.parametrize("form", ["csv", "processed"])
def test_full_size(tmp_path, ids, form):
    if form == "csv":
        rows = [row(image, label=("at", "holds", "wears")[i % 3]) for i, image in enumerate(ids)]
        rows += [attribute(image) for image in ids[::5]]
        subset, _ = build(tmp_path, rows=rows)
        order = sorted(ids)
    else:
        subset, _ = build(tmp_path, records=[anno(image) for image in ids])
        order = ids
    for task in TASKS:
        for view, used in (("all", 5_322), ("pool10", 5_320), ("pool50", 5_300), ("pool100", 5_300)):
            assert queries(subset, task, view) == set(order[:used])
    pools = {}
    for one in subset.pools.to_pylist():
        pools.setdefault(one["pool_id"], set()).add(one["candidate_id"])
    for k in (10, 50, 100):
        for pool in range(5_322 // k):
            assert pools[f"pool{k}/{pool}"] == set(order[pool * k : (pool + 1) * k])


def test_attributes_are_no_second_objects(tmp_path):
    rows = [row("b"), attribute("b"), attribute("b", "/m/05z87"), row("a", label="at"), attribute("c")]
    subset, notes = build(tmp_path, rows=rows)
    assert column(subset, "objects") == {"a": 2, "b": 2}
    assert column(subset, "relations") == {"a": 1, "b": 1}
    assert column(subset, "text") == {
        "a": "/m/04yx4 at /m/0342h",
        "b": "/m/04yx4 holds /m/0342h\n/m/04yx4 is /m/02gy9n\n/m/04yx4 is /m/05z87",
    }
    assert "1 more images have attributes ('is') but no relation and are left out" in notes
    known = {(one["side"], one["id"]) for one in subset.universe.to_pylist()}
    assert known == {(side, image) for side in ("graph", "image") for image in "abc"}


def test_an_object_is_a_label_with_its_box(tmp_path):
    rows = [
        row("a"),
        row("a"),  # a row twice is one relation
        row("a", label="at"),  # the same two objects
        row("a", box="0.1,0.5,0.2,0.7"),  # a third
        row("a", first="/m/0342h", second="/m/04yx4", box=OTHER, other=BOX, label="on"),  # the first two again
        row("a", first="/m/03bt1vf"),  # a fourth
    ]
    subset, _ = build(tmp_path, rows=rows)
    assert column(subset, "objects") == {"a": 4}
    assert column(subset, "relations") == {"a": 5}
    assert column(subset, "text")["a"].split("\n").count("/m/04yx4 holds /m/0342h") == 2


def test_the_order_of_the_rows_does_not_count(tmp_path, ids, fingerprints):
    some = ids[:230]
    rows = [row(image) for image in some] + [attribute(image) for image in some[::2]]
    subset, notes = build(tmp_path, rows=rows)
    random.Random(1).shuffle(rows)
    shuffled, told = build(tmp_path, rows=rows)
    assert fingerprints(shuffled) == fingerprints(subset)
    assert told == notes
    assert build(tmp_path, rows=[line + "\r" for line in rows])[0].queries.equals(shuffled.queries)


def test_the_order_of_the_processed_list_is_the_order_of_the_split(tmp_path, ids, fingerprints):
    records = [anno(image) for image in ids[:230]]
    subset, _ = build(tmp_path, records=records)
    turned, _ = build(tmp_path, records=records[::-1])
    assert fingerprints(turned)["pools"] != fingerprints(subset)["pools"]
    assert fingerprints(turned)["queries"] == fingerprints(subset)["queries"]


def test_the_processed_list(tmp_path):
    records = [anno("z.jpg", 3, [(0, 1, 3), (2, 1, 0), (0, 1, 3)]), anno("y", 0, [])]
    subset, notes = build(tmp_path, rows=[row("other")], records=records)  # the list goes before the CSV
    assert column(subset, "objects") == {"z": 3, "y": 0}
    assert column(subset, "relations") == {"z": 2, "y": 0}
    assert "text" not in subset.queries.column_names
    assert notes[0] == "2 images, in the order of vrd-test-anno.json"


def test_both_forms_give_one_set_of_queries(tmp_path, ids):
    some = sorted(ids[:120])
    (tmp_path / "csv").mkdir()
    (tmp_path / "list").mkdir()
    one, _ = build(tmp_path / "csv", rows=[row(image) for image in some])
    other, _ = build(tmp_path / "list", records=[anno(image) for image in some])
    for name in ("pools", "trials", "qrels", "universe"):
        assert one.tables()[name].equals(other.tables()[name])


def test_ids_that_look_like_numbers_stay_texts(tmp_path):
    ids = ["0000000000000012", "00000000000001e5", "12", "1e5", "nan", "NULL", "true"]
    subset, _ = build(tmp_path, rows=[row(image) for image in ids])
    assert set(column(subset, "objects")) == set(ids)


@pytest.mark.parametrize(
    ("split", "names"),
    [
        ("test", (PROCESSED, CSV)),
        ("validation", ("vrd-val-anno.json", "oidv6-validation-annotations-vrd.csv")),
        ("train", ("vrd-train-anno.json", "oidv6-train-annotations-vrd.csv")),
    ],
)
def test_files_of_a_split(tmp_path, split, names):
    found = benchmark("open_images")
    parameters = found.parameters({"split": split})
    assert found.files(parameters) == ("|".join(names),)
    with pytest.raises(InputError, match=f"neither {names[0]} nor {names[1]}"):
        found.build(tmp_path, parameters)
    (tmp_path / names[1]).write_text("\n".join([HEADER, row("a")]))
    assert found.build(tmp_path, parameters)[0].qrels.num_rows == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its first line should be ImageID,"),
        (HEADER.replace("ImageID", "image_id"), "its first line should be ImageID,"),
        ("\ufeff" + HEADER, "its first line should be ImageID,"),
        (HEADER, "holds no relation"),
        ("\n".join([HEADER, attribute("a")]), "holds no relation"),
        ("\n".join([HEADER, row("a"), row("")]), "'ImageID' empty in 1 lines (3)"),
        ("\n".join([HEADER, row("a", label="")]), "'RelationshipLabel' empty in 1 lines (2)"),
        ("\n".join([HEADER, row("a", box="0.1,,0.2,0.6")]), "'XMax1' empty in 1 lines (2)"),
        ("\n".join([HEADER, row("a", box="0.1,left,0.2,0.6")]), "not the official CSV"),
        ("\n".join([HEADER, row("a"), "b,/m/04yx4,/m/0342h,0.1"]), "empty in 1 lines (3)"),
        ("\n".join([HEADER, row("a") + ",more"]), "not the official CSV"),
        ("\n".join([HEADER, row("a", first="\udcff")]), "not the official CSV"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path, text, said):
    (tmp_path / CSV).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        build(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "an empty list"),
        ({"a": 1}, "wrong type"),
        ([anno("a"), anno("b") | {"img_fn": 7}], "'img_fn' is missing or of a wrong type in 1 record (1)"),
        ([anno("a"), anno("b"), anno("a")], "an img_fn that stood earlier in 1 record (2)"),
        ([anno("a"), anno("a.jpg")], "an img_fn that stood earlier in 1 record (1)"),
        ([anno("")], "an empty img_fn"),
        ([anno("a") | {"bbox": [[1, 2, 3]] * 2}], "a box that is not 4 numbers"),
        ([anno("a") | {"det_labels": [1]}], "not one label a box"),
        ([anno("a", 2, [(0, 2, 1)])], "a relation that is not"),
        ([anno("a", 2, [(-1, 1, 1)])], "a relation that is not"),
        ([anno("a", 2, [(0, 1)])], "a relation that is not"),
        ([anno("a", 2, [()])], "a relation that is not"),
    ],
)
def test_a_bad_list_is_refused(tmp_path, records, said):
    with pytest.raises(InputError) as caught:
        build(tmp_path, records=records)
    assert said in str(caught.value)
    assert PROCESSED in str(caught.value)
    assert "\n" not in str(caught.value)
