"""Parquet files read some rows at a time, so that their size does not matter."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rankledger.tables import parquet_errors, part_files

PLAIN = 4  # bytes that a string takes at least, stored as it is: its length


def read_batches(path: Path, columns: list[str], rows: int, encoded: Iterable[str] = ()) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file, or a folder of part files (in name order), at most so many rows at a time.

    `encoded` string columns come as dictionaries, others where they are mostly stored so. Raises `InputError` where
    there is none, it is cut off, or it is something else; but it does not look into strings.
    """
    for part in part_files(path):
        with parquet_errors(part):
            # in one thread, and nothing read ahead: callers have threads of their own, and memory is what this saves
            options = {"read_dictionary": [*encoded, *_encoded(pq.read_metadata(part))], "pre_buffer": False}
            with pq.ParquetFile(part, buffer_size=1 << 16, **options) as file:
                # Arrow can't read lists of ids with two dictionaries at once, and each row group has its own
                apart = any(_is_list_of_encoded(file.schema_arrow.field(name).type) for name in columns)
                for groups in [[group] for group in range(file.num_row_groups)] if apart else [None]:
                    yield from file.iter_batches(rows, groups, columns, use_threads=False)


def _is_list_of_encoded(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_nested(dtype) and pa.types.is_dictionary(dtype.value_type))


def count_values(path: Path, column: str) -> int:
    """How many values a column has, those inside its lists, in a Parquet file or a folder of part files."""
    total = 0
    for part in part_files(path):
        with parquet_errors(part):
            total += sum(chunk.num_values for chunk in _chunks(pq.read_metadata(part)) if _top(chunk) == column)
    return total


def _encoded(metadata: pq.FileMetaData) -> Iterator[str]:
    """Columns of strings of which most are stored as places in a dictionary: these take few bytes."""
    size, values = Counter[str](), Counter[str]()
    for chunk in _chunks(metadata):
        if chunk.physical_type == "BYTE_ARRAY":
            size[chunk.path_in_schema] += chunk.total_uncompressed_size
            values[chunk.path_in_schema] += chunk.num_values
    return (path for path in size if size[path] < PLAIN * values[path])


def _chunks(metadata: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        yield from map(group.column, range(group.num_columns))


def _top(chunk: pq.ColumnChunkMetaData) -> str:
    """The column's name, without what is inside its lists."""
    return str(chunk.path_in_schema.split(".")[0])
