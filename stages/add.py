"""`rankledger add`: a user's predictions become a run of the project, or nothing changes."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.representer import RoundTripRepresenter

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Plan
from rankledger.predictions.reading import Ids, canonical, kind_of
from rankledger.scoring import Scored, score
from rankledger.subset import Subset
from rankledger.tables import InputError, as_strings, part_files, read_table, whole_file, whole_folder, write_table
from stages.lock import pointer_of
from stages.progress import Progress
from stages.project import RUN_NAME, SHIPPED_RUNS, Project
from stages.score import checked_subset


def add(
    project: Project,
    run: str,
    name: str,
    paths: Sequence[Path],
    similarity: str | None = None,
    variant: str | None = None,
) -> Scored:
    """Check the predictions by scoring them, place them, register the run, hand the folder to DVC.

    Raises:
        InputError: something is wrong; nothing was changed then.
    """
    if not RUN_NAME.fullmatch(run):
        raise InputError(f"{run!r} is no run name; use small letters, digits, - and _, a letter or digit first")
    if run in SHIPPED_RUNS:
        raise InputError(f"{run!r} is a run that ships with the project; choose another name")
    found = benchmark(name)
    if found.variants and variant not in found.variants:
        raise InputError(f"{name}: name the variant of this run: --variant {' or --variant '.join(found.variants)}")
    if variant and not found.variants:
        raise InputError(f"{name}: runs have no variants; leave --variant out")
    project.benchmark_params(name)
    subset, manifest = checked_subset(project, name)
    plan = found.plan(manifest["parameters"])
    files = _named(paths, plan, subset)
    embeds = any(kind_of(p) == "embeddings" for p in files.values())
    if similarity and not embeds:
        raise InputError("--similarity is of embeddings, and these predictions hold none; leave it out")
    with Progress() as progress:
        scored = score(subset, plan, files, similarity or "cosine", manifest["parameters"].get("ties"), progress.tell)
    entry: dict[str, Any] = {"run": run, "benchmark": name}
    entry |= {"similarity": similarity or "cosine"} if embeds else {}
    entry |= {"variant": variant} if variant else {}
    folder = project.predictions(run, name)
    replaced = folder.exists()
    before = {path.name.removesuffix(".parquet") for path in folder.iterdir()} if replaced else set()
    with _undone(project, folder):
        with whole_folder(folder) as new:
            for key, path in files.items():
                for part in part_files(path):
                    target = new / key / part.name if path.is_dir() else new / f"{key}.parquet"
                    write_table(canonical(part), target)
        register(project, f"{run}-{name}", entry)
        _dvc_add(project, folder)
    print(f"{'replaced' if replaced else 'added'} {run} on {name}: {', '.join(sorted(files))}")
    if gone := sorted(before - files.keys()):
        print(f"gone: {', '.join(gone)}; a run is replaced as a whole: to keep them, add all of its files at once")
    for needed, absent in _lacking(plan, scored):
        print(f"note: the mean over {', '.join(needed)} needs all of them; left out for want of {', '.join(absent)}")
    return scored


def _lacking(plan: Plan, scored: Scored) -> Iterator[tuple[list[str], list[str]]]:
    """The tasks that means without a value are over, and those of them that were not handed in."""
    tasks = {measure.key: {measure.task} for measure in plan.measures}
    there = {measure.task for measure in plan.measures if measure.key in scored.values}
    said = []
    for mean in plan.means:
        over = tasks[mean.key] = set().union(*(tasks[part] for part in mean.of))
        if over & there and over - there and over not in said:
            said.append(over)
            needed = [task.name for task in plan.tasks if task.name in over]
            yield needed, [name for name in needed if name not in there]


def _named(paths: Sequence[Path], plan: Plan, subset: Subset) -> dict[str, Path]:
    """The files by task or side; a single file of another name by the task that its queries belong to."""
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file")
        key = path.name.removesuffix(".parquet")
        if key in files:
            raise InputError(f"{path}: {files[key]} has the same name; give one file a task or side")
        files[key] = path
    if len(files) == 1 and not files.keys() & {*plan.file_names, *plan.sides}:
        (key, path), kind = next(iter(files.items())), kind_of(paths[0])
        if kind != "embeddings":
            asked = Ids(read_table(path, ["query_id"])["query_id"])
            fits = []
            for task in plan.tasks:
                mine = as_strings(subset.queries["query_id"].filter(pc.equal(subset.queries["task"], task.name)))
                if bool(task.labels) == (kind == "labels") and (asked.index(mine) >= 0).any():
                    fits.append(task.name)
            if len(fits) == 1:
                return {fits[0]: path}
            said = f"its queries are of {', '.join(fits)}" if fits else "its queries are of no task"
            raise InputError(f"{path}: {said}; name the file after its task: {', '.join(t.name for t in plan.tasks)}")
    return files


class _Representer(RoundTripRepresenter):
    """Writes null as `null`, not as nothing."""


_Representer.add_representer(type(None), lambda self, _: self.represent_scalar("tag:yaml.org,2002:null", "null"))


def register(project: Project, key: str, entry: dict[str, Any]) -> None:
    """Write `runs.<key>` into `params.yaml`, whose comments and order stay as they are."""
    path = project.root / "params.yaml"
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = 4096  # break no line
    yaml.preserve_quotes = True
    params = yaml.load(path)
    if params.get("runs") is None:
        params["runs"] = {}
    flow = CommentedMap(entry)
    flow.fa.set_flow_style()
    params["runs"][key] = flow
    with whole_file(path) as new, new.open("w", encoding="utf-8") as file:
        yaml.dump(params, file)


@contextlib.contextmanager
def _undone(project: Project, folder: Path) -> Iterator[None]:
    """Puts the folder, its `.dvc` file and `params.yaml` back where the block fails."""
    pointer, params = pointer_of(folder), project.root / "params.yaml"
    kept = {p: p.read_bytes() if p.exists() else None for p in (pointer, params)}
    backup = folder.with_name(f".{folder.name}.before")
    shutil.rmtree(backup, ignore_errors=True)
    made = next((p for p in reversed(folder.parents) if not p.exists()), None)
    if folder.exists():
        shutil.copytree(folder, backup)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if backup.exists():
            backup.replace(folder)
        for path, content in kept.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                with whole_file(path) as new:
                    new.write_bytes(content)
        if made:
            shutil.rmtree(made, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(backup, ignore_errors=True)


def _dvc_add(project: Project, folder: Path) -> None:
    """`dvc add`, so that Git tracks the version of the predictions and DVC their content."""
    command = [sys.executable, "-m", "dvc", "add", project.relative(folder)]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        reason = next((line for line in said if line.startswith("ERROR")), said[-1])
        raise InputError(f"`dvc add {project.relative(folder)}` failed: {reason.removeprefix('ERROR: ')}")
