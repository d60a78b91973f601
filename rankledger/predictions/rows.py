"""The rows of a run (query, candidate, score) in blocks that hold all rows of their queries, checked, for threads.

Where the rows of each query lie together, as they mostly do, a block ends where another query begins, and only a few
blocks are in memory. Else all rows are laid on shelves first, by query, and each shelf is a block.

No string is compared with every other: a candidate is known by a hash of its id, and only where two hashes are the
same are the ids compared.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankledger.predictions.reading import Ids
from rankledger.ranking.listed import Keys, Rows, pair
from rankledger.ranking.stands import Ints, starts_run
from rankledger.tables import as_strings

BLOCK_ROWS = 1 << 16  # so that what counting takes stays in the cache of a core
SORTED_ROWS = 1 << 18  # laid on shelves at once
THREADS = min(4, os.cpu_count() or 1)
WITHIN = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # the first n bytes of a word

A = TypeVar("A")
B = TypeVar("B")
Batches = Callable[[int], Iterable[pa.RecordBatch]]


class Odd(Exception):
    """There is a null, NaN or the same pair twice; to say it in words the run is read as a whole."""


class _Apart(Exception):
    """The rows of a query do not lie together."""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one batch: the number of each one's query, the candidates' ids and the scores.

    Attributes:
        known: the keys of the candidates' dictionary, where they have one.
    """

    query: NDArray[np.int32]
    candidate: pa.Array
    known: Keys | None
    score: NDArray[np.floating]

    def __getitem__(self, rows: slice) -> "Part":
        return Part(self.query[rows], self.candidate[rows], self.known, self.score[rows])

    def take(self, rows: Ints) -> "Part":
        """These rows."""
        return Part(self.query[rows], self.candidate.take(pa.array(rows)), self.known, self.score[rows])

    def keys(self) -> Keys:
        """The key of each row's candidate."""
        if self.known is not None:
            found: Keys = self.known[np.asarray(self.candidate.indices)]
            return found
        _look(self.candidate)
        return key(as_strings(self.candidate))


class Blocks:
    """The rows of a run, read once or, where those of a query do not lie together, twice.

    Queries are numbered: first those asked for, by their index, then the others as they come.

    Args:
        batches: reads query_id, candidate_id and score, about so many rows at a time.
        n_rows: about how many there are.
        asked: the queries asked for.
    """

    def __init__(self, batches: Batches, n_rows: int, asked: Ids):
        self._batches, self._asked = batches, asked
        self._shelves = 1 + n_rows // BLOCK_ROWS
        self._has = np.zeros(len(asked), bool)
        self._others: dict[str, int] = {}  # some may have no row

    def give(self, work: Callable[[Rows], None]) -> None:
        """Have `work` done on all rows, in threads, and where those of a query lie apart once more, from the beginning.

        Raises `Odd`.
        """
        # glibc keeps freed memory in pieces up to the size of the largest that it ever gave back; without this each
        # block pays for new pages, a quarter of the whole time
        np.empty(24 << 20, np.uint8)
        try:
            for _ in in_parallel(lambda block: work(_rows(block)), self._cut()):
                pass
        except _Apart:
            for _ in in_parallel(lambda block: work(_rows(block, self._shelves)), self._shelve()):
                pass

    def queries(self) -> Ids:
        """All that have rows, when all rows have been given."""
        others = [name for name, number in self._others.items() if self._has[number]]
        asked = self._asked.values.filter(pa.array(self._has[: len(self._asked)]))
        return Ids(pa.concat_arrays([asked, pa.array(others, pa.large_string())]))

    def _cut(self) -> Iterator[list[Part]]:
        """Blocks of rows as they come; raises `_Apart`."""
        rest: list[Part] = []
        for part in self._parts(BLOCK_ROWS):
            fresh = starts_run(part.query)
            fresh[0] = not rest or rest[-1].query[-1] != part.query[0]
            starts = np.flatnonzero(fresh)
            queries = part.query[starts]
            if self._has[queries].any() or len(np.unique(queries)) < len(queries):
                raise _Apart
            self._has[queries] = True
            end = starts[-1] if len(starts) else 0
            if len(starts) and (rest or end):
                yield [*rest, *([part[:end]] if end else [])]
                rest = []
            rest.append(part[end:])
        if rest:
            yield rest

    def _shelve(self) -> Iterator[list[Part]]:
        """Blocks of the rows of some queries, wherever they come."""
        shelves: list[list[Part]] = [[] for _ in range(self._shelves)]
        for sorted_part, ends in in_parallel(self._sort, self._parts(SORTED_ROWS)):
            self._has[sorted_part.query] = True
            for shelf, (start, end) in zip(shelves, pairwise([0, *ends]), strict=True):
                shelf.append(sorted_part[start:end])
        while shelves:
            if block := [part for part in shelves.pop() if len(part.query)]:
                yield block

    def _sort(self, part: Part) -> tuple[Part, Ints]:
        """A part's rows by shelf, and where on it each shelf's end."""
        shelf = (part.query % self._shelves).astype(np.uint16)
        return part.take(np.argsort(shelf, kind="stable")), np.cumsum(np.bincount(shelf, minlength=self._shelves))

    def _parts(self, rows: int) -> Iterator[Part]:
        numbers, keys = _Recent(self._number), _Recent(lambda ids: key(as_strings(ids)))
        for batch in self._batches(rows):
            query, candidate, score = (batch[name] for name in ("query_id", "candidate_id", "score"))
            if query.null_count or candidate.null_count or score.null_count:
                raise Odd
            if len(batch):
                query = query if pa.types.is_dictionary(query.type) else query.dictionary_encode()
                known = keys(candidate) if pa.types.is_dictionary(candidate.type) else None
                part = Part(numbers(query)[np.asarray(query.indices)], candidate, known, np.asarray(score))
                yield part

    def _number(self, ids: pa.Array) -> NDArray[np.int32]:
        found = self._asked.index(ids)
        other = np.flatnonzero(found < 0)
        for i, name in zip(other, ids.take(pa.array(other)).to_pylist(), strict=True):
            found[i] = self._others.setdefault(str(name), len(self._asked) + len(self._others))
        self._has = np.append(self._has, np.zeros(len(self._asked) + len(self._others) - len(self._has), bool))
        return found.astype(np.int32)


class _Recent(Generic[A]):
    """What a function makes of a column's dictionary, which is often that of the batch before."""

    def __init__(self, function: Callable[[pa.Array], A]):
        self._function = function
        self._ids: pa.Array = None

    def __call__(self, column: pa.DictionaryArray) -> A:
        indices = np.asarray(column.indices)
        if self._ids is None or not column.dictionary.equals(self._ids):
            _look(column.dictionary)
            self._ids, self._made = column.dictionary, self._function(column.dictionary)
        if indices.min() < 0 or indices.max() >= len(self._ids):
            raise Odd
        return self._made


def _rows(block: list[Part], shelves: int = 0) -> Rows:
    """A block made ready to be counted; one of so many shelves is sorted. Raises `Odd`."""
    query, keys, score = (
        np.concatenate(parts) for parts in zip(*((part.query, part.keys(), part.score) for part in block), strict=True)
    )
    if score.dtype == np.float16:  # which processors do not compare
        score = score.astype(np.float32)
    order = None
    if shelves:
        place = query // shelves
        # of 16 bits and less NumPy sorts by counting
        order = np.argsort(place.astype(np.min_scalar_type(place.max())), kind="stable")
        query, keys, score = query[order], keys[order], score[order]
    if np.isnan(score.min()):
        raise Odd
    first = np.flatnonzero(starts_run(query))
    queries = query[first].astype(np.int64)
    starts = np.append(first, len(query))
    pairs = keys + np.repeat(pair(np.zeros(1, np.uint64), queries), np.diff(starts))

    def candidates(rows: Ints) -> pa.Array:
        return _ids(block, rows if order is None else order[rows])

    ascending = np.sort(pairs)
    again = ascending[1:] == ascending[:-1]
    if again.any():
        rows = np.flatnonzero(np.isin(pairs, ascending[1:][again]))
        if len({*zip(query[rows].tolist(), candidates(rows).to_pylist(), strict=True)}) < len(rows):
            raise Odd
    return Rows(queries, starts, pairs, score, candidates)


def _ids(block: list[Part], rows: Ints) -> pa.Array:
    """The candidates of some rows of a block."""
    starts = np.cumsum([0, *(len(part.query) for part in block)])
    of = np.searchsorted(starts, rows, "right") - 1
    order = np.argsort(of, kind="stable")
    ids = [
        as_strings(block[i].candidate.take(pa.array(rows[order[start:end]] - starts[i])))
        for i, (start, end) in enumerate(pairwise(np.searchsorted(of[order], np.arange(len(block) + 1))))
        if end > start
    ]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return pa.concat_arrays(ids).take(pa.array(place)) if ids else pa.array([], pa.large_string())


def _look(ids: pa.Array) -> None:
    """Strings may hold anything until one looks; raises `Odd`."""
    try:
        ids.validate(full=True)
    except pa.ArrowInvalid:
        raise Odd from None


def key(ids: pa.Array) -> Keys:
    """A 64-bit hash of each id (large_string), of eight bytes at a time."""
    offsets = np.frombuffer(ids.buffers()[1], np.int64)[ids.offset : ids.offset + len(ids) + 1]
    text = np.frombuffer(ids.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    words = np.ndarray(len(text) + 1, "<u8", np.concatenate((text, np.zeros(8, np.uint8))), strides=(1,))
    first, length = offsets[:-1] - offsets[0], np.diff(offsets)
    found = length.astype(np.uint64)
    rows: slice | Ints = slice(None)
    for at in range(0, int(length.max(initial=0)), 8):
        if length.min() <= at:
            rows = np.flatnonzero(length > at)
        word = words[first[rows] + at] & WITHIN[np.minimum(length[rows] - at, 8)]
        word ^= found[rows]
        word *= np.uint64(0xBF58476D1CE4E5B9)
        word ^= word >> np.uint64(32)
        found[rows] = word
    return found


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
