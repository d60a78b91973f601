"""`rankledger audit`: is every link from the raw files to the reports what the next one was made from?

Each check compares two neighbours of the chain; where a third one can tell which of them moved, it names that one.
Nothing is fetched, and DVC is not asked: its lock is read as it lies there.
"""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankledger.benchmarks import benchmark
from rankledger.download import Differs, check
from rankledger.predictions.reading import locate
from rankledger.subset import Subset, describe, read_subset
from rankledger.tables import (
    InputError,
    few,
    fingerprint,
    meant,
    read_json,
    read_table,
    sha256_file,
    sort_rows,
    to_json,
)
from stages.fetch import MANIFEST, matches
from stages.lock import Hashes, Record, pointer_of, read_lock, read_pointer, stages, value_at
from stages.project import Project, read_yaml
from stages.report import metrics
from stages.score import measure

SWITCHES = {  # variable → the values that leave every check on
    "PANDERA_VALIDATION_ENABLED": ("True", "true", "1"),
    "PANDERA_VALIDATION_DEPTH": ("SCHEMA_AND_DATA",),
    "PANDERA_USE_NARWHALS_BACKEND": ("False", "false", "0"),
}

Keys = tuple[str, ...]  # a path into nested mappings


class Check(NamedTuple):
    """What was found.

    Attributes:
        name: of the check, in kebab-case; the same from version to version.
        ok: whether nothing is wrong.
        subject: a path, a stage, a parameter as "<file>: <key>", a variable, or a key of `metrics.json`.
        detail: one line: what was compared, or what differs and what to do.
    """

    name: str
    ok: bool
    subject: str
    detail: str


def audit(project: Project, runs: Collection[str] = (), recompute: bool = False) -> list[Check]:
    """Check the whole chain of the project.

    Args:
        project: the project.
        runs: what to score again: names of runs, or keys of `runs` in `params.yaml`; none means all.
        recompute: whether to score again, and compare.

    Raises:
        InputError: `params.yaml` is not as it should be, or lists none of `runs`.
    """
    found = _Audit(project)
    for name in runs:
        if not any(name in (key, entry["run"]) for key, entry in found.runs.items()):
            raise InputError(
                f"params.yaml: runs lists no {name!r}; it lists: {', '.join(found.runs)}{meant(name, found.runs)}"
            )
    found.lock()
    for name in found.benchmarks:
        found.benchmark(name)
    for key, entry in found.runs.items():
        found.result(key, entry)
        if recompute and (not runs or {key, entry["run"]} & set(runs)):
            found.again(entry)
    found.metrics()
    found.owned()
    return found.checks


def show(checks: Collection[Check], console: Console) -> None:
    """Print a row a check, on a terminal as a table, then how many passed and failed."""
    if console.is_terminal:
        table = Table("", "check", "of", "what was found")
        for c in checks:
            state = Text("ok", "green") if c.ok else Text("failed", "bold red")
            table.add_row(state, *map(Text, (c.name, c.subject, c.detail)))
        console.print(table)
    else:
        for c in checks:
            line = f"{'ok' if c.ok else 'failed':6}  {c.name}  {c.subject}: {c.detail}"
            console.print(line, markup=False, soft_wrap=True)
    failed = sum(not c.ok for c in checks)
    console.print(f"{len(checks) - failed} checks passed, {failed} failed", markup=False)


@dataclass
class _Tables:
    """A benchmark's subset, as it lies there and as its raw files make it.

    Attributes:
        manifest: as stored; empty where it can't be read.
        here: counts and fingerprints of the stored tables that can be read.
        subset, rebuilt: what the raw files make, and its manifest; none where they are not as fetched.
    """

    manifest: Mapping[str, Any] = field(default_factory=dict)
    here: dict[str, dict[str, Any]] = field(default_factory=lambda: {"counts": {}, "fingerprints": {}})
    subset: Subset | None = None
    rebuilt: Mapping[str, Any] = field(default_factory=dict)


class _Audit:
    """The checks so far, and what several of them need."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.runs = project.runs()
        self.benchmarks: Mapping[str, Any] = project.params().get("benchmarks") or {}
        self.checks: list[Check] = []
        self.records: dict[str, Record] = {}
        self.tables: dict[str, _Tables] = {}
        self.values: dict[Keys, Any] = {}  # run, benchmark, … → value, of the results that can be read
        self.unread = {(entry["run"], entry["benchmark"]) for entry in self.runs.values()}

    def add(self, name: str, ok: bool, subject: Path | str, detail: str) -> None:
        """Note what was found; paths are told from the root."""
        if isinstance(subject, Path):
            subject = self.project.relative(subject)
        line = " ".join(detail.replace(f"{self.project.root}{os.sep}", "").split())
        self.checks.append(Check(name, ok, subject, line))

    @contextlib.contextmanager
    def guard(self, name: str, subject: Path | str) -> Iterator[None]:
        """Turns what can't be read, or is not as the pipeline writes it, into a failed check."""
        try:
            yield
        except InputError as error:
            self.add(name, False, subject, str(error))
        except OSError as error:
            self.add(name, False, subject, f"{error.filename}: {error.strerror}")
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            self.add(name, False, subject, f"not as the pipeline writes it ({type(error).__name__}: {error})")

    def settings(self, frozen: Collection[str]) -> None:
        """Nothing switches a check off, neither a variable nor a frozen stage."""
        off = [name for name, on in SWITCHES.items() if os.environ.get(name, on[0]) not in on]
        for name in off:
            said = f"is {os.environ[name]!r}, which switches checks of the tables off; unset it"
            self.add("settings", False, name, said)
        for name in frozen:
            self.add("settings", False, name, "is frozen in dvc.yaml: DVC does not run it again, whatever changes")
        if not off and not frozen:
            self.add("settings", True, "environment", "no check is switched off, no stage is frozen")

    def lock(self) -> None:
        """What each stage had and left, by `dvc.lock`, is what lies here."""
        known = {}
        with self.guard("dvc-lock", "dvc.yaml"):
            known = stages(self.project)
        self.settings([name for name, stage in known.items() if stage.frozen])
        if not known:
            return
        if not (self.project.root / "dvc.lock").is_file():
            self.add("dvc-lock", False, "dvc.lock", "no such file: nothing was reproduced yet; run `dvc repro`")
            return
        with self.guard("dvc-lock", "dvc.lock"):
            records = read_lock(self.project)
            for name in sorted(records.keys() - known.keys()):
                self.add("unlisted", True, name, "is in dvc.lock, but no longer in params.yaml: DVC leaves it behind")
            self.records = {name: records[name] for name in known if name in records}
            for name, stage in known.items():
                if name not in records:
                    self.add("dvc-lock", False, name, f"is not in dvc.lock: it did not run yet; `dvc repro {name}`")
                elif differs := stage.differs(records[name]):
                    said = f"dvc.lock has other {', '.join(differs)} than dvc.yaml; run `dvc repro`"
                    self.add("dvc-lock", False, name, said)
            self._recorded()

    def _recorded(self) -> None:
        """Each thing that stages, or the `.dvc` files of added runs, recorded, against what is here.

        Where all recorded something else, the thing itself moved. Where some recorded what is here, it is the others:
        their record was changed, or they ran with something older.
        """
        recorded: dict[str | tuple[str, str], dict[str, Any]] = {}  # thing → who → what was recorded
        for who, record in {**self.records, **self._pointers()}.items():
            for part in (record.reads, record.writes, record.params):
                for thing, then in part.items():
                    recorded.setdefault(thing, {})[who] = then
        written = {path for record in self.records.values() for path in record.writes}
        paths = {t: {part for part in written if part.startswith(f"{t}/")} for t in recorded if isinstance(t, str)}
        params = [thing for thing in recorded if not isinstance(thing, str)]
        code = [path for path in paths if path.endswith(".py")]
        documents = {file: read_yaml(self.project.root / file) for file in {file for file, _ in params}}
        hashes = Hashes(self.project.root)
        moved: set[str] = set()
        stale: dict[str, list[str]] = {}  # who → things

        def same(subject: str, known: Mapping[str, Any], *here: Any) -> bool:
            wrong = [who for who, then in known.items() if then not in here]
            if wrong and len(wrong) == len(known):
                moved.add(subject)
                self.add("dvc-lock", False, subject, _moved(here[0], known))
            elif wrong:
                for who in wrong:
                    stale.setdefault(who, []).append(subject)
            return not wrong

        for path, parts in sorted(paths.items(), key=lambda item: bool(item[1])):  # parts first
            if parts & moved:
                continue  # told already
            # what lies in a folder of outputs and is none of them is told by `owned`
            here = [hashes.of(path), *([hashes.of(path, parts)] if parts else [])]
            if same(path, recorded[path], *here) and path not in code:
                self.add("dvc-lock", True, path, f"as recorded by {few(recorded[path])}")
        for file, key in params:
            same(f"{file}: {key}", recorded[file, key], value_at(documents[file], key))
        for who, things in stale.items():
            said = f"recorded another {few(things)} than lies here and than others recorded; run `dvc repro`"
            self.add("dvc-lock", False, who, said)
        if not stale and not moved & {*code, *(f"{file}: {key}" for file, key in params)}:
            said = f"the stages ran with these {len(code)} modules and {len(params)} parameters"
            self.add("dvc-lock", True, "dvc.lock", said)

    def _pointers(self) -> dict[str, Record]:
        """The `.dvc` files of added runs."""
        folders = [self.project.predictions(entry["run"], entry["benchmark"]) for entry in self.runs.values()]
        files = map(pointer_of, folders)
        return {self.project.relative(f): read_pointer(self.project, f) for f in files if f.is_file()}

    def benchmark(self, name: str) -> None:
        """Raw files, subset and validation report of a benchmark."""
        tables = self.tables[name] = _Tables()
        fetched = self._raw(name)
        folder = self.project.subset(name)
        if folder.is_dir():
            with self.guard("subset-manifest", folder / MANIFEST):
                manifest = read_json(folder / MANIFEST)
                if not isinstance(manifest["fingerprints"], dict):
                    raise TypeError("fingerprints")
                tables.manifest = manifest
            self._subset(name, folder, tables, fetched)
            if tables.manifest:
                self._manifest(folder / MANIFEST, tables)
        else:
            self.add("subset-manifest", False, folder, f"not built; run `dvc repro build@{name}`")
        path = self.project.validation(name)
        with self.guard("validation", path):
            report = read_json(path)
            failed = [c["name"] for c in report["checks"] if c["status"] == "failed"]
            fine = report["benchmark"] == name and report["ok"] is True and report["checks"] and not failed
            wrong = f"not all is well ({few(failed)}); see `rankledger validate {name}`"
            self.add("validation", bool(fine), path, f"{len(report['checks'])} checks, none failed" if fine else wrong)

    def _raw(self, name: str) -> list[Any] | None:
        """The manifest's entries of the raw files, none where they are not as fetched."""
        raw = self.project.raw(name)
        if not (raw / MANIFEST).is_file():
            self.add("raw-files", False, raw, f"nothing fetched; run `dvc repro fetch@{name}`")
            return None
        with self.guard("raw-files", raw / MANIFEST):
            manifest = read_json(raw / MANIFEST)
            files: list[Any] = manifest["files"]
            differs = dict(self._raw_differs(raw, manifest))
            for path, said in differs.items():
                self.add("raw-files", False, path, f"{said}; the subset was not built again from it")
            if not differs:
                other = sum(file["checksum"] == "differs" for file in files)
                note = f", {other} of them not the known content" if other else ""
                self.add("raw-files", True, raw, f"{len(files)} files as fetched{note}")
                return files
        return None

    def _raw_differs(self, raw: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
        """Files that are not what the manifest and `data/sources.yaml` say, each with what is wrong."""
        files = {entry["name"]: entry for entry in manifest["files"]}
        here = {p.relative_to(raw).as_posix() for p in raw.rglob("*") if p.is_file()} - {MANIFEST}
        sources = self.project.sources(manifest["benchmark"]) if manifest["source"] == "official" else None
        for name in sorted(files.keys() | here):
            if name not in here:
                yield raw / name, "gone, but in manifest.json"
            elif name not in files:
                yield raw / name, "not in manifest.json"
            elif (found := sha256_file(raw / name)) != files[name]["sha256"]:
                yield raw / name, f"sha256 {found}, but {files[name]['sha256']} in manifest.json"
            elif sources is not None and files[name]["checksum"] != "differs":
                listed = [s for n, s in sources.items() if n == name or ("*" in n and matches(name, [n]))]
                if not listed:
                    yield raw / name, "not in data/sources.yaml"
                else:
                    try:
                        check(raw / name, listed[0], name)
                    except Differs as error:
                        yield raw / name, f"{error} in data/sources.yaml"

    def _subset(self, name: str, folder: Path, tables: _Tables, fetched: list[Any] | None) -> None:
        """Reads the stored tables, builds them again from the raw files and compares."""
        stored: dict[str, pa.Table] = {}
        for table in (f.name for f in fields(Subset)):
            path = folder / f"{table}.parquet"
            with self.guard("subset-rebuilt", path):
                stored[table] = read_table(path)
                tables.here["counts"][table] = stored[table].num_rows
                tables.here["fingerprints"][table] = fingerprint(stored[table])
        if fetched is None:
            return
        with self.guard("subset-rebuilt", folder):
            parameters = self._parameters(name, tables.manifest)
            built, notes = benchmark(name).build(self.project.raw(name), parameters)
            tables.subset = subset = Subset(**{table: sort_rows(rows) for table, rows in built.tables().items()})
            tables.rebuilt = describe(subset, name, parameters, fetched, notes)
            made, here = tables.rebuilt["fingerprints"], tables.here["fingerprints"]
            for table in stored:
                if here[table] != made[table]:
                    said = _rows_differ(stored[table], subset.tables()[table], "in what the raw files make")
                    self.add("subset-rebuilt", False, folder / f"{table}.parquet", said)
            if here == made:
                rows = sum(tables.rebuilt["counts"].values())
                self.add(
                    "subset-rebuilt", True, folder, f"{len(made)} tables, {rows:,} rows, as the raw files make them"
                )

    def _parameters(self, name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What the subset was built with: what two of `params.yaml`, `dvc.lock` and its manifest say."""
        found = benchmark(name)
        now = found.parameters(self.benchmarks[name])
        recorded = self.records.get(f"build@{name}", Record()).params
        locked = recorded.get(("params.yaml", f"benchmarks.{name}"))
        stored: dict[str, Any] = manifest.get("parameters", now)
        return now if now == stored or (locked and now == found.parameters(locked)) else stored

    def _manifest(self, path: Path, tables: _Tables) -> None:
        """A subset's manifest against its tables, and against what `build` would write."""
        stored, here, made = map(_leaves, (tables.manifest, tables.here, tables.rebuilt))
        # where a table is not what the raw files make, its own check tells
        keys = sorted(stored.keys() | made.keys()) if made else sorted(here)
        differs = [k for k in keys if stored.get(k) not in [known[k] for known in (made, here) if k in known]]
        said = f"says otherwise than `build` would: {few('.'.join(k) for k in differs)}"
        self.add("subset-manifest", not differs, path, said if differs else "tells of these tables")

    def result(self, key: str, entry: Mapping[str, Any]) -> None:
        """A result against the subset and the predictions that it was computed from."""
        run, name = entry["run"], entry["benchmark"]
        path, folder = self.project.scores(run, name) / "result.json", self.project.predictions(run, name)
        if not path.is_file():
            self.add("result-inputs", False, path, f"not scored; run `dvc repro score@{key}`")
            return
        with self.guard("result-inputs", path):
            result = read_json(path)
            tree, inputs, tables = metrics({key: result}), result["inputs"], self.tables[name]
            # where a table is not what its manifest says, its own check tells
            known = [tables.manifest.get("fingerprints", {}), tables.here["fingerprints"]]
            differs = [
                self.project.subset(name) / f"{table}.parquet"
                for table, then in sorted(inputs["subset"].items())
                if then not in [now.get(table) for now in known]
            ]
            now = {file: fingerprint(read_table(at)) for file, at in locate(folder).items()}
            then = inputs["predictions"]
            differs += [folder / file for file in sorted(now.keys() | then.keys()) if now.get(file) != then.get(file)]
            said = f"was computed from another {few(map(self.project.relative, differs))}; run `dvc repro`"
            fine = f"computed from this subset and these predictions ({few(sorted(now))})"
            self.add("result-inputs", not differs, path, said if differs else fine)
            self.values |= _leaves(tree)
            self.unread.remove((run, name))

    def again(self, entry: Mapping[str, Any]) -> None:
        """A run scored again, on the subset that the raw files make where they are as fetched."""
        folder, tables = self.project.scores(entry["run"], entry["benchmark"]), self.tables[entry["benchmark"]]
        with self.guard("recomputed", folder):
            subset, manifest = tables.subset, tables.rebuilt
            if subset is None:
                subset, manifest = read_subset(self.project.subset(entry["benchmark"]))
            scored, result = measure(self.project, entry, subset, manifest)
            differs: dict[Path, str] = {}
            now, then = _leaves(json.loads(to_json(result))), _leaves(read_json(folder / "result.json"))
            wrong = [k for k in sorted(now.keys() | then.keys()) if now.get(k) != then.get(k)]
            if wrong:
                first = f"{'.'.join(wrong[0])} is {then.get(wrong[0])!r}, but {now.get(wrong[0])!r} when scored again"
                differs[folder / "result.json"] = f"{len(wrong)} entries differ: {first}"
            for task in sorted({*scored.tables, *(p.stem for p in folder.glob("*.parquet"))}):
                path = folder / f"{task}.parquet"
                if task not in scored.tables or not path.is_file():
                    differs[path] = "no such file" if task in scored.tables else "scoring writes no such file"
                elif fingerprint(stored := read_table(path)) != fingerprint(scored.tables[task]):
                    differs[path] = _rows_differ(stored, scored.tables[task], "when scored again")
            for path, said in differs.items():
                self.add("recomputed", False, path, said)
            if not differs:
                self.add("recomputed", True, folder, "the same values when scored again")

    def metrics(self) -> None:
        """`metrics.json` against the results, by run and benchmark."""
        path = self.project.root / "reports" / "metrics.json"
        with self.guard("metrics", path):
            stored, made = _leaves(read_json(path)), self.values
            differs: dict[Keys, list[Keys]] = {}
            for key in sorted(stored.keys() | made.keys()):
                if stored.get(key) != made.get(key) and key[:2] not in self.unread:  # else its own check tells
                    differs.setdefault(key[:2], []).append(key)
            for keys in differs.values():
                first = "; ".join(f"{'.'.join(k)} is {stored.get(k)}, by the results {made.get(k)}" for k in keys[:3])
                more = f"; {len(keys) - 3} more" if len(keys) > 3 else ""
                common = takewhile(lambda parts: len(set(parts)) == 1, zip(*keys, strict=False))
                self.add(
                    "metrics", False, ".".join(parts[0] for parts in common), f"{first}{more}; run `rankledger report`"
                )
            if not differs:
                self.add("metrics", True, path, f"{len(made)} values, as in the results")

    def owned(self) -> None:
        """Folders of subsets and scores that no benchmark and no run owns; reports that none has any more."""
        data = self.project.root / "data"
        subsets = {self.project.subset(name) for name in self.benchmarks}
        scores = {self.project.scores(entry["run"], entry["benchmark"]) for entry in self.runs.values()}
        for top, owned, levels, owner in (
            (data / "subsets", subsets, 1, "benchmark"),
            (data / "scores", scores, 2, "run"),
        ):
            stray = _stray(top, owned, levels)
            for path in stray:
                self.add("owned", False, path, f"no {owner} in params.yaml owns it; remove it")
            if not stray:
                self.add("owned", True, top, f"all that it holds is of a {owner} in params.yaml")
        for path in sorted((self.project.root / "reports" / "validation").glob("*.json")):
            if path.stem not in self.benchmarks:
                self.add("unlisted", True, path, "its benchmark is no longer in params.yaml: DVC leaves it behind")


def _stray(folder: Path, owned: Collection[Path], levels: int) -> list[Path]:
    """What lies `levels` below a folder and is not owned; above that, files and empty folders."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if levels > 1 and path.is_dir() and any(path.iterdir()):
            found += _stray(path, owned, levels - 1)
        elif path not in owned:
            found.append(path)
    return found


def _moved(here: Any, known: Mapping[str, Any]) -> str:
    """How what is here differs from what all recorded: a hash, or the value of a parameter."""
    then, who = next(iter(known.values())), few(known)
    if here is None:
        return f"gone; recorded by {who}; run `dvc repro`"
    if isinstance(then, dict) and "md5" in then:
        return f"md5 {here['md5']}, but {then['md5']} as recorded by {who}"
    now, before = _leaves({"": here}), _leaves({"": then})
    differs = [k for k in sorted(now.keys() | before.keys()) if now.get(k) != before.get(k)]
    first = "; ".join(f"{'.'.join(k[1:])} {now.get(k)!r}, but {before.get(k)!r}".strip() for k in differs[:3])
    return f"{first} as recorded by {who}; run `dvc repro`"


def _rows_differ(stored: pa.Table, made: pa.Table, where: str) -> str:
    """How two tables differ: in columns, or by the first ids of the rows that only one of them has."""
    columns = sorted(stored.column_names)
    if columns != sorted(made.column_names):
        return f"columns {', '.join(columns)} here, {', '.join(sorted(made.column_names))} {where}"
    ids = [i for i, name in enumerate(columns) if name == "id" or name.endswith("_id")]

    def rows(table: pa.Table) -> Counter[tuple[str, ...]]:
        return Counter(zip(*(map(repr, table[name].to_pylist()) for name in columns), strict=True))

    one, other = rows(stored), rows(made)
    said = []
    for more, less, only in ((one, other, "here"), (other, one, where)):
        if extra := sorted((more - less).elements()):
            first = "; ".join(" ".join(f"{columns[i]} {row[i]}" for i in ids) for row in extra[:3])
            said.append(f"{len(extra)} rows only {only}: {first}{'; …' if len(extra) > 3 else ''}")
    return ", ".join(said) or f"other types here than {where}"


def _leaves(node: Any, keys: Keys = ()) -> dict[Keys, Any]:
    """The values of nested mappings and lists by their path; an empty one is a value."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    found = {k: v for name, child in children for k, v in _leaves(child, (*keys, str(name))).items()}
    return found or ({keys: node} if keys else {})
