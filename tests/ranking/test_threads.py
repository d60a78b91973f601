"""Work in threads: in order, some of it at a time, and errors come through."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from rankledger.ranking import threads


@pytest.mark.parametrize("n", [0, 1, 100])
def test_results_come_in_the_order_of_the_items(n: int) -> None:
    waits = np.random.default_rng(0).permutation(n) / 1e5

    def work(i: int) -> int:
        threading.Event().wait(waits[i])
        return i * i

    assert list(threads.in_parallel(work, range(n))) == [i * i for i in range(n)]
    assert list(threads.ahead(range(n))) == list(range(n))


def test_items_are_made_when_they_are_needed() -> None:
    """Else a gallery on disk would be in memory after all."""
    made: list[int] = []

    def items() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            yield i

    for used in threads.in_parallel(int, items()):
        assert len(made) <= used + 2 * threads.THREADS + 2
    made.clear()
    for used in threads.ahead(items()):
        assert len(made) <= used + 2


def test_errors_come_through() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(threads.ahead(items()))
    with pytest.raises(ZeroDivisionError):
        list(threads.in_parallel(lambda x: x, items()))
    with pytest.raises(ZeroDivisionError):
        list(threads.in_parallel(lambda x: 1 // (x - 50), range(100)))


def test_the_blas_has_its_threads_again_afterwards() -> None:
    def blas() -> list[int]:
        return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]

    before = blas()
    with threads.plain_blas():
        assert set(blas()) == {1}
    assert blas() == before
