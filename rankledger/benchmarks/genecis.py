"""GeneCIS: a photo and a condition ask for one of 10 or 15 photos, each query with a pool of its own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rankledger.benchmarks.base import Benchmark, Count, Expected, Mean, Measure, Plan, Task
from rankledger.benchmarks.made import COLOURS, THINGS, choice, number, sample, write_raw
from rankledger.benchmarks.reading import Number, read_raw, refuse, table
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset
from rankledger.tables import few

QUERIES_OF = {"focus_attribute": 2000, "change_attribute": 2112, "focus_object": 1960, "change_object": 1960}
TASKS = tuple(QUERIES_OF)
POOL_OF = {task: 10 if task == "focus_attribute" else 15 for task in TASKS}
ID = (str, Number)
PHOTO = {"val_image_id": ID}
CROP = {"image_id": ID, "instance_bbox": [Number]}
QUERIES = pa.schema([(name, pa.string()) for name in ("query_id", "task", "reference_id", "text")])


class Genecis(Benchmark):
    """GeneCIS: focus on, or change, an attribute or an object."""

    name = "genecis"
    title = "GeneCIS"
    paper = "Vaze et al. 2023, arXiv 2306.07969"
    url = "https://github.com/facebookresearch/genecis"
    year = 2023
    licence = "CC BY-NC 4.0"
    access = "open"
    defaults: ClassVar = {"tasks": list(TASKS)}
    choices: ClassVar = {"tasks": TASKS}

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """One file a task."""
        return tuple(f"{task}.json" for task in _chosen(parameters))

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """A pool a query: the target and the gallery. Repeated records stay: their position is their id."""
        queries, pools, trials, qrels, universe, notes = [], [], [], [], set(), []
        for task in _chosen(parameters):
            path = raw / f"{task}.json"
            image = PHOTO if task.endswith("_object") else CROP
            shape = {"condition": str, "reference": image, "target": image, "gallery": [image]}
            records = read_raw(path, [shape], verbatim=True)
            if image is CROP:
                boxes = [[r["reference"], r["target"], *r["gallery"]] for r in records]
                odd = [i for i, crops in enumerate(boxes) if any(len(crop["instance_bbox"]) != 4 for crop in crops)]
                refuse(path, odd, "an instance_bbox that is not 4 numbers")
            again = []
            for i, record in enumerate(records):
                query = f"{task}/{i}"
                reference, target = _id(record["reference"]), _id(record["target"])
                pool = {target, *map(_id, record["gallery"])}
                if len(pool) < 1 + len(record["gallery"]):
                    again.append(i)
                queries.append((query, task, reference, record["condition"]))
                trials.append((task, "all", 0, query, query))
                pools += [(query, candidate) for candidate in sorted(pool)]
                qrels.append((query, target, 1))
                universe |= {("query", query), *(("image", one) for one in (reference, *pool))}
            if again:
                notes.append(f"{task}: {len(again)} record(s) list a candidate twice, which counts once: {few(again)}")
            copies = len(records) - len({json.dumps(record, sort_keys=True) for record in records})
            if copies:
                notes.append(f"{task}: {copies} record(s) repeat an earlier one in full; each is a query")
        subset = Subset(
            queries=table(QUERIES, queries),
            pools=table(POOLS, pools),
            trials=table(TRIALS, trials),
            qrels=table(QRELS, qrels),
            exclusions=table(EXCLUSIONS, []),
            universe=table(UNIVERSE, sorted(universe)),
        )
        return subset, notes

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """R@K by task, and their mean where all four tasks are chosen."""
        tasks = _chosen(parameters)
        cutoffs = (1, 2, 3)
        means = [Mean(("mean", f"R@{k}"), tuple((task, f"R@{k}") for task in TASKS)) for k in cutoffs]
        return Plan(
            tasks=tuple(Task(task) for task in tasks),
            measures=tuple(Measure(task, "all", f"R@{k}", (task, f"R@{k}")) for task in tasks for k in cutoffs),
            means=tuple(means) if tasks == TASKS else (),
            main=("mean", "R@1") if tasks == TASKS else None,
        )

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        """Pools of 10 or 15; record 19 of change_object lists its target again, in the sample too."""
        tasks = _chosen(parameters)
        counts = tuple(Count("queries", task, "all", QUERIES_OF[task]) for task in tasks)
        return Expected(
            pool_sizes={(task, "all"): POOL_OF[task] for task in tasks},
            odd_pools={"change_object/19": 14} if "change_object" in tasks else {},
            counts=counts if parameters["source"] == "official" else (),
        )

    def sample(self, folder: Path) -> None:
        """80 queries a task, among them a full repeat, and the odd record 19 of change_object."""
        for task in TASKS:
            image = _photo if task.endswith("_object") else _crop
            records = []
            for i in range(80):
                key = (self.name, task, i - (i == 30))  # record 30 repeats record 29
                reference, target, *gallery = map(image, sample(range(120), 1 + POOL_OF[task], *key))
                if (task, i) == ("change_object", 19):
                    gallery[5] = target
                condition = choice(THINGS if task.endswith("_object") else COLOURS, "condition", *key)
                records.append({"condition": condition, "gallery": gallery, "reference": reference, "target": target})
            write_raw(records, folder / f"{task}.json")


def _chosen(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The tasks that the parameters name, in the benchmark's order."""
    return tuple(task for task in TASKS if task in parameters["tasks"])


def _id(image: Mapping[str, Any]) -> str:
    """The id of a COCO image, or "id:x,y,w,h" for a crop of a Visual Genome image; numbers as in the file."""
    if "val_image_id" in image:
        return str(image["val_image_id"])
    return f"{image['image_id']}:{','.join(image['instance_bbox'])}"


def _photo(i: int) -> dict[str, Any]:
    return {"val_image_id": 1000 + 37 * i}


def _crop(i: int) -> dict[str, Any]:
    x, y, w, h = (number("bbox", i, side) % 800 / 2 for side in "xywh")
    return {"image_id": 2300000 + 37 * (i // 2), "instance_bbox": [int(x), int(y), 10 + w, 10 + h]}


BENCHMARK = Genecis()
