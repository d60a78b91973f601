"""What Visual Genome and Open Images V6 share: graphs and images look for each other; R-Precision, twice."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from rankledger.benchmarks.base import Benchmark, Count, Expected, Measure, Plan, Task
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset

CUTS = (10, 50, 100)
TASKS = (
    Task("graph2image", query_side="graph", candidate_side="image", guided_side="image"),
    Task("image2graph", query_side="image", candidate_side="graph", guided_side="image"),
)

Triplets = dict[tuple[int, str, int], str]  # (subject, predicate, object) → in words


class RPrecision(Benchmark):
    """A benchmark of Cong et al. 2023: each test image and its scene graph bear the image's id.

    `R-Precision@K` is a hit in the top K of all test images, divided by K: with one right image it cannot
    pass 1/K. `R-Precision_pool@K` is the authors' own: consecutive pools of K, a hit where the right one
    comes first; chance is 1/K. `R@K` stands beside them, so that the three can be told apart.
    """

    paper = "Cong et al. 2023, arXiv 2304.00590"
    year = 2023
    variants: ClassVar = ("location_free", "location_bound")
    counted: ClassVar = True  # whether the published number was counted in the official files themselves

    @abstractmethod
    def published(self, parameters: Mapping[str, Any]) -> int | None:
        """How many test images the official files have under these parameters; None where nobody says."""

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """Both senses of R-Precision and R@K, in both directions."""
        measures: list[Measure] = []
        for task in TASKS:
            for name, metric, view in (
                ("R-Precision@{k}", "P@{k}", "all"),
                ("R-Precision_pool@{k}", "R@1", "pool{k}"),
                ("R@{k}", "R@{k}", "all"),
            ):
                measures += [
                    Measure(task.name, view.format(k=k), metric.format(k=k), (task.name, name.format(k=k)))
                    for k in CUTS
                ]
        return Plan(tasks=TASKS, measures=tuple(measures), percent=False)

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        """Pools of K, and the published number of test images, of which the last n mod K are in no pool."""
        number = self.published(parameters) if parameters["source"] == "official" else None
        sizes = {} if number is None else {"all": number, **{f"pool{k}": number // k * k for k in CUTS}}
        return Expected(
            pool_sizes={(task.name, f"pool{k}"): k for task in TASKS for k in CUTS},
            counts=tuple(
                Count(what, task.name, view, size, self.counted)
                for task in TASKS
                for view, size in sizes.items()
                for what in ("queries", "candidates")
            ),
        )


def tables(images: Sequence[str], known: Iterable[str], graphs: Mapping[str, pa.Array]) -> tuple[Subset, list[str]]:
    """The subset of an ordered list of distinct test images, and notes on the images that no pool holds.

    `known` are all ids of the raw files; `graphs` are columns that describe the images' scene graphs, one
    value an image. They stand with the queries of graph2image; where the image is the query they are null,
    for there the graph is the answer.
    """
    ids = pa.array(images, pa.string())
    n = len(ids)
    pooled = [("all", ids, pa.repeat("all", n))]
    notes = []
    for k in CUTS:
        kept = n // k * k  # the last, incomplete pool is dropped
        names = pa.array([f"pool{k}/{i // k}" for i in range(kept)], pa.string())
        pooled.append((f"pool{k}", ids[:kept], names))
        if kept < n:
            notes.append(f"pool{k}: the last {n - kept} of {n:,} images fill no pool of {k} and are in none")
    everyone = sorted(known)
    subset = Subset(
        queries=pa.concat_tables(
            pa.table(
                {
                    "query_id": ids,
                    "task": pa.repeat(task.name, n),
                    **{
                        name: column if task.query_side == "graph" else pa.nulls(n, column.type)
                        for name, column in graphs.items()
                    },
                }
            )
            for task in TASKS
        ),
        pools=pa.concat_tables(pa.table([names, some], schema=POOLS) for _, some, names in pooled),
        trials=pa.concat_tables(
            pa.table(
                [
                    pa.repeat(task.name, len(some)),
                    pa.repeat(view, len(some)),
                    pa.repeat(pa.scalar(0, pa.int64()), len(some)),
                    some,
                    names,
                ],
                schema=TRIALS,
            )
            for task in TASKS
            for view, some, names in pooled
        ),
        qrels=pa.table([ids, ids, pa.repeat(pa.scalar(1.0, pa.float64()), n)], schema=QRELS),
        exclusions=EXCLUSIONS.empty_table(),
        universe=pa.concat_tables(
            pa.table([pa.repeat(side, len(everyone)), pa.array(everyone, pa.string())], schema=UNIVERSE)
            for side in ("graph", "image")
        ),
    )
    return subset, notes


def texts(graphs: Iterable[Triplets | None]) -> pa.Array:
    """A line a triplet, "man wears sneakers", sorted; empty for a graph without any, null for no graph."""
    return pa.array([None if g is None else "\n".join(sorted(g.values())) for g in graphs], pa.string())
