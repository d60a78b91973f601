"""Whether a subset is what its benchmark says it is: a model for each table, and rules across the tables.

pandera takes half a second to import, so only `validate` (the stage) imports this module.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

import pandera.polars as pa
import polars as pl
from pandera.config import get_config_global
from pandera.errors import SchemaErrors

from rankledger.benchmarks.base import Benchmark, Expected, Plan
from rankledger.subset import Subset
from rankledger.tables import few, fingerprint, to_json

VERIFIED = ("sha256", "md5", "git_blob_sha1")  # what `fetch` can have compared a source file with

Status = Literal["passed", "note", "failed"]
Origin = Literal["official", "sample", "unverified"]


@dataclass(frozen=True)
class Check:
    """What one rule says of one subject.

    Attributes:
        name: the rule, in kebab-case; the same from version to version.
        status: "passed", "note" (a person should know of it) or "failed" (nothing should be scored on it).
        subject: a table, a task, a view as "task/view", or a source file.
        detail: one line, with counts and the first few ids.
    """

    name: str
    status: Status
    subject: str
    detail: str


def _id() -> Any:
    return pa.Field(str_length={"min_value": 1})


class Queries(pa.DataFrameModel):
    """`queries.parquet`; what else a benchmark knows of a query stands in further columns."""

    task: str = _id()
    query_id: str = _id()

    class Config:
        """A task asks a query once."""

        unique: ClassVar = ["task", "query_id"]


class Pools(pa.DataFrameModel):
    """`pools.parquet`."""

    pool_id: str = _id()
    candidate_id: str = _id()

    class Config:
        """A candidate stands in a pool once."""

        strict = True
        unique: ClassVar = ["pool_id", "candidate_id"]


class Trials(pa.DataFrameModel):
    """`trials.parquet`."""

    task: str = _id()
    view: str = _id()
    repeat: int = pa.Field(ge=0)
    query_id: str = _id()
    pool_id: str = _id()

    class Config:
        """A query is ranked once in each repeat of a view."""

        strict = True
        unique: ClassVar = ["task", "view", "repeat", "query_id"]


class Qrels(pa.DataFrameModel):
    """`qrels.parquet`."""

    query_id: str = _id()
    candidate_id: str = _id()
    relevance: float = pa.Field()

    class Config:
        """A candidate has one relevance for a query."""

        strict = True
        unique: ClassVar = ["query_id", "candidate_id"]

    @pa.check("relevance", name="finite")
    @classmethod
    def finite(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """Infinity passes all of pandera's own checks."""
        return data.lazyframe.select(pl.col(data.key).is_finite())


class TaskQrels(Qrels):
    """`qrels.parquet` of a benchmark whose tasks share query ids but not answers."""

    task: str = _id()

    class Config:
        """A candidate has one relevance for a query of a task."""

        strict = True
        unique: ClassVar = ["task", "query_id", "candidate_id"]


class Exclusions(pa.DataFrameModel):
    """`exclusions.parquet`."""

    query_id: str = _id()
    candidate_id: str = _id()

    class Config:
        """A candidate is taken out once."""

        strict = True
        unique: ClassVar = ["query_id", "candidate_id"]


class TaskExclusions(Exclusions):
    """`exclusions.parquet` of a benchmark whose tasks share query ids."""

    task: str = _id()

    class Config:
        """A candidate is taken out of a task's query once."""

        strict = True
        unique: ClassVar = ["task", "query_id", "candidate_id"]


class Universe(pa.DataFrameModel):
    """`universe.parquet`."""

    side: str = _id()
    id: str = _id()

    class Config:
        """An id stands on a side once."""

        strict = True
        unique: ClassVar = ["side", "id"]


MODELS: Mapping[str, type[pa.DataFrameModel]] = {
    "queries": Queries,
    "pools": Pools,
    "trials": Trials,
    "qrels": Qrels,
    "exclusions": Exclusions,
    "universe": Universe,
}
TASK_MODELS: Mapping[str, type[pa.DataFrameModel]] = {"qrels": TaskQrels, "exclusions": TaskExclusions}


def validate(
    subset: Subset, manifest: Mapping[str, Any], benchmark: Benchmark, parameters: Mapping[str, Any]
) -> list[Check]:
    """All checks of a subset, in a fixed order.

    `manifest` is what `write_subset` wrote beside the tables, `parameters` all of the benchmark's parameters.
    The rules across tables need every column in its type: where one is wrong, a note says that none was run.
    """
    enabled = _pandera_enabled()
    if enabled.status == "failed":
        return [enabled]
    frames = {name: cast(pl.DataFrame, pl.from_arrow(table)) for name, table in subset.tables().items()}
    checks = [
        enabled,
        _built_for(manifest, benchmark, parameters),
        *_sources(manifest),
        *(Check("build-note", "note", "build", " ".join(str(n).split())) for n in manifest.get("notes", ())),
        *(check for name, frame in frames.items() for check in _models(name, frame)),
        *_fingerprints(subset, manifest),
    ]
    if any(c.name == "schema" and c.status == "failed" for c in checks):
        return [*checks, Check("rules", "note", "tables", "no rule across tables was run, see schema")]
    origin = _origin(manifest)
    rules = _Rules(**frames, plan=benchmark.plan(parameters), expected=benchmark.expected(parameters))
    return [
        *checks,
        *rules.planned(origin),
        *rules.references(),
        *rules.repeats(int(parameters.get("repeats", 1))),
        *rules.known(),
        *rules.label_pools(),
        *rules.pool_sizes(),
        *rules.hidden_answers(),
        *rules.answers(),
        *rules.counts(origin),
    ]


def _judge(name: str, subject: str, wrong: Iterable[object], bad: str, good: str) -> Check:
    """A failed check that counts and shows what is `wrong`, or a passed one."""
    wrong = list(wrong)
    if wrong:
        return Check(name, "failed", subject, f"{len(wrong):,} {bad}: {few(wrong)}")
    return Check(name, "passed", subject, good)


# What each table is by itself -------------------------------------------------------------------------------


def _pandera_enabled() -> Check:
    """Whether pandera finds a wrong type and a wrong value: settings and the environment can switch both off.

    Its narwhals backend is refused: it shows rows that are not the wrong ones.
    """

    def passes(repeat: float) -> bool:
        trial = {"task": "a", "view": "a", "repeat": repeat, "query_id": "a", "pool_id": "a"}
        try:
            Trials.validate(pl.DataFrame([trial]), lazy=True)
        except SchemaErrors:
            return False
        return True

    if get_config_global().use_narwhals_backend or passes(0.0) or passes(-1):
        variables = "PANDERA_VALIDATION_ENABLED, PANDERA_VALIDATION_DEPTH and PANDERA_USE_NARWHALS_BACKEND"
        what = f"pandera is switched off or limited, so nothing was checked; unset {variables}"
        return Check("pandera-enabled", "failed", "pandera", what)
    return Check("pandera-enabled", "passed", "pandera", "types and values are checked")


PANDERA_SAYS = {
    "column_in_dataframe": "a column is missing",
    "column_in_schema": "a column that this table has not",
    "not_nullable": "null or NaN",
    "str_length(1, None)": "empty",
}


def _models(name: str, frame: pl.DataFrame) -> Iterator[Check]:
    """`schema` and `unique-keys` of a table."""
    model = TASK_MODELS.get(name, MODELS[name]) if "task" in frame.columns else MODELS[name]
    keys = model.to_schema().unique or []
    schema: list[str] = []
    repeated: list[str] = []
    try:
        model.validate(frame, lazy=True)
    except SchemaErrors as errors:
        for (column, check), cases in errors.failure_cases.group_by("column", "check", maintain_order=True):
            rows = cases["index"].drop_nulls().sort()
            shown = few(cases["failure_case"].fill_null("null"))
            if check == "multiple_fields_uniqueness":
                repeated.append(f"{len(rows):,} rows share a key: {shown}")
            else:
                at = f" in {len(rows):,} rows (from 0: {few(rows)})" if len(rows) else ""
                where = f"{column}: " if column in frame.columns else ""
                schema.append(f"{where}{PANDERA_SAYS.get(str(check), check)}{at}: {shown}")
    yield Check("schema", "failed" if schema else "passed", name, "; ".join(schema) or f"{frame.height:,} rows")
    if set(keys) <= set(frame.columns):  # where one is missing, pandera looks at the others alone
        good = ", ".join(keys)
        yield Check("unique-keys", "failed" if repeated else "passed", name, "; ".join(repeated) or good)


def _fingerprints(subset: Subset, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the tables are those that were built."""
    for name, table in subset.tables().items():
        rows, promised = manifest.get("counts", {}).get(name), manifest.get("fingerprints", {}).get(name)
        try:
            found = fingerprint(table)
        except TypeError as error:
            found = str(error)
        if (table.num_rows, found) == (rows, promised):
            yield Check("fingerprint", "passed", name, found)
        else:
            what = f"the manifest says {rows} rows, {promised}; the table has {table.num_rows} rows, {found}"
            yield Check("fingerprint", "failed", name, what)


def _built_for(manifest: Mapping[str, Any], benchmark: Benchmark, parameters: Mapping[str, Any]) -> Check:
    """Whether the subset was built for this benchmark and with these parameters."""
    absent = object()
    built = {"benchmark": manifest.get("benchmark"), **manifest.get("parameters", {})}
    asked = {"benchmark": benchmark.name, **json.loads(to_json(dict(parameters)))}
    names = sorted(n for n in built.keys() | asked.keys() if built.get(n, absent) != asked.get(n, absent))
    wrong = [f"{name}: {built.get(name)!r} for {asked.get(name)!r}" for name in names]
    good = f"{benchmark.name}, with the parameters asked for"
    return _judge("built-as-asked", "manifest", wrong, "parameters are not those asked for; build it again", good)


def _sources(manifest: Mapping[str, Any]) -> Iterator[Check]:
    """What is known of each source file."""
    for source in manifest.get("sources", ()):
        name, checksum, content = (
            str(source.get("name")),
            source.get("checksum"),
            f"sha256 {source.get('sha256')}",
        )
        if checksum in VERIFIED:
            yield Check("source", "passed", name, f"the official file, by its {checksum}")
        elif checksum == "sample":
            yield Check("source", "passed", name, "made up: a file of the sample that comes with the project")
        elif checksum == "none":
            yield Check("source", "note", name, f"no official checksum is known; this file has {content}")
        elif checksum == "differs":
            yield Check("source", "note", name, f"not the official file, by its checksum; this file has {content}")
        else:
            yield Check(
                "source",
                "failed",
                name,
                f"the manifest does not say what it was checked against: {checksum!r}",
            )


def _origin(manifest: Mapping[str, Any]) -> Origin:
    """Whether the source files are the official ones, all of them by their checksum."""
    checksums = [source.get("checksum") for source in manifest.get("sources", ())]
    if "sample" in checksums:
        return "sample"
    return "official" if checksums and all(checksum in VERIFIED for checksum in checksums) else "unverified"


# What the tables are to each other --------------------------------------------------------------------------


def _query(frame: pl.DataFrame) -> list[str]:
    """The columns by which qrels or exclusions name a query."""
    return ["task", "query_id"] if "task" in frame.columns else ["query_id"]


@dataclass(frozen=True)
class _Rules:
    """The tables as data frames, and what the benchmark says of them."""

    queries: pl.DataFrame
    pools: pl.DataFrame
    trials: pl.DataFrame
    qrels: pl.DataFrame
    exclusions: pl.DataFrame
    universe: pl.DataFrame
    plan: Plan
    expected: Expected

    @cached_property
    def views(self) -> list[tuple[str, str]]:
        """(task, view) of the trials, in order."""
        return [(task, view) for task, view in self.trials.select("task", "view").unique().sort("task", "view").rows()]

    @cached_property
    def unanswered(self) -> pl.DataFrame:
        """Trials without a right candidate in what the exclusions leave of their pool."""
        answered = (
            self.trials.join(self.qrels.filter(pl.col("relevance") > 0), on=_query(self.qrels))
            .join(self.pools, on=["pool_id", "candidate_id"], how="semi")
            .join(self.exclusions, on=[*_query(self.exclusions), "candidate_id"], how="anti")
        )
        return self.trials.join(answered, on=["task", "view", "repeat", "query_id"], how="anti")

    def planned(self, origin: Origin) -> Iterator[Check]:
        """The trials are those of the plan, which need not measure the views of a hidden task.

        Of files that a user brings, some may hold nothing of a task; it is left out then, and a note says so.
        """
        found = set(self.views)
        wanted = {(m.task, m.view) for m in self.plan.measures} | set(self.plan.files)
        hidden = {task.name for task in self.plan.tasks if task.hidden}
        asked = {*self.queries["task"], *self.trials["task"]}
        absent = [task.name for task in self.plan.tasks if task.name not in asked]
        if origin == "unverified" and asked:
            wanted = {(task, view) for task, view in wanted if task in asked}
            for task in absent:
                yield Check("trials-as-planned", "note", task, "the files hold no query of this task: left out")
            absent = []
        wrong = [f"{task}/{view} is not planned" for task, view in sorted(found - wanted) if task not in hidden]
        wrong += [f"{task}/{view} has no trial" for task, view in sorted(wanted - found)]
        wrong += [f"{task} has no query" for task in absent]
        good = f"{len(found)} views, as planned"
        yield _judge("trials-as-planned", "trials", wrong, "differences from the benchmark's plan", good)

    def references(self) -> Iterator[Check]:
        """Every query and pool that one table speaks of is in the other one."""
        for name, table, key, other in (
            ("query-has-trial", "queries", ["task", "query_id"], "trials"),
            ("trial-query-exists", "trials", ["task", "query_id"], "queries"),
            ("trial-pool-exists", "trials", ["pool_id"], "pools"),
            ("pool-is-used", "pools", ["pool_id"], "trials"),
            ("qrels-query-exists", "qrels", _query(self.qrels), "queries"),
            ("exclusion-query-exists", "exclusions", _query(self.exclusions), "queries"),
        ):
            keys = getattr(self, table).select(key).unique()
            wrong = keys.join(getattr(self, other), on=key, how="anti").sort(key)
            shown = wrong.select(pl.concat_str(key, separator=" ")).to_series()
            yield _judge(name, table, shown, f"are not in {other}", f"{keys.height:,}, all in {other}")

    def repeats(self, number: int) -> Iterator[Check]:
        """Each view has the repeats 0 … number − 1, and each of them as many queries."""
        for task, view in self.views:
            found = dict(self.trials.filter(task=task, view=view).group_by("repeat").len().sort("repeat").rows())
            most = max(found.values())
            wrong = [f"{repeat} is missing" for repeat in range(number) if repeat not in found]
            wrong += [f"{repeat} was not asked for" for repeat in found if repeat >= number]
            wrong += [f"{repeat} has {n:,} queries of {most:,}" for repeat, n in found.items() if n < most]
            good = f"{number} of {most:,} queries"
            yield _judge("repeats", f"{task}/{view}", wrong, f"repeats differ from {good}", good)

    def known(self) -> Iterator[Check]:
        """Every id of a task is one that the raw files know, on the side where the task has it."""
        for task in self.plan.tasks:
            queries = self.queries.filter(task=task.name)
            pools = self.trials.filter(task=task.name).select("pool_id").unique().join(self.pools, on="pool_id")
            judged = self.qrels.join(queries, on=_query(self.qrels), how="semi")
            excluded = self.exclusions.join(queries, on=_query(self.exclusions), how="semi")
            for name, frame, column, side in (
                ("query-known", queries, "query_id", task.query_side),
                ("pool-candidate-known", pools, "candidate_id", task.candidate_side),
                ("qrels-candidate-known", judged, "candidate_id", task.candidate_side),
                ("exclusion-candidate-known", excluded, "candidate_id", task.candidate_side),
            ):
                ids = frame.select(id=column).unique()
                wrong = ids.join(self.universe.filter(side=side), on="id", how="anti")["id"].sort()
                bad = f"ids are not in the universe on side {side!r}"
                yield _judge(name, task.name, wrong, bad, f"{ids.height:,} on side {side!r}")

    def label_pools(self) -> Iterator[Check]:
        """The pool of a label task holds its classes, all of them and nothing else."""
        for task in self.plan.tasks:
            if task.labels:
                used = self.trials.filter(task=task.name).select("pool_id").unique()
                pools = self.pools.join(used, on="pool_id").group_by("pool_id").agg(pl.col("candidate_id").sort())
                wrong = [pool for pool, held in pools.sort("pool_id").rows() if held != sorted(task.labels)]
                yield _judge("label-pool", task.name, wrong, "pools hold other classes", ", ".join(task.labels))

    def pool_sizes(self) -> Iterator[Check]:
        """Pools, as they are stored, have the size that the protocol demands."""
        sizes, odd = self.pools.group_by("pool_id").len(), self.expected.odd_pools
        for (task, view), size in self.expected.pool_sizes.items():
            used = self.trials.filter(task=task, view=view).select("pool_id").unique()
            pools = used.join(sizes, on="pool_id").sort("pool_id").rows()
            wrong = [f"{pool} has {n:,}" for pool, n in pools if n != odd.get(pool, size)]
            exceptions = "".join(f", {pool} of {n:,}" for pool, n in pools if pool in odd)
            good = f"{len(pools):,} pools of {size:,}{exceptions}"
            yield _judge("pool-size", f"{task}/{view}", wrong, f"pools are not of {size:,} candidates", good)

    def hidden_answers(self) -> Iterator[Check]:
        """A task whose answers only the server knows has no qrels."""
        for task in self.plan.tasks:
            if task.hidden:
                queries = self.queries.filter(task=task.name)
                told = queries.join(self.qrels, on=_query(self.qrels), how="semi")["query_id"].sort()
                if len(told):
                    yield _judge("hidden-answers", task.name, told, "queries of a hidden task have qrels", "")
                else:
                    what = f"only the benchmark's server knows the answers to these {queries.height:,} queries"
                    yield Check("hidden-answers", "note", task.name, what)

    def answers(self) -> Iterator[Check]:
        """Every query has a right answer in its pool, or the protocol is known to have it otherwise."""
        hidden = {task.name for task in self.plan.tasks if task.hidden}
        for task, view in self.views:
            if task in hidden:
                continue
            subject, wrong = (
                f"{task}/{view}",
                self.unanswered.filter(task=task, view=view)["query_id"].unique().sort(),
            )
            why = self.expected.unanswerable.get((task, view))
            if why and len(wrong):
                what = f"queries have no right answer in their pool, score 0 and count ({why})"
                yield Check("answer-in-pool", "note", subject, f"{len(wrong):,} {what}: {few(wrong)}")
            else:
                good = f"{self.count('queries', task, view):,} queries"
                yield _judge("answer-in-pool", subject, wrong, "queries have no right answer in their pool", good)

    def count(self, what: str, task: str, view: str) -> int:
        """How many distinct queries, candidates or unanswerable queries a view has; see `Count`."""
        trials = self.trials.filter(task=task, view=view)
        if what == "queries":
            return trials["query_id"].n_unique()
        if what == "unanswerable":
            return self.unanswered.filter(task=task, view=view)["query_id"].n_unique()
        if what == "candidates":
            return self.pools.join(trials, on="pool_id", how="semi")["candidate_id"].n_unique()
        raise ValueError(f"a count of {what!r}")

    def counts(self, origin: Origin) -> Iterator[Check]:
        """Published numbers: demanded where every source file is the official one; a sample has its own."""
        if origin == "sample":
            return
        for count in self.expected.counts:
            found = self.count(count.what, count.task, count.view)
            subject, what = f"{count.task}/{count.view}", f"{found:,} {count.what}"
            if found == count.number:
                yield Check("published-count", "passed", subject, f"{what}, as published")
            elif origin == "official":
                what += f", but {count.number:,} are published for these very files"
                yield Check("published-count", "failed", subject, what)
            else:
                why = "not every file is known to be the official one" if count.certain else "for a form of them"
                what += f", {count.number:,} are published; {why}"
                yield Check("published-count", "note", subject, what)
