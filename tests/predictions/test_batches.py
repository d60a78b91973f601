"""Parquet read some rows at a time: all of it, in order, whatever the pieces it is written in."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankledger.predictions.batches import count_values, read_batches


@pytest.mark.parametrize("written", [7, 60, 100])
@pytest.mark.parametrize("read", [1, 9, 1000])
@pytest.mark.parametrize("encoded", [True, False])
def test_lists_of_ids_that_recur(tmp_path: Path, encoded: bool, read: int, written: int) -> None:
    """They are read as dictionaries, of which each row group has its own, and a batch may end in another."""
    rng, path = np.random.default_rng(0), tmp_path / "lists.parquet"
    lists = [[f"candidate-{i:03}" for i in rng.permutation(60)[:50]] for _ in range(100)]
    ids = pa.array([i for listed in lists for i in listed])
    column = pa.ListArray.from_arrays(
        np.arange(0, 5001, 50, dtype=np.int32), ids.dictionary_encode() if encoded else ids
    )
    table = pa.table({"query_id": [f"q{i}" for i in range(100)], "candidate_ids": column})
    pq.write_table(table, path, row_group_size=written)
    found = list(read_batches(path, ["query_id", "candidate_ids"], read))
    assert encoded or written == 7 or pa.types.is_dictionary(found[0]["candidate_ids"].type.value_type)
    assert max(map(len, found)) <= read
    assert [listed for batch in found for listed in batch["candidate_ids"].to_pylist()] == lists
    assert [name for batch in found for name in batch["query_id"].to_pylist()] == table["query_id"].to_pylist()
    assert count_values(path, "candidate_ids") == 5000
