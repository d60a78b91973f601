"""More machines: an engine whose blocks are counted by the workers of a Dask cluster.

What is found is whole and exact, whatever machine finds it. So it does not matter which worker counts a block, or
whether one is counted twice because a worker ended.
"""

import hashlib
import pkgutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures import Future as Answer
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from socket import gethostname
from threading import Thread
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import numpy as np

from rankledger.ranking.blocks import Engine, Entries, Job, Tally
from rankledger.ranking.stands import Ints
from rankledger.ranking.vectors import Vectors
from rankledger.tables import InputError, few

if TYPE_CHECKING:
    from distributed import Client, Future

SMALL = 1 << 30  # multiplications; a block of fewer is counted here before it would be there
AHEAD = 2  # blocks for each thread of the workers: the next is there when one is done
AHEAD_BYTES = 1 << 30  # of vectors in blocks that are not done; they stay here, to be sent again
ATTEMPTS = 5  # at a block, where workers end
PATIENCE = 30.0  # seconds without an answer, or without a worker

Function = Callable[[Job], tuple[Tally, Tally]]

# What counts: equal code gives equal counts, whatever NumPy and BLAS are below it.
CODE = hashlib.sha256(
    b"".join(
        Path(__file__).with_name(f"{name}.py").read_text("utf-8").encode()
        for name in ("blocks", "cluster", "stands", "threads", "vectors")
    )
).hexdigest()


def engine_at(address: str | None) -> AbstractContextManager[Engine]:
    """What counts blocks: the workers of the Dask cluster at `dask://host:port`; without an address, this process.

    Raises:
        InputError: the address is not as it should be; in the engine's use: Dask is not installed, nobody answers,
            there are no workers, or they have another RankLedger or none.

    >>> with engine_at(None) as engine:
    ...     engine is map
    True
    """
    return nullcontext(map) if address is None else Cluster(address)


class Cluster:
    """An `Engine`: the workers of a Dask cluster. It connects when there is something for them."""

    def __init__(self, address: str):
        self.address = address
        parts = urlsplit(str(address))
        with suppress(ValueError):  # a port that is none
            if parts.scheme == "dask" and parts.hostname and parts.port and not parts.path:
                self.scheduler = parts.netloc
                return
        raise InputError(f"engine {address!r}: it should look like dask://host:8786, the address of a Dask scheduler")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if client := vars(self).get("client"):
            client.close()

    def __call__(self, function: Function, jobs: Iterator[Job], /) -> Iterator[tuple[Tally, Tally]]:
        """The results of `function`, in the order of the jobs, which are made as they can be sent."""
        for job in jobs:
            if len(job.rows) * job.right.stored.size < SMALL:
                yield function(job)
            else:
                yield from _Pass(self, function, job).results(chain([job], jobs))

    @cached_property
    def client(self) -> "Client":
        """The connection."""
        try:
            from distributed import Client
        except ImportError:
            raise InputError(f"{self.address}: Dask is not installed: pip install 'rankledger[dask]'") from None
        answer: Answer[Client] = Answer()

        def connect() -> None:  # what is no scheduler may stay silent, and then this never ends
            try:
                answer.set_result(Client(self.scheduler, timeout=PATIENCE, set_as_default=False))
            except Exception as error:
                answer.set_exception(error)

        Thread(target=connect, daemon=True).start()
        with self.errors():
            try:
                client = answer.result(1.5 * PATIENCE)
            except TimeoutError:
                raise OSError(f"silent for {PATIENCE:g} s") from None
            except Exception as error:  # of whatever else it is that speaks there
                raise OSError(error) from None
        try:
            self._check(client)
        except InputError:
            client.close()
            raise
        return client

    def _check(self, client: "Client") -> None:
        """See that all have this code. What it can't import ends a worker: nothing of ours is sent before."""
        where = f"{__name__}:CODE"
        with self.errors():
            client.wait_for_workers(1, PATIENCE)
            found = client.run(pkgutil.resolve_name, where, on_error="return")
            try:
                found["the scheduler"] = client.run_on_scheduler(pkgutil.resolve_name, where)
            except (ImportError, AttributeError) as error:
                found["the scheduler"] = error
        if other := [name for name, code in found.items() if code != CODE and not isinstance(code, OSError)]:
            raise InputError(
                f"{self.address}: {few(other)}: no RankLedger there, or another version; the scheduler and all workers "
                "need this one"
            )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What the connection raises, as an `InputError`."""
        try:
            yield
        except TimeoutError:
            raise InputError(
                f"{self.address}: no worker for {PATIENCE:g} s; start some with `dask worker {self.scheduler}`"
            ) from None
        except (OSError, RuntimeError) as error:  # RuntimeError: of a client that has given up
            raise InputError(f"{self.address}: no Dask scheduler answers ({' '.join(str(error).split())})") from None


@dataclass
class _Sent:
    """A job under way: what it alone needs, as a worker holds it, and what will be its result."""

    job: Job
    own: "Future" = field(init=False)
    counts: "Future" = field(init=False)
    attempts: int = 0


class _Pass:
    """One call of the engine: what its jobs share goes to all workers, the rest of each to one."""

    def __init__(self, cluster: Cluster, function: Function, first: Job):
        self.cluster, self.client, self.function = cluster, cluster.client, function
        self.left, self.rows, self.by_row = first.left, first.rows, first.by_row
        self.shared: Future | None = None
        self.waiting: deque[_Sent] = deque()

    def results(self, jobs: Iterator[Job]) -> Iterator[tuple[Tally, Tally]]:
        """See `Cluster`."""
        for job in jobs:
            while self._enough():
                yield self._next()
            self.waiting.append(_Sent(job))
            self._send(self.waiting[-1])
        while self.waiting:
            yield self._next()

    def _enough(self) -> bool:
        """Whether no more should be under way; workers come and go."""
        with self.cluster.errors():
            threads = sum(self.client.nthreads().values())
        held = sum(sent.job.right.stored.nbytes for sent in self.waiting)
        return bool(self.waiting) and (len(self.waiting) >= AHEAD * threads or held >= AHEAD_BYTES)

    def _send(self, sent: _Sent) -> None:
        sent.attempts += 1
        if sent.attempts > ATTEMPTS:
            raise InputError(
                f"{self.cluster.address}: workers ended {ATTEMPTS} times with one block; their logs say why, most "
                "often that they have too little memory"
            )
        with self.cluster.errors():
            try:
                if self.shared is None or self.shared.cancelled():  # the last worker that held it ended
                    shared = self.left.take(self.rows), self.by_row
                    [self.shared] = self.client.scatter([shared], broadcast=True, hash=False, timeout=PATIENCE)
                own = sent.job.right, sent.job.at, sent.job.by_column
                [sent.own] = self.client.scatter([own], hash=False, timeout=PATIENCE)
                sent.counts = self.client.submit(_count, CODE, self.function, self.shared, sent.own, pure=False)
            except TimeoutError:
                raise
            except OSError:  # a worker ended while it was sent to
                self._send(sent)

    def _next(self) -> tuple[Tally, Tally]:
        """The result of the first that waits. When it is lost with a worker, all that are lost go out again."""
        from distributed import KilledWorker

        first = self.waiting[0]
        while True:
            try:
                counts: tuple[Tally, Tally] = first.counts.result(PATIENCE)
            except TimeoutError:
                with self.cluster.errors():
                    self.client.wait_for_workers(1, PATIENCE)
            except OSError:
                with self.cluster.errors():
                    raise
            except (CancelledError, KilledWorker):
                for sent in self.waiting:
                    if sent is first or sent.counts.cancelled():
                        self._send(sent)
            else:
                self.waiting.popleft()
                return counts


def _count(
    code: str, function: Function, shared: tuple[Vectors, Entries], own: tuple[Vectors, Ints, Entries]
) -> tuple[Tally, Tally]:
    """Count a block, on a worker; it may have come after `_check`."""
    if code != CODE:
        raise InputError(f"the worker on {gethostname()} has another version of RankLedger; all need the same")
    (left, by_row), (right, at, by_column) = shared, own
    return function(Job(left, np.arange(len(left)), right, at, by_row, by_column))
