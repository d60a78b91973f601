"""`rankledger remove`: a run goes out of the project, and nothing else does; the undoing of `rankledger add`."""

import contextlib
import re
import shutil
from collections.abc import Collection

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rankledger.provenance.lineage import lines
from rankledger.tables import InputError, meant, write_text
from stages.lock import pointer_of, read_pointer
from stages.project import SHIPPED_RUNS, Project
from stages.revision import Commit, head


def remove(project: Project, run: str, name: str | None = None) -> None:
    """Take a run out of `params.yaml`, and delete its `.dvc` file, predictions and scores; say what goes, and how back.

    Args:
        project: the project.
        run: the run.
        name: the only benchmark that it leaves; None: all.

    Raises:
        InputError: there is no such run, or it ships with the project; nothing was changed then.
    """
    if run in SHIPPED_RUNS:
        raise InputError(f"{run!r} is a run that ships with the project; it is made anew whenever the pipeline runs")
    runs = project.runs()
    names = [e["benchmark"] for e in runs.values() if e["run"] == run and name in (None, e["benchmark"])]
    if not names:
        wanted = f"{run}-{name}" if name else run
        known = list(runs) if name else list(dict.fromkeys(entry["run"] for entry in runs.values()))
        there = f"it lists: {', '.join(known)}{meant(wanted, known)}"
        raise InputError(f"params.yaml: runs lists no {wanted}; {there}")
    ways_back = [_way_back(project, run, benchmark) for benchmark in names]
    unregister(project, [f"{run}-{benchmark}" for benchmark in names])
    for benchmark, way_back in zip(names, ways_back, strict=True):
        folder, scores = project.predictions(run, benchmark), project.scores(run, benchmark)
        gone = [path for path in (pointer_of(folder), folder, scores) if path.exists()]
        for path in gone:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for parent in (folder.parent, scores.parent):
            with contextlib.suppress(OSError):  # not empty, or not there
                parent.rmdir()
        print(
            f"removed {run} from {benchmark}: {', '.join(['its entry of params.yaml', *map(project.relative, gone)])}"
        )
        print(way_back)


def _way_back(project: Project, run: str, name: str) -> str:
    """How to have the run again, as long as its `.dvc` file is there."""
    pointer = pointer_of(project.predictions(run, name))
    path = project.relative(pointer)
    if not pointer.is_file():
        return "back: `rankledger add` with your own files"
    if commit := head(project):
        last = Commit(project, commit)
        versioned = last.read(path) == pointer.read_text(encoding="utf-8")
        if versioned and f"{run}-{name}" in (last.params.get("runs") or {}):
            return f"back: git restore --source {commit[:12]} params.yaml {path} && dvc checkout {path}"
    (written,) = read_pointer(project, pointer).writes.values()
    return f"back: no commit has it; DVC's cache keeps its predictions, MD5 {written.get('md5')}, until `dvc gc`"


def unregister(project: Project, keys: Collection[str]) -> None:
    """Take `runs.<key>` out of `params.yaml`, line by line, so that all else stays as it is, comments too.

    Raises `InputError` where the entries are not lines of their own; nothing was changed then.
    """
    path = project.root / "params.yaml"
    text = path.read_text(encoding="utf-8")
    rows, at = text.splitlines(keepends=True), lines(text)
    for start in sorted({at["runs", key] - 1 for key in keys}, reverse=True):
        end = start + 1
        while end < len(rows) and rows[end].strip() and _indent(rows[end]) > _indent(rows[start]):
            end += 1
        del rows[start:end]
    wanted = project.params()
    wanted["runs"] = {key: entry for key, entry in wanted["runs"].items() if key not in keys}
    left = "".join(rows)
    if not wanted["runs"]:
        left = re.sub(r"^runs:", "runs: {}", left, flags=re.MULTILINE)
    if _parsed(left) != wanted:
        raise InputError(f"params.yaml: {', '.join(keys)} can't be taken out line by line; take it out by hand")
    write_text(left, path)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parsed(text: str) -> object:
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError:
        return None
