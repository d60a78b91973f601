"""`rankledger submit`: the files that the servers of CIRR and CIRCO take, from a run or made elsewhere, checked."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rankledger.benchmarks import benchmark
from rankledger.predictions import server
from rankledger.predictions.reading import locate
from rankledger.subset import Subset, read_subset
from rankledger.tables import InputError, few, to_json
from stages.progress import Progress
from stages.project import Project


@dataclass(frozen=True)
class Report:
    """What the rules of a server say of a file; `unknown`: why its ids were not looked up, empty where they were."""

    path: Path
    benchmark: str
    checks: list[server.Check]
    unknown: str = ""

    @property
    def ok(self) -> bool:
        """Whether no rule is broken."""
        return all(check.ok for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "file": self.path.name,
            "benchmark": self.benchmark,
            "ok": self.ok,
            "ids_looked_up": not self.unknown,
            "checks": [asdict(check) for check in self.checks],
        }

    def lines(self) -> list[str]:
        """For people: a row a check, then the verdict."""
        rows = [f"{'ok' if check.ok else 'failed':6}  {check.name:9}  {check.detail}" for check in self.checks]
        failed = sum(not check.ok for check in self.checks)
        verdict = f"{failed} of {len(rows)} checks failed" if failed else f"all {len(rows)} checks passed"
        return [*rows, f"{self.path}: {verdict}{f'; ids were not looked up: {self.unknown}' if self.unknown else ''}"]


def submit(project: Project, run: str, name: str, out: Path, as_json: bool) -> bool:
    """Write `<run>-<benchmark>-<file>.json` into the folder `out`, check what was written, print what was found.

    Returns whether every check passed. Raises `InputError` where no server scores the benchmark, its subset is not
    built, or the run has not what the files take.
    """
    forms = [form for form in server.FORMS if form.benchmark == name]
    if not forms:
        benchmark(name)
        served = ", ".join(dict.fromkeys(form.benchmark for form in server.FORMS))
        raise InputError(f"{name}: no server scores it, its answers are known; there are servers for {served}")
    entry = project.run(run, name)
    built = _subset(project, name)
    if built is None:
        raise InputError(f"{name}: its test subset is not built; run `dvc repro build@{name}` first")
    subset, manifest = built
    plan = benchmark(name).plan(manifest["parameters"])
    files = locate(project.predictions(run, name))
    cosine = entry.get("similarity", "cosine") == "cosine"
    reports, notes = [], []
    if manifest["parameters"]["source"] == "sample":
        notes.append(f"{name} is the made-up sample here, of which the server knows nothing")
    for form in forms:
        asked = server.ask(subset, form)
        form = replace(form, queries=len(asked.pools))  # a sample may have less than the server expects
        with Progress() as progress:
            lists = server.rank(form, subset, plan, files, cosine, progress.tell)
        own = plan.files.get((form.task, form.view), form.task)
        short = [query for query, listed in lists.items() if len(listed) < form.length]
        if not lists:
            notes.append(f"no {form.name} file: {run} has no predictions for {form.task}")
        elif short and own not in (form.task, *files):
            notes.append(
                f"no {form.name} file: the rankings of {form.task} hold less than {form.length} of the {form.view} "
                f"of {len(short)} queries ({few(short)}); add {own}.parquet"
            )
        elif short:
            raise InputError(
                f"{own} of {run}: {len(short)} of {len(lists)} rankings are too short: {few(short)}; "
                f"the server takes {form.length} candidates of the {form.view}, excluded ones aside"
            )
        else:
            path = out / f"{run}-{name}-{form.name}.json"
            try:
                server.write(form, lists, path)
            except OSError as error:
                raise InputError(f"{error.filename or path}: {error.strerror}") from None
            written = replace(server.read(path), form=form)
            reports.append(Report(path, name, server.check(written, asked)))
    if not reports:
        raise InputError("; ".join(notes))
    if as_json:
        print(to_json({"files": [report.as_json() for report in reports], "notes": notes}), end="")
    else:
        print("\n".join([*(line for report in reports for line in report.lines()), *(f"note: {n}" for n in notes)]))
    return all(report.ok for report in reports)


def check_file(path: Path, as_json: bool) -> bool:
    """Check a file made elsewhere and print what was found; returns whether every check passed.

    Ids are looked up in the official subset, where there is a project that has built it.
    """
    found = server.read(path)
    name, asked = found.form.benchmark, None
    try:
        project = Project.find()
    except InputError:
        unknown = "there is no project here"
    else:
        built = _subset(project, name)
        if built is None:
            unknown = f"the subset of {name} is not built (`dvc repro build@{name}`)"
        elif built[1]["parameters"]["source"] != "official":
            unknown = f"{name} is the made-up sample here (`source: official` in params.yaml)"
        else:
            unknown, asked = "", server.ask(built[0], found.form)
    report = Report(path, name, server.check(found, asked), unknown)
    print(to_json(report.as_json()) if as_json else "\n".join([*report.lines(), ""]), end="")
    return report.ok


def _subset(project: Project, name: str) -> tuple[Subset, dict[str, Any]] | None:
    return read_subset(project.subset(name)) if (project.subset(name) / "manifest.json").is_file() else None
