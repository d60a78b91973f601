"""Embeddings as users write them, read in blocks and checked: into memory or, where they are many, pass by pass.

Every check here ends in an `InputError` that names the file, how many vectors are wrong and the first few.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankledger.ranking.stands import Floats, Ints
from rankledger.ranking.threads import ahead
from rankledger.ranking.vectors import (
    LONGEST,
    SHORTEST,
    Stored,
    Vectors,
    block_length,
    digest,
    floats,
    lengths,
    shrinking,
)
from rankledger.tables import InputError, few, parquet_errors, part_files, plural

HELD_BYTES = 1 << 30  # a gallery with more bytes of vectors than this stays on disk


class Block(NamedTuple):
    """Some vectors of a file: the number of the first, the vectors, and their lengths."""

    first: int
    stored: Stored
    lengths: Floats


def read_vectors(path: Path, ids: pa.ChunkedArray, cosine: bool) -> Vectors:
    """All vectors of a file (or of a folder of part files), one for each of its `ids`; raises `InputError`."""
    stored: Stored | None = None
    long = np.empty(len(ids))
    for first, block, its in checked(path, ids):
        if stored is None:
            stored = np.empty((len(ids), block.shape[1]), block.dtype)
        stored[first : first + len(block)], long[first : first + len(block)] = block, its
    assert stored is not None
    return Vectors(stored, cosine, long)


class Stream:
    """A gallery on disk (see `rankledger.ranking.vectors.Gallery`): each pass reads the file once more.

    Attributes:
        path: the file, or the folder of its parts.
        ids: of its rows.
        kept: the rows whose vectors are in memory, ascending: those of right candidates.
        held: their vectors.
    """

    def __init__(self, path: Path, ids: pa.ChunkedArray, cosine: bool, kept: Ints):
        self.path, self.ids, self.cosine, self.kept = path, ids, cosine, np.unique(kept)
        self.lengths = np.empty(len(ids))
        held = []
        for first, block, long in checked(path, ids):
            self.lengths[first : first + len(block)] = long
            mine = self.kept[slice(*np.searchsorted(self.kept, [first, first + len(block)]))]
            held.append(block[mine - first])
        self.norms: Floats = np.ones(len(ids)) if cosine else self.lengths
        self.shrink = shrinking(self.norms)
        self.held = Vectors(np.concatenate(held), cosine, self.lengths[self.kept], self.shrink)
        self.twins = {digest(self.held.stored[i]): i for i in np.unique(self.held.twin)}

    @property
    def components(self) -> int:
        """See `Gallery`."""
        return self.held.components

    def hold(self, rows: Ints) -> tuple[Vectors, Ints]:
        """See `Gallery`; only rows that are kept."""
        return self.held, np.searchsorted(self.kept, rows)

    def blocks(self, rows: Ints) -> Iterator[tuple[Ints, Vectors]]:
        """See `Gallery`; in the order of the file. Raises `InputError` where it is another one than before."""
        position = np.full(len(self.ids), -1)
        position[rows] = np.arange(len(rows))
        changed = InputError(f"{self.path}: changed while it was read; run it again")
        end = 0
        for first, column in ahead(_columns(self.path, block_length(self.components))):
            end = first + len(column)
            if end > len(self.ids) or len(pc.list_flatten(column)) != len(column) * self.components:
                raise changed
            stored = _numbers(column, self.components)
            mine = np.flatnonzero(position[first:end] >= 0)
            if len(mine):
                some = stored if len(mine) == len(stored) else stored[mine]
                block = Vectors(some, self.cosine, self.lengths[first:end][mine], self.shrink)
                block.twin = self._twin(block)
                yield position[first:end][mine], block
        if end < len(self.ids):
            raise changed

    def _twin(self, block: Vectors) -> Ints:
        """The vector in memory that each equals, −1 where none."""
        twin = np.full(len(block), -1)
        for i in np.flatnonzero(np.isin(block.lengths, self.held.lengths)):  # equal vectors are equally long
            twin[i] = self.twins.get(digest(block.stored[i]), -1)
        return twin


def is_large(path: Path) -> bool:
    """Whether the vectors of a file (or of a folder of part files) take more memory than `HELD_BYTES`."""
    width, size = _first(path)
    return width * size * _rows(path) > HELD_BYTES


def _rows(path: Path) -> int:
    rows = 0
    for part in part_files(path):
        with parquet_errors(part):
            rows += pq.read_metadata(part).num_rows
    return rows


def _first(path: Path) -> tuple[int, int]:
    """Components of the first vector, and the bytes of one."""
    for part in part_files(path):
        with parquet_errors(part), pq.ParquetFile(part) as file:
            for batch in file.iter_batches(1, columns=["embedding"]):
                values = pc.list_flatten(batch.column(0))
                return len(values), values.type.bit_width // 8
    return 0, 0


def checked(path: Path, ids: pa.ChunkedArray) -> Iterator[Block]:
    """The vectors in blocks of whole vectors of one width: finite, none without a direction.

    Raises `InputError`, after the last block, where any vector is not so.
    """
    wrong = _Wrong(path, ids)
    width, _ = _first(path)
    for first, column in ahead(_columns(path, block_length(max(1, width)))):
        sizes = np.asarray(pc.fill_null(pc.list_value_length(column), width), np.int64)
        wrong.note("null", first, np.asarray(column.is_null()))
        wrong.sizes.append(sizes)
        values = pc.list_flatten(column)
        if values.null_count:
            wrong.nulls += values.null_count
            owner = np.asarray(pc.list_parent_indices(column).filter(values.is_null()))
            wrong.note("hollow", first, np.isin(np.arange(len(column)), owner))
        if not width or column.null_count or values.null_count or (sizes != width).any():
            continue
        stored = _numbers(column, width)
        long = lengths(stored)
        odd = np.flatnonzero(~((long >= SHORTEST) & (long <= LONGEST)))
        if len(odd):
            numbers = floats(stored[odd])
            unbound, zero = ~np.isfinite(numbers).all(axis=1), ~numbers.any(axis=1)
            for kind, mine in (("unbound", unbound), ("zero", zero), ("beyond", ~(unbound | zero))):
                wrong.note(kind, first, np.isin(np.arange(len(stored)), odd[mine]))
            continue
        yield Block(first, stored, long)
    wrong.refuse()


def _columns(path: Path, step: int) -> Iterator[tuple[int, pa.Array]]:
    """The column of vectors in pieces, and the number of the first row of each."""
    first = 0
    for part in part_files(path):
        with parquet_errors(part), pq.ParquetFile(part, pre_buffer=False, buffer_size=1 << 20) as file:
            for batch in file.iter_batches(step, columns=["embedding"]):
                batch.validate(full=True)
                yield first, batch.column(0)
                first += len(batch)


def _numbers(column: pa.Array, width: int) -> Stored:
    """Vectors of one width, without a null, as an array."""
    found: Stored = np.asarray(pc.list_flatten(column)).reshape(-1, width)
    return found


class _Wrong:
    """The rows that are wrong, by what is wrong with them."""

    def __init__(self, path: Path, ids: pa.ChunkedArray):
        self.path, self.ids = path, ids
        self.rows: dict[str, list[Ints]] = {}
        self.sizes: list[Ints] = []
        self.nulls = 0

    def note(self, kind: str, first: int, wrong: NDArray[np.bool_]) -> None:
        """Keep the rows of a piece that are set."""
        self.rows.setdefault(kind, []).append(first + np.flatnonzero(wrong))

    def refuse(self) -> None:
        """Raise `InputError` where any row is wrong, for what comes first."""
        rows = {kind: np.concatenate(parts) for kind, parts in self.rows.items()}
        none = np.zeros(0, np.int64)
        null = rows.get("null", none)
        if len(null):
            raise InputError(
                f"{self.path}: {plural(len(null), 'null')} in column embedding: row {few(null)} (counted from 0); "
                "fill or drop them"
            )
        sizes = np.concatenate(self.sizes)
        width = int(np.bincount(sizes).argmax())
        self._refuse(np.flatnonzero(sizes != width), f"of another width than {width}", "all need one width")
        self._refuse(np.flatnonzero(sizes == 0), "without components", "write them again")
        if self.nulls:
            names = self._names(rows["hollow"])
            raise InputError(f"{self.path}: {plural(self.nulls, 'null')} inside lists, of {names}; fill or drop them")
        for kind, what, why in (
            ("unbound", "with NaN or infinity", "they have no similarity"),
            ("zero", "of zeros only", "they have no direction"),
            ("beyond", f"shorter than {SHORTEST} or longer than {LONGEST}", "scale them"),
        ):
            self._refuse(rows.get(kind, none), what, why)

    def _refuse(self, rows: Ints, what: str, why: str) -> None:
        if len(rows):
            raise InputError(f"{self.path}: {plural(len(rows), 'vector')} {what}: {self._names(rows)}; {why}")

    def _names(self, rows: Ints) -> str:
        return few(map(str, self.ids.take(pa.array(rows[:4])).to_pylist()))
