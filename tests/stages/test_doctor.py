"""`rankledger doctor`: each check finds what is wrong, and says how to mend it."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stages import doctor as checks
from stages.doctor import Finding, doctor, examine
from stages.project import Project

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sysconfig.get_path("scripts")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "params.yaml").write_text("benchmarks:\n  cirr: {source: sample}\n")
    return tmp_path


@pytest.fixture
def repository(root: Path) -> Path:
    run(root, "git", "init", "-qb", "main")
    return root


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit(folder: Path) -> None:
    run(folder, "git", "add", "-A")
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    run(folder, "git", *who, "commit", "-qm", "all", "--allow-empty")


def by_name(findings: Any) -> dict[str, Finding]:
    found = list(findings)
    names = [finding.name for finding in found]
    assert len(set(names)) == len(names)
    for finding in found:
        assert finding.status in ("ok", "warn", "fail")
        assert finding.found
        assert "\n" not in finding.found
    return {finding.name: finding for finding in found}


# The command --------------------------------------------------------------------------------------------------


def test_a_project_in_order_passes(repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("PATH", f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}")
    for name in (*checks.PANDERA, *checks.THREADS):
        monkeypatch.delenv(name, raising=False)
    run(repository, sys.executable, "-m", "dvc", "init", "-q")
    commit(repository)
    assert doctor(repository, as_json=True)
    found = json.loads(capfd.readouterr().out)
    assert found["ok"] is True
    status = {check["name"]: check["status"] for check in found["checks"]}
    assert status.pop("environment") == "warn", "tests run from another environment than the made-up project's"
    for name in ("python", "packages", "disk"):
        status.pop(name)
    rest = "project path code git repository history dvc cache blas threads checks params.yaml"
    assert status == dict.fromkeys(rest.split(), "ok")
    cache = next(check["found"] for check in found["checks"] if check["name"] == "cache")
    assert cache == "no cache yet; DVC will try reflink, copy"


def test_it_works_outside_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(checks, "git", lambda root: iter(()))
    assert doctor(tmp_path, as_json=True), "nothing that it misses is needed here"
    found = {check["name"]: check for check in json.loads(capfd.readouterr().out)["checks"]}
    assert found["project"]["status"] == "warn"
    assert found["project"]["fix"]
    assert found["path"]["status"] == "warn"
    assert not found.keys() & {"repository", "history", "cache", "params.yaml"}
    assert doctor(tmp_path, as_json=False)
    lines = capfd.readouterr().out.splitlines()
    project = f"none at or above {tmp_path}; only the environment was looked at"
    assert lines[0] == f"warn  project: {project} → change into your clone of RankLedger"
    assert len(lines) == len(found) + 1
    assert lines[-1].endswith("0 failed")


def test_it_ends_with_1_where_something_fails(tmp_path: Path) -> None:
    code = "import sys; from stages.cli import main; sys.argv = ['rankledger', 'doctor', '--json']; main()"
    for value, status in (("True", 0), ("False", 1)):
        env = {**os.environ, "PANDERA_VALIDATION_ENABLED": value}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (status, "")
        found = json.loads(done.stdout)
        assert found["ok"] == (status == 0)
        assert [c["name"] for c in found["checks"] if c["status"] == "fail"] == ["checks"] * status


def test_every_failure_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "params.yaml").write_text("benchmarks: [cirr]")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", "0")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    found = by_name(examine(tmp_path))
    failed = {name for name, finding in found.items() if finding.status == "fail"}
    assert failed == {"path", "git", "dvc", "disk", "checks", "params.yaml"}
    assert all(found[name].fix for name in failed)


# The installation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("machine", "status"), [("x86_64", "ok"), ("arm64", "warn")])
def test_the_machine_on_which_bytes_are_promised(machine: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.platform, "machine", lambda: machine)
    monkeypatch.setattr(checks.platform, "system", lambda: "Linux")
    assert checks.python().status == status


def test_another_environment_than_the_projects(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = by_name(checks.installation(root))["environment"]
    assert (found.status, found.fix) == ("warn", "make env, then source .venv/bin/activate")
    (root / ".venv").mkdir()
    assert by_name(checks.installation(root))["environment"].fix == "source .venv/bin/activate"
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    assert by_name(checks.installation(root))["environment"].status == "ok"


def test_commands_of_another_environment_on_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", SCRIPTS)
    assert by_name(checks.installation(root))["path"].status == "ok"
    other = root / "bin"
    other.mkdir()
    for name in ("rankledger", "dvc"):
        (other / name).write_text("#!/bin/sh\n")
        (other / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{SCRIPTS}")
    found = by_name(checks.installation(root))["path"]
    assert (found.status, found.fix) == ("warn", "source .venv/bin/activate")
    assert str(other / "rankledger") in found.found
    monkeypatch.setenv("PATH", "/nowhere")
    found = by_name(checks.installation(root))["path"]
    assert found.status == "fail"
    assert "no rankledger and no dvc on PATH" in found.found


def test_the_code_of_another_clone(root: Path) -> None:
    assert by_name(checks.installation(ROOT))["code"].status == "ok"
    assert by_name(checks.installation(root))["code"].status == "ok", "a project without code of its own"
    (root / "stages").mkdir()
    found = by_name(checks.installation(root))["code"]
    assert found.status == "warn"
    assert f"runs from {ROOT}" in found.found


def install(monkeypatch: pytest.MonkeyPatch, needs: list[str] | None, **versions: str) -> None:
    installed = [SimpleNamespace(name=name, version=version) for name, version in versions.items()]

    def requires(name: str) -> list[str] | None:
        return needs

    monkeypatch.setattr(importlib.metadata, "distributions", lambda: iter(installed))
    monkeypatch.setattr(importlib.metadata, "requires", requires)


LOCK = """\
numpy==2.4 ; python_full_version < '3.12' \\
    --hash=sha256:00
numpy==2.5 ; python_full_version >= '3.12' \\
    --hash=sha256:00
pywin32==312 ; sys_platform == 'win32' \\
    --hash=sha256:00
ruamel-yaml==0.18 \\
    --hash=sha256:00
    # via x==1
typer==0.29.2 \\
    --hash=sha256:00
"""


def test_packages_against_the_lock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "requirements.lock").write_text(LOCK)
    needs = ["numpy>=2", "ruamel-yaml[x]>=0.1; python_version > '3'", "pytest>=8; extra == 'dev'"]
    whole = {"numpy": "2.5", "ruamel.yaml": "0.18", "Typer": "0.29.2", "mine": "1"}
    install(monkeypatch, needs, **whole)
    assert checks.packages(root) == Finding("packages", "ok", "3 as in requirements.lock")
    install(monkeypatch, needs, **{**whole, "Typer": "0.30", "numpy": "2.3"})
    found = checks.packages(root)
    assert (found.status, found.fix) == ("warn", "make env")
    assert found.found == ("2 not as in requirements.lock: numpy is 2.3, not 2.4 or 2.5; typer is 0.30, not 0.29.2")
    install(monkeypatch, needs, **{k: v for k, v in whole.items() if k != "Typer"})
    assert checks.packages(root).found == "1 not as in requirements.lock: typer is missing"
    install(monkeypatch, needs, **{k: v for k, v in whole.items() if k != "ruamel.yaml"})
    assert checks.packages(root) == Finding("packages", "fail", "1 missing: 'ruamel-yaml'", "make env")
    (root / "requirements.lock").unlink()
    install(monkeypatch, needs, **whole)
    assert checks.packages(root).status == checks.packages(None).status == "ok"


def test_a_command_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    assert checks.packages(None).status == "fail"


def test_the_real_lock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "requirements.lock").read_text()
    names = {line.split("==")[0] for line in text.splitlines() if "==" in line and line[0].isalnum()}
    install(monkeypatch, [])
    found = checks.packages(ROOT)
    always = {
        line.split("==")[0] for line in text.splitlines() if "==" in line and line[0].isalnum() and ";" not in line
    }
    assert found.found.startswith(f"{len(always)} not as in requirements.lock: ")
    assert len(names) > len(always) > 100


# Git and DVC --------------------------------------------------------------------------------------------------


def test_the_state_of_the_repository(root: Path) -> None:
    found = by_name(checks.git(root))["repository"]
    assert (found.status, found.fix) == ("fail", "git init")
    run(root, "git", "init", "-qb", "main")
    found = by_name(checks.git(root))["repository"]
    assert (found.status, found.fix) == ("warn", "git add -A && git commit")
    commit(root)
    assert by_name(checks.git(root))["repository"] == Finding("repository", "ok", "main, 0 changed files")
    (root / "params.yaml").write_text("benchmarks: {}\n")
    (root / "new").touch()
    assert by_name(checks.git(root))["repository"].found == "main, 2 changed files"
    assert by_name(checks.git(root))["history"].status == "ok"


def test_a_conflict_is_a_failure(repository: Path) -> None:
    commit(repository)
    run(repository, "git", "checkout", "-qb", "other")
    (repository / "params.yaml").write_text("benchmarks: {a: 1}\n")
    commit(repository)
    run(repository, "git", "checkout", "-q", "main")
    (repository / "params.yaml").write_text("benchmarks: {b: 1}\n")
    commit(repository)
    subprocess.run(["git", "merge", "-q", "other"], cwd=repository, capture_output=True, check=False)
    found = by_name(checks.git(repository))["repository"]
    assert found.status == "fail"
    assert found.found == "main: 1 files in conflict: 'params.yaml'"


def test_a_shallow_clone(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    commit(repository)
    commit(repository)
    clone = tmp_path_factory.mktemp("clones") / "shallow"
    run(repository, "git", "clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
    found = by_name(checks.git(clone))["history"]
    assert (found.status, found.fix) == ("warn", "git fetch --unshallow")
    run(clone, "git", "fetch", "-q", "--unshallow")
    assert by_name(checks.git(clone))["history"].status == "ok"


def test_no_git(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (found,) = checks.git(root)
    assert found.status == "fail"


def test_what_git_itself_refuses_is_passed_on(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / ".git" / "config").write_text("[broken")
    found = by_name(checks.git(repository))["repository"]
    assert found.status == "fail"
    assert "config" in found.found
    assert found.fix


def test_dvc_that_is_not_initialised(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = checks.dvc(repository)
    assert (found.status, found.fix) == ("fail", "dvc init")
    (found,) = checks.dvc(None)
    assert (found.status, found.found) == ("ok", importlib.metadata.version("dvc"))

    def version(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    (found,) = checks.dvc(repository)
    assert (found.status, found.fix) == ("fail", "make env")


def test_the_cache_of_a_real_repository(repository: Path) -> None:
    own = (sys.executable, "-m", "dvc")
    run(repository, *own, "init", "-q")
    (repository / "data.txt").write_text("data")
    run(repository, *own, "add", "-q", "data.txt")
    (repository / ".dvc" / "config").write_text("[cache]\n    type = hardlink,symlink\n")
    assert checks.cache(repository).found.startswith("hardlink: outputs are links")


@pytest.mark.parametrize(
    ("able", "set_to", "status", "found"),
    [
        ("hardlink, symlink", "", "ok", "copy: every output is on the disk twice"),
        ("reflink, hardlink, symlink", "", "ok", "reflink: outputs share their blocks with the cache"),
        ("hardlink, symlink", "['reflink', 'symlink']", "ok", "symlink: outputs are links into the cache"),
        ("hardlink, symlink", "reflink", "fail", "cache.type is reflink, which the file system does not support"),
        ("<https://a/b>", "reflink,hardlink", "ok", "no cache yet; DVC will try reflink, hardlink"),
    ],
)
def test_how_dvc_links(
    able: str, set_to: str, status: str, found: str, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    def answer(command: list[str], folder: Path) -> SimpleNamespace:
        text = f"DVC version: 3\nCache types: {able}\nCaches: local\n" if command[-1] == "doctor" else f"{set_to}\n"
        return SimpleNamespace(stdout=text, stderr="", returncode=0)

    monkeypatch.setattr(checks, "_run", answer)
    finding = checks.cache(root)
    assert finding.status == status
    assert finding.found.startswith(found)
    assert bool(finding.fix) == (status == "fail")


# The machine --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("free", "status"), [(10**12, "ok"), (5 * 10**9, "warn"), (10**8, "fail")])
def test_space(free: int, status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    found = checks.disk(tmp_path)
    assert found.status == status
    assert bool(found.fix) == (status != "ok")


def test_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    assert checks.blas().status == "ok"
    assert np.__version__ in checks.blas().found
    monkeypatch.setattr(np, "show_config", lambda mode: {"Build Dependencies": {"blas": {"found": False}}})
    assert checks.blas().status == "warn"


@pytest.mark.parametrize(
    ("value", "status"), [(None, "ok"), ("1", "ok"), ("4", "ok"), ("5", "warn"), ("0", "warn"), ("many", "warn")]
)
def test_threads(value: str | None, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)), raising=False)
    for name in checks.THREADS:
        monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", value)
    found = checks.threads()
    assert found.status == status
    assert found.found.startswith("4 CPUs")
    assert found.fix == ("unset OMP_NUM_THREADS" if status == "warn" else "")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("PANDERA_VALIDATION_ENABLED", "False", "fail"),
        ("PANDERA_VALIDATION_ENABLED", "no", "fail"),
        ("PANDERA_VALIDATION_ENABLED", "True", "ok"),
        ("PANDERA_VALIDATION_DEPTH", "SCHEMA_ONLY", "fail"),
        ("PANDERA_VALIDATION_DEPTH", "SCHEMA_AND_DATA", "ok"),
        ("PANDERA_USE_NARWHALS_BACKEND", "True", "fail"),
        ("PANDERA_USE_NARWHALS_BACKEND", "False", "ok"),
    ],
)
def test_checks_that_are_switched_off(name: str, value: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in checks.PANDERA:
        monkeypatch.delenv(other, raising=False)
    assert checks.pandera().status == "ok"
    monkeypatch.setenv(name, value)
    found = checks.pandera()
    assert found.status == status
    assert found.fix == (f"unset {name}" if status == "fail" else "")


@pytest.mark.parametrize("switched_off", ["False", "True"])
def test_what_fails_here_fails_in_validate_too(switched_off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against pandera's own reading of the variable."""
    code = "from pandera.config import get_config_global; print(get_config_global().validation_enabled)"
    env = {**os.environ, "PANDERA_VALIDATION_ENABLED": switched_off}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", switched_off)
    assert (checks.pandera().status == "ok") == (done.stdout.strip() == "True")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("benchmarks: {cirr: {source: sample}}\nruns: {a-cirr: {run: a, benchmark: cirr}}", "1 benchmarks, 1 runs"),
        ("benchmarks: {cirr: }", "1 benchmarks, 0 runs"),
        ("benchmarks: {cirr: {source: ofical}}", "ofical"),
        ("benchmarks: {cird: {}}", "no benchmark 'cird'"),
        ("benchmarks: [cirr]", "benchmarks should look like"),
        ("benchmarks: {cirr: hard}", "benchmarks should look like"),
        ("benchmarks: {cirr: {}}\nruns: {a: {run: a, benchmark: cirr}}", "runs.a should be called a-cirr"),
        ("benchmarks: {", "not YAML"),
    ],
)
def test_params(text: str, says: str, root: Path) -> None:
    (root / "params.yaml").write_text(text)
    found = checks.parameters(Project(root))
    assert (found.status == "ok") == ("runs" in says and says[0] == "1")
    assert says in found.found
    assert bool(found.fix) == (found.status == "fail")


def test_a_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    make: Callable[[list[Finding]], None] = checks._show
    make([Finding("disk", "fail", "0.1 GB [free]", "make room")])
    out = capsys.readouterr().out
    assert "what to do" in out
    assert "0.1 GB [free]" in out
    assert out.splitlines()[-1] == "0 ok, 0 warnings, 1 failed"
