"""What all benchmarks share: data made once, commands measured as whole processes, results as a table and as JSON.

    from bench.common import Goal, cached, peer, rankledger

    def scores(path: Path) -> None:                      # writes the file (or makes the folder) `path`
        ...

    run = cached("scores-10M.parquet", scores)           # bench/.cache/scores-10M.parquet, made by the first call only
    with Goal("long_scores", "Long Parquet scores, 10 M rows") as goal:
        trec = goal.measure("trec_eval", peer("trec_eval", qrels, text, "recip_rank"))
        goal.measure(
            "rankledger evaluate",
            rankledger("evaluate", "--qrels", qrels, "--run", run, "--metrics", "MRR"),
            against=trec, time=1 / 10, memory=1 / 2,     # at most: of trec_eval's seconds, of its peak memory
        )

When the block ends, a table is on the terminal and `bench/results/long_scores.json` is written.
"""

import hashlib
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.table import Table

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
CACHE = BENCH / ".cache"
RESULTS = BENCH / "results"
RUNS = int(os.environ.get("BENCH_RUNS", "3"))
# Two choose another kernel than OpenBLAS would, on some machines at half its rate; with the third Python would compile
# our modules in every run, and those of installed packages in none.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The file or folder `name` of the cache; `make(path)` writes it where it is absent, whole or not at all.

    The name says all that the content depends on (sizes, seed, a version when `make` changes). `make` runs in a process
    of its own where it needs much memory: see `python`.
    """
    path = CACHE / name
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        unfinished = CACHE / f"unfinished-{name}"
        if unfinished.is_dir():
            shutil.rmtree(unfinished)
        print(f"making bench/.cache/{name}", file=sys.stderr)
        make(unfinished)
        unfinished.rename(path)
    return path


def rankledger(*arguments: object) -> list[str]:
    """The command `rankledger` of this checkout."""
    return [str(Path(sys.executable).with_name("rankledger")), *map(str, arguments)]


def python(module: str, *arguments: object) -> list[str]:
    """`python -m module …` in the project's environment."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def peer(name: str, *arguments: object) -> list[str]:
    """`bench/peers/<name>.py …` in the peers' environment, which the first call installs."""
    return [str(_peers()), "-m", f"bench.peers.{name}", *map(str, arguments)]


def _peers() -> Path:
    """Python of `.venv-peers`, built from `requirements-peers.txt` when that file changed."""
    environment, wanted = ROOT / ".venv-peers", BENCH / "requirements-peers.txt"
    built, python = environment / ".built", environment / "bin" / "python"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if not built.exists() or built.read_text() != digest:
        print("installing bench/requirements-peers.txt into .venv-peers", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", "-r", wanted], check=True)
        built.write_text(digest)
    return python


def environment() -> dict[str, str]:
    """The environment of measured commands: this checkout's code, this Python's programs, OpenBLAS's own choice."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept | {"PYTHONPATH": str(ROOT), "PATH": path}


@dataclass(frozen=True)
class Run:
    """A command's runs: seconds of each, the largest process's peak memory of each, and what the last one printed."""

    seconds: tuple[float, ...]
    peak_mib: tuple[float, ...]
    output: str


def run(command: Sequence[str | Path], *, runs: int = RUNS, inside: bool = False, cwd: Path = ROOT) -> Run:
    """Run a command some times as a whole process, from start to exit, imports and reading included.

    With `inside` the seconds are those that the command itself prints as its last line, for a part of its work.
    `BENCH_PREFIX` in the environment stands before each run, such as `flock FILE` or `taskset -c 0`; its time is not
    counted. Raises `RuntimeError` with the end of its messages where a command fails.
    """
    prefix = shlex.split(os.environ.get("BENCH_PREFIX", ""))
    seconds, peaks = [], []
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        launch = [*prefix, sys.executable, "-I", "-S", BENCH / "launch.py", record, *command]
        for _ in range(runs):
            done = subprocess.run(launch, env=environment(), cwd=cwd, capture_output=True, text=True, check=True)
            used = json.loads(record.read_text())
            if used["exit"]:
                raise RuntimeError(f"exit {used['exit']}: {shlex.join(map(str, command))}\n{done.stderr[-2000:]}")
            seconds.append(float(done.stdout.splitlines()[-1]) if inside else used["seconds"])
            peaks.append(used["peak_kib"] / 1024)
    return Run(tuple(seconds), tuple(peaks), done.stdout)


@dataclass(frozen=True)
class Record:
    """One line of a result. `time_ratio` and `memory_ratio` are to the line named by `against`."""

    goal: str
    what: str
    command: str
    seconds: float  # the median
    all_seconds: tuple[float, ...]
    peak_mib: float  # the median
    against: str | None = None
    time_ratio: float | None = None
    memory_ratio: float | None = None
    limits: str = ""
    kept: bool | None = None  # None: no limit was set


class Goal:
    """A benchmark: its lines, the machine, and the physical limits measured in the same run."""

    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title
        self.records: list[Record] = []
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.machine = json.loads(run(python("bench.machine"), runs=1).output)
        return self

    def measure(
        self,
        what: str,
        command: Sequence[str | Path],
        *,
        against: Record | None = None,
        time: float | None = None,
        memory: float | None = None,
        seconds: float | None = None,
        mib: float | None = None,
        runs: int = RUNS,
        inside: bool = False,
        cwd: Path = ROOT,
    ) -> Record:
        """Measure a command as `run` does and add it as a line.

        `time` and `memory` limit its ratio to `against`, the line of a peer; `seconds` and `mib` limit it as such.
        """
        print(f"measuring {what}", file=sys.stderr)
        done = run(command, runs=runs, inside=inside, cwd=cwd)
        took, peak = statistics.median(done.seconds), statistics.median(done.peak_mib)
        time_ratio = took / against.seconds if against else None
        memory_ratio = peak / against.peak_mib if against else None
        limits = [
            (f"time ≤ {time} ×" if time else "", time, time_ratio),
            (f"memory ≤ {memory} ×" if memory else "", memory, memory_ratio),
            (f"≤ {seconds} s" if seconds else "", seconds, took),
            (f"≤ {mib} MiB" if mib else "", mib, peak),
        ]
        kept = [value <= limit for _, limit, value in limits if limit and value is not None]
        shown = shlex.join(map(str, command)).replace(f"{Path(sys.executable).parent}/", "").replace(f"{ROOT}/", "")
        record = Record(
            goal=self.name,
            what=what,
            command=shown,
            seconds=took,
            all_seconds=done.seconds,
            peak_mib=peak,
            against=against.what if against else None,
            time_ratio=time_ratio,
            memory_ratio=memory_ratio,
            limits=", ".join(text for text, _, _ in limits if text),
            kept=all(kept) if kept else None,
        )
        self.records.append(record)
        return record

    def note(self, what: str, value: Any) -> None:
        """Keep a fact beside the lines, such as the size of a file or a metric that all programs agree on."""
        self.facts[what] = value

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            return
        RESULTS.mkdir(exist_ok=True)
        result = {
            "goal": self.name,
            "title": self.title,
            "machine": self.machine,
            "facts": self.facts,
            "records": [asdict(record) for record in self.records],
        }
        text = json.dumps(result, indent=2, ensure_ascii=False)
        (RESULTS / f"{self.name}.json").write_text(text + "\n")
        self._show()

    def _show(self) -> None:
        table = Table(title=self.title)
        for column in ("what", "s", "peak MiB", "against", "time ×", "memory ×", "goal", ""):
            table.add_column(column, justify="left" if column in ("what", "against", "goal", "") else "right")
        for r in self.records:
            table.add_row(
                r.what,
                f"{r.seconds:.3g}",
                f"{r.peak_mib:,.0f}",
                r.against or "",
                f"{r.time_ratio:.3g}" if r.time_ratio is not None else "",
                f"{r.memory_ratio:.3g}" if r.memory_ratio is not None else "",
                r.limits,
                {None: "", True: "kept", False: "MISSED"}[r.kept],
            )
        console = Console(width=max(Console().width, 120))
        console.print(table)
        for what, value in {**self.machine, **self.facts}.items():
            console.print(f"{what}: {value}", highlight=False)
