"""Open Images V6: a scene graph looks for its image among 5,322, and an image for its scene graph."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rankledger.benchmarks.made import choice, number, sample
from rankledger.benchmarks.r_precision import RPrecision, tables
from rankledger.benchmarks.reading import read_raw, refuse, repeated
from rankledger.subset import Subset
from rankledger.tables import InputError, few, write_text

if TYPE_CHECKING:
    import polars as pl

PROCESSED = {"test": "vrd-test-anno.json", "validation": "vrd-val-anno.json", "train": "vrd-train-anno.json"}
BOXES = [[f"{side}{end}" for side in ("XMin", "XMax", "YMin", "YMax")] for end in (1, 2)]
HEADER = ["ImageID", "LabelName1", "LabelName2", *BOXES[0], *BOXES[1], "RelationshipLabel"]
TEXTS = [name for name in HEADER if name[0] not in "XY"]
ATTRIBUTE = "is"  # such a row says what one object is like: LabelName2 is then no second object


class OpenImages(RPrecision):
    """Open Images V6, visual relationships.

    Where a user brings the processed list of the scene-graph codes (`vrd-test-anno.json`), it is the split,
    in its order. Else the order is that of the ids in the official CSV, bytewise: so the pools of consecutive
    images do not depend on the order of its rows. As in the processed list, whose makers leave attributes out
    (`is`; https://github.com/Scarecrow0/BGNN-SGG/issues/3), an image whose rows are all attributes has no
    scene graph and is no test image; it stays a known id, and the manifest says how many there are.
    """

    name = "open_images"
    title = "Open Images V6"
    url = "https://storage.googleapis.com/openimages/web/index.html"
    licence = "CC BY 4.0"
    access = "open"
    counted: ClassVar = False  # 5,322 is the length of the processed list, not of the CSV
    defaults: ClassVar = {"split": "test"}
    choices: ClassVar = {"split": tuple(PROCESSED)}

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """The processed list of the chosen split, or else the official CSV."""
        return (f"{PROCESSED[parameters['split']]}|{_csv(parameters['split'])}",)

    def published(self, parameters: Mapping[str, Any]) -> int | None:
        """Test images of the processed list."""
        return 5_322 if parameters["split"] == "test" else None

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """The images of the split with their scene graphs."""
        processed, official = raw / PROCESSED[parameters["split"]], raw / _csv(parameters["split"])
        if processed.is_file():
            images, graphs = read_processed(processed)
            known, told = images, [f"{len(images):,} images, in the order of {processed.name}"]
        elif official.is_file():
            images, known, graphs = read_csv(official)
            told = [f"{len(images):,} images of {official.name}, in the order of their ids"]
            if bare := len(known) - len(images):
                told.append(f"{bare:,} more images have attributes ('is') but no relation and are left out")
        else:
            raise InputError(f"{raw}: neither {processed.name} nor {official.name}; fetch one of them")
        subset, notes = tables(images, known, graphs)
        return subset, told + notes

    def sample(self, folder: Path) -> None:
        """The CSV of each split: 420 images with relations and 30 that have attributes only."""
        for split in PROCESSED:
            lines = [",".join(HEADER)]
            for image in range(450):
                name = f"{number(self.name, split, image):016x}"
                for row in range(1 + number(self.name, split, image, "rows") % 4):
                    key = (self.name, split, image, row)
                    attribute = image >= 420 or (row > 0 and number(*key, "attribute") % 3 == 0)
                    lines.append(",".join([name, *_made_relation(attribute, *key)]))
            write_text("\n".join(lines) + "\n", folder / _csv(split))


def _csv(split: str) -> str:
    return f"oidv6-{split}-annotations-vrd.csv"


def read_processed(path: Path) -> tuple[list[str], dict[str, pa.Array]]:
    """Images in the order of a `vrd-*-anno.json`, and how many objects and distinct relations each has.

    Its labels are positions in lists that it does not hold, so there is no text.
    """
    shape = {"bbox": [[float]], "det_labels": [int], "rel": [[int]], "img_fn": str}
    records = read_raw(path, [shape])
    odd, loose = [], []
    for i, record in enumerate(records):
        boxes = len(record["bbox"])
        if any(len(box) != 4 for box in record["bbox"]) or len(record["det_labels"]) != boxes:
            odd.append(i)
        if any(len(one) != 3 or min(one) < 0 or max(one[:2]) >= boxes for one in record["rel"]):
            loose.append(i)
    refuse(path, odd, "a box that is not 4 numbers, or not one label a box,")
    refuse(path, loose, "a relation that is not [subject, object, predicate] with positions of boxes")
    images = [record["img_fn"].removesuffix(".jpg") for record in records]
    refuse(path, [i for i, image in enumerate(images) if not image], "an empty img_fn")
    refuse(path, repeated(images), "an img_fn that stood earlier")
    relations = [len({tuple(one) for one in record["rel"]}) for record in records]
    return images, {
        "objects": pa.array([len(record["bbox"]) for record in records], pa.int64()),
        "relations": pa.array(relations, pa.int64()),
    }


def read_csv(path: Path) -> tuple[list[str], list[str], dict[str, pa.Array]]:
    """The images with a relation and all images of an `oidv6-*-annotations-vrd.csv`, sorted, and the graphs.

    A row that repeats another in full counts once; an object is a label with its box. The text has a line a
    row, attributes too, labels as they are: "/m/04yx4 holds /m/0342h", the lines in bytewise order.
    """
    import polars as pl

    rows = _read_rows(path).unique()
    relations = rows.filter(pl.col("RelationshipLabel") != ATTRIBUTE)
    ends = [
        frame.select(
            "ImageID",
            pl.col(f"LabelName{end}").alias("label"),
            pl.struct(box).struct.rename_fields(BOXES[0]).alias("box"),
        )
        for frame, end, box in ((rows, 1, BOXES[0]), (relations, 2, BOXES[1]))
    ]
    objects = pl.concat(ends).unique().group_by("ImageID").len("objects")
    line = pl.concat_str("LabelName1", "RelationshipLabel", "LabelName2", separator=" ").sort().str.join("\n")
    graphs = (
        relations.group_by("ImageID")
        .len("relations")
        .join(objects, on="ImageID")
        .join(rows.group_by("ImageID").agg(line.alias("text")), on="ImageID")
        .sort("ImageID")
    )
    if graphs.is_empty():
        raise InputError(f"{path}: holds no relation; fetch the official file again")
    columns = {name: graphs[name].cast(pl.Int64).to_arrow() for name in ("objects", "relations")}
    columns["text"] = graphs["text"].to_arrow().cast(pa.string())
    return graphs["ImageID"].to_list(), rows["ImageID"].unique().sort().to_list(), columns


def _read_rows(path: Path) -> "pl.DataFrame":
    """The rows of the CSV: ids and labels as text (an id may look like a number), boxes as float64."""
    import polars as pl

    try:
        with path.open(encoding="utf-8") as file:
            header = file.readline().rstrip("\r\n").split(",")
        if header != HEADER:
            raise InputError(f"{path}: its first line should be {','.join(HEADER)}")
        types = {name: pl.String if name in TEXTS else pl.Float64 for name in HEADER}
        rows = pl.read_csv(path, schema=types)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not the official CSV ({str(error).splitlines()[0]}); fetch it again") from None
    bad = [name for name in HEADER if rows[name].null_count()]
    if bad:
        lines = rows.with_row_index("line", 2).filter(pl.any_horizontal(pl.col(bad).is_null()))["line"]
        raise InputError(
            f"{path}: {few(bad)} empty in {len(lines)} lines ({few(lines)}); fetch the official file again"
        )
    return rows


LABELS = (
    "/m/04yx4",
    "/m/03bt1vf",
    "/m/01y9k5",
    "/m/04bcr3",
    "/m/0342h",
    "/m/01mzpv",
    "/m/0bt9lr",
    "/m/0199g",
)
RELATIONS = ("at", "holds", "wears", "on", "plays", "ride", "inside_of", "under")
ATTRIBUTES = ("/m/02gy9n", "/m/05z87", "/m/0dnr7", "/m/04lbp")


def _made_relation(attribute: bool, *key: object) -> list[str]:
    """The cells of a made-up row after the image's id; an attribute repeats the box of its object."""
    subject, target = sample(LABELS, 2, *key)
    box = _made_box(*key, 1)
    if attribute:
        return [subject, choice(ATTRIBUTES, *key), *box, *box, ATTRIBUTE]
    return [subject, target, *box, *_made_box(*key, 2), choice(RELATIONS, *key)]


def _made_box(*key: object) -> list[str]:
    """XMin, XMax, YMin and YMax of a made-up box, between 0 and 1."""
    low, high = ([number(*key, part, side) % 500_000 for side in "xy"] for part in ("low", "size"))
    return [f"{(low[i] + extra) / 1e6:.6f}" for i in (0, 1) for extra in (0, 1 + high[i])]


BENCHMARK = OpenImages()
