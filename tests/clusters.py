"""A Dask cluster of processes on this machine, and a way to count on it that can be watched."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from rankledger.ranking.blocks import Job, Tally, count_block

ROOT = Path(__file__).resolve().parents[1]
LONG = 240.0  # seconds; what takes longer will never come
WITHOUT_US = "import sys; sys.modules['rankledger'] = None"  # as where it is not installed


class Processes:
    """A scheduler and its workers, a thread each. They are gone afterwards, or soon when nobody can end them."""

    def __init__(self, folder: Path, workers: int = 0):
        self.folder, self.file = folder, folder / "scheduler.json"
        self.started = [self._start("scheduler", "--port", "0", "--idle-timeout", "300")]
        self.workers = [self.add() for _ in range(workers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.started:
            process.kill()
            process.wait()

    def add(self, *options: str) -> subprocess.Popen[bytes]:
        """One more worker."""
        plain = "--nthreads", "1", "--no-nanny", "--memory-limit", "0", "--death-timeout", "300"
        self.started.append(self._start("worker", *plain, "--local-directory", str(self.folder), *options))
        return self.started[-1]

    @property
    def address(self) -> str:
        """Of the scheduler, once it is up."""
        for _ in wait():
            try:
                return str(json.loads(self.file.read_text())["address"]).replace("tcp://", "dask://")
            except (FileNotFoundError, ValueError):
                if self.started[0].poll() is not None:
                    break
        raise AssertionError((self.folder / "log").read_text())

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", "--host", "127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--scheduler-file", str(self.file), *options],
                env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
            )


def wait(seconds: float = LONG) -> Iterator[None]:
    """Turns of a loop that waits for something, for so long at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.02)


def noted(folder: Path, job: Job) -> tuple[Tally, Tally]:
    """Count a block and note who does: `<process>-<first place of the block>-<any>`.

    A process with a file `victim-<process>` never comes to an end; all others wait until it has a block.
    """
    pid = os.getpid()
    (folder / f"{pid}-{job.at[0]}-{uuid.uuid4()}").touch()
    for _ in wait():
        victims = [path.name.split("-")[1] for path in folder.glob("victim-*")]
        if str(pid) not in victims and all(list(folder.glob(f"{victim}-*")) for victim in victims):
            break
    return count_block(job)
