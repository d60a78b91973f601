"""`rankledger doctor`: what is wrong with the environment, and how to mend it."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rankledger.benchmarks import benchmark
from rankledger.tables import InputError, few, to_json
from stages.project import Project

GIGABYTE = 10**9
LITTLE, SCARCE = 10 * GIGABYTE, GIGABYTE  # the official files of Recipe1M+ and a run's embeddings take several
ACTIVATE = "source .venv/bin/activate"
INSTALL = "make env"
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(;?)", re.MULTILINE)
CONFLICT = re.compile(r"(DD|AU|UD|UA|DU|AA|UU) ")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
# What pandera's variables may be without switching checks off; see pandera's configuration.
PANDERA = {
    "PANDERA_VALIDATION_ENABLED": ("True", "true", "1"),
    "PANDERA_VALIDATION_DEPTH": ("SCHEMA_AND_DATA",),
    "PANDERA_USE_NARWHALS_BACKEND": ("False", "false", "0"),
}


class Finding(NamedTuple):
    """What one check found.

    Attributes:
        name: what was looked at.
        status: ok, warn (works, but may surprise) or fail (something will not work).
        found: what there is.
        fix: what to do about it, or "".
    """

    name: str
    status: str
    found: str
    fix: str = ""


def doctor(here: Path, as_json: bool) -> bool:
    """Look at the environment as seen from a folder, print what was found, return whether nothing failed."""
    findings = list(examine(here))
    ok = all(finding.status != "fail" for finding in findings)
    if as_json:
        print(to_json({"ok": ok, "checks": [finding._asdict() for finding in findings]}), end="")
    else:
        _show(findings)
    return ok


def examine(here: Path) -> Iterator[Finding]:
    """All checks that make sense in a folder: those of the project only inside one."""
    root = _root(here)
    yield Finding(
        "project",
        "ok" if root else "warn",
        str(root) if root else f"none at or above {here}; only the environment was looked at",
        "" if root else "change into your clone of RankLedger",
    )
    yield python()
    yield from installation(root)
    yield packages(root)
    yield from git(root)
    yield from dvc(root)
    yield disk(root or here)
    yield blas()
    yield threads()
    yield pandera()
    if root:
        yield parameters(Project(root))


def _root(here: Path) -> Path | None:
    try:
        return Project.find(here).root
    except InputError:
        return None


def python() -> Finding:
    """Whether the reports are promised to be the same, byte for byte, on this machine."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        return Finding("python", "ok", found)
    return Finding("python", "warn", f"{found}; reports are the same byte for byte on Linux x86_64 only")


def installation(root: Path | None) -> Iterator[Finding]:
    """Whether this command, those that DVC's stages call, and the project's code belong together."""
    if root and Path(sys.prefix).resolve() != (root / ".venv").resolve():
        fix = ACTIVATE if (root / ".venv").is_dir() else f"{INSTALL}, then {ACTIVATE}"
        yield Finding("environment", "warn", f"{sys.prefix}, not the project's own .venv", fix)
    else:
        yield Finding("environment", "ok", sys.prefix)
    scripts = Path(sysconfig.get_path("scripts"))
    on_path = {name: shutil.which(name) for name in ("rankledger", "dvc")}
    if absent := [name for name, path in on_path.items() if not path]:
        status = "fail" if root else "warn"
        yield Finding("path", status, f"no {' and no '.join(absent)} on PATH, which `dvc repro` needs", ACTIVATE)
    elif other := [path for path in on_path.values() if path and not Path(path).parent.samefile(scripts)]:
        yield Finding("path", "warn", f"`dvc repro` runs {few(other)} of another environment", ACTIVATE)
    else:
        yield Finding("path", "ok", "rankledger and dvc of this environment")
    code = Path(__file__).resolve().parents[1]
    if root and (root / "stages").is_dir() and not code.samefile(root):
        found = f"runs from {code}; DVC watches the code of {root} and would not see a change"
        yield Finding("code", "warn", found, f"{INSTALL}, then {ACTIVATE}")
    else:
        yield Finding("code", "ok", str(code))


def packages(root: Path | None) -> Finding:
    """Installed packages against what RankLedger needs and against `requirements.lock`."""
    installed = {_normal(dist.name): dist.version for dist in importlib.metadata.distributions()}
    try:
        needed = importlib.metadata.requires("rankledger") or []
    except importlib.metadata.PackageNotFoundError:
        return Finding("packages", "fail", "rankledger itself is not installed", INSTALL)
    names = [_normal(re.split(r"[^A-Za-z0-9._-]", need)[0]) for need in needed if "extra ==" not in need]
    if lacking := [name for name in names if name not in installed]:
        return Finding("packages", "fail", f"{len(lacking)} missing: {few(lacking)}", INSTALL)
    lock = root / "requirements.lock" if root else None
    if not lock or not lock.is_file():
        return Finding("packages", "ok", f"all {len(names)} that RankLedger needs; no requirements.lock here")
    locked: dict[str, set[str]] = {}
    everywhere = set()  # what no marker keeps to some machines
    for name, version, marker in LOCKED.findall(lock.read_text(encoding="utf-8")):
        locked.setdefault(_normal(name), set()).add(version)
        everywhere |= set() if marker else {_normal(name)}
    wrong = [name for name, versions in locked.items() if name in installed and installed[name] not in versions]
    absent = sorted(everywhere - installed.keys())
    if wrong or absent:
        told = [f"{name} is {installed[name]}, not {' or '.join(sorted(locked[name]))}" for name in wrong]
        told += [f"{name} is missing" for name in absent]
        found = f"{len(told)} not as in requirements.lock: {'; '.join(told[:3])}{'; …' * (len(told) > 3)}"
        return Finding("packages", "warn", found, INSTALL)
    return Finding("packages", "ok", f"{len(locked.keys() & installed.keys())} as in requirements.lock")


def _normal(name: str) -> str:
    """A package's name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def git(root: Path | None) -> Iterator[Finding]:
    """Git itself; in a project its repository, and whether its history is whole."""
    if not shutil.which("git"):
        yield Finding("git", "fail", "not on PATH", "install Git")
        return
    yield Finding("git", "ok", _run(["git", "--version"], Path()).stdout.removeprefix("git version").strip())
    if not root:
        return
    state = _run(["git", "status", "--porcelain", "--branch"], root)
    if state.returncode:
        said = (state.stderr.strip() or "git status fails").splitlines()
        fix = "git init" if "not a git repository" in said[0] else said[-1].strip()
        yield Finding("repository", "fail", said[0], fix)
        return
    head, *changed = state.stdout.splitlines()
    branch = head.removeprefix("## ").split("...")[0]
    if conflicts := [line[3:] for line in changed if CONFLICT.match(line)]:
        found = f"{branch}: {len(conflicts)} files in conflict: {few(conflicts)}"
        yield Finding("repository", "fail", found, "resolve them, then git add; for dvc.lock and reports, dvc repro")
    elif branch.startswith("No commits yet"):
        fix = "git add -A && git commit"
        yield Finding("repository", "warn", f"{branch}: nothing for `dvc metrics diff` to compare with", fix)
    else:
        yield Finding("repository", "ok", f"{branch}, {len(changed)} changed files")
    if _run(["git", "rev-parse", "--is-shallow-repository"], root).stdout.strip() == "true":
        found = "a shallow clone: older revisions can't be compared with or gone back to"
        yield Finding("history", "warn", found, "git fetch --unshallow")
    else:
        yield Finding("history", "ok", "whole")


def dvc(root: Path | None) -> Iterator[Finding]:
    """DVC itself; in a project whether it is initialised, and how it links files to its cache."""
    try:
        version = importlib.metadata.version("dvc")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("dvc", "fail", "not installed", INSTALL)
        return
    if root and not (root / ".dvc").is_dir():
        yield Finding("dvc", "fail", f"{version}, but not initialised in {root}", "dvc init")
        return
    yield Finding("dvc", "ok", version)
    if root:
        yield cache(root)


def cache(root: Path) -> Finding:
    """How DVC links outputs to its cache: the first configured way that the file system supports."""
    own = [sys.executable, "-m", "dvc"]
    # DVC prints one kind, several with commas or a Python list, as the file has them.
    wanted = re.findall(r"\w+", _run([*own, "config", "cache.type"], root).stdout) or ["reflink", "copy"]
    told = re.search(r"^Cache types: (.*)$", _run([*own, "doctor"], root).stdout, re.MULTILINE)
    if not told or told[1].startswith("<"):  # an address that explains why there are none
        return Finding("cache", "ok", f"no cache yet; DVC will try {', '.join(wanted)}")
    able = [*re.findall(r"\w+", told[1]), "copy"]
    used = next((kind for kind in wanted if kind in able), None)
    if not used:
        found = f"cache.type is {', '.join(wanted)}, which the file system does not support"
        return Finding("cache", "fail", found, "dvc config cache.type reflink,copy")
    remark = {
        "copy": "every output is on the disk twice",
        "reflink": "outputs share their blocks with the cache",
    }.get(used, "outputs are links into the cache; `dvc unprotect` one before editing it")
    return Finding("cache", "ok", f"{used}: {remark}")


def disk(folder: Path) -> Finding:
    """Space that is left."""
    free = shutil.disk_usage(folder).free
    found = f"{free / GIGABYTE:,.1f} GB free"
    if free >= LITTLE:
        return Finding("disk", "ok", found)
    fix = "make room; `dvc gc --workspace` drops what no current output uses"
    return Finding("disk", "fail" if free < SCARCE else "warn", found, fix)


def blas() -> Finding:
    """What multiplies matrices. No result depends on it, the time does."""
    import numpy as np

    built = np.show_config(mode="dicts") or {}
    found = built.get("Build Dependencies", {}).get("blas", {})
    if found.get("found"):
        return Finding("blas", "ok", f"numpy {np.__version__} with {found['name']} {found['version']}")
    return Finding("blas", "warn", f"numpy {np.__version__} without a BLAS: scoring embeddings is slow", INSTALL)


def threads() -> Finding:
    """How many threads numpy and polars may use. No result depends on it, the time does."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = {name: os.environ[name] for name in THREADS if name in os.environ}
    found = ", ".join([f"{cpus} CPUs", *(f"{name}={value}" for name, value in given.items())])
    if wrong := [name for name, value in given.items() if not re.fullmatch(r"[1-9][0-9]*", value)]:
        return Finding("threads", "warn", f"{found}: {few(wrong)} should be a whole number", f"unset {' '.join(wrong)}")
    if many := [name for name, value in given.items() if int(value) > cpus]:
        return Finding("threads", "warn", f"{found}: more threads than CPUs are slower", f"unset {' '.join(many)}")
    return Finding("threads", "ok", found)


def pandera() -> Finding:
    """Whether the environment switches the checks of `validate` off."""
    off = {name: os.environ[name] for name, fine in PANDERA.items() if os.environ.get(name, fine[0]) not in fine}
    if off:
        found = ", ".join(f"{name}={value}" for name, value in off.items())
        return Finding("checks", "fail", f"{found}: `validate` would check little or nothing", f"unset {' '.join(off)}")
    return Finding("checks", "ok", "pandera checks types and values")


def parameters(project: Project) -> Finding:
    """Whether `params.yaml` can be used."""
    try:
        listed = project.params().get("benchmarks") or {}
        if not isinstance(listed, dict) or not all(isinstance(given, dict | None) for given in listed.values()):
            raise InputError("benchmarks should look like {cirr: {source: official}, …}")
        for name, given in listed.items():
            benchmark(name).parameters(given)
        runs = project.runs()
    except InputError as error:
        return Finding("params.yaml", "fail", str(error), "edit params.yaml")
    return Finding("params.yaml", "ok", f"{len(listed)} benchmarks, {len(runs)} runs")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _show(findings: list[Finding]) -> None:
    """A table on a terminal, else a line a check; then how many failed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    if console.is_terminal:
        table = Table("", "", "what was found", "what to do")
        for finding in findings:
            style = styles[finding.status]
            table.add_row(Text(finding.status, style), *map(Text, (finding.name, finding.found, finding.fix)))
        console.print(table)
    else:
        for finding in findings:
            fix = f" → {finding.fix}" if finding.fix else ""
            print(f"{finding.status:4}  {finding.name}: {finding.found}{fix}")
    counts = {status: sum(finding.status == status for finding in findings) for status in styles}
    print(f"{counts['ok']} ok, {counts['warn']} warnings, {counts['fail']} failed")
