"""`rankledger trace`: the lineage of one number, and of one query's part in it."""

import difflib
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from rankledger.benchmarks.base import Key, Measure
from rankledger.inspection import Placed, pool_of
from rankledger.predictions.reading import kind_of
from rankledger.provenance.comparison import flatten, unknown_key
from rankledger.provenance.lineage import Node, draw_fingerprints, lines, packages, pruned, tree
from rankledger.ranking import metrics
from rankledger.tables import InputError, few, part_files, read_table
from rankledger.uncertainty import intervals
from stages.evidence import Evidence, split
from stages.project import SHIPPED_RUNS, Project
from stages.report import leaf
from stages.revision import METRICS, Commit, Gone, Revision, Workspace, changed, first_commit, is_shallow

COMPUTING = ("numpy", "pyarrow", "polars")  # the packages that a number depends on
AHEAD = 5  # so many of those who beat the right answer are shown


def trace(project: Project, metric: str, rev: str | None = None, query: str | None = None) -> dict[str, Any]:
    """The lineage of a key of `metrics.json`.

    Raises `InputError` where there is no such key or query, and `Gone` where its data are no longer there.
    """
    revision: Revision = Commit(project, rev) if rev else Workspace(project)
    known = flatten(revision.metrics)
    if metric not in known:
        raise InputError(f"{unknown_key(metric, known)} (at {revision.name})")
    run, name, key = split(metric)
    evidence = Evidence(revision, run, name)
    base = key if key in evidence.observed or leaf(evidence.result, key) else (*key[:-1], key[-1].removesuffix("_std"))
    value = leaf(evidence.result, base)
    if value is None:
        raise InputError(f"{metric}: {evidence.where['scores'][0]} does not hold it; run `dvc repro {evidence.stage}`")
    measures = list(_measures(evidence, base))
    spread = base != key
    found = {
        "metric": metric,
        "value": known[metric],
        "interval": None if spread else _interval(evidence, base),
        "unit": value["unit"],
        "higher_is_better": None if spread else value["higher_is_better"],
        "n": value["n"],
        "repeats": value["repeats"],
        "draws": _draws(evidence, measures[0], value["mean"]) if len(measures) == 1 else [],
        "parts": _parts(evidence, base, known, f"{run}.{name}."),
        "protocol": list(_protocol(evidence, base, measures)),
        "predictions": _predictions(evidence),
        "subset": {
            "path": evidence.where["subset"][0],
            "md5": revision.hash(*evidence.where["subset"]),
            "counts": evidence.manifest["counts"],
            "fingerprints": evidence.manifest["fingerprints"],
            "notes": evidence.manifest["notes"],
        },
        "sources": evidence.manifest["sources"],
        "licence": evidence.benchmark.licence,
        "paper": evidence.benchmark.paper,
        "revision": {"name": revision.name, "commit": revision.commit, "changed": _changed(evidence)},
        "packages": packages(revision.read("requirements.lock") or ""),
    }
    if query is not None:
        found["query"] = {"query_id": query, "trials": _asked(evidence, measures, query)}
    return found


def show(lineage: dict[str, Any]) -> None:
    """Print the lineage as a tree."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=500)  # one line a thing, for `grep`

    def grow(node: Node, onto: Tree) -> None:
        for label, below in node[1]:
            grow((label, below), onto.add(Text(label)))

    root = pruned(tree(lineage, COMPUTING))
    shown = Tree(Text(root[0], style="bold"))
    grow(root, shown)
    console.print(shown)


def _measures(evidence: Evidence, key: Key) -> Iterator[Measure]:
    """The measures that a key is, or is the mean of."""
    mean = next((m for m in evidence.plan.means if m.key == key), None)
    if mean:
        for part in mean.of:
            yield from _measures(evidence, part)
    yield from (m for m in evidence.plan.measures if m.key == key)


def _interval(evidence: Evidence, key: Key) -> list[float] | None:
    found = intervals(evidence.name, evidence.plan.means, evidence.observed, [key]).get(key)
    return [round(x, 6) for x in found] if found else None


def _parts(evidence: Evidence, key: Key, known: dict[str, float], prefix: str) -> list[dict[str, Any]]:
    """What a mean is the mean of."""
    names = [prefix + ".".join(part) for mean in evidence.plan.means if mean.key == key for part in mean.of]
    return [{"metric": name, "value": known[name]} for name in names if name in known]


def _draws(evidence: Evidence, measure: Measure, value: float) -> list[dict[str, Any]]:
    """The value of each repeat, and the fingerprint of who was asked in it, against what."""
    prints = draw_fingerprints(evidence.subset.trials, measure.task, measure.view)
    observed = evidence.observed.get(measure.key)
    found = []
    for repeat, fingerprint in prints.items():
        draw: dict[str, Any] = {"repeat": repeat, "value": value, "fingerprint": fingerprint}
        if observed is not None:
            mine = observed.values[observed.repeat == repeat]
            draw["n"] = len(mine)
            if len(prints) > 1:
                draw["value"] = float(f"{metrics.parse(measure.metric).total(mine):.12g}")
        found.append(draw)
    return found


def _protocol(evidence: Evidence, key: Key, measures: list[Measure]) -> Iterator[dict[str, Any]]:
    """Each choice that the number depends on, and where it was made."""
    known = lines(evidence.revision.read("params.yaml") or "")

    def source(*path: str) -> str:
        return f"params.yaml:{known[path]}" if path in known else "default"

    for name, value in evidence.manifest["parameters"].items():
        yield {"choice": name, "value": value, "source": source("benchmarks", evidence.name, name)}
    where = f"{evidence.name}'s protocol"
    for measure in measures:
        label = f" of {'.'.join(measure.key)}" if len(measures) > 1 else ""
        yield {"choice": f"metric{label}", "value": measure.metric, "source": where}
        if measure.where:
            yield {"choice": f"queries{label}", "value": " = ".join(measure.where), "source": where}
    tasks = [evidence.plan.task(name) for name in dict.fromkeys(m.task for m in measures)]
    for task in tasks:
        label = f" of {task.name}" if len(tasks) > 1 else ""
        if not task.labels and evidence.ties is None:
            yield {"choice": f"ties{label}", "value": task.ties, "source": where}
        yield {"choice": f"query without prediction{label}", "value": task.missing, "source": where}
    entry = "runs", f"{evidence.run}-{evidence.name}"
    ranked = not all(task.labels for task in tasks)
    if ranked and any(kind_of(path) == "embeddings" for path in _files(evidence).values()):
        yield {"choice": "similarity", "value": evidence.similarity, "source": source(*entry, "similarity")}
    if "variant" in evidence.entry:
        yield {"choice": "variant", "value": evidence.entry["variant"], "source": source(*entry, "variant")}


def _files(evidence: Evidence) -> dict[str, Path]:
    """The prediction files, none where they are gone."""
    try:
        return evidence.files
    except Gone:
        return {}


def _predictions(evidence: Evidence) -> dict[str, Any]:
    """The predictions that were scored: content, rows, and since when the history has them."""
    revision, path = evidence.revision, evidence.where["predictions"][0]
    (md5, there), files = evidence.predictions, _files(evidence)
    if md5 != there:
        note = f"{path} holds other predictions now than those that were scored; run `dvc repro {evidence.stage}`"
        print(f"note: {note}", file=sys.stderr)
    shipped = evidence.run in SHIPPED_RUNS
    return {
        "path": path,
        "md5": md5,
        "made_by": f"`rankledger predict {evidence.name}`" if shipped else "added with `rankledger add`",
        "since": first_commit(revision, md5, ["dvc.lock" if shipped else f"{path}.dvc"]) if md5 else None,
        "shallow": is_shallow(revision.project),
        "files": [
            {"name": name, "fingerprint": fingerprint, "rows": _rows(files[name]) if name in files else None}
            for name, fingerprint in evidence.result["inputs"]["predictions"].items()
        ],
    }


def _rows(path: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in part_files(path))


def _changed(evidence: Evidence) -> list[str]:
    """What the workspace has otherwise than its commit, of the files that the number depends on."""
    if isinstance(evidence.revision, Commit):
        return []
    paths = ["params.yaml", "dvc.lock", METRICS, f"{evidence.where['predictions'][0]}.dvc"]
    return changed(evidence.revision.project, paths)


def _asked(evidence: Evidence, measures: list[Measure], query: str) -> list[dict[str, Any]]:
    """The trials of one query."""
    found = []
    for task, view in dict.fromkeys((m.task, m.view) for m in measures):
        columns = [m.key[-1] for m in measures if (m.task, m.view) == (task, view)]
        table = evidence.tables[task].filter(pc.equal(evidence.tables[task]["view"], view))
        ids = pc.unique(table["query_id"]).to_pylist()
        if query not in ids:
            close = difflib.get_close_matches(query, ids, n=3) or ids
            raise InputError(f"{query!r} is no query of {evidence.name} {task} {view}; ids look like {few(close)}")
        pools = pool_of(
            evidence.subset,
            evidence.plan,
            evidence.files,
            evidence.similarity == "cosine",
            evidence.ties,
            task,
            view,
            query,
        )
        for row in table.filter(pc.equal(table["query_id"], query)).to_pylist():
            trial = {n: row[n] for n in ("task", "view", "repeat", "rank_min", "rank_max", "n_candidates")}
            trial["values"] = {name: row[name] for name in columns if row.get(name) is not None}
            trial["answer"] = _answer(evidence, task, query)
            found.append(trial | _standing(pools.get(row["repeat"], [])))
    return found


def _standing(pool: list[Placed]) -> dict[str, Any]:
    """The right answers of a pool, and who stands above the best of them."""
    right = [c for c in pool if (c.relevance or 0) > 0]
    best = next((c.first for c in right if c.first is not None), None)
    ahead = [c for c in pool if c.first is not None and (best is None or c.first < best)]
    return {
        "right": [asdict(c) for c in right],
        "n_ahead": len(ahead),
        "ahead": [asdict(c) for c in ahead[:AHEAD]],
    }


def _answer(evidence: Evidence, task: str, query: str) -> dict[str, str] | None:
    """Of a label task: the right and the given label."""
    if not evidence.plan.task(task).labels:
        return None
    right = evidence.subset.qrels
    if "task" in right.column_names:
        right = right.filter(pc.equal(right["task"], task))
    right = right.filter(pc.equal(right["query_id"], query))
    given = read_table(evidence.files[task], ["query_id", "label"])
    given = given.filter(pc.equal(given["query_id"].cast(pa.string()), query))
    return {"right": right["candidate_id"][0].as_py(), "given": given["label"][0].as_py()}
