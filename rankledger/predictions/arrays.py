"""NumPy arrays, and the ids of their rows and columns, brought into embeddings or scores as Parquet."""

import json
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankledger.benchmarks.reading import repeated
from rankledger.ranking.vectors import floats
from rankledger.tables import InputError, few, whole_file

BFLOAT16 = np.dtype("V2")
NUMBERS = 1 << 22  # of the array, in memory and in a row group at once
ID_ARRAYS = ("ids", "query_ids", "candidate_ids")  # what an .npz archive may hold beside its array


def convert_array(path: Path, out: Path, ids: Path | None, candidates: Path | None) -> str:
    """Write an array of floats as Parquet, block by block, in its own precision; says what it holds.

    [n, d] with the ids of its rows → embeddings; [queries, candidates] with those of its columns too → scores.
    NumPy knows bfloat16 only as two bytes of anything, Parquet not at all: vectors of it are written as uint16.

    Raises `InputError` where the array is another one, an id is missing or stands twice, or a number is NaN.
    """
    matrix, inside = _load(path)
    floating = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 8
    if matrix.ndim != 2 or not (floating or matrix.dtype == BFLOAT16) or not matrix.size:
        shape = " × ".join(map(str, matrix.shape))
        wanted = "floats (16, 32 or 64 bits, or bfloat16), ids × components or queries × candidates"
        raise InputError(f"{path}: an array of {matrix.dtype}, {shape}; it should be one of {wanted}")
    rows = read_ids(ids) if ids else inside.get("ids", inside.get("query_ids"))
    columns = read_ids(candidates) if candidates else inside.get("candidate_ids")
    if rows is None:
        raise InputError(f"{path}: it has {len(matrix):,} rows; name their ids: --ids FILE, one a line or a JSON list")
    for what, known, n in (("rows", rows, matrix.shape[0]), ("columns", columns, matrix.shape[1])):
        if known is not None and len(known) != n:
            raise InputError(f"{path}: {n:,} {what}, but {len(known):,} ids for them; give one id each, in their order")
    if columns is None:
        _write(_embeddings(path, matrix, rows), out)
        return f"embeddings of {len(rows):,} ids, {matrix.shape[1]:,} components"
    _write(_scores(path, matrix, rows, columns), out)
    return f"scores of {matrix.size:,} pairs, {len(rows):,} queries × {len(columns):,} candidates"


def read_ids(path: Path) -> pa.Array:
    """The ids in a text file, one a line, or in a JSON list of strings or integers.

    Raises `InputError` where there is none, or one is empty, stands twice, or is something else.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        found = json.loads(text) if text.lstrip()[:1] == "[" else [line.strip() for line in text.rstrip().split("\n")]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no list of ids ({error}); write one a line, or a JSON list") from None
    return _checked(found, f"{path}")


def _load(path: Path) -> tuple[NDArray[Any], dict[str, pa.Array]]:
    """The array, left on disk where it can be, and the ids beside it; no pickled object is ever read."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found, {}
        with found:
            strange = [member for member in found.zip.namelist() if not member.endswith(".npy")]
            if strange:
                raise InputError(
                    f"{path}: a zip archive, but not NumPy's .npz: it holds {few(strange)}; use numpy.save"
                )
            arrays = {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, OverflowError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path}: no whole NumPy array of numbers ({reason}); use numpy.save") from None
    inside = {n: _checked(arrays.pop(n).ravel().tolist(), f"{path}: {n}") for n in ID_ARRAYS if n in arrays}
    if len(arrays) != 1:
        beside = "ids, or query_ids and candidate_ids"
        raise InputError(
            f"{path}: {len(arrays)} arrays ({few(arrays)}); it should hold one, and beside it at most {beside}"
        )
    return arrays.popitem()[1], inside


def _checked(found: Sequence[object], where: str) -> pa.Array:
    wrong = [i for i, one in enumerate(found) if not (type(one) is int or (isinstance(one, str) and one))]
    if wrong:
        what = "ids that are empty, or neither text nor whole numbers"
        raise InputError(f"{where}: {len(wrong)} {what}, at {few(wrong)} (from 0)")
    names = list(map(str, found))
    again = dict.fromkeys(names[i] for i in repeated(names))
    if again:
        raise InputError(
            f"{where}: {len(again)} ids stand there more than once: {few(again)}; each is one row or column"
        )
    return pa.array(names, pa.large_string())


def _embeddings(path: Path, matrix: NDArray[Any], ids: pa.Array) -> Iterator[pa.Table]:
    for start, block in _blocks(matrix):
        block = block.view(np.uint16) if block.dtype == BFLOAT16 else block
        wrong = start + np.flatnonzero(~np.isfinite(floats(block)).all(axis=1))
        if len(wrong):
            names = few(ids.take(pa.array(wrong)).to_pylist())
            raise InputError(f"{path}: vectors that are not finite (NaN or infinity), the first of {names}")
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), block.shape[1])
        yield pa.table({"id": ids[start : start + len(block)], "embedding": vectors})


def _scores(path: Path, matrix: NDArray[Any], rows: pa.Array, columns: pa.Array) -> Iterator[pa.Table]:
    column = np.arange(len(columns), dtype=np.int32)
    for start, block in _blocks(matrix):
        block = floats(block.view(np.uint16)) if block.dtype == BFLOAT16 else block
        mine = rows[start : start + len(block)]
        wrong = np.argwhere(np.isnan(block))
        if len(wrong):
            pairs = few(f"{mine[int(i)]} / {columns[int(j)]}" for i, j in wrong[:4])
            raise InputError(f"{path}: scores that are NaN, the first at {pairs}; ±inf is allowed")
        row = np.repeat(np.arange(len(block), dtype=np.int32), len(columns))
        yield pa.table(
            {
                "query_id": pa.DictionaryArray.from_arrays(pa.array(row), mine),
                "candidate_id": pa.DictionaryArray.from_arrays(pa.array(np.tile(column, len(block))), columns),
                "score": pa.array(block.ravel()),
            }
        )


def _blocks(matrix: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """The array in pieces of whole rows, in this machine's byte order, each with the number of its first row."""
    step = max(1, NUMBERS // matrix.shape[1])
    for start in range(0, len(matrix), step):
        yield start, np.ascontiguousarray(matrix[start : start + step], matrix.dtype.newbyteorder("="))


def _write(tables: Iterator[pa.Table], out: Path) -> None:
    """One Parquet file of all tables, a row group each, in the memory of one; whole or not at all."""
    first = next(tables)
    with whole_file(out) as new, pq.ParquetWriter(new, first.schema, compression="zstd", store_schema=False) as writer:
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=len(table))
