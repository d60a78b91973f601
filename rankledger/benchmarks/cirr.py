"""CIRR: a photo and a sentence ask for another photo, in a whole gallery and in a group of six alike ones."""

from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rankledger.benchmarks.base import Benchmark, Count, Expected, Mean, Measure, Plan, Task
from rankledger.benchmarks.made import change, choice, sample, write_raw
from rankledger.benchmarks.reading import read_raw, refuse, repeated, table
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset

TASKS = ("val", "test1")  # the server alone knows the targets of test1
QUERY = {"pairid": int, "reference": str, "caption": str, "img_set": {"id": int, "members": [str]}}
LABELS = {"target_hard": str, "target_soft": {str: float}}
QUERIES = pa.schema([(name, pa.string()) for name in ("query_id", "task", "reference_id", "text", "img_set")])


class Cirr(Benchmark):
    """CIRR, version rc2."""

    name = "cirr"
    title = "CIRR"
    paper = "Liu et al. 2021, arXiv 2108.04024"
    url = "https://github.com/Cuberick-Orion/CIRR"
    year = 2021
    licence = "MIT"
    access = "open"
    defaults: ClassVar = {"labels": "hard", "reference": "removed"}
    choices: ClassVar = {"labels": ("hard", "soft"), "reference": ("removed", "kept")}

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Queries and gallery of both splits."""
        return tuple(f"{kind}.rc2.{task}.json" for task in TASKS for kind in ("cap", "split"))

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """One gallery a split, one group a query; the reference leaves both, unless it is kept."""
        kept, soft = parameters["reference"] == "kept", parameters["labels"] == "soft"
        queries, pools, trials, qrels, exclusions, notes = [], [], [], [], [], []
        known: dict[str, set[str]] = {"query": set(), "image": set()}
        for task in TASKS:
            path = raw / f"cap.rc2.{task}.json"
            records = read_raw(path, [QUERY | LABELS if task == "val" else QUERY])
            gallery = read_raw(raw / f"split.rc2.{task}.json", {str: str})
            _check(path, records, gallery.keys(), known["query"])
            pools += [(f"{task}/gallery", name) for name in gallery]
            known["image"].update(gallery)
            for record in records:
                query, reference, group = str(record["pairid"]), record["reference"], record["img_set"]
                known["query"].add(query)
                queries.append((query, task, reference, record["caption"], str(group["id"])))
                trials.append((task, "gallery", 0, query, f"{task}/gallery"))
                trials.append((task, "group", 0, query, f"{task}/group/{query}"))
                members = [name for name in group["members"] if kept or name != reference]
                pools += [(f"{task}/group/{query}", name) for name in members]
                if not kept:
                    exclusions.append((query, reference))
            blank = sum(not record["caption"].strip() for record in records)
            if blank:
                notes.append(f"{task}: {blank} blank caption(s), kept as they are")
            if task == "val" and soft:
                weights = [(r["pairid"], name, w) for r in records for name, w in r["target_soft"].items()]
                qrels += [(str(pairid), name, weight) for pairid, name, weight in weights if weight > 0]
                lack = sum(r["target_hard"] not in r["target_soft"] for r in records)
                other = sum(r["target_soft"].get(r["target_hard"], 1) != 1 for r in records)
                notes.append(f"val: {lack} record(s) give target_hard no weight, {other} one other than 1")
            elif task == "val":
                qrels += [(str(record["pairid"]), record["target_hard"], 1) for record in records]
        subset = Subset(
            queries=table(QUERIES, queries),
            pools=table(POOLS, pools),
            trials=table(TRIALS, trials),
            qrels=table(QRELS, qrels),
            exclusions=table(EXCLUSIONS, exclusions),
            universe=table(UNIVERSE, [(side, one) for side, ids in known.items() for one in sorted(ids)]),
        )
        return subset, notes

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """R@K in the gallery, Rsubset@K in the group; with soft labels the highest weight among the top K."""
        metric = "Best" if parameters["labels"] == "soft" else "R"
        return Plan(
            tasks=(Task("val"), Task("test1", hidden=True)),
            measures=(
                *(Measure("val", "gallery", f"{metric}@{k}", ("val", f"R@{k}")) for k in (1, 5, 10, 50)),
                *(Measure("val", "group", f"{metric}@{k}", ("val", f"Rsubset@{k}")) for k in (1, 2, 3)),
            ),
            means=(Mean(("val", "mean"), (("val", "R@5"), ("val", "Rsubset@1"))),),
            files={(task, "group"): f"{task}_subset" for task in TASKS},
            main=("val", "mean"),
        )

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        """Groups of 5, or 6 with the reference; the published counts of version rc2."""
        kept, soft = parameters["reference"] == "kept", parameters["labels"] == "soft"
        why = "no image of the pool has a soft weight above 0; such a query scores 0 and counts in the mean"
        views = [(task, view) for task in TASKS for view in ("gallery", "group")]
        counts = [Count("queries", task, view, {"val": 4181, "test1": 4148}[task]) for task, view in views]
        counts += [Count("candidates", "val", "gallery", 2297), Count("candidates", "test1", "gallery", 2315)]
        if soft:
            counts.append(Count("unanswerable", "val", "gallery", 3))
            counts.append(Count("unanswerable", "val", "group", 3 if kept else 18))
        return Expected(
            pool_sizes={(task, "group"): 6 if kept else 5 for task in TASKS},
            counts=tuple(counts) if parameters["source"] == "official" else (),
            unanswerable={("val", "gallery"): why, ("val", "group"): why} if soft else {},
        )

    def sample(self, folder: Path) -> None:
        """250 queries of val and 100 of test1, in groups of six, with the oddities of the real labels."""
        for task, stem, groups in (("val", "dev", 50), ("test1", "test1", 20)):
            names = [f"{stem}-{i}-{i % 4}-img{i % 2}" for i in range(7 * groups)]  # a seventh is in no group
            records: list[dict[str, Any]] = []
            for position in range(5 * groups):
                group, i = divmod(position, 5)
                members = names[6 * group : 6 * group + 6]
                shown = sample(members, 6, self.name, task, group)
                record: dict[str, Any] = {"pairid": 12060 + 2 * position + (task == "test1")}
                record["reference"] = members[i]
                if task == "val":
                    record["target_hard"] = members[i + 1]
                    record["target_soft"] = _soft(position, members[i + 1], members[i], names)
                blank = (task, position) == ("test1", 7)
                record["caption"] = " " if blank else change(self.name, task, position)
                record["img_set"] = {"id": 3 * group, "members": shown, "reference_rank": i}
                records.append(record)
            write_raw(records, folder / f"cap.rc2.{task}.json")
            split = {name: f"./{stem}/{name}.png" for name in sample(names, len(names), self.name, task)}
            write_raw(split, folder / f"split.rc2.{task}.json")


def _soft(position: int, target: str, reference: str, names: list[str]) -> dict[str, float]:
    """Soft labels of a made-up record: mostly the target alone, now and then an oddity of the real ones."""
    other = choice([name for name in names if name not in (target, reference)], "soft", position)
    if position % 40 == 11:
        return {reference: 1.0} | ({other: 1.0} if position % 80 == 11 else {})
    if position % 40 == 23:
        return {target: 0.5, other: 0.2}
    return {target: 1.0} | {3: {other: -1.0}, 7: {other: 0.5}}.get(position % 10, {})


def _check(path: Path, records: list[dict[str, Any]], gallery: Set[str], known: Set[str]) -> None:
    """Refuse records that contradict each other or the gallery (`known`: pairids of the other)."""

    def where(fault: Callable[[dict[str, Any], list[str]], bool], what: str) -> None:
        refuse(path, [i for i, r in enumerate(records) if fault(r, r["img_set"]["members"])], what)

    refuse(path, repeated(r["pairid"] for r in records), "a pairid that an earlier record has")
    where(lambda r, _: str(r["pairid"]) in known, "a pairid that the other split has")
    where(lambda _, members: len(members) != 6 or len(set(members)) != 6, "a group that is not 6 images")
    where(lambda r, members: r["reference"] not in members, "a group without the reference")
    where(lambda _, members: not gallery >= set(members), "an image that the split file does not list")
    if path.name == "cap.rc2.val.json":
        where(lambda r, _: not gallery >= r["target_soft"].keys(), "a soft label outside the split file")
        where(lambda r, members: r["target_hard"] not in members, "a group without target_hard")
        where(lambda r, _: r["target_hard"] == r["reference"], "target_hard equal to the reference")


BENCHMARK = Cirr()
