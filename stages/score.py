"""Stage `score`: predictions and a subset → per-query values and metrics of one run on one benchmark."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Key, Plan
from rankledger.predictions.reading import kind_of, locate
from rankledger.ranking.blocks import Engine
from rankledger.ranking.cluster import engine_at
from rankledger.scoring import Scored, Value, score
from rankledger.subset import Subset, read_subset
from rankledger.tables import (
    InputError,
    fingerprint,
    read_json,
    read_table,
    to_json,
    whole_folder,
    write_table,
    write_text,
)
from rankledger.uncertainty import intervals, observe
from stages.progress import Progress
from stages.project import Project


def score_run(project: Project, run: str, name: str, engine: str | None = None) -> None:
    """Write `data/scores/<run>/<name>/`: a table a task, and `result.json`.

    Args:
        project: the project.
        run, name: the run and the benchmark.
        engine: a Dask cluster, dask://host:port, to count blocks of embeddings; else `engine` of params.yaml names it.
            No number depends on it.
    """
    entry = project.run(run, name)
    subset, manifest = checked_subset(project, name)
    with engine_at(engine or project.params().get("engine")) as counting:
        scored, result = measure(project, entry, subset, manifest, counting)
    with whole_folder(project.scores(run, name)) as new:
        for task, table in scored.tables.items():
            write_table(table, new / f"{task}.parquet")
        write_text(to_json(result), new / "result.json")
    for note in scored.notes:
        print(f"note: {note}")


def checked_subset(project: Project, name: str) -> tuple[Subset, dict[str, Any]]:
    """A benchmark's subset and its manifest; raises `InputError` where it is not built, or a check of it failed."""
    if not (project.subset(name) / "manifest.json").is_file() or not project.validation(name).is_file():
        raise InputError(f"{name}: its test subset is not built; run `dvc repro validate@{name}` first")
    if not read_json(project.validation(name))["ok"]:
        raise InputError(f"{name}: its test subset did not pass its checks; `rankledger validate {name}` shows them")
    return read_subset(project.subset(name))


def measure(
    project: Project,
    entry: Mapping[str, Any],
    subset: Subset,
    manifest: Mapping[str, Any],
    engine: Engine = map,
) -> tuple[Scored, dict[str, Any]]:
    """What a run of `params.yaml` reaches on a subset: its tables and values, and the content of `result.json`."""
    plan = benchmark(entry["benchmark"]).plan(manifest["parameters"])
    files = locate(project.predictions(entry["run"], entry["benchmark"]))
    similarity, ties = entry.get("similarity", "cosine"), manifest["parameters"].get("ties")
    with ThreadPoolExecutor(1) as beside, Progress() as progress:
        inputs = beside.submit(fingerprints, files)  # while the same files are read to be scored
        scored = score(subset, plan, files, similarity, ties, progress.tell, engine)
    return scored, describe(scored, plan, entry, manifest, files, subset, inputs.result())


def describe(
    scored: Scored,
    plan: Plan,
    entry: Mapping[str, Any],
    manifest: Mapping[str, Any],
    files: Mapping[str, Path],
    subset: Subset,
    predictions: Mapping[str, str],
) -> dict[str, Any]:
    """The content of `result.json`: metrics, the protocol, the fingerprints of all inputs, also of `predictions`.

    Metrics have 12 significant digits, their 95 % bootstrap intervals 6.
    """
    metrics: dict[str, Any] = {}
    observed = observe(plan, subset, scored.tables, files)
    spans = intervals(entry["benchmark"], plan.means, observed, scored.values)
    for key, value in scored.values.items():
        span = spans.get(key)
        limits = None if span is None else [_digits(limit, 6) for limit in span]
        _put(metrics, key, {**_rounded(value), "interval": limits})
    ties = manifest["parameters"].get("ties")
    embeds = any(kind_of(path) == "embeddings" for path in files.values())
    return {
        "run": entry["run"],
        "benchmark": entry["benchmark"],
        "metrics": metrics,
        "protocol": {
            "parameters": manifest["parameters"],
            **({"similarity": entry.get("similarity", "cosine")} if embeds else {}),
            **({"variant": entry["variant"]} if "variant" in entry else {}),
            "tasks": {t.name: {"ties": ties or t.ties, "missing": t.missing} for t in plan.tasks},
        },
        "inputs": {
            "subset": manifest["fingerprints"],
            "predictions": predictions,
        },
        "notes": scored.notes,
    }


def fingerprints(files: Mapping[str, Path]) -> dict[str, str]:
    """Of prediction files, by name."""
    return {name: fingerprint(read_table(path)) for name, path in sorted(files.items())}


def _rounded(value: Value) -> dict[str, Any]:
    numbers = {name: getattr(value, name) for name in ("mean", "std", "chance", "ceiling")}
    return {**value._asdict(), **{name: None if x is None else _digits(x, 12) for name, x in numbers.items()}}


def _digits(number: float, significant: int) -> float:
    return float(f"{number:.{significant}g}")


def _put(tree: dict[str, Any], key: Key, leaf: Any) -> None:
    for part in key[:-1]:
        tree = tree.setdefault(part, {})
    tree[key[-1]] = leaf
