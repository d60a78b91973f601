"""CIRCO: a photo and a sentence ask for photos of COCO's unlabeled images, of which several are right."""

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rankledger.benchmarks.base import Benchmark, Count, Expected, Measure, Plan, Task
from rankledger.benchmarks.made import THINGS, change, choice, number, sample, write_raw
from rankledger.benchmarks.reading import parse, read_raw, refuse, repeated, table
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset
from rankledger.tables import InputError

IMAGES = "image_info_unlabeled2017.zip"
CUTOFFS = (5, 10, 25, 50)
ASPECTS = (
    "addition",
    "cardinality",
    "comparative_statement",
    "compare_change",
    "direct_addressing",
    "negation",
    "spatial_relations_background",
    "statement_with_conjunction",
    "viewpoint",
)
# Both splits count their queries from 0: tables name the task too, and each split has a side of its own.
SIDES = {"val": "query", "test": "test_query"}  # the server alone knows the targets of test
QUERY = {"id": int, "reference_img_id": int, "relative_caption": str, "shared_concept": str}
LABELS = {"target_img_id": int, "gt_img_ids": [int], "semantic_aspects": [str]}
TARGET, OTHER = 2, 1  # relevance
QUERIES = pa.schema(
    [(name, pa.string()) for name in ("query_id", "task", "reference_id", "text", "shared_concept")]
    + [("aspects", pa.list_(pa.string()))]
)
OF_TASK = pa.field("task", pa.string())


class Circo(Benchmark):
    """CIRCO."""

    name = "circo"
    title = "CIRCO"
    paper = "Baldrati et al. 2023, arXiv 2303.15247"
    url = "https://github.com/miccunifi/CIRCO"
    year = 2023
    licence = "CC BY-NC 4.0"
    access = "open"
    defaults: ClassVar = {"ap_denominator": "min", "reference": "kept"}
    choices: ClassVar = {"ap_denominator": ("min", "n_gt"), "reference": ("kept", "removed")}

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Queries of both splits, and the list of COCO's unlabeled images."""
        return ("val.json", "test.json", IMAGES)

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """One gallery for all queries; the target is worth 2, the other right images 1."""
        gallery = _gallery(raw / IMAGES)
        queries, trials, qrels, exclusions, notes = [], [], [], [], []
        universe = [("image", str(image)) for image in sorted(gallery)]
        for task, side in SIDES.items():
            path = raw / f"{task}.json"
            records = read_raw(path, [QUERY | LABELS if task == "val" else QUERY])
            _check(path, records, gallery)
            for record in records:
                query, reference = str(record["id"]), str(record["reference_img_id"])
                aspects = sorted(record["semantic_aspects"]) if task == "val" else []
                text, concept = record["relative_caption"], record["shared_concept"]
                queries.append((query, task, reference, text, concept, aspects))
                trials.append((task, "all", 0, query, "gallery"))
                universe.append((side, query))
                if parameters["reference"] == "removed":
                    exclusions.append((query, reference, task))
                if task == "val":
                    for image in record["gt_img_ids"]:
                        relevance = TARGET if image == record["target_img_id"] else OTHER
                        qrels.append((query, str(image), relevance, task))
            if task == "val":
                absent = set(ASPECTS).difference(*(record["semantic_aspects"] for record in records))
                notes += [f"val: no record has the aspect {aspect}" for aspect in sorted(absent)]
        subset = Subset(
            queries=table(QUERIES, queries),
            pools=table(POOLS, (("gallery", str(image)) for image in gallery)),
            trials=table(TRIALS, trials),
            qrels=table(QRELS.append(OF_TASK), qrels),
            exclusions=table(EXCLUSIONS.append(OF_TASK), exclusions),
            universe=table(UNIVERSE, universe),
        )
        return subset, notes

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """mAP@K over all right images, R@K of the target alone, and mAP@10 by semantic aspect."""
        ap = "AP" if parameters["ap_denominator"] == "n_gt" else "AP(denominator=min)"
        return Plan(
            tasks=(
                Task("val", SIDES["val"]),
                Task("test", SIDES["test"], guided_side=SIDES["test"], hidden=True),
            ),
            measures=(
                *(Measure("val", "all", f"{ap}@{k}", ("val", f"mAP@{k}")) for k in CUTOFFS),
                *(Measure("val", "all", f"R(rel={TARGET})@{k}", ("val", f"R@{k}")) for k in CUTOFFS),
                *(
                    Measure("val", "all", f"{ap}@10", ("aspects", aspect), where=("aspects", aspect))
                    for aspect in ASPECTS
                ),
            ),
        )

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        """The published counts."""
        counts = [Count("queries", task, "all", {"val": 220, "test": 800}[task]) for task in SIDES]
        counts += [Count("candidates", task, "all", 123_403) for task in SIDES]
        return Expected(counts=tuple(counts) if parameters["source"] == "official" else ())

    def sample(self, folder: Path) -> None:
        """220 queries of val and 800 of test, as many as the real ones, over 3,000 images."""
        gallery = [1000 + 7 * i + number("circo", i) % 7 for i in range(3000)]
        for task, queries in (("val", 220), ("test", 800)):
            records = []
            for i in range(queries):
                key = (self.name, task, i)
                start = number(*key) % 2900
                reference, target, *others = sample(gallery[start : start + 40], 16, *key)
                record: dict[str, Any] = {"reference_img_id": reference}
                if task == "val":
                    record["target_img_id"] = target
                    record["gt_img_ids"] = [target, *others[: choice((0, 1, 1, 2, 2, 3, 5, 8, 13), *key)]]
                    record["semantic_aspects"] = sample(ASPECTS, 1 + i % 4, *key)
                record["relative_caption"] = change(*key)
                record["shared_concept"] = f"a {choice(THINGS, 'shared', *key)}"
                records.append(record | {"id": i})
            write_raw(records, folder / f"{task}.json")
        images = [{"id": image, "file_name": f"{image:012}.jpg"} for image in sample(gallery, 3000, self.name)]
        member = zipfile.ZipInfo("annotations/image_info_unlabeled2017.json", (2017, 9, 1, 0, 0, 0))
        member.create_system = 3  # the same bytes on every system
        with zipfile.ZipFile(folder / IMAGES, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(member, json.dumps({"info": {"description": "made up"}, "images": images}))


def _gallery(path: Path) -> Set[int]:
    """The ids of the images that the archive's JSON file lists; the archive is not extracted."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("image_info_unlabeled2017.json")]
            if len(names) != 1:
                raise InputError(f"{path}: no image_info_unlabeled2017.json in it; fetch the official file again")
            text = archive.read(names[0])
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; fetch it") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise InputError(f"{path}: not a whole zip file ({error}); fetch it again") from None
    ids = [image["id"] for image in parse(text, {"images": [{"id": int}]}, path)["images"]]
    refuse(path, repeated(ids), "an image id that an earlier record has")
    return set(ids)


def _check(path: Path, records: list[dict[str, Any]], gallery: Set[int]) -> None:
    """Refuse records that contradict each other or the gallery."""

    def where(fault: Callable[[dict[str, Any]], bool], what: str) -> None:
        refuse(path, [i for i, record in enumerate(records) if fault(record)], what)

    refuse(path, repeated(record["id"] for record in records), "an id that an earlier record has")
    where(lambda r: r["reference_img_id"] not in gallery, f"a reference that {IMAGES} does not list")
    if path.name == "val.json":
        where(lambda r: not gallery >= set(r["gt_img_ids"]), f"a right image that {IMAGES} does not list")
        where(lambda r: len(set(r["gt_img_ids"])) != len(r["gt_img_ids"]), "a right image named twice")
        where(lambda r: r["target_img_id"] not in r["gt_img_ids"], "a target that is not among gt_img_ids")
        where(lambda r: r["reference_img_id"] in r["gt_img_ids"], "a reference that is among gt_img_ids")
        where(lambda r: not set(ASPECTS) >= set(r["semantic_aspects"]), "an unknown semantic aspect")


BENCHMARK = Circo()
