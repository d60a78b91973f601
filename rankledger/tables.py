"""Tables on disk: one Parquet writer, canonical content and its fingerprint, files and folders whole or absent."""

import contextlib
import difflib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

ROW_GROUP = 1 << 17


class InputError(Exception):
    """Something that the user gave is bad or missing; the message says what, where and what to do (exit code 2)."""


def few(values: Iterable[object], most: int = 3) -> str:
    """The first few values, for an error message.

    >>> few(["b", "a", "d", "c"])
    "'b', 'a', 'd', …"
    """
    shown = [repr(v) if isinstance(v, str) else str(v) for _, v in zip(range(most + 1), values, strict=False)]
    return ", ".join([*shown[:most], *(["…"] if len(shown) > most else [])])


def plural(n: int, what: str) -> str:
    """How many of what: "1 row", "2,000 rows"."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is none of the known: which of them are near it; "" where none is.

    >>> meant("genesis", ["cirr", "genecis"])
    "; did you mean 'genecis'?"
    """
    close = difflib.get_close_matches(name.lower(), list(known))
    return f"; did you mean {few(close)}?" if close else ""


def read_schema(path: Path) -> pa.Schema:
    """The schema of a Parquet file, or of a folder of part files, which must share one.

    Raises `InputError` where there is none, it is cut off, or it is something else.
    """
    parts = part_files(path)
    with parquet_errors(parts[0]):
        schema = pq.read_schema(parts[0]).remove_metadata()
    for part in parts[1:]:
        with parquet_errors(part):
            if (other := pq.read_schema(part).remove_metadata()) != schema:
                differs = [f"{f.name}: {f.type}" for f in other if f not in list(schema)] or other.names
                raise InputError(
                    f"{part}: other columns than {parts[0].name} ({few(differs)}); parts must share one schema"
                )
    return schema


def read_table(path: Path, columns: list[str] | None = None, encoded: Iterable[str] = ()) -> pa.Table:
    """Read a Parquet file, or a folder of part files (in name order); `encoded` string columns as dictionaries.

    Raises `InputError` where there is none, it is cut off, or it is something else.
    """
    tables = []
    for part in part_files(path):
        with parquet_errors(part):
            tables.append(pq.read_table(part, columns=columns, partitioning=None, read_dictionary=list(encoded)))
            tables[-1].validate(full=True)  # strings may hold anything until one looks
    return pa.concat_tables(tables).unify_dictionaries()


def part_files(path: Path) -> list[Path]:
    """The Parquet files that make a table: the file itself, or those of a folder that are not hidden, in name order."""
    if not path.is_dir():
        return [path]
    parts = [p for p in sorted(path.iterdir()) if p.is_file() and p.name[0] not in "._"]
    if not parts:
        raise InputError(f"{path}: an empty folder; it should hold Parquet files")
    return parts


@contextlib.contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Whatever goes wrong in reading a Parquet file, as an `InputError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a whole Parquet file ({reason}); {_instead(path)}") from None


def _instead(path: Path) -> str:
    """What to do about a file that is no Parquet."""
    head = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        head = file.read(1 << 12)
    if not head or head.startswith(b"PAR1"):
        return "write it again"
    line = head.splitlines()[0]
    if b"," in line and line[:1] not in b"[{" and b"\0" not in head:
        columns = "schema_overrides={'query_id': str, 'candidate_id': str}"
        there, new = repr(path.name), repr(f"{path.stem}.parquet")
        return (
            f"it looks like CSV, and polars makes Parquet of that: pl.read_csv({there}, {columns}).write_parquet({new})"
        )
    return "`rankledger convert` makes one of a TREC run, JSON or NumPy"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when the block ends well, and vanishes when it does not.

    >>> with whole_file(Path("a.txt")) as new:  # doctest: +SKIP
    ...     new.write_text("all of it")
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    new = Path(name)
    try:
        yield new
        new.chmod(0o666 & ~_umask())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new empty folder that replaces `path` when the block ends well; otherwise `path` stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield new
        new.chmod(0o777 & ~_umask())
        if path.exists():
            shutil.rmtree(path)
        new.replace(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_table(table: pa.Table, path: Path) -> None:
    """Write `table` as Parquet, with the same bytes for the same table, whole or not at all."""
    with whole_file(path) as new:
        pq.write_table(
            table.replace_schema_metadata(None).combine_chunks(),
            new,
            row_group_size=ROW_GROUP,
            compression="zstd",
            store_schema=False,
        )


def write_text(text: str, path: Path) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    with whole_file(path) as new:
        new.write_text(text, encoding="utf-8", newline="\n")


def to_json(value: Any) -> str:
    """JSON with sorted keys and a line an entry; finite numbers only (`ValueError` otherwise)."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises `InputError` where it is absent or is no JSON."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from None


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_strings(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Ids as one array of `large_string`: strings as they are, integers in decimal, dictionaries decoded.

    Raises `TypeError` on any other type; floats are not ids.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_integer(array.type):
        return array.cast(pa.string()).cast(pa.large_string())
    raise TypeError(f"ids must be strings or integers, not {array.type}")


def sort_rows(table: pa.Table) -> pa.Table:
    """Rows in the order of their scalar columns, from the first to the last; strings bytewise."""
    keys = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    return table.take(pc.sort_indices(table, sort_keys=[(k, "ascending") for k in keys])) if keys else table


def fingerprint(table: pa.Table) -> str:
    """SHA-256 over the canonical content of a table: its schema, then its rows in the order of their scalar columns.

    It does not depend on who wrote the Parquet file, on row groups, encodings, chunks, the order of rows and columns,
    or the width of integers and floats. Rows that are equal in all scalar columns must not differ in list columns.

    >>> one, other = pa.table({"id": ["b", "a"]}), pa.table({"id": pa.array(["a", "b"], pa.large_string())})
    >>> fingerprint(one) == fingerprint(other)
    True
    """
    names = sorted(table.column_names)
    schema = [[name, str(_kind(table[name].type))] for name in names]
    digest = hashlib.sha256(json.dumps([schema, table.num_rows]).encode())
    vectors = {name: found for name in names if (found := _vectors(table[name])) is not None}
    columns = {name: _canonical(table[name]) for name in names if name not in vectors}
    place = np.arange(table.num_rows)
    ordered = sort_rows(pa.table({**columns, "": place})) if columns else pa.table({"": place})
    for name in names:
        if name in vectors:
            _digest_vectors(digest, vectors[name], np.asarray(ordered[""]))
        else:
            _digest(digest, ordered[name].combine_chunks())
    return digest.hexdigest()


def _kind(dtype: pa.DataType) -> pa.DataType:
    """One type for each kind of value: large_string, int64, float64, bool, large_list of those."""
    if pa.types.is_dictionary(dtype):
        return _kind(dtype.value_type)
    if pa.types.is_integer(dtype):
        return pa.int64()
    if pa.types.is_floating(dtype):
        return pa.float64()
    if pa.types.is_boolean(dtype):
        return pa.bool_()
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype):
        return pa.large_list(pa.field("item", _kind(dtype.value_type)))
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return pa.large_string()
    raise TypeError(f"no canonical form for a column of {dtype}")


def _vectors(column: pa.ChunkedArray) -> NDArray[np.floating] | None:
    """Lists of floats of one width as an array, without a null; nothing for another column."""
    target = _kind(column.type)
    if not (pa.types.is_large_list(target) and pa.types.is_floating(target.value_type)) or column.null_count:
        return None
    lengths = pc.min_max(pc.list_value_length(column)).as_py()
    values = pc.list_flatten(column).combine_chunks()
    if values.null_count or not lengths["min"] or lengths["min"] != lengths["max"]:
        return None
    return np.asarray(values).reshape(len(column), -1)


def _digest_vectors(digest: Any, vectors: NDArray[np.floating], rows: NDArray[np.int64]) -> None:
    """As `_digest` does of lists, in these rows' order, without a copy of all in float64."""
    n, d = vectors.shape
    digest.update(np.packbits(np.ones(n, bool), bitorder="little").tobytes())
    digest.update(np.full(n, d, "<i8").tobytes())
    digest.update(np.packbits(np.ones(n * d, bool), bitorder="little").tobytes())
    step = max(1, ROW_GROUP // d)
    for start in range(0, n, step):
        digest.update(vectors[rows[start : start + step]].astype("<f8").tobytes())


def _canonical(column: pa.ChunkedArray) -> pa.Array:
    """The column with its one type (see `_kind`)."""
    target = _kind(column.type)
    chunks = column.cast(target)
    array: pa.Array = chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks
    if pa.types.is_floating(target):  # one zero
        array = pc.add(array, 0.0)
    return array


def _digest(digest: Any, array: pa.Array) -> None:
    """Feed an array in canonical form to a hash: which values are there, their lengths, the values."""
    digest.update(np.packbits(np.asarray(array.is_valid()), bitorder="little").tobytes())
    array = array.drop_null()
    if pa.types.is_large_list(array.type):
        digest.update(np.asarray(pc.list_value_length(array), dtype="<i8").tobytes())
        _digest(digest, pc.list_flatten(array))
    elif pa.types.is_large_string(array.type):
        digest.update(np.asarray(pc.binary_length(array), dtype="<i8").tobytes())
        offsets = np.frombuffer(array.buffers()[1], dtype="<i8")[array.offset : array.offset + len(array) + 1]
        if len(array) and array.buffers()[2] is not None:
            digest.update(memoryview(array.buffers()[2])[offsets[0] : offsets[-1]])
    elif pa.types.is_boolean(array.type):
        digest.update(np.packbits(np.asarray(array), bitorder="little").tobytes())
    else:
        digest.update(
            np.ascontiguousarray(
                np.asarray(array), dtype="<f8" if pa.types.is_floating(array.type) else "<i8"
            ).tobytes()
        )
