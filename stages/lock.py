"""What DVC keeps of the pipeline, read without DVC: the stages of `dvc.yaml`, their records in `dvc.lock`, hashes."""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.project import Project, read_yaml

Hash = dict[str, Any]
"""What DVC records of a file or folder: md5, size in bytes, and for a folder nfiles."""


@dataclass(frozen=True)
class Stage:
    """A stage, as `dvc.yaml` and `params.yaml` make it.

    Attributes:
        command: what it runs.
        reads, writes: paths below the root.
        params: (file, dotted key).
        frozen: whether DVC is told not to run it again.
    """

    command: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: frozenset[tuple[str, str]]
    frozen: bool

    def differs(self, record: "Record") -> list[str]:
        """In what a record is of another stage than this one: command, deps, outs, params."""
        pairs = {
            "command": (self.command, record.command),
            "deps": (set(self.reads), set(record.reads)),
            "outs": (set(self.writes), set(record.writes)),
            "params": (self.params, frozenset(record.params)),
        }
        return [what for what, (now, then) in pairs.items() if now != then]


@dataclass(frozen=True)
class Record:
    """What was there when a stage ran, as `dvc.lock`, or the `.dvc` file of an added run, has it.

    Attributes:
        command: what ran; none for an added run.
        reads, writes: path → hash.
        params: (file, dotted key) → value.
    """

    command: str | None = None
    reads: Mapping[str, Hash] = field(default_factory=dict)
    writes: Mapping[str, Hash] = field(default_factory=dict)
    params: Mapping[tuple[str, str], Any] = field(default_factory=dict)


def stages(project: Project) -> dict[str, Stage]:
    """All stages by name, `<stage>@<key>` for each key of a `foreach`."""
    params, found = project.params(), {}
    for name, entry in read_yaml(project.root / "dvc.yaml")["stages"].items():
        if "foreach" not in entry:
            found[name] = _stage(entry, params)
            continue
        for key, item in _filled(entry["foreach"], params).items():
            found[f"{name}@{key}"] = _stage(entry["do"], {**params, "key": key, "item": item})
    return found


def _stage(entry: Mapping[str, Any], scope: Mapping[str, Any]) -> Stage:
    entry = _filled(entry, scope)
    given = [{"params.yaml": [p]} if isinstance(p, str) else p for p in entry.get("params", ())]
    writes = [out for kind in ("outs", "metrics", "plots") for out in entry.get(kind, ())]
    return Stage(
        " ".join(entry["cmd"].split()),
        tuple(entry.get("deps", ())),
        tuple(path for out in writes for path in ([out] if isinstance(out, str) else out)),
        frozenset((file, key) for files in given for file, keys in files.items() for key in keys),
        bool(entry.get("frozen")),
    )


def _filled(node: Any, scope: Mapping[str, Any]) -> Any:
    """A node of `dvc.yaml` with its `${…}` replaced; one that is nothing else becomes the value itself."""
    if isinstance(node, dict):
        return {_filled(k, scope): _filled(v, scope) for k, v in node.items()}
    if isinstance(node, list):
        return [_filled(v, scope) for v in node]
    if not isinstance(node, str):
        return node
    if whole := re.fullmatch(r"\$\{([^}]*)\}", node):
        return value_at(scope, whole[1].strip())
    return re.sub(r"\$\{([^}]*)\}", lambda match: str(value_at(scope, match[1].strip())), node)


def value_at(document: Any, key: str) -> Any:
    """The value at a dotted key of nested mappings, none where there is none."""
    for part in key.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def read_lock(project: Project) -> dict[str, Record]:
    """The records of `dvc.lock` by stage; raises `InputError` where there is none."""
    return {
        name: Record(
            " ".join(entry["cmd"].split()),
            {d["path"]: _hash(d) for d in entry.get("deps", ())},
            {o["path"]: _hash(o) for o in entry.get("outs", ())},
            {(f, k): v for f, values in entry.get("params", {}).items() for k, v in values.items()},
        )
        for name, entry in read_yaml(project.root / "dvc.lock")["stages"].items()
    }


def pointer_of(folder: Path) -> Path:
    """The `.dvc` file of a folder that `dvc add` versions: it lies beside it."""
    return folder.with_name(f"{folder.name}.dvc")


def read_pointer(project: Project, path: Path) -> Record:
    """The record of a `.dvc` file, which lies beside what it tells of."""
    outs = read_yaml(path)["outs"]
    return Record(writes={project.relative(path.parent / out["path"]): _hash(out) for out in outs})


def _hash(entry: Mapping[str, Any]) -> Hash:
    return {key: entry[key] for key in ("md5", "size", "nfiles") if key in entry}


class Hashes:
    """Files and folders as DVC hashes them, each file read once."""

    def __init__(self, root: Path):
        self.root = root
        self._known: dict[Path, str] = {}

    def of(self, path: str, only: Collection[str] | None = None) -> Hash | None:
        """The hash of a path below the root, none where nothing is there; of a folder, only the parts asked for.

        A folder's is the MD5 of a JSON list of its files, sorted by path: `[{"md5": …, "relpath": …}, …]`.
        """
        here = self.root / path
        if here.is_file():
            return {"md5": self._md5(here), "size": here.stat().st_size}
        if not here.is_dir():
            return None
        tops = [here] if only is None else [self.root / part for part in only]
        files = {p.relative_to(here).as_posix(): p for top in tops for p in _files(top)}
        listed = [{"md5": self._md5(files[name]), "relpath": name} for name in sorted(files)]
        digest = hashlib.md5(json.dumps(listed, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
        size = sum(p.stat().st_size for p in files.values())
        return {"md5": f"{digest}.dir", "size": size, "nfiles": len(files)}

    def _md5(self, path: Path) -> str:
        if path not in self._known:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
            self._known[path] = digest.hexdigest()
        return self._known[path]


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or those of a folder; as DVC does, linked files are followed, linked folders are not."""
    if path.is_file():
        yield path
    for at, _, names in os.walk(path):
        yield from (Path(at, name) for name in names)
