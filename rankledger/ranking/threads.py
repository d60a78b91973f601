"""Threads: NumPy and Arrow leave Python's lock while they work."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# as many as this process may use of the processor's cores; more than 16 would want more memory than they save time
THREADS = min(16, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
# glibc keeps freed memory in pieces up to the size of the largest that it ever gave back; without this each block pays
# for new pages, up to a quarter of the whole time
np.empty(30 << 20, np.uint8)

A = TypeVar("A")
B = TypeVar("B")


def in_parallel(work: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """What `work` makes of each item, in their order; threads work on a few while the next is made."""
    with ThreadPoolExecutor(THREADS) as pool:
        running: deque[Future[B]] = deque()
        for item in items:
            running.append(pool.submit(work, item))
            if len(running) > 2 * THREADS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def ahead(items: Iterable[A]) -> Iterator[A]:
    """The items; a thread makes each while the one before is used."""
    coming, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, coming, end)
        while (item := future.result()) is not end:
            future = pool.submit(next, coming, end)
            yield cast(A, item)


def plain_blas() -> AbstractContextManager[Any]:
    """The BLAS works in the thread that calls it; else its own threads wait for each other after each product."""
    found: AbstractContextManager[Any] = _blas().limit(limits=1)
    return found


@cache
def _blas() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
