"""Where a number comes from: the pieces of its lineage that are read out of texts and tables, and the tree of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from packaging.markers import Marker
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from rankledger.tables import fingerprint

Node = tuple[str, Sequence["Node"]]
"""A line of a tree, and the lines below it."""


def lines(text: str) -> dict[tuple[str, ...], int]:
    """The line (from 1) on which each key of a YAML text stands, by its path.

    >>> lines("a:\\n  b: {c: 1}\\n")
    {('a',): 1, ('a', 'b'): 2, ('a', 'b', 'c'): 2}
    """
    found: dict[tuple[str, ...], int] = {}

    def walk(node: Any, path: tuple[str, ...]) -> None:
        if isinstance(node, CommentedMap):
            for key, child in node.items():
                found[(*path, str(key))] = node.lc.key(key)[0] + 1
                walk(child, (*path, str(key)))

    walk(YAML(typ="rt", pure=True).load(text), ())
    return found


def packages(text: str) -> dict[str, str]:
    """The versions that a lock file pins for the running interpreter and system, by package.

    >>> packages("numpy==2.4.6 \\\\\\n    --hash=sha256:0\\n    # via rankledger\\nrich==15.0.0\\n")
    {'numpy': '2.4.6', 'rich': '15.0.0'}
    """
    pins = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(?: *; *([^\\\n]+))?", text, re.MULTILINE)
    return {name: version for name, version, marker in sorted(pins) if not marker or Marker(marker).evaluate()}


def draw_fingerprints(trials: pa.Table, task: str, view: str) -> dict[int, str]:
    """The fingerprint of each repeat's trials: which queries were drawn, and against which pools."""
    mine = trials.filter(pc.and_(pc.equal(trials["task"], task), pc.equal(trials["view"], view)))
    repeats = sorted(pc.unique(mine["repeat"]).to_pylist())
    return {r: fingerprint(mine.filter(pc.equal(mine["repeat"], r))) for r in repeats}


def tree(lineage: Mapping[str, Any], shown_packages: Iterable[str]) -> Node:
    """The lineage of a number, for people; fingerprints shortened."""
    return (
        f"{lineage['metric']} = {lineage['value']:.10g}{_unit(lineage)}",
        [
            *_worth(lineage),
            ("parts", [(f"{part['metric']} = {part['value']:.10g}", []) for part in lineage["parts"]]),
            ("protocol", [(f"{c['choice']}: {_plain(c['value'])}  ({c['source']})", []) for c in lineage["protocol"]]),
            ("draws", [(_draw(d), []) for d in lineage["draws"]] if len(lineage["draws"]) > 1 else []),
            _predictions(lineage["predictions"]),
            _subset(lineage["subset"]),
            (f"source files: {lineage['licence']}; {lineage['paper']}", [(_source(s), []) for s in lineage["sources"]]),
            _commit(lineage["revision"]),
            (
                "packages, as requirements.lock pins them",
                [(f"{name} {lineage['packages'][name]}", []) for name in shown_packages if name in lineage["packages"]],
            ),
            *[_query(trial) for trial in lineage.get("query", {}).get("trials", [])],
        ],
    )


def pruned(node: Node) -> Node:
    """Without headings that nothing stands below (they end in no value of their own)."""
    return node[0], [pruned(child) for child in node[1] if child[1] or child[0] not in ("parts", "draws")]


def _unit(lineage: Mapping[str, Any]) -> str:
    return {"percent": " %", "rank": " (rank)", "count": " (count)"}.get(lineage["unit"], "")


def _worth(lineage: Mapping[str, Any]) -> list[Node]:
    span = lineage["interval"]
    said = "not known" if span is None else f"{span[0]:.10g} … {span[1]:.10g}"
    repeats = f", {lineage['repeats']} repeats" if lineage["repeats"] > 1 else ""
    arrow = {True: "higher is better", False: "lower is better", None: "no direction"}[lineage["higher_is_better"]]
    return [(f"95 % interval: {said}", []), (f"{lineage['n']:,} queries{repeats}; {arrow}", [])]


def _draw(draw: Mapping[str, Any]) -> str:
    return f"repeat {draw['repeat']}: {draw['value']:.10g}, trials {draw['fingerprint'][:12]}"


def _predictions(found: Mapping[str, Any]) -> Node:
    since = found["since"]
    said = "no commit has them yet"
    if since:
        least = "or earlier, this clone is shallow: " if found["shallow"] else ""
        said = f"since {since['commit'][:12]} of {since['date']}, {least}{since['subject']}"
    files: list[Node] = [
        (f"{f['name']}: {_count(f['rows'])}, fingerprint {f['fingerprint'][:12]}", []) for f in found["files"]
    ]
    return f"predictions: {found['path']} (MD5 {found['md5'] or 'not recorded'}), {found['made_by']}", [
        (said, []),
        *files,
    ]


def _subset(found: Mapping[str, Any]) -> Node:
    tables: list[Node] = [
        (f"{name}: {_count(found['counts'][name])}, {found['fingerprints'][name][:12]}", []) for name in found["counts"]
    ]
    return f"subset: {found['path']}, fingerprints", [*tables, *((f"note: {note}", []) for note in found["notes"])]


def _source(source: Mapping[str, Any]) -> str:
    where = source["url"] or ("made up" if source["checksum"] == "sample" else "brought by the user")
    return (
        f"{source['name']}: {source['size']:,} bytes, SHA-256 {source['sha256'][:12]}, "
        f"checked against: {source['checksum']}; {source['licence']}; {where}"
    )


def _commit(revision: Mapping[str, Any]) -> Node:
    if revision["commit"] is None:
        return "commit: none, this is no Git repository", []
    return f"commit: {revision['commit'][:12]}", [(f"changed since: {path}", []) for path in revision["changed"]]


def _query(trial: Mapping[str, Any]) -> Node:
    first, last = trial["rank_min"], trial["rank_max"]
    title = f"{trial['task']} {trial['view']}, repeat {trial['repeat']}"
    values = "".join(f"; {name} {value:.10g}" for name, value in trial["values"].items())
    if trial["answer"] is not None:
        return f"{title}{values}", [(f"right: {trial['answer']['right']}; answered: {trial['answer']['given']}", [])]
    rank = "no rank" if first is None else f"rank {first}" if first == last else f"rank {first} to {last}, tied,"
    return f"{title}: {rank} of {trial['n_candidates']:,}{values}", [
        ("right", [(_placed(c), []) for c in trial["right"]]),
        (f"{trial['n_ahead']:,} stand above the best right one", [(_placed(c), []) for c in trial["ahead"]]),
    ]


def _placed(candidate: Mapping[str, Any]) -> str:
    first, last = candidate["first"], candidate["last"]
    place = "not ranked" if first is None else f"{first}" if first == last else f"{first} to {last}"
    score = "" if candidate["score"] is None else f", score {candidate['score']:.10g}"
    return f"{place}: {candidate['candidate_id']}{score}"


def _count(rows: int | None) -> str:
    return "rows not known" if rows is None else f"{rows:,} rows"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
