"""FashionIQ: a garment and two sentences ask for another garment, in three categories and two galleries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rankledger.benchmarks.base import Benchmark, Count, Expected, Mean, Measure, Plan, Task
from rankledger.benchmarks.made import COLOURS, choice, number, sample, write_raw
from rankledger.benchmarks.reading import read_raw, refuse, repeated, table
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset

QUERIES_OF = {"dress": 2017, "shirt": 2038, "toptee": 1961}
TASKS = tuple(QUERIES_OF)
SIZES = {
    "original": {"dress": 3817, "shirt": 6346, "toptee": 5373},  # the split file
    "val": {"dress": 2628, "shirt": 3089, "toptee": 2902},  # what the queries name
}
GALLERIES = tuple(SIZES)
QUERY = {"candidate": str, "target": str, "captions": [str]}  # `candidate` is the reference
QUERIES = pa.schema(
    [(name, pa.string()) for name in ("query_id", "task", "reference_id", "text")]
    + [("captions", pa.list_(pa.string()))]
)
PARTS = ("sleeves", "buttons", "a collar", "a belt", "a print", "lace", "pockets", "a hood")
SENTENCES = (
    "is {colour} with {part}",
    "has {part} and is longer",
    "is less formal, {colour}",
    "lacks {part}",
)


class FashionIQ(Benchmark):
    """FashionIQ, the validation split: the targets of test are hidden, so everyone reports val."""

    name = "fashioniq"
    title = "FashionIQ"
    paper = "Wu et al. 2021, arXiv 1905.12794"
    url = "https://github.com/XiaoxiaoGuo/fashion-iq"
    year = 2021
    licence = "CDLA (as its README says)"
    access = "open"
    defaults: ClassVar = {"galleries": ["original"], "reference": "kept"}
    choices: ClassVar = {"galleries": GALLERIES, "reference": ("kept", "removed")}

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Queries and images of each category."""
        return tuple(f"{kind}.{task}.val.json" for task in TASKS for kind in ("cap", "split"))

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """A gallery a category, or two of them; a query's id is its place in the file."""
        queries, pools, trials, qrels, exclusions, notes = [], [], [], [], [], []
        universe = set()
        for task in TASKS:
            path = raw / f"cap.{task}.val.json"
            records = read_raw(path, [QUERY])
            split = raw / f"split.{task}.val.json"
            listed = read_raw(split, [str])
            refuse(split, repeated(listed), "an image that an earlier record is")
            _check(path, records, set(listed))
            named = {record[key] for record in records for key in ("candidate", "target")}
            universe |= {("image", image) for image in listed}
            for view in _chosen(parameters):
                pool = f"{task}/{view}"
                pools += [(pool, image) for image in (listed if view == "original" else named)]
                trials += [(task, view, 0, f"{task}/{i}", pool) for i in range(len(records))]
            for i, record in enumerate(records):
                query = f"{task}/{i}"
                universe.add(("query", query))
                captions = record["captions"]
                text = " and ".join(caption.strip() for caption in captions if caption.strip())
                queries.append((query, task, record["candidate"], text, captions))
                qrels.append((query, record["target"], 1))
                if parameters["reference"] == "removed":
                    exclusions.append((query, record["candidate"]))
            blank = sum(not caption.strip() for record in records for caption in record["captions"])
            if blank:
                notes.append(f"{task}: {blank} blank caption(s), kept as they are")
        subset = Subset(
            queries=table(QUERIES, queries),
            pools=table(POOLS, pools),
            trials=table(TRIALS, trials),
            qrels=table(QRELS, qrels),
            exclusions=table(EXCLUSIONS, exclusions),
            universe=table(UNIVERSE, sorted(universe)),
        )
        return subset, notes

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """R@10 and R@50 by category and gallery, the mean of both, and all three over the categories."""
        names = ("R@10", "R@50")
        measures, means = [], []
        for view in _chosen(parameters):
            measures += [Measure(task, view, name, (task, view, name)) for task in TASKS for name in names]
            for name in names:
                means.append(Mean(("mean", view, name), tuple((task, view, name) for task in TASKS)))
            for row in (*TASKS, "mean"):
                means.append(Mean((row, view, "mean"), tuple((row, view, name) for name in names)))
        main = ("mean", _chosen(parameters)[0], "mean")
        return Plan(tasks=tuple(map(Task, TASKS)), measures=tuple(measures), means=tuple(means), main=main)

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        """The published counts."""
        views = [(task, view) for view in _chosen(parameters) for task in TASKS]
        counts = [Count("queries", task, view, QUERIES_OF[task]) for task, view in views]
        counts += [Count("candidates", task, view, SIZES[view][task]) for task, view in views]
        return Expected(counts=tuple(counts) if parameters["source"] == "official" else ())

    def sample(self, folder: Path) -> None:
        """120 queries a category, one with an empty caption; half of the 400 images are in no query."""
        for task in TASKS:
            images = [f"B{TASKS.index(task)}{17 * i + number(self.name, task, i) % 17:07}X" for i in range(400)]
            records = []
            for i in range(120):
                key = (self.name, task, i)
                candidate, target = sample(images[:200], 2, *key)
                captions = [_caption("first", *key), _caption("second", *key)]
                if (task, i) == ("shirt", 5):
                    captions[1] = ""
                records.append({"target": target, "candidate": candidate, "captions": captions})
            write_raw(records, folder / f"cap.{task}.val.json")
            write_raw(sample(images, len(images), self.name, task), folder / f"split.{task}.val.json")


def _chosen(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The galleries that the parameters name, in the benchmark's order."""
    return tuple(view for view in GALLERIES if view in parameters["galleries"])


def _check(path: Path, records: list[dict[str, Any]], listed: set[str]) -> None:
    """Refuse records that contradict themselves or the split file."""
    odd = [i for i, record in enumerate(records) if len(record["captions"]) != 2]
    refuse(path, odd, "captions that are not two")
    foreign = [i for i, r in enumerate(records) if r["candidate"] not in listed or r["target"] not in listed]
    refuse(path, foreign, "an image that the split file does not list")
    same = [i for i, record in enumerate(records) if record["candidate"] == record["target"]]
    refuse(path, same, "a target equal to the reference")


def _caption(*key: object) -> str:
    """A made-up sentence on how the target differs."""
    colour, part = choice(COLOURS, "colour", *key), choice(PARTS, "part", *key)
    return choice(SENTENCES, "sentence", *key).format(colour=colour, part=part)


BENCHMARK = FashionIQ()
