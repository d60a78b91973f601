"""Each rule of `validate` is tripped by what breaks it and nothing else, and agrees with a slow version."""

import dataclasses
import importlib.util
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandera.config import ValidationDepth, config_context

from rankledger.benchmarks import NAMES, benchmark
from rankledger.benchmarks.base import Benchmark, Count, Expected, Measure, Plan, Task
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset, read_subset, write_subset
from rankledger.tables import fingerprint
from rankledger.validation import Check, validate

Tables = dict[str, pl.DataFrame]
WHY = "their answers are not in the gallery"


class Toy(Benchmark):
    """Two queries in a gallery and in groups, one that only a server can judge, one label; two repeats."""

    name = "toy"
    title = "Toy"
    paper = licence = access = ""
    defaults: ClassVar = {"repeats": 2, "views": ["gallery", "group"]}
    tasks: tuple[Task, ...] = (
        Task("val"),
        Task("test", hidden=True),
        Task("kind", candidate_side="label", labels=("sweet", "salty")),
    )
    demands = Expected(
        pool_sizes={("val", "gallery"): 4, ("val", "group"): 2},
        odd_pools={"g2": 3},
        counts=(
            Count("queries", "val", "gallery", 2),
            Count("candidates", "val", "gallery", 4),
            Count("candidates", "val", "group", 4),
            Count("unanswerable", "val", "group", 0),
        ),
    )

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        return ("a.json", "b.json")

    def sample(self, folder: Path) -> None:
        raise NotImplementedError

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        raise NotImplementedError

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        measures = [Measure("val", view, "R@1", ("val", view, "R@1")) for view in parameters["views"]]
        measures.append(Measure("kind", "all", "F", ("kind", "F")))
        return Plan(self.tasks, tuple(measures), files={("test", "group"): "test_subset"})

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        return self.demands


TOY = Toy()
PARAMETERS = TOY.parameters({"source": "official"})


def good() -> Tables:
    """The tables of a subset without a fault."""
    images = ["i1", "i2", "i3", "i4"]
    trials = [("val", "gallery", r, q, "all") for r in (0, 1) for q in ("q1", "q2")]
    trials += [("val", "group", r, q, g) for r in (0, 1) for q, g in (("q1", "g1"), ("q2", "g2"))]
    trials += [("test", view, r, "t1", "g1") for view in ("gallery", "group") for r in (0, 1)]
    trials += [("kind", "all", r, "k1", "labels") for r in (0, 1)]
    pools = [("all", i) for i in images] + [
        ("g1", "i1"),
        ("g1", "i2"),
        ("g2", "i2"),
        ("g2", "i3"),
        ("g2", "i4"),
    ]
    pools += [("labels", "sweet"), ("labels", "salty")]
    queries = [("q1", "val", "soup"), ("q2", "val", " "), ("t1", "test", "pie"), ("k1", "kind", None)]
    qrels = [
        ("q1", "i2", 1.0),
        ("q1", "i1", 0.5),
        ("q2", "i3", 0.25),
        ("q2", "i1", -1.0),
        ("k1", "salty", 1.0),
    ]
    exclusions = [("q1", "i1"), ("t1", "i1")]
    universe = [("query", q) for q, _, _ in queries] + [("image", i) for i in [*images, "unused"]]
    universe += [("label", "sweet"), ("label", "salty")]
    return {
        "queries": pl.DataFrame(queries, ["query_id", "task", "text"], orient="row"),
        "pools": pl.DataFrame(pools, POOLS.names, orient="row"),
        "trials": pl.DataFrame(trials, TRIALS.names, orient="row"),
        "qrels": pl.DataFrame(qrels, QRELS.names, orient="row"),
        "exclusions": pl.DataFrame(exclusions, EXCLUSIONS.names, orient="row"),
        "universe": pl.DataFrame(universe, UNIVERSE.names, orient="row"),
    }


def made(tables: Tables) -> Subset:
    return Subset(**{name: frame.to_arrow() for name, frame in tables.items()})


def manifest_of(
    subset: Subset,
    checksums: tuple[str | None, ...] = ("sha256", "md5"),
    notes: tuple[str, ...] = (),
    parameters: Mapping[str, Any] = PARAMETERS,
) -> dict[str, Any]:
    """A manifest that is true of these tables, whatever is in them."""
    sources = [{"name": f"{i}.json", "checksum": c, "sha256": f"{i:064x}"} for i, c in enumerate(checksums)]
    return {
        "benchmark": "toy",
        "parameters": dict(parameters),
        "sources": sources,
        "counts": {name: table.num_rows for name, table in subset.tables().items()},
        "fingerprints": {name: fingerprint(table) for name, table in subset.tables().items()},
        "notes": list(notes),
    }


def checked(
    tables: Tables, bench: Benchmark = TOY, parameters: Mapping[str, Any] = PARAMETERS, **about: Any
) -> list[Check]:
    subset = made(tables)
    return validate(subset, manifest_of(subset, parameters=parameters, **about), bench, parameters)


def of(checks: list[Check], status: str) -> list[tuple[str, str]]:
    return [(check.name, check.subject) for check in checks if check.status == status]


def details(checks: list[Check], name: str, subject: str) -> list[str]:
    return [check.detail for check in checks if (check.name, check.subject) == (name, subject)]


def with_demands(**changes: Any) -> Toy:
    bench = Toy()
    bench.demands = dataclasses.replace(Toy.demands, **changes)
    return bench


def with_tasks(*tasks: Task) -> Toy:
    bench = Toy()
    bench.tasks = tasks
    return bench


def add(table: str, *rows: tuple[Any, ...]) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        new = pl.DataFrame(list(rows), tables[table].schema, orient="row")
        tables[table] = pl.concat([tables[table], new])

    return change


def drop(table: str, **where: Any) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        gone = pl.all_horizontal(*(pl.col(column) == value for column, value in where.items()))
        assert tables[table].filter(gone).height
        tables[table] = tables[table].filter(~gone)

    return change


def put(table: str, column: str, old: Any, new: Any) -> Callable[[Tables], None]:
    """Put another value in place of `old` in the first row that has it."""

    def change(tables: Tables) -> None:
        frame = tables[table]
        row = frame[column].to_list().index(old)
        values = [*frame[column][:row], new, *frame[column][row + 1 :]]
        tables[table] = frame.with_columns(pl.Series(column, values, frame.schema[column]))

    return change


def given_as(table: str, column: pl.Expr) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        tables[table] = tables[table].with_columns(column)

    return change


def both(*changes: Callable[[Tables], None]) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        for one in changes:
            one(tables)

    return change


# The good subset ------------------------------------------------------------------------------------------


def test_a_good_subset_passes_and_its_hidden_task_is_a_note() -> None:
    checks = checked(good())
    assert of(checks, "failed") == []
    assert of(checks, "note") == [("hidden-answers", "test")]
    assert "1 queries" in details(checks, "hidden-answers", "test")[0]
    for table in ("queries", "pools", "trials", "qrels", "exclusions", "universe"):
        for name in ("schema", "unique-keys", "fingerprint"):
            assert (name, table) in of(checks, "passed")
    assert details(checks, "pool-size", "val/group") == ["2 pools of 2, g2 of 3"]
    assert details(checks, "repeats", "val/gallery") == ["2 of 2 queries"]
    assert details(checks, "published-count", "val/group") == [
        "4 candidates, as published",
        "0 unanswerable, as published",
    ]


def test_names_are_kebab_case_and_details_one_line() -> None:
    for check in [
        *checked(good(), notes=("two\nlines",)),
        *checked(good() | {"qrels": good()["qrels"].clear()}),
    ]:
        assert check.name.replace("-", "").isalpha()
        assert check.name == check.name.lower()
        assert check.detail
        assert "\n" not in check.detail


def test_nothing_depends_on_the_order_of_rows_and_columns() -> None:
    broken = good()
    for change in (drop("qrels", query_id="q1"), drop("qrels", query_id="q2"), add("pools", ("new", "i1"))):
        change(broken)
    assert of(checked(broken), "failed")
    for tables in (good(), broken):
        shuffled = {
            name: frame.select(reversed(frame.columns)).sample(fraction=1, shuffle=True, seed=5)
            for name, frame in tables.items()
        }
        assert checked(shuffled) == checked(tables)


def test_what_was_written_passes(tmp_path: Path) -> None:
    sources = [{"name": "a.json", "checksum": "git_blob_sha1"}]
    write_subset(made(good()), tmp_path / "toy", "toy", PARAMETERS, sources)
    assert of(validate(*read_subset(tmp_path / "toy"), TOY, PARAMETERS), "failed") == []


# Each rule, tripped by what breaks it and by nothing else -------------------------------------------------

RULES: dict[str, tuple[Callable[[Tables], None], list[tuple[str, str]], str]] = {
    "a task that is not planned": (
        both(
            add("queries", ("q1", "other", "")),
            add("trials", *(("other", "all", r, "q1", "all") for r in (0, 1))),
        ),
        [("trials-as-planned", "trials")],
        "'other/all is not planned'",
    ),
    "a view that is not planned": (
        add("trials", *(("val", "new", r, "q1", "all") for r in (0, 1))),
        [("trials-as-planned", "trials")],
        "1 differences from the benchmark's plan: 'val/new is not planned'",
    ),
    "a planned view without a trial": (
        drop("trials", task="val", view="gallery"),
        [
            ("trials-as-planned", "trials"),
            ("pool-is-used", "pools"),
            *[("published-count", "val/gallery")] * 2,
        ],
        "'val/gallery has no trial'",
    ),
    "a view with a predictions file of its own, without a trial": (
        drop("trials", task="test", view="group"),
        [("trials-as-planned", "trials")],
        "'test/group has no trial'",
    ),
    "a query without a trial": (
        both(add("queries", ("q3", "val", "")), add("universe", ("query", "q3"))),
        [("query-has-trial", "queries")],
        "1 are not in trials: 'val q3'",
    ),
    "a trial of an unknown query": (
        both(
            add("trials", *(("val", "group", r, "q9", "g1") for r in (0, 1))),
            add("qrels", ("q9", "i1", 1.0)),
        ),
        [("trial-query-exists", "trials"), ("qrels-query-exists", "qrels")],
        "1 are not in queries: 'val q9'",
    ),
    "a trial of another task's query": (
        add("trials", *(("val", "gallery", r, "k1", "all") for r in (0, 1))),
        [
            ("trial-query-exists", "trials"),
            ("answer-in-pool", "val/gallery"),
            ("published-count", "val/gallery"),
        ],
        "'val k1'",
    ),
    "a trial of an unknown pool": (
        both(*[put("trials", "pool_id", "labels", "nowhere")] * 2, drop("pools", pool_id="labels")),
        [("trial-pool-exists", "trials"), ("answer-in-pool", "kind/all")],
        "1 are not in pools: 'nowhere'",
    ),
    "a pool that nobody uses": (
        add("pools", ("spare", "i1"), ("spare", "i2")),
        [("pool-is-used", "pools")],
        "1 are not in trials: 'spare'",
    ),
    "qrels of an unknown query": (
        add("qrels", ("q9", "i1", 1.0)),
        [("qrels-query-exists", "qrels")],
        "1 are not in queries: 'q9'",
    ),
    "an exclusion of an unknown query": (
        add("exclusions", ("q9", "i1")),
        [("exclusion-query-exists", "exclusions")],
        "1 are not in queries: 'q9'",
    ),
    "a query outside the universe": (
        drop("universe", side="query", id="q1"),
        [("query-known", "val")],
        "1 ids are not in the universe on side 'query': 'q1'",
    ),
    "a query on the other side of the universe": (
        put("universe", "side", "query", "image"),
        [("query-known", "val")],
        "1 ids are not in the universe on side 'query': 'q1'",
    ),
    "a candidate outside the universe": (
        drop("universe", id="i4"),
        [("pool-candidate-known", "val")],
        "1 ids are not in the universe on side 'image': 'i4'",
    ),
    "a class outside the universe": (
        drop("universe", id="sweet"),
        [("pool-candidate-known", "kind")],
        "1 ids are not in the universe on side 'label': 'sweet'",
    ),
    "an unknown right answer": (
        add("qrels", ("q1", "i9", 1.0)),
        [("qrels-candidate-known", "val")],
        "1 ids are not in the universe on side 'image': 'i9'",
    ),
    "an unknown candidate excluded": (
        add("exclusions", ("t1", "i9")),
        [("exclusion-candidate-known", "test")],
        "1 ids are not in the universe on side 'image': 'i9'",
    ),
    "a class that the pool lacks": (
        drop("pools", pool_id="labels", candidate_id="sweet"),
        [("label-pool", "kind")],
        "1 pools hold other classes: 'labels'",
    ),
    "a class too many": (
        both(add("pools", ("labels", "sour")), add("universe", ("label", "sour"))),
        [("label-pool", "kind")],
        "1 pools hold other classes: 'labels'",
    ),
    "a pool that is too big": (
        add("pools", ("g1", "i4")),
        [("pool-size", "val/group")],
        "1 pools are not of 2 candidates: 'g1 has 3'",
    ),
    "a pool that is too small": (
        both(drop("pools", pool_id="all", candidate_id="i4")),
        [("pool-size", "val/gallery"), ("published-count", "val/gallery")],
        "1 pools are not of 4 candidates: 'all has 3'",
    ),
    "an odd pool that is not": (
        drop("pools", pool_id="g2", candidate_id="i4"),
        [("pool-size", "val/group"), ("published-count", "val/group")],
        "1 pools are not of 2 candidates: 'g2 has 2'",
    ),
    "a repeat that is missing": (
        drop("trials", task="val", view="group", repeat=1),
        [("repeats", "val/group")],
        "1 repeats differ from 2 of 2 queries: '1 is missing'",
    ),
    "a repeat too many": (
        add("trials", *(("val", "group", 2, q, g) for q, g in (("q1", "g1"), ("q2", "g2")))),
        [("repeats", "val/group")],
        "'2 was not asked for'",
    ),
    "a repeat that lacks a query": (
        drop("trials", task="val", view="group", repeat=1, query_id="q2"),
        [("repeats", "val/group")],
        "'1 has 1 queries of 2'",
    ),
    "no right answer": (
        drop("qrels", query_id="k1"),
        [("answer-in-pool", "kind/all")],
        "1 queries have no right answer in their pool: 'k1'",
    ),
    "a right answer outside the pool": (
        both(put("pools", "candidate_id", "i3", "i1"), put("pools", "candidate_id", "i1", "unused")),
        [("answer-in-pool", "val/gallery")],
        "1 queries have no right answer in their pool: 'q2'",
    ),
    "a right answer taken out": (
        add("exclusions", ("q2", "i3")),
        [
            ("answer-in-pool", "val/gallery"),
            ("answer-in-pool", "val/group"),
            ("published-count", "val/group"),
        ],
        "1 queries have no right answer in their pool: 'q2'",
    ),
    "an answer of no relevance": (
        put("qrels", "relevance", 0.25, 0.0),
        [
            ("answer-in-pool", "val/gallery"),
            ("answer-in-pool", "val/group"),
            ("published-count", "val/group"),
        ],
        "1 queries have no right answer in their pool: 'q2'",
    ),
    "an answer of negative relevance": (
        put("qrels", "relevance", 0.25, -0.25),
        [
            ("answer-in-pool", "val/gallery"),
            ("answer-in-pool", "val/group"),
            ("published-count", "val/group"),
        ],
        "1 queries have no right answer in their pool: 'q2'",
    ),
    "qrels of a hidden task": (
        add("qrels", ("t1", "i2", 1.0)),
        [("hidden-answers", "test")],
        "1 queries of a hidden task have qrels: 't1'",
    ),
    "a query twice": (
        add("queries", ("q1", "val", "another text")),
        [("unique-keys", "queries")],
        "2 rows share a key",
    ),
    "a candidate twice in a pool": (
        add("pools", ("labels", "sweet")),
        [("unique-keys", "pools"), ("label-pool", "kind")],
        "2 rows share a key",
    ),
    "a trial twice": (
        add("trials", *(("test", "gallery", r, "t1", "all") for r in (0, 1))),
        [("unique-keys", "trials")],
        "4 rows share a key",
    ),
    "two relevances": (
        add("qrels", ("q1", "i2", 3.0)),
        [("unique-keys", "qrels")],
        "2 rows share a key",
    ),
    "an exclusion twice": (
        add("exclusions", ("q1", "i1")),
        [("unique-keys", "exclusions")],
        "2 rows share a key",
    ),
    "an id twice": (
        add("universe", ("image", "unused")),
        [("unique-keys", "universe")],
        "2 rows share a key",
    ),
}


@pytest.mark.parametrize("fault", RULES)
def test_a_rule_is_tripped_by_what_breaks_it(fault: str) -> None:
    change, wrong, said = RULES[fault]
    tables = good()
    change(tables)
    checks = checked(tables)
    assert sorted(of(checks, "failed")) == sorted(wrong)
    assert said in " | ".join(details(checks, *wrong[0]))


def test_every_rule_has_a_fault_that_trips_it() -> None:
    """So that no rule is added without one; the others have tests of their own below."""
    tripped = {name for _, wrong, _ in RULES.values() for name, _ in wrong}
    elsewhere = {"pandera-enabled", "built-as-asked", "source", "schema", "fingerprint"}
    assert {check.name for check in checked(good())} == tripped | elsewhere


def test_a_hidden_task_may_have_more_views() -> None:
    tables = good()
    add("trials", *(("test", "new", r, "t1", "all") for r in (0, 1)))(tables)
    assert of(checked(tables), "failed") == []


@pytest.mark.parametrize(
    ("checksums", "status"), [(("sha256",), "failed"), (("sample",), "failed"), (("none", "sha256"), "note")]
)
def test_a_task_without_a_query_is_a_note_where_users_bring_the_files(checksums: tuple[str, ...], status: str) -> None:
    tables = good()
    for change in (
        drop("queries", task="kind"),
        drop("trials", task="kind"),
        drop("pools", pool_id="labels"),
        drop("qrels", query_id="k1"),
    ):
        change(tables)
    bench = with_tasks(*Toy.tasks, Task("unmeasured"))
    checks = checked(tables, bench, checksums=checksums)
    if status == "failed":
        assert ("trials-as-planned", "trials") in of(checks, "failed")
        detail = details(checks, "trials-as-planned", "trials")[0]
        for said in (
            "3 differences",
            "kind/all has no trial",
            "kind has no query",
            "unmeasured has no query",
        ):
            assert said in detail
    else:
        assert of(checks, "failed") == []
        assert {("trials-as-planned", "kind"), ("trials-as-planned", "unmeasured")} <= set(of(checks, "note"))

    less = dict(tables)
    drop("trials", task="val", view="gallery")(less)
    assert ("trials-as-planned", "trials") in of(checked(less, bench, checksums=checksums), "failed")

    nothing = {name: frame.clear() for name, frame in tables.items()}
    assert ("trials-as-planned", "trials") in of(checked(nothing, bench, checksums=checksums), "failed")


def test_the_plan_follows_the_parameters() -> None:
    parameters = TOY.parameters({"views": ["gallery"]})
    checks = checked(good(), parameters=parameters)
    assert of(checks, "failed") == [("trials-as-planned", "trials")]
    assert "'val/group is not planned'" in details(checks, "trials-as-planned", "trials")[0]


# Answers that are not there by the protocol ---------------------------------------------------------------


def test_queries_that_cannot_be_answered_are_a_note_where_the_protocol_has_them() -> None:
    tables = good()
    add("exclusions", ("q2", "i3"))(tables)
    counts = (Count("unanswerable", "val", "group", 1), Count("unanswerable", "val", "gallery", 2))
    bench = with_demands(unanswerable={("val", "group"): WHY}, counts=counts)
    checks = checked(tables, bench)
    assert details(checks, "answer-in-pool", "val/group") == [
        f"1 queries have no right answer in their pool, score 0 and count ({WHY}): 'q2'"
    ]
    assert ("answer-in-pool", "val/group") in of(checks, "note")
    assert of(checks, "failed") == [("answer-in-pool", "val/gallery"), ("published-count", "val/gallery")]
    assert details(checks, "published-count", "val/group") == ["1 unanswerable, as published"]
    assert ("answer-in-pool", "val/group") in of(checked(good(), bench), "passed")


def test_tasks_that_share_query_ids_have_qrels_of_their_own() -> None:
    """As in a benchmark whose val and hidden test both count their queries from 0."""
    tables = good()
    for table in ("queries", "trials", "qrels"):
        frame = tables[table].with_columns(pl.col("query_id").replace({"t1": "q1", "k1": "q1"}))
        tables[table] = frame
    tables["exclusions"] = tables["exclusions"].clear()
    put("qrels", "candidate_id", "salty", "sweet")(tables)
    tables["qrels"] = tables["qrels"].with_columns(
        task=pl.when(pl.col("candidate_id") == "sweet").then(pl.lit("kind")).otherwise(pl.lit("val"))
    )
    assert of(checked(tables), "failed") == []

    without = tables | {"qrels": tables["qrels"].drop("task")}
    assert ("hidden-answers", "test") in of(checked(without), "failed")
    assert ("qrels-candidate-known", "kind") in of(checked(without), "failed")

    moved = dict(tables)
    put("qrels", "task", "kind", "val")(moved)
    assert ("answer-in-pool", "kind/all") in of(checked(moved), "failed")

    out = {"query_id": ["q1", "q1"], "candidate_id": ["i1", "i2"]}  # what is right for q1 of val
    untold = checked(tables | {"exclusions": pl.DataFrame(out)})
    assert ("answer-in-pool", "val/gallery") in of(untold, "failed")
    assert ("exclusion-candidate-known", "kind") in of(untold, "failed")
    told = checked(tables | {"exclusions": pl.DataFrame(out | {"task": ["test", "test"]})})
    assert of(told, "failed") == []
    stray = checked(tables | {"exclusions": pl.DataFrame(out | {"task": ["test", "other"]})})
    assert of(stray, "failed") == [("exclusion-query-exists", "exclusions")]

    again = dict(tables)
    again["qrels"] = pl.concat([again["qrels"], again["qrels"].head(1).with_columns(relevance=7.0)])
    assert of(checked(again), "failed") == [("unique-keys", "qrels")]


def test_one_query_of_two_tasks_may_share_its_qrels() -> None:
    """As in a benchmark of two directions, where one id stands on both sides."""
    tasks = (Task("there", "image", "text"), Task("back", "text", "image"))
    bench = Toy()
    bench.tasks = tasks
    bench.demands = Expected()
    bench.plan = lambda parameters: Plan(  # type: ignore[method-assign]
        tasks, tuple(Measure(t.name, "all", "R@1", (t.name, "R@1")) for t in tasks)
    )
    ids = ["a", "b", "c"]
    tables = good()
    rows: dict[str, list[Any]] = {
        "queries": [(i, t.name, "") for t in tasks for i in ids],
        "pools": [("p", i) for i in ids],
        "trials": [(t.name, "all", r, i, "p") for t in tasks for r in (0, 1) for i in ids],
        "qrels": [(i, i, 1.0) for i in ids],
        "exclusions": [],
        "universe": [(side, i) for side in ("image", "text") for i in ids],
    }
    tables = {n: pl.DataFrame(rows[n], frame.schema, orient="row") for n, frame in tables.items()}
    assert of(checked(tables, bench), "failed") == []
    drop("universe", side="text", id="b")(tables)
    assert of(checked(tables, bench), "failed") == [
        ("pool-candidate-known", "there"),
        ("qrels-candidate-known", "there"),
        ("query-known", "back"),
    ]


# What the manifest says -----------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["queries", "pools", "trials", "qrels", "exclusions", "universe"])
def test_a_table_that_is_not_the_built_one(table: str) -> None:
    subset = made(good())
    manifest = manifest_of(subset)
    manifest["fingerprints"][table] = "0" * 64
    checks = validate(subset, manifest, TOY, PARAMETERS)
    assert of(checks, "failed") == [("fingerprint", table)]
    assert "0" * 64 in details(checks, "fingerprint", table)[0]
    for key in ("fingerprints", "counts"):
        manifest = manifest_of(subset)
        del manifest[key][table]
        assert of(validate(subset, manifest, TOY, PARAMETERS), "failed") == [("fingerprint", table)]


def test_a_row_changed_after_the_build_is_seen() -> None:
    subset = made(good())
    tables = good()
    put("queries", "text", "soup", "stew")(tables)
    assert of(validate(made(tables), manifest_of(subset), TOY, PARAMETERS), "failed") == [("fingerprint", "queries")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"benchmark": "cirr"}, "benchmark: 'cirr' for 'toy'"),
        ({"parameters": {**PARAMETERS, "repeats": 3}}, "repeats: 3 for 2"),
        ({"parameters": {**PARAMETERS, "seed": 1}}, "seed: 1 for None"),
        ({"parameters": {}}, f"{len(PARAMETERS)} parameters"),
        ({"parameters": {**PARAMETERS, "repeats": "2"}}, "repeats: '2' for 2"),
    ],
)
def test_a_subset_built_for_something_else(change: dict[str, Any], said: str) -> None:
    subset = made(good())
    checks = validate(subset, manifest_of(subset) | change, TOY, PARAMETERS)
    assert of(checks, "failed") == [("built-as-asked", "manifest")]
    assert said in details(checks, "built-as-asked", "manifest")[0]


def test_an_empty_manifest_is_a_failure_and_no_crash() -> None:
    assert {name for name, _ in of(validate(made(good()), {}, TOY, PARAMETERS), "failed")} == {
        "built-as-asked",
        "fingerprint",
    }


def test_notes_of_the_build_and_of_the_sources_are_passed_on() -> None:
    checks = checked(good(), checksums=("sha256", "none", "differs", "sample"), notes=("no vocab.txt\n  found",))
    assert of(checks, "note") == [
        ("source", "1.json"),
        ("source", "2.json"),
        ("build-note", "build"),
        ("hidden-answers", "test"),
    ]
    assert details(checks, "build-note", "build") == ["no vocab.txt found"]
    assert f"{1:064x}" in details(checks, "source", "1.json")[0]
    assert "made up" in details(checks, "source", "3.json")[0]


@pytest.mark.parametrize("checksum", [None, "", "sha512"])
def test_a_source_of_which_nothing_is_said_fails(checksum: str | None) -> None:
    assert of(checked(good(), checksums=("sha256", checksum)), "failed") == [("source", "1.json")]


# Published counts -----------------------------------------------------------------------------------------

COUNTS = (
    Count("queries", "val", "gallery", 3),
    Count("candidates", "val", "gallery", 5),
    Count("unanswerable", "val", "group", 1),
    Count("queries", "test", "gallery", 1),
)
WRONG = [
    ("published-count", "val/gallery"),
    ("published-count", "val/gallery"),
    ("published-count", "val/group"),
]


@pytest.mark.parametrize(
    ("checksums", "status"),
    [
        (("sha256",), "failed"),
        (("sha256", "md5", "git_blob_sha1"), "failed"),
        (("sha256", "none"), "note"),
        (("differs", "sha256"), "note"),
        ((), "note"),
        (("sample", "sample"), ""),
    ],
)
def test_counts_are_a_must_only_for_the_official_files(checksums: tuple[str, ...], status: str) -> None:
    checks = checked(good(), with_demands(counts=COUNTS), checksums=checksums)
    differing = [c for c in checks if c.name == "published-count" and c.status != "passed"]
    assert [(c.name, c.subject) for c in differing] == (WRONG if status else [])
    assert {c.status for c in differing} == ({status} if status else set())
    assert details(checks, "published-count", "test/gallery") == (["1 queries, as published"] if status else [])
    if status:
        assert "2 queries, " in differing[0].detail
        assert "3 are published" in differing[0].detail


def test_a_count_of_something_unknown_is_an_error_of_the_benchmark() -> None:
    with pytest.raises(ValueError, match="recipes"):
        checked(good(), with_demands(counts=(Count("recipes", "val", "group", 1),)))


# Each table by itself -------------------------------------------------------------------------------------

IDS = [
    (table, column)
    for table, columns in {
        "queries": ["task", "query_id"],
        "pools": POOLS.names,
        "trials": ["task", "view", "query_id", "pool_id"],
        "qrels": ["query_id", "candidate_id"],
        "exclusions": EXCLUSIONS.names,
        "universe": UNIVERSE.names,
    }.items()
    for column in columns
]
NOT_RUN = ("rules", "tables")


def schema_of(change: Callable[[Tables], None]) -> tuple[list[tuple[str, str]], str]:
    """What fails, and what `schema` says; no rule across the tables is run then, and that is a note."""
    tables = good()
    change(tables)
    checks = checked(tables)
    failed = of(checks, "failed")
    assert checks[-1].name == "rules"
    assert NOT_RUN in of(checks, "note")
    assert not {"trials-as-planned", "answer-in-pool"} & {c.name for c in checks}
    return failed, " ".join(c.detail for c in checks if c.name == "schema" and c.status == "failed")


@pytest.mark.parametrize(("table", "column"), IDS)
def test_ids_are_strings_that_hold_something(table: str, column: str) -> None:
    first = good()[table][column][0]
    for new, said in ((None, "null or NaN in 1 rows (from 0: 0)"), ("", "empty in 1 rows (from 0: 0)")):
        failed, detail = schema_of(put(table, column, first, new))
        assert failed == [("schema", table)]
        assert f"{column}: {said}" in detail
    ids = pl.col(column)
    others = {
        "Categorical": ids.cast(pl.Categorical),
        "UInt32": ids.rank("dense"),
        "List(String)": pl.concat_list(ids),
    }
    for dtype, other in others.items():
        failed, detail = schema_of(given_as(table, other))
        assert ("schema", table) in failed
        assert f"{column}: dtype('String'): '{dtype}'" in detail


@pytest.mark.parametrize("new", [math.nan, math.inf, -math.inf, None])
def test_relevance_is_finite(new: float | None) -> None:
    failed, detail = schema_of(put("qrels", "relevance", 0.5, new))
    assert failed == [("schema", "qrels")]
    assert "relevance: " in detail
    assert "in 1 rows (from 0: 1)" in detail
    assert ("finite" in detail) == (new is not None)


def test_relevance_with_a_task_is_finite_too() -> None:
    tables = good()
    put("qrels", "relevance", 0.5, math.inf)(tables)
    tables["qrels"] = tables["qrels"].with_columns(task=pl.lit("val"))
    assert ("schema", "qrels") in of(checked(tables), "failed")


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Int32, pl.UInt64, pl.String])
def test_a_repeat_is_an_int64(dtype: Any) -> None:
    failed, detail = schema_of(given_as("trials", pl.col("repeat").cast(dtype)))
    assert failed == [("schema", "trials")]
    assert "repeat: dtype('Int64')" in detail


@pytest.mark.parametrize("new", [-1, None])
def test_a_repeat_is_not_negative(new: int | None) -> None:
    failed, detail = schema_of(put("trials", "repeat", 0, new))
    assert failed == [("schema", "trials")]
    assert "in 1 rows (from 0: 0)" in detail


def test_a_relevance_is_a_float() -> None:
    failed, detail = schema_of(given_as("qrels", pl.col("relevance").cast(pl.Int64)))
    assert failed == [("schema", "qrels")]
    assert "relevance: dtype('Float64'): 'Int64'" in detail


@pytest.mark.parametrize("table", ["queries", "pools", "trials", "qrels", "exclusions", "universe"])
def test_each_table_has_its_columns(table: str) -> None:
    wanted = [c for c in good()[table].columns if c != "text"]
    for column in wanted:

        def without(tables: Tables, column: str = column) -> None:
            tables[table] = tables[table].drop(column)

        failed, detail = schema_of(without)
        assert failed == [("schema", table)]
        assert f"a column is missing: '{column}'" in detail

    tables = good()
    tables[table] = tables[table].with_columns(more=pl.lit(1.5), aspects=pl.lit(["a", "b"], pl.List(pl.String)))
    assert of(checked(tables), "failed") == ([] if table == "queries" else [("schema", table)])


def test_several_faults_of_a_table_are_all_said() -> None:
    tables = good()
    tables["trials"] = tables["trials"].drop("view").with_columns(new=pl.lit("a"))
    put("trials", "query_id", "q1", None)(tables)
    put("trials", "query_id", "q1", "")(tables)
    put("trials", "pool_id", "all", "")(tables)
    put("trials", "repeat", 1, -5)(tables)
    detail = details(checked(tables), "schema", "trials")[0]
    for said in (
        "missing: 'view'",
        "has not: 'new'",
        "query_id: null",
        "query_id: empty",
        "pool_id: empty",
        "repeat: ",
        "'-5'",
    ):
        assert said in detail


def test_a_type_without_canonical_form_is_a_failure_and_no_crash() -> None:
    tables = good()
    subset = made(tables)
    odd = dataclasses.replace(subset, universe=subset.universe.append_column("day", pa.array([0] * 11, pa.date32())))
    checks = validate(odd, manifest_of(subset), TOY, PARAMETERS)
    assert of(checks, "failed") == [("schema", "universe"), ("fingerprint", "universe")]


def test_empty_tables_fail_by_the_rules() -> None:
    for table in ("queries", "pools", "trials", "qrels", "universe"):
        tables = good()
        tables[table] = tables[table].clear()
        assert of(checked(tables), "failed"), table
    assert of(checked(good() | {"exclusions": good()["exclusions"].clear()}), "failed") == []


# pandera switched off -------------------------------------------------------------------------------------

ALONE = """
from rankledger.subset import *
from rankledger.validation import validate
qrels = pa.table({"query_id": ["a"], "candidate_id": ["b"], "relevance": [float("inf")]})
empty = [s.empty_table() for s in (POOLS, TRIALS, EXCLUSIONS, UNIVERSE)]
subset = Subset(EXCLUSIONS.empty_table(), *empty[:2], qrels, *empty[2:])
print([(c.name, c.status) for c in validate(subset, {}, None, {})])
"""


@pytest.mark.parametrize(
    "variable",
    [
        "PANDERA_VALIDATION_ENABLED=False",
        "PANDERA_VALIDATION_ENABLED=0",
        "PANDERA_VALIDATION_DEPTH=SCHEMA_ONLY",
        "PANDERA_VALIDATION_DEPTH=DATA_ONLY",
        "PANDERA_USE_NARWHALS_BACKEND=True",
    ],
)
def test_pandera_switched_off_by_the_environment_is_a_failure(variable: str) -> None:
    name, value = variable.split("=")
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=os.environ | {name: value, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[('pandera-enabled', 'failed')]\n", done.stderr


@pytest.mark.parametrize(
    "setting",
    [
        {"validation_enabled": False},
        {"validation_depth": ValidationDepth.SCHEMA_ONLY},
        {"validation_depth": ValidationDepth.DATA_ONLY},
    ],
)
def test_pandera_switched_off_by_its_settings_is_a_failure(setting: dict[str, Any]) -> None:
    with config_context(**setting):
        checks = checked(good())
    assert of(checks, "failed") == [("pandera-enabled", "pandera")]
    assert len(checks) == 1
    assert "PANDERA_VALIDATION_ENABLED" in checks[0].detail


# Random subsets against a slow version --------------------------------------------------------------------


@st.composite
def any_tables(draw: st.DrawFn) -> Tables:
    """Tables with unique keys and ids from a handful, so that all sorts of faults occur."""

    def rows(table: str, keys: int, *values: Any) -> pl.DataFrame:
        schema = good()[table].schema
        unique = st.lists(st.tuples(*values), max_size=8, unique_by=lambda row: row[:keys])
        return pl.DataFrame(draw(unique), schema, orient="row")

    def one(text: str) -> Any:
        return st.sampled_from(text.split())

    query, image, pool = one("q1 q2 t1 k1"), one("i1 i2 i3 salty"), one("all g1 g2 labels")
    task, view = one("val test kind"), one("gallery group all")
    return {
        "queries": rows("queries", 2, query, task, st.just("")),
        "pools": rows("pools", 2, pool, image),
        "trials": rows("trials", 4, task, view, st.integers(0, 2), query, pool),
        "qrels": rows("qrels", 2, query, image, one("-1 0 0.5 1").map(float)),
        "exclusions": rows("exclusions", 2, query, image),
        "universe": rows("universe", 2, one("query image label"), st.one_of(query, image)),
    }


def slow(tables: Tables) -> set[tuple[str, str]]:
    """What must fail, by loops over rows."""
    queries = {(t, q) for q, t, _ in tables["queries"].rows()}
    pools = tables["pools"].rows()
    trials = tables["trials"].rows()
    qrels, exclusions = tables["qrels"].rows(), tables["exclusions"].rows()
    universe = set(tables["universe"].rows())
    wrong = set()

    def check(name: str, subject: str, bad: Any) -> None:
        if any(bad):
            wrong.add((name, subject))

    sides = {"val": "image", "test": "image", "kind": "label"}
    asked = {(t, q) for t, _, _, q, _ in trials}
    views = {(t, v) for t, v, _, _, _ in trials}
    check("query-has-trial", "queries", (one not in asked for one in queries))
    check("trial-query-exists", "trials", (one not in queries for one in asked))
    check("trial-pool-exists", "trials", (p not in {pool for pool, _ in pools} for *_, p in trials))
    check("pool-is-used", "pools", (p not in {pool for *_, pool in trials} for p, _ in pools))
    names = {q for _, q in queries}
    check("qrels-query-exists", "qrels", (q not in names for q, _, _ in qrels))
    check("exclusion-query-exists", "exclusions", (q not in names for q, _ in exclusions))
    wanted = {("val", "gallery"), ("val", "group"), ("kind", "all"), ("test", "group")}
    tasks = {t for t, _ in queries} | {t for t, _ in views}
    surplus = {v for v in views - wanted if v[0] != "test"}
    check("trials-as-planned", "trials", [wanted - views, surplus, set(sides) - tasks])
    for task, side in sides.items():
        mine = {q for t, q in queries if t == task}
        used = {p for t, *_, p in trials if t == task}
        check("query-known", task, (("query", q) not in universe for q in mine))
        check("pool-candidate-known", task, ((side, c) not in universe for p, c in pools if p in used))
        check("qrels-candidate-known", task, ((side, c) not in universe for q, c, _ in qrels if q in mine))
        check("exclusion-candidate-known", task, ((side, c) not in universe for q, c in exclusions if q in mine))
    check("hidden-answers", "test", (("test", q) in queries for q, _, _ in qrels))
    for pool in {p for t, *_, p in trials if t == "kind"} & {p for p, _ in pools}:
        check("label-pool", "kind", [{c for p, c in pools if p == pool} != {"sweet", "salty"}])
    for view, size in {"gallery": 4, "group": 2}.items():
        for pool in {p for t, v, _, _, p in trials if (t, v) == ("val", view)} & {p for p, _ in pools}:
            found = sum(p == pool for p, _ in pools)
            check("pool-size", f"val/{view}", [found != (3 if pool == "g2" else size)])
    for task, view in views:
        per = [sum((t, v, r) == (task, view, repeat) for t, v, r, _, _ in trials) for repeat in range(3)]
        check("repeats", f"{task}/{view}", [per[2] > 0, per[0] != per[1]])
        for t, v, _, query, pool in trials:
            if (t, v) == (task, view) and task != "test":
                left = {c for p, c in pools if p == pool} - {c for q, c in exclusions if q == query}
                check(
                    "answer-in-pool",
                    f"{task}/{view}",
                    [not left & {c for q, c, w in qrels if q == query and w > 0}],
                )
    return wrong


@settings(max_examples=60, deadline=None)
@given(any_tables())
def test_rules_agree_with_a_slow_version(tables: Tables) -> None:
    assert set(of(checked(tables, with_demands(counts=())), "failed")) == slow(tables)


@settings(max_examples=20, deadline=None)
@given(any_tables(), st.sampled_from(["val/gallery", "val/group", "test/gallery"]))
def test_counts_agree_with_a_slow_version(tables: Tables, subject: str) -> None:
    task, view = subject.split("/")
    trials = [(r, q, p) for t, v, r, q, p in tables["trials"].rows() if (t, v) == (task, view)]
    pools, qrels = tables["pools"].rows(), tables["qrels"].rows()
    exclusions = tables["exclusions"].rows()
    right = {(q, c) for q, c, w in qrels if w > 0 and (q, c) not in exclusions}
    numbers = {
        "queries": len({q for _, q, _ in trials}),
        "candidates": len({c for pool, c in pools if pool in {p for _, _, p in trials}}),
        "unanswerable": len({q for _, q, p in trials if not any(x == p and (q, c) in right for x, c in pools)}),
    }
    for add_one in (0, 1):
        counts = tuple(Count(what, task, view, n + add_one) for what, n in numbers.items())
        checks = checked(tables, with_demands(counts=counts))
        assert [c.status for c in checks if c.name == "published-count"] == [["passed", "failed"][add_one]] * 3


# The benchmarks themselves --------------------------------------------------------------------------------

THERE = [name for name in NAMES if importlib.util.find_spec(f"rankledger.benchmarks.{name}")]


@pytest.mark.parametrize("name", THERE)
def test_the_sample_of_a_benchmark_passes(name: str, tmp_path: Path) -> None:
    bench = benchmark(name)
    parameters = bench.parameters({"source": "sample"})
    (tmp_path / "raw").mkdir()
    bench.sample(tmp_path / "raw")
    subset, notes = bench.build(tmp_path / "raw", parameters)
    sources = [{"name": p.name, "checksum": "sample"} for p in sorted((tmp_path / "raw").iterdir())]
    write_subset(subset, tmp_path / "subset", name, parameters, sources, notes)
    checks = validate(*read_subset(tmp_path / "subset"), bench, parameters)
    assert [c for c in checks if c.status == "failed"] == []


def real(shared: Path, name: str, **given: Any) -> tuple[Subset, dict[str, Any], Benchmark, dict[str, Any]]:
    bench = benchmark(name)
    parameters = bench.parameters({"source": "official", **given})
    subset, notes = bench.build(shared / "mirror" / name, parameters)
    files = bench.files(parameters)
    manifest = manifest_of(subset, ("sha256",) * len(files), tuple(notes), parameters) | {"benchmark": name}
    return subset, manifest, bench, parameters


@pytest.mark.parametrize("reference", ["removed", "kept"])
@pytest.mark.parametrize("labels", ["hard", "soft"])
def test_the_real_cirr_passes(shared: Path, labels: str, reference: str) -> None:
    checks = validate(*real(shared, "cirr", labels=labels, reference=reference))
    assert [c for c in checks if c.status == "failed"] == []
    unanswerable = {c.subject: c.detail.split()[0] for c in checks if c.name == "answer-in-pool" and c.status == "note"}
    if labels == "hard":
        assert unanswerable == {}
    elif reference == "removed":
        assert unanswerable == {"val/gallery": "3", "val/group": "18"}
    said = {(c.subject, c.detail) for c in checks if c.name == "published-count"}
    for subject, number in (
        ("val/gallery", "4,181 queries"),
        ("val/gallery", "2,297 candidates"),
        ("test1/gallery", "4,148 queries"),
        ("test1/gallery", "2,315 candidates"),
    ):
        assert (subject, f"{number}, as published") in said


def test_a_query_lost_from_the_real_cirr_is_a_failure_or_a_note(shared: Path) -> None:
    subset, _, bench, parameters = real(shared, "cirr")
    lost = subset.queries["query_id"][0].as_py()
    task = subset.queries["task"][0].as_py()
    tables = {name: pl.DataFrame(pl.from_arrow(table)) for name, table in subset.tables().items()}
    for name in ("queries", "trials", "qrels", "exclusions"):
        tables[name] = tables[name].filter(pl.col("query_id") != lost)
    tables["pools"] = tables["pools"].join(tables["trials"], on="pool_id", how="semi")
    less = made(tables)
    for checksum, status in (("sha256", "failed"), ("none", "note")):
        about = manifest_of(less, ("sha256", checksum), parameters=parameters) | {"benchmark": "cirr"}
        checks = validate(less, about, bench, parameters)
        wrong = [c for c in checks if c.status == status and c.name != "source"]
        assert {c.subject for c in wrong if c.name == "published-count"} == {
            f"{task}/gallery",
            f"{task}/group",
        }
        assert [c.name for c in checks if c.status == "failed"] == (
            ["published-count"] * 2 if status == "failed" else []
        )


def test_the_real_object_tasks_of_genecis_pass(shared: Path) -> None:
    subset, manifest, bench, parameters = real(shared, "genecis", tasks=["change_object", "focus_object"])
    checks = validate(subset, manifest, bench, parameters)
    assert [c for c in checks if c.status == "failed"] == []
    assert details(checks, "pool-size", "change_object/all") == ["1,960 pools of 15, change_object/19 of 14"]
    assert details(checks, "pool-size", "focus_object/all") == ["1,960 pools of 15"]
