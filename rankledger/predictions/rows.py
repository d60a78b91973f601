"""The rows of a run (query, candidate, score) in blocks that hold all rows of their queries, checked, for threads.

Where the rows of each query lie together, as they mostly do, a block ends where another query begins, and only a few
blocks are in memory. Else all rows are laid on shelves first, by query, and each shelf is a block.

No string is compared with every other: a candidate is known by a hash of its id, and only where two hashes are the
same are the ids compared.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.predictions.reading import Ids
from rankledger.ranking.listed import Keys, Rows, pair
from rankledger.ranking.stands import Ints, starts_run
from rankledger.ranking.threads import in_parallel
from rankledger.tables import as_strings

BLOCK_ROWS = 1 << 17  # few enough for the cache, and enough to outweigh what each block costs
SORTED_ROWS = 1 << 18  # laid on shelves at once
SHORT = 1 << 18  # so many keys are all different in half of their bits, or few are not
WITHIN = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # the first n bytes of a word

A = TypeVar("A")
Batches = Callable[[int], Iterable[pa.RecordBatch]]


class Odd(Exception):
    """There is a null, NaN or the same pair twice; to say it in words the run is read as a whole."""


class _Apart(Exception):
    """The rows of a query do not lie together."""


@dataclass(frozen=True, eq=False)
class Known:
    """The ids (large_string) of a column's dictionary, and their keys."""

    ids: pa.Array
    keys: Keys


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one batch.

    Attributes:
        query: int32[n], the number of each row's query.
        candidate: n ids, or int[n], where among the known ids each is.
        known: the column's dictionary, where it has one.
        score: float[n]; none where a query's rows are in order, the best first.
    """

    query: NDArray[np.int32]
    candidate: pa.Array | NDArray[np.integer]
    known: Known | None
    score: NDArray[np.floating] | None

    def __getitem__(self, rows: slice | Ints) -> "Part":
        """These rows."""
        take = self.known is None and not isinstance(rows, slice)
        candidate = self.candidate.take(pa.array(rows)) if take else self.candidate[rows]
        return Part(self.query[rows], candidate, self.known, None if self.score is None else self.score[rows])

    def keys(self) -> Keys:
        """The key of each row's candidate."""
        if self.known is not None:
            found: Keys = self.known.keys.take(self.candidate)
            return found
        _look(self.candidate)
        return key(self.candidate if _is_text(self.candidate) else as_strings(self.candidate))

    def ids(self, rows: Ints) -> pa.Array:
        """The candidates of these rows."""
        if self.known is not None:
            return self.known.ids.take(pa.array(self.candidate[rows]))
        return as_strings(self.candidate.take(pa.array(rows)))


class Blocks:
    """The rows of a run, read once or, where those of a query do not lie together, twice.

    Queries are numbered: first those asked for, by their index, then the others as they come.

    Args:
        batches: reads query_id, candidate_id and score, or query_id (each once) and candidate_ids (the best first),
            about so many rows at a time.
        n_rows: about how many there are.
        asked: the queries asked for.
    """

    def __init__(self, batches: Batches, n_rows: int, asked: Ids):
        self._batches, self._asked = batches, asked
        self._bits = (n_rows // BLOCK_ROWS).bit_length()  # of a query's number, that choose its shelf
        self._numbers = {name: number for number, name in enumerate(asked.values.to_pylist())}
        self._has = np.zeros(len(asked), bool)

    def give(self, work: Callable[[Rows], None]) -> None:
        """Have `work` done on all rows, in threads, and where those of a query lie apart once more, from the beginning.

        Raises `Odd`.
        """

        def shelved(block: list[Part]) -> None:
            rows = _rows(_joined(block), self._bits)
            self._has[rows.queries] = True
            work(rows)

        try:
            for _ in in_parallel(lambda block: work(_rows(block)), self._cut()):
                pass
        except _Apart:
            for _ in in_parallel(shelved, self._shelve()):
                pass

    def queries(self) -> Ids:
        """All that have rows, when all rows have been given."""
        n = len(self._asked)
        others = [name for name, number in islice(self._numbers.items(), n, None) if self._has[number]]
        asked = self._asked.values.filter(pa.array(self._has[:n]))
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
        shelves: list[list[Part]] = [[] for _ in range(1 << self._bits)]
        for sorted_part, ends in in_parallel(self._sort, self._parts(SORTED_ROWS)):
            for shelf, (start, end) in zip(shelves, pairwise([0, *ends]), strict=True):
                if start < end:
                    shelf.append(sorted_part[start:end])
        while shelves:
            if block := shelves.pop():
                yield block

    def _sort(self, part: Part) -> tuple[Part, Ints]:
        """A part's rows by shelf, and where on it each shelf's end."""
        shelves = 1 << self._bits
        shelf = (part.query & (shelves - 1)).astype(np.min_scalar_type(shelves - 1))
        return part[_order(shelf)], np.cumsum(np.bincount(shelf, minlength=shelves))

    def _parts(self, rows: int) -> Iterator[Part]:
        numbers, known = _Recent(self._number), _Recent(_known)
        for batch in self._batches(rows):
            query, candidate = batch.columns[:2]
            score = np.asarray(batch["score"]) if "score" in batch.schema.names else None
            if any(column.null_count for column in batch.columns):
                raise Odd
            if not len(batch):
                continue
            query = query if pa.types.is_dictionary(query.type) else query.dictionary_encode()
            number = numbers(query).take(np.asarray(query.indices))
            if score is None:
                number, candidate = np.repeat(number, pc.list_value_length(candidate)), candidate.flatten()
                if candidate.null_count:
                    raise Odd
            if not len(candidate):
                continue
            if pa.types.is_dictionary(candidate.type):
                yield Part(number, np.asarray(candidate.indices), known(candidate), score)
            else:
                yield Part(number, candidate, None, score)

    def _number(self, ids: pa.Array) -> NDArray[np.int32]:
        numbers = self._numbers
        found = [numbers.setdefault(name, len(numbers)) for name in as_strings(ids).to_pylist()]
        self._has = np.append(self._has, np.zeros(len(numbers) - len(self._has), bool))
        return np.array(found, np.int32)


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


def _known(dictionary: pa.Array) -> Known:
    ids = as_strings(dictionary)
    return Known(ids, key(ids))


def _joined(block: list[Part]) -> list[Part]:
    """The same rows in fewer parts: those one after the other that have one dictionary are one."""
    found: list[Part] = []
    for known, same in groupby(block, lambda part: part.known):
        parts = list(same)
        if known is None:
            found += parts
        else:
            query, candidate = (np.concatenate([getattr(p, name) for p in parts]) for name in ("query", "candidate"))
            found.append(Part(query, candidate, known, _scores(parts)))
    return found


def _scores(parts: list[Part]) -> NDArray[np.floating] | None:
    found = [part.score for part in parts if part.score is not None]
    return np.concatenate(found) if found else None


def _rows(block: list[Part], shelf_bits: int | None = None) -> Rows:
    """A block made ready to be counted; one from a shelf is sorted. Raises `Odd`."""
    query, keys = (np.concatenate(parts) for parts in zip(*((part.query, part.keys()) for part in block), strict=True))
    score, order = _scores(block), None
    if shelf_bits is not None:
        place = query >> shelf_bits
        order = _order(place.astype(np.min_scalar_type(place.max())))
        query, keys, score = query[order], keys[order], None if score is None else score[order]
    if score is not None and score.dtype == np.float16:  # which processors do not compare
        score = score.astype(np.float32)
    if score is not None and np.isnan(score.min()):
        raise Odd
    first = np.flatnonzero(starts_run(query))
    queries = query[first].astype(np.int64)
    starts = np.append(first, len(query))
    pairs = keys + np.repeat(pair(np.zeros(1, np.uint64), queries), np.diff(starts))

    def candidates(rows: Ints) -> pa.Array:
        return _ids(block, rows if order is None else order[rows])

    # half of the bits are sorted in half of the time, and which rows are the same is then seen by their ids
    looked_at = pairs.astype(np.uint32) if len(pairs) <= SHORT else pairs
    ascending = np.sort(looked_at)
    again = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(again):
        rows = np.flatnonzero(np.isin(looked_at, again))
        if len({*zip(query[rows].tolist(), candidates(rows).to_pylist(), strict=True)}) < len(rows):
            raise Odd
    return Rows(queries, starts, pairs, score, candidates)


def _order(values: NDArray[np.unsignedinteger]) -> Ints:
    """What puts small numbers in order; of 16 bits and less NumPy sorts by counting."""
    return np.argsort(values, kind="stable")


def _ids(block: list[Part], rows: Ints) -> pa.Array:
    """The candidates of some rows of a block."""
    starts = np.cumsum([0, *(len(part.query) for part in block)])
    of = np.searchsorted(starts, rows, "right") - 1
    order = np.argsort(of, kind="stable")
    by_part = np.split(order, np.cumsum(np.bincount(of, minlength=len(block)))[:-1])
    ids = [part.ids(rows[mine] - start) for part, start, mine in zip(block, starts[:-1], by_part, strict=True)]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return pa.concat_arrays(ids).take(pa.array(place))


def _look(ids: pa.Array) -> None:
    """Strings may hold anything until one looks, unless it is ASCII; raises `Odd`."""
    if _is_text(ids) and _bytes(ids)[1].max(initial=0) < 128:
        return
    try:
        ids.validate(full=True)
    except pa.ArrowInvalid:
        raise Odd from None


def _is_text(ids: pa.Array) -> bool:
    return bool(pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type))


def _bytes(ids: pa.Array) -> tuple[NDArray[np.integer], NDArray[np.uint8]]:
    """Where in the bytes of all strings each begins, and the last one ends; these bytes."""
    width = np.int64 if pa.types.is_large_string(ids.type) else np.int32
    offsets = np.frombuffer(ids.buffers()[1], width)[ids.offset : ids.offset + len(ids) + 1]
    text = np.frombuffer(ids.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], text


def key(ids: pa.Array) -> Keys:
    """A 64-bit hash of each id (string or large_string), of eight bytes at a time."""
    offsets, text = _bytes(ids)
    text = np.concatenate((text, np.zeros(8, np.uint8)))
    words = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))
    length = np.diff(offsets)
    longest = int(length.max(initial=0))
    shortest = int(length.min(initial=longest))
    found = length.astype(np.uint64)
    found *= np.uint64(0xD6E8FEB86659FD93)  # else lengths cancel short words
    rows: slice | Ints = slice(None)
    for at in range(0, longest, 8):
        if at >= shortest:
            rows = np.flatnonzero(length > at)
        if shortest == longest:  # the words lie at even distances: nothing is looked up
            word = words[at::longest][: len(ids)] & WITHIN[min(longest - at, 8)]
        else:
            word = words[offsets[:-1][rows] + at] & WITHIN[np.minimum(length[rows] - at, 8)]
        word ^= found[rows]
        word *= np.uint64(0xBF58476D1CE4E5B9)
        word ^= word >> np.uint64(32)
        found[rows] = word
    return found
