"""Galleries that stay on disk: the same results as from memory, whatever the parts; and what is refused."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankledger.predictions.vectors
import rankledger.ranking.vectors
from rankledger import evaluate, read_run
from rankledger.predictions.reading import Ids
from rankledger.predictions.vectors import Stream, read_vectors
from rankledger.ranking.vectors import Vectors
from rankledger.tables import InputError

Array = np.ndarray
N, M, D = 12, 90, 6


def bfloat16(vectors: Array) -> Array:
    """The upper half of each float32, as training code stores it."""
    return (vectors.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


STORED: dict[str, Callable[[Array], Array]] = {
    "float16": lambda v: v.astype(np.float16),
    "bfloat16": bfloat16,
    "float32": lambda v: v.astype(np.float32),
    "float64": lambda v: v,
}


def column(stored: Array) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(stored.ravel()), stored.shape[1])


def write(folder: Path, queries: Array, candidates: Array, parts: list[int]) -> dict[str, dict[str, int]]:
    """A run of two sides, the candidates in part files and in a mixed order; returns qrels."""
    (folder / "image").mkdir(parents=True)
    pq.write_table(
        pa.table({"id": [f"q{i}" for i in range(len(queries))], "embedding": column(queries)}),
        folder / "query.parquet",
    )
    order = np.random.default_rng(4).permutation(len(candidates))
    for i, rows in enumerate(np.split(order, parts)):
        table = pa.table({"id": [f"c{c:03}" for c in rows], "embedding": column(candidates[rows])})
        pq.write_table(table, folder / "image" / f"{i}.parquet", row_group_size=7)
    return {f"q{i}": {f"c{i:03}": 1, f"c{(7 * i) % len(candidates):03}": 2, "c999": 1} for i in range(len(queries))}


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every gallery is too large, and blocks are small."""
    monkeypatch.setattr(rankledger.predictions.vectors, "HELD_BYTES", 0)
    monkeypatch.setattr(rankledger.ranking.vectors, "BLOCK_VECTORS", 10)


def crowd(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=D) * (1 + 1e-7 * rng.integers(-3, 4, size=(n, D)))


MAKERS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "spread": lambda rng, n: rng.normal(size=(n, D)),
    "crowded": crowd,
    "copies": lambda rng, n: rng.normal(size=(4, D))[rng.integers(0, 4, n)],
    "collapsed": lambda rng, n: np.ones((n, D)),
    "uneven": lambda rng, n: rng.normal(size=(n, D)) * 10.0 ** rng.integers(-3, 4, (n, 1)),
}


@pytest.mark.parametrize("parts", [[], [1, 60]], ids=str)
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("maker", MAKERS)
def test_a_gallery_on_disk_gives_what_one_in_memory_gives(
    request: pytest.FixtureRequest, tmp_path: Path, maker: str, stored: str, similarity: str, parts: list[int]
) -> None:
    rng = np.random.default_rng(3)
    queries, candidates = (STORED[stored](MAKERS[maker](rng, n)) for n in (N, M))
    qrels = write(tmp_path / "run", queries, candidates, parts)
    metrics = "R@1,R@10,MRR,AP,num_ret"
    in_memory = [evaluate(read_run(tmp_path / "run", similarity), qrels, metrics, ties=t) for t in ("expected", "trec")]
    request.getfixturevalue("on_disk")
    run = read_run(tmp_path / "run", similarity)
    streamed = [evaluate(run, qrels, metrics, ties=t) for t in ("expected", "trec")]
    assert [e.per_query for e in streamed] == [e.per_query for e in in_memory]


@pytest.mark.usefixtures("on_disk")
def test_only_the_right_candidates_are_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    write(tmp_path / "run", rng.normal(size=(N, D)), rng.normal(size=(M, D)), [50])
    ids = pa.chunked_array([pa.array([f"c{i}" for i in range(M)])])
    stream = Stream(tmp_path / "run" / "image", ids, True, np.array([5, 3, 5]))
    assert (len(stream.held), stream.kept.tolist()) == (2, [3, 5])
    assert max(len(block) for _, block in stream.blocks(np.arange(M))) <= 10
    assert sorted(np.concatenate([at for at, _ in stream.blocks(np.arange(0, M, 2))])) == list(range(M // 2))


@pytest.mark.usefixtures("on_disk")
def test_a_gallery_on_disk_without_a_right_candidate(tmp_path: Path) -> None:
    write(tmp_path / "run", np.ones((2, D)), np.ones((M, D)), [50])
    found = evaluate(read_run(tmp_path / "run"), {"q0": {"c999": 1}, "q1": {}}, "MRR,num_ret")
    assert found.metrics == {"MRR": 0, "num_ret": 2 * M}
    assert "no judged candidate is in the run" in found.notes[0]


def test_equal_vectors_on_disk_are_twins_of_the_right_ones(tmp_path: Path) -> None:
    vectors = np.float32([[1, 0], [0, 1], [1, 0], [3, 4], [-1, 0], [1, 0]])
    pq.write_table(pa.table({"embedding": column(vectors)}), tmp_path / "image.parquet")
    ids = pa.chunked_array([pa.array(list("abcdef"))])
    stream = Stream(tmp_path / "image.parquet", ids, True, np.array([2, 3]))
    ((at, block),) = stream.blocks(np.arange(6))
    held = stream.held.twin
    assert at.tolist() == list(range(6))
    assert block.twin.tolist() == [held[0], -1, held[0], held[1], -1, held[0]]


@pytest.mark.parametrize("dtype", STORED)
def test_vectors_are_kept_as_they_are_stored(tmp_path: Path, dtype: str) -> None:
    """A quarter or half of what a float32 copy and a float64 copy would take."""
    wanted = np.float32([[1, -2.5], [0.15625, 3], [1024, -0.0078125]])  # bfloat16 and float16 hold them
    stored = STORED[dtype](wanted)
    pq.write_table(pa.table({"embedding": column(stored)}), tmp_path / "image.parquet")
    found = read_vectors(tmp_path / "image.parquet", pa.chunked_array([pa.array(["a", "b", "c"])]), False)
    assert found.stored.dtype == stored.dtype
    np.testing.assert_array_equal(found.rows(), wanted)
    np.testing.assert_array_equal(Vectors(wanted, False).lengths, found.lengths)


WRONG = [
    ([[1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0]], r"2 vectors with NaN or infinity: 'b', 'c'; they have no sim"),
    ([[1.0, 2.0], [0.0, -0.0], [1.0, 1.0]], r"1 vector of zeros only: 'b'; they have no direction"),
    ([[1.0, 2.0], [1e-160, 0.0], [1e200, 1.0]], r"2 vectors shorter than 1e-150 or longer than 1e\+150: 'b', 'c'"),
    ([[1.0], [1.0, 2.0], [1.0, 2.0]], r"1 vector of another width than 2: 'a'; all need one width"),
    ([[], [], [1.0]], r"1 vector of another width than 0: 'c'"),
    ([[1.0, 2.0], None, [1.0, 2.0]], r"1 null in column embedding: row 1 \(counted from 0\)"),
    ([None, [1.0, 2.0], None], r"2 nulls in column embedding: row 0, 2 \(counted from 0\)"),
    ([[1.0, None], [None, None], [1.0, 2.0]], r"3 nulls inside lists, of 'a', 'b'; fill or drop them"),
]


@pytest.mark.parametrize("block", [1, 2, 100])
@pytest.mark.parametrize(("rows", "message"), WRONG)
def test_what_is_wrong_is_counted_over_all_blocks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: list[list[float] | None], message: str, block: int
) -> None:
    monkeypatch.setattr(rankledger.ranking.vectors, "BLOCK_VECTORS", block)
    pq.write_table(pa.table({"embedding": pa.array(rows, pa.list_(pa.float64()))}), tmp_path / "image.parquet")
    ids = pa.chunked_array([Ids(pa.array(["a", "b", "c"])).values])
    with pytest.raises(InputError, match=rf"image\.parquet: {message}"):
        read_vectors(tmp_path / "image.parquet", ids, True)
    with pytest.raises(InputError, match=message):
        Stream(tmp_path / "image.parquet", ids, True, np.array([1]))


@pytest.mark.parametrize("rows", [[[1.0, 2.0]], [[1.0, 2.0]] * 4, [[1.0]] * 3, [[1.0, 2.0], None, [1.0, 2.0]]])
def test_a_gallery_that_changes_between_two_passes_is_refused(tmp_path: Path, rows: list[list[float] | None]) -> None:
    path, ids = tmp_path / "image.parquet", pa.chunked_array([Ids(pa.array(["a", "b", "c"])).values])
    pq.write_table(pa.table({"embedding": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float64()))}), path)
    stream = Stream(path, ids, True, np.array([1]))
    assert len(list(stream.blocks(np.arange(3)))) == 1
    pq.write_table(pa.table({"embedding": pa.array(rows, pa.list_(pa.float64()))}), path)
    with pytest.raises(InputError, match="changed while it was read"):
        list(stream.blocks(np.arange(3)))
