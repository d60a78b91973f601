"""What a revision holds of a run on a benchmark, each part read where it is asked for."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Key, Plan
from rankledger.predictions.reading import locate
from rankledger.ranking import labels, metrics
from rankledger.scoring import score
from rankledger.subset import Subset, read_subset
from rankledger.tables import InputError, read_json, read_table
from rankledger.uncertainty import Observed, observe
from stages.progress import Progress
from stages.project import SHIPPED_RUNS
from stages.revision import Gone, Revision
from stages.score import describe, fingerprints


class Evidence:
    """What `revision` holds of `run` on `name`; every part may raise `Gone`, or `InputError` where it is broken."""

    def __init__(self, revision: Revision, run: str, name: str):
        self.revision, self.run, self.name = revision, run, name
        self.benchmark = benchmark(name)
        self.stage = f"score@{run}-{name}"
        self.entry: Mapping[str, Any] = (revision.params.get("runs") or {}).get(f"{run}-{name}") or {}

    @property
    def where(self) -> dict[str, tuple[str, str | None]]:
        """The path of the subset, the predictions and the scores, and the stage that writes each, if one does."""
        predict = f"predict@{self.name}" if self.run in SHIPPED_RUNS else None
        return {
            "subset": (f"data/subsets/{self.name}", f"build@{self.name}"),
            "predictions": (f"data/predictions/{self.run}/{self.name}", predict),
            "scores": (f"data/scores/{self.run}/{self.name}", self.stage),
        }

    @cached_property
    def _subset(self) -> tuple[Subset, dict[str, Any]]:
        return read_subset(self.revision.folder(*self.where["subset"]))

    @property
    def subset(self) -> Subset:
        """The tables of the subset."""
        return self._subset[0]

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the subset."""
        return self._subset[1]

    @cached_property
    def files(self) -> dict[str, Path]:
        """The prediction files by task or side."""
        return locate(self.revision.folder(*self.where["predictions"]))

    @cached_property
    def _scored(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """`result.json` and the per-query tables: those of the score stage, or where they are gone made again."""
        try:
            folder = self.revision.folder(*self.where["scores"])
        except Gone:
            with Progress() as progress:
                scored = score(self.subset, self.plan, self.files, self.similarity, self.ties, progress.tell)
            entry = {"run": self.run, "benchmark": self.name, **self.entry}
            prints = fingerprints(self.files)
            return describe(scored, self.plan, entry, self.manifest, self.files, self.subset, prints), scored.tables
        tables = {path.stem: read_table(path) for path in sorted(folder.glob("*.parquet"))}
        return read_json(folder / "result.json"), tables

    @property
    def result(self) -> dict[str, Any]:
        """The content of `result.json`."""
        return self._scored[0]

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The per-query tables by task."""
        return self._scored[1]

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The benchmark's parameters at this revision, those that came later with their default."""
        return self.benchmark.parameters((self.revision.params.get("benchmarks") or {}).get(self.name))

    @cached_property
    def plan(self) -> Plan:
        """What is reported under these parameters, as the present code has it."""
        return self.benchmark.plan(self.parameters)

    @property
    def similarity(self) -> str:
        """Of embeddings."""
        return str(self.entry.get("similarity", "cosine"))

    @cached_property
    def embeds(self) -> bool:
        """Whether there are embeddings, and so a similarity; where nothing scored is left, `rankledger add` said so."""
        try:
            return "similarity" in self.result["protocol"]
        except InputError:
            return "similarity" in self.entry

    @property
    def predictions(self) -> tuple[str | None, str | None]:
        """The MD5 of the predictions that were scored, and of those that are there now, as DVC recorded them."""
        path, stage = self.where["predictions"]
        there = self.revision.hash(path, stage)
        read = (dep.get("md5") for dep in self.revision.stage(self.stage).get("deps", []) if dep["path"] == path)
        return next(read, None) or there, there

    @property
    def ties(self) -> str | None:
        """The tie rule, where it is a parameter."""
        return self.parameters.get("ties")

    @cached_property
    def observed(self) -> dict[Key, Observed]:
        """The trials of each measure."""
        try:
            files = self.files
        except Gone:
            files = {}
        return observe(self.plan, self.subset, self.tables, files)

    def higher_is_better(self, key: Key) -> bool | None:
        """The direction of a metric; none where the plan does not have it (`_std` has no direction)."""
        found = self._metric(key)
        return None if found is None else found.higher_is_better

    def unit(self, key: Key) -> str | None:
        """The unit of a metric: percent, fraction, rank or count; none where the plan does not have it."""
        found = self._metric(key)
        if found is None:
            return None
        return "percent" if self.plan.percent and found.unit == "fraction" else found.unit

    def _metric(self, key: Key) -> labels.LabelMetric | metrics.Metric | None:
        while mean := next((m for m in self.plan.means if m.key == key), None):
            key = mean.of[0]
        measure = next((m for m in self.plan.measures if m.key == key), None)
        if measure is None:
            return None
        return (labels.parse if self.plan.task(measure.task).labels else metrics.parse)(measure.metric)


def split(metric: str) -> tuple[str, str, Key]:
    """A dotted key of `metrics.json` as run, benchmark and key; raises `InputError` where it is none."""
    parts = metric.split(".")
    if len(parts) < 4:
        raise InputError(f"{metric!r}: should look like sample.cirr.val.R@1: run, benchmark, task, metric")
    return parts[0], parts[1], tuple(parts[2:])
