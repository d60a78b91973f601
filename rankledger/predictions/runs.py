"""Any run and any qrels, read and checked without a benchmark: TREC text, Parquet of every kind, or a mapping."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.benchmarks.base import Task
from rankledger.predictions import trec
from rankledger.predictions.batches import count_values, read_batches
from rankledger.predictions.reading import Ids, Reader, kind_of, read_ranking, read_whole
from rankledger.predictions.rows import Batches
from rankledger.predictions.vectors import is_large
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.stands import Ints
from rankledger.tables import InputError, as_strings, few, plural, read_schema, read_table

Given = str | PathLike[str] | Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Pairs:
    """A number for each of m pairs of query and candidate, in any order, no pair twice.

    Attributes:
        name: what messages call it: the file.
        queries, candidates: the ids that indices refer to; a query may have no pair.
        query, candidate: int[m].
        value: float[m].
    """

    name: str
    queries: Ids
    candidates: Ids
    query: NDArray[np.integer]
    candidate: NDArray[np.integer]
    value: NDArray[np.floating]

    column: ClassVar[str]
    infinite: ClassVar[bool]  # whether a value may be

    @classmethod
    def of(cls, name: str, table: pa.Table, queries: Ids | None = None, text: bool = False) -> Self:
        """From the columns query_id, candidate_id and `column`, checked.

        Args:
            name: the file.
            table: its rows; no nulls.
            queries: all queries, where some may have no row.
            text: whether rows are lines, which messages then name.
        """
        query = _code(table["query_id"], queries)
        candidate = _code(table["candidate_id"])
        found = cls(
            name, query[0], candidate[0], query[1], candidate[1], np.asarray(table[cls.column].combine_chunks())
        )
        found._check(text)
        return found

    @classmethod
    def of_mapping(cls, name: str, given: Mapping[str, Mapping[str, float]]) -> Self:
        """From {query: {candidate: number}}."""
        rows = [(str(q), str(c), float(x)) for q, values in given.items() for c, x in values.items()]
        schema = pa.schema({"query_id": pa.string(), "candidate_id": pa.string(), cls.column: pa.float64()})
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        return cls.of(name, table, Ids(pa.array(map(str, given), pa.string())))

    def _check(self, text: bool) -> None:
        odd = np.flatnonzero(np.isnan(self.value) if self.infinite else ~np.isfinite(self.value))
        if len(odd):
            what = "NaN" if self.infinite else "NaN or infinite"
            raise InputError(
                f"{self.name}: {plural(len(odd), self.column)} {what}, the first at {self._few(odd)}; give numbers"
            )
        key = self.query.astype(np.int64) * len(self.candidates) + self.candidate
        if np.all(key[1:] > key[:-1]) or not np.any(np.diff(np.sort(key)) == 0):
            return
        order = np.argsort(key, kind="stable")
        again = np.sort(order[1:][np.diff(key[order]) == 0])
        lines = f" (line {few(again + 1)})" if text else ""
        raise InputError(
            f"{self.name}: {plural(len(again), 'pair')} of query and candidate twice: "
            f"{self._few(again)}{lines}; keep each once"
        )

    def _few(self, rows: Ints) -> str:
        queries = self.queries.names(self.query[rows[:4]].astype(np.int64))
        candidates = self.candidates.names(self.candidate[rows[:4]].astype(np.int64))
        return few(f"{q} / {c}" for q, c in zip(queries, candidates, strict=True))


class Qrels(Pairs):
    """What is right: `value` is the relevance, finite, of any sign."""

    column, infinite = "relevance", False


class Run(Pairs):
    """What a system lists for each query: `value` is the score, higher is better, maybe infinite."""

    column, infinite = "score", True


@dataclass(frozen=True, eq=False)
class Listing:
    """A run whose rows are read, and checked, when they are used.

    Attributes:
        name: what messages call it: the file.
        n_rows: about how many rows there are.
        batches: reads query_id, candidate_id and score, or query_id and candidate_ids (the best first), about so many
            rows at a time.
        whole: the run with all its rows in memory; raises `InputError` where they are not as they should be.
        queries: the ids of all queries, where some may have no row.
    """

    name: str
    n_rows: int
    batches: Batches
    whole: Callable[[], Run]
    queries: Ids | None = None

    @classmethod
    def of(cls, run: Run) -> Self:
        """From one that is in memory."""
        query = pa.DictionaryArray.from_arrays(pa.array(run.query), run.queries.values)
        candidate = pa.DictionaryArray.from_arrays(pa.array(run.candidate), run.candidates.values)
        table = pa.table({"query_id": query, "candidate_id": candidate, "score": run.value})
        return cls(run.name, len(table), table.to_batches, lambda: run, run.queries)

    def first(self) -> list[str]:
        """The first candidate, bytewise; none where there is none."""
        columns = (batch.columns[1] for batch in self.batches(1 << 16))
        ids = (pc.list_flatten(column) if pa.types.is_nested(column.type) else column for column in columns)
        each = (str(pc.min(as_strings(some.unique()))) for some in ids if len(some))
        return sorted(each, key=str.encode)[:1]


@dataclass(frozen=True, eq=False)
class EmbeddingRun:
    """Vectors of queries and of candidates: each query is ranked against all candidates.

    Attributes:
        name: the folder.
        reader: of the files of its two sides.
    """

    name: str
    reader: Reader

    def towards(self, qrels: Qrels) -> tuple[Ids, Ids, Embeddings]:
        """The query side's ids, the other's, and their similarities.

        The query side is the one called `query`, else the one that holds queries of the qrels; raises `InputError`
        where neither or both do, or a vector is not as it should be.
        """
        sides = self.reader.universe
        fits = [name for name, ids in sides.items() if (ids.index(qrels.queries.values) >= 0).any()]
        side = "query" if "query" in sides else fits[0] if len(fits) == 1 else None
        if side is None:
            held = "both sides hold" if fits else "no side holds"
            raise InputError(f"{self.name}: {held} queries of the qrels; name the queries' file query.parquet")
        other = next(name for name in sides if name != side)
        right = sides[other].index(qrels.candidates.values)
        return sides[side], sides[other], self.reader.embeddings(side, other, right[right >= 0])


def read_run(given: Given, similarity: str = "cosine") -> Run | EmbeddingRun:
    """Read a run.

    Args:
        given: a file in TREC's text form, gzipped or not; a Parquet file (or a folder of its parts) with scores,
            ranking lists or ranks; a folder with the embeddings of two sides; or {query: {candidate: score}}.
        similarity: of embeddings: cosine or dot.

    Raises:
        InputError: it is not as it should be; the message says where, how many rows, and the first few.

    >>> read_run({"q1": {"a": 0.5, "b": 0.25}}).value
    array([0.5 , 0.25])
    """
    found = open_run(given, similarity)
    return found.whole() if isinstance(found, Listing) else found


def open_run(given: Given, similarity: str = "cosine") -> Listing | EmbeddingRun:
    """The same, but scores and ranking lists are read, and checked, when they are used, and are never all in memory."""
    if similarity not in ("cosine", "dot"):
        raise InputError(f"similarity {similarity!r}: it is cosine or dot")
    if isinstance(given, Mapping):
        return Listing.of(Run.of_mapping("the run", given))
    path = Path(given)
    name = str(path)
    if not _is_parquet(path):
        n_rows = path.stat().st_size // 32  # or so
        return Listing(
            name, n_rows, lambda _: trec.run_batches(path), lambda: Run.of(name, trec.read_run(path), text=True)
        )
    found = sorted(path.iterdir()) if path.is_dir() else []
    files = {file.name.removesuffix(".parquet"): file for file in found if file.name[0] not in "._"}
    if files and all(kind_of(file) == "embeddings" for file in files.values()):
        return _embeddings(path, files, similarity == "cosine")
    kind = kind_of(path)
    if kind == "scores":
        return _scores(path)
    if kind == "ranking":
        return _ranking(path)
    if kind == "embeddings":
        raise InputError(f"{path}: embeddings of one side; a run needs two: give a folder that holds a file for each")
    raise InputError(f"{path}: holds {kind}; a run ranks candidates for each query, by score, rank or similarity")


def read_qrels(given: Given) -> Qrels:
    """Read qrels.

    Args:
        given: a file in TREC's text form, gzipped or not; a Parquet file (or a folder of its parts) with query_id,
            candidate_id and relevance (a number); or {query: {candidate: relevance}}.

    Raises:
        InputError: they are not as they should be; the message says where, how many rows, and the first few.
    """
    if isinstance(given, Mapping):
        return Qrels.of_mapping("the qrels", given)
    path = Path(given)
    if not _is_parquet(path):
        return Qrels.of(str(path), trec.read_qrels(path), text=True)
    schema, columns = read_schema(path), ["query_id", "candidate_id", "relevance"]
    if absent := [name for name in columns if name not in schema.names]:
        raise InputError(f"{path}: no column {', '.join(absent)}; qrels have {', '.join(columns)}")
    dtype = schema.field("relevance").type
    if not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        raise InputError(f"{path}: column relevance is {dtype}; it should hold numbers")
    return Qrels.of(str(path), read_whole(path, columns))


def _is_parquet(path: Path) -> bool:
    """Whether it begins as Parquet files do; a folder holds nothing else."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _code(column: pa.ChunkedArray, ids: Ids | None = None) -> tuple[Ids, NDArray[np.int32]]:
    """The ids of a column, unless they are given, and by row the index of its id."""
    array = column.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    rows, dictionary = np.asarray(array.indices), as_strings(array.dictionary)
    if ids is None:
        used = np.zeros(len(dictionary), bool)
        used[rows] = True
        ids = Ids(dictionary.filter(pa.array(used)))
    return ids, ids.index(dictionary).astype(np.int32)[rows]


def _scores(path: Path) -> Listing:
    """Scores in long form."""
    columns = ["query_id", "candidate_id", "score"]

    def whole() -> Run:
        return Run.of(str(path), read_whole(path, columns))

    n_rows = count_values(path, "score")
    if not n_rows:
        whole()
    return Listing(str(path), n_rows, lambda rows: read_batches(path, columns, rows, ["query_id"]), whole)


def _ranking(path: Path) -> Listing:
    """Ranks are read at once, lists when they are used."""

    def whole() -> Run:
        query, listed, scores = read_ranking(path, queries, Task("run"))
        named = pa.DictionaryArray.from_arrays(query, queries.values)
        return Run.of(str(path), pa.table({"query_id": named, "candidate_id": listed, "score": scores}), queries)

    column = read_table(path, ["query_id"])["query_id"]
    queries = Ids(column)
    if "candidate_ids" not in read_schema(path).names:
        return Listing.of(whole())
    if column.null_count or not 0 < len(column) == len(queries):
        whole()
    n_rows = count_values(path, "candidate_ids")

    def batches(rows: int) -> Iterable[pa.RecordBatch]:
        lists = max(1, rows * len(column) // n_rows)
        return read_batches(path, ["query_id", "candidate_ids"], lists)

    return Listing(str(path), n_rows, batches, whole, queries)


def _embeddings(path: Path, files: Mapping[str, Path], cosine: bool) -> EmbeddingRun:
    if len(files) != 2:
        raise InputError(
            f"{path}: embeddings of {len(files)} sides ({few(files)}); a run has two, the queries and the candidates"
        )
    universe = {side: Ids(read_whole(file, ["id"])["id"]) for side, file in files.items()}
    reader = Reader(files, universe, cosine)
    if not any(is_large(file) for file in files.values()):  # else it is known later which side is the gallery
        one, other = universe
        reader.embeddings(one, other)
    return EmbeddingRun(str(path), reader)
