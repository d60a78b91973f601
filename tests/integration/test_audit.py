"""`rankledger audit`: each link of the chain broken in turn, and what is said of it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from rankledger.tables import InputError, read_json, read_table, to_json
from stages.audit import Check, audit
from stages.lock import Hashes, read_pointer
from stages.project import Project
from tests.integration.conftest import Workspace

BENCHMARKS = ("cirr", "deft2013")

CIRR = "data/subsets/cirr"
PREDICTIONS = "data/predictions/sample/cirr"
SCORES = "data/scores/sample/cirr"
RESULT = f"{SCORES}/result.json"
METRICS = "reports/metrics.json"

Found = set[tuple[str, str]]


@pytest.fixture(scope="module")
def small(reproduced: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A reproduced project with two benchmarks, so that an audit takes a second; tests must not change it."""
    root = tmp_path_factory.mktemp("small") / "rankledger"
    shutil.copytree(reproduced.root, root, ignore=shutil.ignore_patterns("raw", "subsets", "scores", "?*.lock"))
    yaml = YAML()
    params = yaml.load(root / "params.yaml")
    for name in [n for n in params["benchmarks"] if n not in BENCHMARKS]:
        del params["benchmarks"][name]
        shutil.rmtree(root / "data" / "predictions" / "chance" / name)
        shutil.rmtree(root / "data" / "predictions" / "sample" / name)
        (root / "reports" / "validation" / f"{name}.json").unlink()
    for key in [k for k, entry in params["runs"].items() if entry["benchmark"] not in BENCHMARKS]:
        del params["runs"][key]
    yaml.dump(params, root / "params.yaml")
    project = Workspace(root)
    project.run("dvc", "repro")
    return project


@pytest.fixture
def root(small: Workspace, tmp_path: Path) -> Path:
    """A copy of the small project that a test may change."""
    shutil.copytree(small.root, tmp_path / "rankledger", ignore=shutil.ignore_patterns(".git", "cache"))
    return tmp_path / "rankledger"


def checks(root: Path, *runs: str, recompute: bool = False) -> list[Check]:
    return audit(Project(root), runs, recompute)


def failed(found: list[Check]) -> Found:
    return {(c.name, c.subject) for c in found if not c.ok}


def edit(path: Path, change: Callable[[Any], None]) -> None:
    content = read_json(path)
    change(content)
    path.write_text(to_json(content))


def edit_lock(root: Path, change: Callable[[Any], None]) -> None:
    yaml = YAML()
    yaml.width = 4096
    lock = yaml.load(root / "dvc.lock")
    change(lock["stages"])
    yaml.dump(lock, root / "dvc.lock")


def edit_table(path: Path, column: str, row: int, value: Any) -> None:
    table = read_table(path)
    values = table[column].to_pylist()
    assert values[row] != value
    values[row] = value
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, table.schema.field(column), pa.array(values, table[column].type)), path)


def a_byte_of_a_raw_file(root: Path) -> None:
    path = root / "data/raw/cirr/cap.rc2.val.json"
    content = bytearray(path.read_bytes())
    content[content.index(b'"caption": "') + len(b'"caption": "')] ^= 2
    path.write_bytes(content)
    json.loads(content)  # still what the format asks for


def a_raw_file_gone(root: Path) -> None:
    (root / "data/raw/cirr/cap.rc2.val.json").unlink()


def a_raw_file_too_many(root: Path) -> None:
    (root / "data/raw/cirr/extra.json").write_text("{}")


def a_raw_manifest(root: Path) -> None:
    edit(root / "data/raw/cirr/manifest.json", lambda m: m["files"][0].update(sha256="0" * 64))


def two_ids_of_pools(root: Path) -> None:
    path = root / CIRR / "pools.parquet"
    pool, ids = read_table(path)["pool_id"].to_pylist(), read_table(path)["candidate_id"].to_pylist()
    group = pool.index(next(p for p in pool if p.startswith("val/group/")))
    edit_table(path, "candidate_id", group, next(i for i in ids if i not in ids[group : group + 6]))


def a_cut_off_table(root: Path) -> None:
    path = root / CIRR / "trials.parquet"
    path.write_bytes(path.read_bytes()[:-9])


def a_fingerprint_of_the_manifest(root: Path) -> None:
    edit(root / CIRR / "manifest.json", lambda m: m["fingerprints"].update(pools="0" * 64))


def a_parameter_of_the_manifest(root: Path) -> None:
    edit(root / CIRR / "manifest.json", lambda m: m["parameters"].update(labels="soft"))


def a_source_of_the_manifest(root: Path) -> None:
    edit(root / CIRR / "manifest.json", lambda m: m["sources"][0].update(sha256="0" * 64))


def a_count_of_the_manifest(root: Path) -> None:
    edit(root / CIRR / "manifest.json", lambda m: m["counts"].update(queries=7))


def a_key_too_many_in_the_manifest(root: Path) -> None:
    edit(root / CIRR / "manifest.json", lambda m: m.update(more=1))


def a_broken_manifest(root: Path) -> None:
    (root / CIRR / "manifest.json").write_text("{")


def a_manifest_of_another_shape(root: Path) -> None:
    edit(root / CIRR / "manifest.json", lambda m: m.update(fingerprints=["0" * 64]))


def an_empty_manifest(root: Path) -> None:
    (root / CIRR / "manifest.json").write_text("{}")


def a_manifest_gone(root: Path) -> None:
    (root / CIRR / "manifest.json").unlink()


def a_croissant(root: Path) -> None:
    edit(root / CIRR / "croissant.json", lambda c: c.update(license="MIT"))


def a_validation_report(root: Path) -> None:
    def fail(report: Any) -> None:
        report["ok"], report["checks"][0]["status"] = False, "failed"

    edit(root / "reports/validation/cirr.json", fail)


def a_prediction(root: Path) -> None:
    path = root / PREDICTIONS / "query.parquet"
    edit_table(path, "embedding", 0, [1.0] * 32)


def a_prediction_file_gone(root: Path) -> None:
    (root / PREDICTIONS / "query.parquet").unlink()


def a_metric_of_a_result(root: Path) -> None:
    edit(root / RESULT, lambda r: r["metrics"]["val"]["R@1"].update(mean=99.0))


def a_fingerprint_of_a_result(root: Path) -> None:
    edit(root / RESULT, lambda r: r["inputs"]["subset"].update(pools="0" * 64))


def a_prediction_that_a_result_names(root: Path) -> None:
    edit(root / RESULT, lambda r: r["inputs"]["predictions"].update(query="0" * 64))


def a_result_without_its_inputs(root: Path) -> None:
    edit(root / RESULT, lambda r: r.pop("inputs"))


def a_result_gone(root: Path) -> None:
    (root / RESULT).unlink()


def a_per_query_table(root: Path) -> None:
    edit_table(root / SCORES / "val.parquet", "rank_min", 0, 77)


def a_metric_by_hand(root: Path) -> None:
    edit(root / METRICS, lambda m: m["sample"]["cirr"]["val"].update({"R@1": 99.0}))


def two_metrics_by_hand(root: Path) -> None:
    edit(root / METRICS, lambda m: m["sample"]["cirr"]["val"].update({"R@1": 99.0, "R@5": 99.5}))


def a_metric_of_no_run(root: Path) -> None:
    edit(root / METRICS, lambda m: m.update(ghost={"cirr": {"val": {"R@1": 100.0}}}))


def the_summary(root: Path) -> None:
    (root / "reports/summary.md").write_text("all is well")


def scores_that_no_run_owns(root: Path) -> None:
    shutil.copytree(root / SCORES, root / "data/scores/ghost/cirr")


def an_empty_score_folder(root: Path) -> None:
    (root / "data/scores/sample/genecis").mkdir()


def an_empty_folder_of_a_run(root: Path) -> None:
    (root / "data/scores/ghost").mkdir()


def a_file_among_the_scores(root: Path) -> None:
    (root / "data/scores/notes.txt").write_text("mine")


def a_subset_that_no_benchmark_owns(root: Path) -> None:
    shutil.copytree(root / CIRR, root / "data/subsets/cirr2")


def an_empty_subset_folder(root: Path) -> None:
    (root / "data/subsets/genecis").mkdir()


def a_subset_in_one_record(root: Path) -> None:
    edit_lock(root, lambda s: s["build@cirr"]["outs"][0].update(md5="0" * 32 + ".dir"))


def a_size_in_one_record(root: Path) -> None:
    edit_lock(root, lambda s: next(d for d in s["score@sample-cirr"]["deps"] if d["path"] == CIRR).update(size=1))


def the_only_record_of_scores(root: Path) -> None:
    edit_lock(root, lambda s: s["score@sample-cirr"]["outs"][0].update(md5="0" * 32 + ".dir"))


def a_module_in_one_record(root: Path) -> None:
    edit_lock(
        root, lambda s: next(d for d in s["build@cirr"]["deps"] if d["path"] == "rankledger/tables.py").update(md5="0")
    )


def a_parameter_in_one_record(root: Path) -> None:
    edit_lock(root, lambda s: s["build@cirr"]["params"]["params.yaml"]["benchmarks.cirr"].update(labels="soft"))


def a_command_in_a_record(root: Path) -> None:
    edit_lock(root, lambda s: s["build@cirr"].update(cmd="rankledger build circo"))


def an_output_left_out_of_a_record(root: Path) -> None:
    edit_lock(root, lambda s: s["predict@cirr"]["outs"].pop())


def a_record_gone(root: Path) -> None:
    edit_lock(root, lambda s: s.pop("validate@cirr"))


def a_broken_lock(root: Path) -> None:
    (root / "dvc.lock").write_text("stages: {build@cirr: [}")


def a_lock_of_another_shape(root: Path) -> None:
    (root / "dvc.lock").write_text("stages: [build@cirr]")


def a_broken_pipeline(root: Path) -> None:
    (root / "dvc.yaml").write_text("stages: {build: {foreach: ")


def the_parameters(root: Path) -> None:
    Workspace(root).edit("params.yaml", "labels: hard", "labels: soft")


def the_code(root: Path) -> None:
    with (root / "stages/score.py").open("a") as file:
        file.write("# changed\n")


def a_frozen_stage(root: Path) -> None:
    Workspace(root).edit("dvc.yaml", "  report:\n", "  report:\n    frozen: true\n")


RAW = ("dvc-lock", "data/raw/cirr")
BUILT = ("dvc-lock", CIRR)
MANIFEST = ("subset-manifest", f"{CIRR}/manifest.json")
SCORED = ("dvc-lock", SCORES)
REPORTED = ("dvc-lock", METRICS)

BROKEN: list[tuple[Callable[[Path], None], Found]] = [
    (a_byte_of_a_raw_file, {("raw-files", "data/raw/cirr/cap.rc2.val.json"), RAW}),
    (a_raw_file_gone, {("raw-files", "data/raw/cirr/cap.rc2.val.json"), RAW}),
    (a_raw_file_too_many, {("raw-files", "data/raw/cirr/extra.json"), RAW}),
    (a_raw_manifest, {("raw-files", "data/raw/cirr/cap.rc2.test1.json"), RAW}),
    (two_ids_of_pools, {("subset-rebuilt", f"{CIRR}/pools.parquet"), BUILT}),
    (a_cut_off_table, {("subset-rebuilt", f"{CIRR}/trials.parquet"), BUILT}),
    (a_fingerprint_of_the_manifest, {MANIFEST, BUILT}),
    (a_parameter_of_the_manifest, {MANIFEST, BUILT}),
    (a_source_of_the_manifest, {MANIFEST, BUILT}),
    (a_count_of_the_manifest, {MANIFEST, BUILT}),
    (a_key_too_many_in_the_manifest, {MANIFEST, BUILT}),
    (a_broken_manifest, {MANIFEST, BUILT}),
    (a_manifest_of_another_shape, {MANIFEST, BUILT}),
    (an_empty_manifest, {MANIFEST, BUILT}),
    (a_manifest_gone, {MANIFEST, BUILT}),
    (a_croissant, {BUILT}),
    (
        a_validation_report,
        {("validation", "reports/validation/cirr.json"), ("dvc-lock", "reports/validation/cirr.json")},
    ),
    (a_prediction, {("result-inputs", RESULT), ("dvc-lock", PREDICTIONS)}),
    (a_prediction_file_gone, {("result-inputs", RESULT), ("dvc-lock", PREDICTIONS)}),
    (a_metric_of_a_result, {("metrics", "sample.cirr.val.R@1"), SCORED}),
    (a_fingerprint_of_a_result, {("result-inputs", RESULT), SCORED}),
    (a_prediction_that_a_result_names, {("result-inputs", RESULT), SCORED}),
    (a_result_without_its_inputs, {("result-inputs", RESULT), SCORED}),
    (a_result_gone, {("result-inputs", RESULT), SCORED}),
    (a_per_query_table, {SCORED}),
    (a_metric_by_hand, {("metrics", "sample.cirr.val.R@1"), REPORTED}),
    (two_metrics_by_hand, {("metrics", "sample.cirr.val"), REPORTED}),
    (a_metric_of_no_run, {("metrics", "ghost.cirr.val.R@1"), REPORTED}),
    (the_summary, {("dvc-lock", "reports/summary.md")}),
    (scores_that_no_run_owns, {("owned", "data/scores/ghost/cirr")}),
    (an_empty_score_folder, {("owned", "data/scores/sample/genecis")}),
    (an_empty_folder_of_a_run, {("owned", "data/scores/ghost")}),
    (a_file_among_the_scores, {("owned", "data/scores/notes.txt")}),
    (a_subset_that_no_benchmark_owns, {("owned", "data/subsets/cirr2")}),
    (an_empty_subset_folder, {("owned", "data/subsets/genecis")}),
    (a_subset_in_one_record, {("dvc-lock", "build@cirr")}),
    (a_size_in_one_record, {("dvc-lock", "score@sample-cirr")}),
    (the_only_record_of_scores, {SCORED}),
    (a_module_in_one_record, {("dvc-lock", "build@cirr")}),
    (a_parameter_in_one_record, {("dvc-lock", "build@cirr")}),
    (a_command_in_a_record, {("dvc-lock", "build@cirr")}),
    (an_output_left_out_of_a_record, {("dvc-lock", "predict@cirr")}),
    (a_record_gone, {("dvc-lock", "validate@cirr")}),
    (a_broken_lock, {("dvc-lock", "dvc.lock")}),
    (a_lock_of_another_shape, {("dvc-lock", "dvc.lock")}),
    (a_broken_pipeline, {("dvc-lock", "dvc.yaml")}),
    (the_parameters, {("dvc-lock", "params.yaml: benchmarks.cirr")}),
    (the_code, {("dvc-lock", "stages/score.py")}),
    (a_frozen_stage, {("settings", "report")}),
]


@pytest.mark.parametrize(("change", "expected"), BROKEN, ids=[change.__name__ for change, _ in BROKEN])
def test_a_broken_link_is_named_and_nothing_else(change: Callable[[Path], None], expected: Found, root: Path) -> None:
    change(root)
    found = checks(root)
    assert failed(found) == expected
    for check in found:
        assert check.detail, check
        assert str(root) not in check.detail, check
        assert "\n" not in check.detail, check


def test_an_untouched_project_is_green(reproduced: Workspace) -> None:
    said = reproduced.run("rankledger", "audit", "--json")
    found = json.loads(said.stdout)
    assert list(found) == ["checks"]
    assert all(set(c) == {"name", "ok", "subject", "detail"} for c in found["checks"])
    assert not [c for c in found["checks"] if c["ok"] is not True]
    made = {(c["name"], c["subject"]) for c in found["checks"]}
    params = YAML(typ="safe").load(reproduced.root / "params.yaml")
    for name in params["benchmarks"]:
        assert {("raw-files", f"data/raw/{name}"), ("subset-rebuilt", f"data/subsets/{name}")} <= made
        assert ("subset-manifest", f"data/subsets/{name}/manifest.json") in made
        assert ("validation", f"reports/validation/{name}.json") in made
        assert {("dvc-lock", f"data/{kind}/{name}") for kind in ("raw", "subsets", "predictions/sample")} <= made
    for entry in params["runs"].values():
        assert ("result-inputs", f"data/scores/{entry['run']}/{entry['benchmark']}/result.json") in made
        assert ("dvc-lock", f"data/scores/{entry['run']}/{entry['benchmark']}") in made
    assert ("metrics", METRICS) in made
    assert len(made) == len(found["checks"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PANDERA_VALIDATION_ENABLED", "False"),
        ("PANDERA_VALIDATION_DEPTH", "SCHEMA_ONLY"),
        ("PANDERA_USE_NARWHALS_BACKEND", "True"),
    ],
)
def test_a_switch_that_turns_checks_off(
    name: str, value: str, small: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert failed(checks(small.root)) == {("settings", name)}


def test_a_switch_that_leaves_checks_on(small: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", "True")
    monkeypatch.setenv("PANDERA_VALIDATION_DEPTH", "SCHEMA_AND_DATA")
    assert not failed(checks(small.root))


def test_a_difference_names_the_first_ids(root: Path) -> None:
    path = root / CIRR / "pools.parquet"
    before = read_table(path).to_pylist()
    two_ids_of_pools(root)
    after = read_table(path).to_pylist()
    (lost,), (new,) = [r for r in before if r not in after], [r for r in after if r not in before]
    (check,) = [c for c in checks(root) if c.name == "subset-rebuilt" and not c.ok]
    assert f"1 rows only here: candidate_id {new['candidate_id']!r} pool_id {new['pool_id']!r}" in check.detail
    assert f"make: candidate_id {lost['candidate_id']!r} pool_id {lost['pool_id']!r}" in check.detail


def test_other_bytes_with_the_same_content_are_a_matter_of_the_lock_only(root: Path) -> None:
    for path in [*(root / CIRR).glob("*.parquet"), *(root / PREDICTIONS).glob("*.parquet")]:
        before = path.read_bytes()
        pq.write_table(read_table(path), path, row_group_size=7, compression="snappy", data_page_version="2.0")
        assert path.read_bytes() != before
    assert failed(checks(root)) == {("dvc-lock", CIRR), ("dvc-lock", PREDICTIONS)}


def test_a_change_that_the_lock_was_taught_too_is_found_by_scoring_again(root: Path) -> None:
    a_metric_of_a_result(root)
    a_metric_by_hand(root)

    def teach(stages: Any) -> None:
        hashes = Hashes(root)
        for stage in stages.values():
            for item in [*stage["deps"], *stage["outs"]]:
                item.update(hashes.of(item["path"]))

    edit_lock(root, teach)
    assert not failed(checks(root))
    found = checks(root, "sample-cirr", recompute=True)
    assert failed(found) == {("recomputed", RESULT)}
    (check,) = [c for c in found if not c.ok]
    assert "metrics.val.R@1.mean is 99.0, but " in check.detail


def test_per_query_values_are_compared_when_scoring_again(root: Path) -> None:
    a_per_query_table(root)
    query = read_table(root / SCORES / "val.parquet")["query_id"][0].as_py()
    found = checks(root, "sample", recompute=True)
    assert failed(found) == {SCORED, ("recomputed", f"{SCORES}/val.parquet")}
    assert f"query_id {query!r}" in next(c.detail for c in found if c.name == "recomputed" and not c.ok)
    assert {c.subject for c in found if c.name == "recomputed" and c.ok} == {"data/scores/sample/deft2013"}


def test_all_runs_scored_again_are_what_they_were(small: Workspace) -> None:
    found = checks(small.root, recompute=True)
    assert not failed(found)
    again = {c.subject for c in found if c.name == "recomputed"}
    assert again == {f"data/scores/{run}/{name}" for run in ("chance", "sample") for name in BENCHMARKS}


def test_official_files_are_compared_with_the_known_ones(root: Path) -> None:
    def official(checksum: str) -> Callable[[Any], None]:
        def change(manifest: Any) -> None:
            manifest["source"] = "official"
            for file in manifest["files"]:
                file["checksum"] = checksum

        return change

    edit(root / "data/raw/cirr/manifest.json", official("sha256"))
    found = [c for c in checks(root) if c.name == "raw-files" and not c.ok]
    names = [p.name for p in sorted((root / "data/raw/cirr").glob("*.rc2.*.json"))]
    assert [c.subject for c in found] == [f"data/raw/cirr/{name}" for name in names]
    assert all("data/sources.yaml" in c.detail for c in found)
    edit(root / "data/raw/cirr/manifest.json", official("differs"))  # a user's own, and the manifest says so
    (check,) = [c for c in checks(root) if c.subject == "data/raw/cirr" and c.name == "raw-files"]
    assert check.ok
    assert f"{len(names)} of them not the known content" in check.detail


def test_what_is_no_longer_listed_is_a_note(root: Path) -> None:
    yaml = YAML()
    params = yaml.load(root / "params.yaml")
    del params["benchmarks"]["deft2013"]
    for run in ("chance", "sample"):
        del params["runs"][f"{run}-deft2013"]
    yaml.dump(params, root / "params.yaml")
    found = checks(root)
    assert {c.subject for c in found if c.name == "unlisted"} == {
        *(f"{stage}@deft2013" for stage in ("fetch", "build", "validate", "predict")),
        *("score@chance-deft2013", "score@sample-deft2013", "reports/validation/deft2013.json"),
    }
    assert all(c.ok for c in found if c.name == "unlisted")
    assert failed(found) == {
        ("dvc-lock", "params.yaml: runs"),  # not reported yet without them
        ("metrics", "chance.deft2013"),
        ("metrics", "sample.deft2013"),
        *(("owned", f"data/{kind}/deft2013") for kind in ("subsets", "scores/chance", "scores/sample")),
    }


def test_an_added_run_and_its_pointer(small: Workspace, tmp_path: Path) -> None:
    root = tmp_path / "rankledger"
    shutil.copytree(small.root, root)
    w = Workspace(root)
    shutil.copytree(root / "data/predictions/sample/cirr", tmp_path / "mine")
    w.run(
        "rankledger",
        "add",
        "mymodel",
        "cirr",
        str(tmp_path / "mine/query.parquet"),
        str(tmp_path / "mine/image.parquet"),
    )
    unscored = {("dvc-lock", "score@mymodel-cirr"), ("dvc-lock", "params.yaml: runs")}
    assert failed(checks(root)) == unscored | {("result-inputs", "data/scores/mymodel/cirr/result.json")}
    w.run("dvc", "repro")
    assert not failed(checks(root))
    pointer = root / "data/predictions/mymodel/cirr.dvc"
    before = pointer.read_text()
    md5 = read_pointer(Project(root), pointer).writes["data/predictions/mymodel/cirr"]["md5"]
    pointer.write_text(before.replace(md5, "0" * 32 + ".dir"))
    assert failed(checks(root)) == {("dvc-lock", "data/predictions/mymodel/cirr.dvc")}
    pointer.write_text(before)
    edit_table(root / "data/predictions/mymodel/cirr/query.parquet", "embedding", 0, [1.0] * 32)
    assert failed(checks(root)) == {
        ("dvc-lock", "data/predictions/mymodel/cirr"),
        ("result-inputs", "data/scores/mymodel/cirr/result.json"),
    }


def test_nothing_reproduced_yet(root: Path) -> None:
    for name in ("data/raw", "data/subsets", "data/predictions", "data/scores", "reports"):
        shutil.rmtree(root / name)
    gone = {("dvc-lock", f"data/{kind}/{name}") for kind in ("raw", "subsets") for name in BENCHMARKS}
    gone |= {("dvc-lock", f"data/predictions/{run}/{n}") for run in ("chance", "sample") for n in BENCHMARKS}
    gone |= {("dvc-lock", f"data/scores/{run}/{n}") for run in ("chance", "sample") for n in BENCHMARKS}
    gone |= {("dvc-lock", f"reports/validation/{name}.json") for name in BENCHMARKS}
    gone |= {("dvc-lock", METRICS), ("dvc-lock", "reports/summary.md"), ("dvc-lock", "reports/index.html")}
    gone |= {("dvc-lock", "reports/plots"), ("dvc-lock", "reports/plots.html")}
    missing = {("raw-files", f"data/raw/{name}") for name in BENCHMARKS}
    missing |= {("subset-manifest", f"data/subsets/{name}") for name in BENCHMARKS}
    missing |= {("validation", f"reports/validation/{name}.json") for name in BENCHMARKS}
    missing |= {("result-inputs", f"data/scores/{r}/{n}/result.json") for r in ("chance", "sample") for n in BENCHMARKS}
    missing |= {("metrics", METRICS)}
    assert failed(checks(root)) == gone | missing
    (root / "dvc.lock").unlink()
    found = checks(root)
    assert failed(found) == missing | {("dvc-lock", "dvc.lock")}
    assert all("dvc repro" in c.detail or "no such file" in c.detail for c in found if not c.ok)


def test_one_line_a_check_and_exit_codes(root: Path) -> None:
    a_metric_by_hand(root)
    w = Workspace(root)
    said = w.run("rankledger", "audit", ok=False)
    assert said.returncode == 1
    assert not said.stderr
    *rows, last = said.stdout.splitlines()
    found = checks(root)
    assert [row.split()[:2] for row in rows] == [["ok" if c.ok else "failed", c.name] for c in found]
    assert last == f"{len(found) - 2} checks passed, 2 failed"
    unknown = w.run("rankledger", "audit", "--recompute", "nobody", ok=False)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "lists no 'nobody'" in unknown.stderr
    assert w.run("rankledger", "audit", "sample", ok=False).returncode == 2


def test_an_unknown_run_is_an_error(small: Workspace) -> None:
    with pytest.raises(InputError, match="nobody"):
        checks(small.root, "nobody", recompute=True)


def test_no_network_and_no_dvc(small: Workspace) -> None:
    program = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from stages.audit import audit
from stages.project import Project
assert all(check.ok for check in audit(Project.find()))
assert not {name for name in sys.modules if name.split(".")[0].startswith("dvc")}
assert not {"polars", "pandera"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=small.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_hashes_are_those_of_dvc(tmp_path: Path) -> None:
    repository = Workspace(tmp_path)
    repository.run("git", "init", "-q")
    repository.run("dvc", "init", "-q")
    for name in ("b/a.txt", "b.txt", "b/é ü.txt", "b/c/d.txt", "B.txt", "empty.txt"):
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "empty.txt" else f"{name} and more\r\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "e.txt").write_text("e")
    (tmp_path / "folder" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder" / "link.txt").symlink_to(tmp_path / "elsewhere" / "e.txt")
    (tmp_path / "file.txt").write_bytes(b"\0\1\2\r\n")
    repository.run("dvc", "add", "-q", "folder", "file.txt")
    hashes = Hashes(tmp_path)
    for name in ("folder", "file.txt"):
        assert hashes.of(name) == read_pointer(Project(tmp_path), tmp_path / f"{name}.dvc").writes[name]
    assert hashes.of("nothing") is None
