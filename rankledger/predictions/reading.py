"""Predictions as users write them, read and checked: scores, rankings, embeddings and labels.

Every check here ends in an `InputError` that names the file, how many rows are wrong and the first few.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.benchmarks.base import Plan, Task
from rankledger.predictions.vectors import Stream, is_large, read_vectors
from rankledger.ranking.counting import Ragged
from rankledger.ranking.sources import Embeddings, Table
from rankledger.ranking.stands import Ints
from rankledger.ranking.threads import in_parallel
from rankledger.ranking.vectors import Gallery, Vectors
from rankledger.tables import InputError, as_strings, few, meant, plural, read_schema, read_table

KINDS = {
    "scores": "query_id, candidate_id, score",
    "ranking": "query_id, candidate_ids (a list, best first) or query_id, candidate_id, rank",
    "embeddings": "id, embedding",
    "labels": "query_id, label",
}


class Ids:
    """Ids in bytewise order: an id's index is its place in it, so that a greater index is a greater id."""

    def __init__(self, ids: pa.Array):
        ids = as_strings(ids)
        if ids.null_count or not pc.all(pc.less(ids[:-1], ids[1:])).as_py():
            ids = pc.unique(ids)
            ids = ids.take(pc.sort_indices(ids))
        self.values: pa.Array = ids

    def __len__(self) -> int:
        return len(self.values)

    def index(self, ids: pa.Array | pa.ChunkedArray) -> Ints:
        """int64, the place of each id, −1 where it is none of these."""
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        if pa.types.is_dictionary(ids.type):
            return self.index(ids.dictionary)[np.asarray(ids.indices, np.int64)]
        ids = as_strings(ids)
        if ids.equals(self.values):
            return np.arange(len(ids))
        if 8 * len(ids) < len(self):  # the many are looked for among the few, for which it takes a small hash table
            wanted = Ids(ids)
            found = wanted.index(self.values)
            place, there = np.full(len(wanted), -1), np.flatnonzero(found >= 0)
            place[found[there]] = there
            return place[wanted.index(ids)]
        found = pc.index_in(ids, value_set=self.values)
        return np.asarray(pc.fill_null(found, -1), np.int64)

    def names(self, index: Ints) -> list[str]:
        """The ids at these places."""
        return list(self.values.take(pa.array(index)).to_pylist())


@dataclass(frozen=True)
class Given:
    """A task's predictions from one file (or from two, a side each).

    Attributes:
        path: the file to name in messages.
        kind: scores, ranking, embeddings or labels.
        candidates: the candidates that indices refer to: those of the universe, and where a task allows it noise.
        source: the scores; none for labels.
        labels: for a label task, int64 by query: the class, −1 where the query has no answer.
        answered: bool by query: whether there is a prediction.
        noise: how many listed candidates no raw file knows.
        names: the files, as keys of the run's predictions.
    """

    path: Path
    kind: str
    candidates: Ids
    source: Table | Embeddings | None
    labels: Ints | None
    answered: NDArray[np.bool_]
    noise: int = 0
    names: tuple[str, ...] = ()

    def holds(self, task: Task) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
        """By file: its name, a side, and which ids of that side it holds; noise is of no side."""
        yield self.names[0], task.query_side, self.answered
        if isinstance(self.source, Embeddings):
            yield self.names[1], task.candidate_side, self.source.candidate_row >= 0
        elif self.source and not task.noise:
            listed = np.zeros(len(self.candidates), bool)
            listed[self.source.candidates.values] = True
            yield self.names[0], task.candidate_side, listed

    def demand_vectors(self, task: Task, wanted: Ints) -> None:
        """Raise `InputError` where embeddings lack one of the candidates `wanted`."""
        if isinstance(self.source, Embeddings):
            wanted = np.unique(wanted)
            lost = wanted[self.source.candidate_row[wanted] < 0]
            if len(lost):
                raise InputError(
                    f"{self.path}: {len(lost)} of {len(wanted)} candidates of {task.name} have no vector: "
                    f"{few(self.candidates.names(lost[:4]))}; each needs one"
                )


def locate(folder: Path) -> dict[str, Path]:
    """The prediction files of a folder by name: `<name>.parquet`, or `<name>/` with part files.

    Raises `InputError` where there is none, or something else lies there.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name[0] == ".":
            continue
        name = path.name if path.is_dir() else path.name.removesuffix(".parquet")
        if not path.is_dir() and path.suffix != ".parquet":
            raise InputError(f"{path}: not a prediction file; they are called <task>.parquet or <side>.parquet")
        if name in found:
            raise InputError(f"{path}: there is a file and a folder for {name!r}; keep one of them")
        found[name] = path
    if not found:
        raise InputError(f"{folder}: no predictions; put <task>.parquet or <side>.parquet there with `rankledger add`")
    return found


def check_names(files: Mapping[str, Path], plan: Plan) -> None:
    """Refuse a file that belongs to no task and no side, or holds what the other of the two should hold.

    Raises `InputError`.
    """
    tasks, sides = plan.file_names, plan.sides
    advice = f"name the file after a task ({', '.join(tasks)}) or, for embeddings, after a side ({', '.join(sides)})"
    for name, path in files.items():
        if name not in (*tasks, *sides):
            raise InputError(
                f"{path}: {name!r} is no task or side of this benchmark{meant(name, (*tasks, *sides))}; {advice}"
            )
        kind = kind_of(path)
        if name not in (sides if kind == "embeddings" else tasks):
            raise InputError(f"{path}: holds {kind}; {advice}")


def kind_of(path: Path) -> str:
    """Which kind of predictions a Parquet file holds, by its columns; raises `InputError` where by none."""
    schema = read_schema(path)
    names = set(schema.names)
    if len(names) < len(schema):
        again = [name for name in schema.names if schema.names.count(name) > 1]
        raise InputError(f"{path}: more than one column has the name {few(dict.fromkeys(again))}; keep one of them")
    if {"query_id", "candidate_id", "score"} <= names:
        kind = "scores"
    elif {"query_id", "candidate_ids"} <= names or {"query_id", "candidate_id", "rank"} <= names:
        kind = "ranking"
    elif {"id", "embedding"} <= names:
        kind = "embeddings"
    elif {"query_id", "label"} <= names:
        kind = "labels"
    else:
        listed = "; ".join(f"{k}: {v}" for k, v in KINDS.items())
        raise InputError(f"{path}: columns {', '.join(schema.names)} are no kind of predictions; there are {listed}")
    for name in ("query_id", "candidate_id", "id"):
        if name in names:
            _demand(path, schema, name, _is_id(schema.field(name).type), "strings or integers")
    if kind == "scores":
        _demand(path, schema, "score", pa.types.is_floating(schema.field("score").type), "float16, float32 or float64")
    if kind == "labels":
        _demand(path, schema, "label", _is_id(schema.field("label").type), "strings")
    if kind == "ranking" and "candidate_ids" in names:
        dtype = schema.field("candidate_ids").type
        _demand(
            path, schema, "candidate_ids", _is_list(dtype) and _is_id(dtype.value_type), "lists of strings or integers"
        )
    elif kind == "ranking":
        _demand(path, schema, "rank", pa.types.is_integer(schema.field("rank").type), "integers, 1 = best")
    if kind == "embeddings":
        dtype = schema.field("embedding").type
        fits = _is_list(dtype) and (pa.types.is_floating(dtype.value_type) or pa.types.is_uint16(dtype.value_type))
        _demand(path, schema, "embedding", fits, "lists of floats (or of uint16, the bits of bfloat16)")
    return kind


def _demand(path: Path, schema: pa.Schema, column: str, fits: bool, wanted: str) -> None:
    if not fits:
        raise InputError(f"{path}: column {column} is {schema.field(column).type}; it should hold {wanted}")


def _is_id(dtype: pa.DataType) -> bool:
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return bool(
        pa.types.is_string(dtype)
        or pa.types.is_large_string(dtype)
        or pa.types.is_string_view(dtype)
        or pa.types.is_integer(dtype)
    )


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype))


@dataclass
class Reader:
    """Reads the predictions of a run, task by task; the vectors of a side only once.

    Attributes:
        files: name (a task, a side) → path.
        universe: side → its ids.
        cosine: whether the similarity of embeddings is the cosine; else it is the dot product.
    """

    files: Mapping[str, Path]
    universe: Mapping[str, Ids]
    cosine: bool = True
    _sides: dict[str, tuple[Vectors, Ints]] = field(default_factory=dict)

    def read(self, task: Task, name: str, wanted: Ints, ties: str) -> Given | None:
        """The predictions for a task from the file `name`, or from the files of its sides; none where there are none.

        Args:
            task: the task.
            name: the file, by task or by what the plan calls it.
            wanted: the queries that have trials, as indices of the query side.
            ties: the tie rule; under "trec" an unlisted candidate is not retrieved, else it ranks last.
        """
        path = self.files.get(name)
        kind = kind_of(path) if path else None
        if path is None or kind == "embeddings":
            return None if task.labels else self._embeddings(task, wanted)
        if (kind == "labels") != bool(task.labels):
            fits = [k for k in KINDS if (k == "labels") == bool(task.labels)]
            takes = "; or ".join(f"{k}: {KINDS[k]}" for k in fits)
            raise InputError(f"{path}: holds {kind}, but task {task.name} takes {takes}")
        queries = self.universe[task.query_side]
        if kind == "labels":
            return self._labels(task, path, name, queries, wanted)
        return self._table(task, path, name, str(kind), queries, wanted, ties)

    def _labels(self, task: Task, path: Path, name: str, queries: Ids, wanted: Ints) -> Given:
        table = read_whole(path, ["query_id", "label"])
        owner = _known(path, table["query_id"], queries, task.query_side)
        _once(path, owner, queries, "query")
        classes = {label: i for i, label in enumerate(task.labels)}
        texts = as_strings(table["label"]).to_pylist()
        strange = [t for t in texts if t not in classes]
        if strange:
            raise InputError(
                f"{path}: {plural(len(strange), 'row')} with an unknown label: {few(dict.fromkeys(strange))}; "
                f"the labels of {task.name} are {', '.join(task.labels)}"
            )
        found = np.full(len(queries), -1)
        found[owner] = [classes[t] for t in texts]
        answered = found >= 0
        self._complete(task, path, queries, wanted, answered)
        return Given(path, "labels", self.universe[task.candidate_side], None, found, answered, names=(name,))

    def _table(self, task: Task, path: Path, name: str, kind: str, queries: Ids, wanted: Ints, ties: str) -> Given:
        if kind == "scores":
            table = read_whole(path, ["query_id", "candidate_id", "score"])
            listed, scores = table["candidate_id"].combine_chunks(), np.asarray(table["score"].combine_chunks())
            owner = _known(path, table["query_id"], queries, task.query_side)
            wrong = np.flatnonzero(np.isnan(scores))
            if len(wrong):
                raise InputError(
                    f"{path}: {plural(len(wrong), 'score')} NaN, {_pairs(table, wrong)}; −inf ranks a candidate last"
                )
        else:
            owner, listed, scores = read_ranking(path, queries, task)
        candidates = self.universe[task.candidate_side]
        noise = 0
        if task.noise:
            noise = int(np.count_nonzero(candidates.index(listed) < 0))
            candidates = Ids(pa.chunked_array([candidates.values, as_strings(listed)]))
        at = _known(path, listed, candidates, task.candidate_side)
        key = owner * len(candidates) + at
        order = np.arange(len(key)) if np.all(np.diff(key) > 0) else np.argsort(key, kind="stable")
        again = order[1:][np.diff(key[order]) == 0]
        if len(again):
            pairs = zip(queries.names(owner[again[:4]]), candidates.names(at[again[:4]]), strict=True)
            raise InputError(
                f"{path}: {plural(len(again), 'pair')} of query and candidate twice: "
                f"{few(f'{q} / {c}' for q, c in pairs)}; keep each once"
            )
        lists = Ragged(np.searchsorted(owner[order], np.arange(len(queries) + 1)), at[order])
        answered = np.diff(lists.starts) > 0
        if task.missing != "zero":
            self._complete(task, path, queries, wanted, answered)
        unlisted = -np.inf if kind == "ranking" and ties != "trec" else np.nan
        source = Table(lists, scores[order], len(candidates), unlisted)
        return Given(path, kind, candidates, source, None, answered, noise, (name,))

    def _embeddings(self, task: Task, wanted: Ints) -> Given | None:
        paths = [self.files.get(side) for side in (task.query_side, task.candidate_side)]
        if paths[0] is None:
            return None
        queries, candidates = self.universe[task.query_side], self.universe[task.candidate_side]
        given = [side for side, path in zip((task.query_side, task.candidate_side), paths, strict=True) if path]
        (_, query_row), *_ = in_parallel(self.side, given)
        answered = query_row >= 0
        if not answered[wanted].any():
            return None
        self._complete(task, paths[0], queries, wanted, answered)
        if paths[1] is None:
            raise InputError(
                f"{paths[0]}: embeddings of {task.query_side}, but none of {task.candidate_side}; "
                f"add {task.candidate_side}.parquet"
            )
        source = self.embeddings(task.query_side, task.candidate_side)
        names = (task.query_side, task.candidate_side)
        return Given(paths[1], "embeddings", candidates, source, None, answered, names=names)

    def embeddings(self, query_side: str, candidate_side: str, right: Ints | None = None) -> Embeddings:
        """The similarities of two sides; raises `InputError` where their vectors have two widths.

        Args:
            query_side, candidate_side: the sides.
            right: candidates whose vectors must be at hand, as indices; where they are given, others that are many
                stay on disk.
        """
        left, query_row = self.side(query_side)
        gallery: Gallery
        if right is None:
            gallery, candidate_row = self.side(candidate_side)
        else:
            gallery, candidate_row = self._gallery(candidate_side, right)
        if left.components != gallery.components:
            raise InputError(
                f"{self.files[candidate_side]}: vectors of {gallery.components} components, but those of "
                f"{self.files[query_side].name} have {left.components}; both sides need one width"
            )
        return Embeddings(left, gallery, query_row, candidate_row)

    def side(self, side: str) -> tuple[Vectors, Ints]:
        """The vectors of a side, and for each of its ids the row among them, −1 where it has none."""
        if side not in self._sides:
            ids, row = self._rows(side)
            self._sides[side] = read_vectors(self.files[side], ids, self.cosine), row
        return self._sides[side]

    def _gallery(self, side: str, right: Ints) -> tuple[Gallery, Ints]:
        """As `side`, but of vectors that are many only the right ones are in memory."""
        if not is_large(self.files[side]):
            return self.side(side)
        ids, row = self._rows(side)
        kept = row[right]
        return Stream(self.files[side], ids, self.cosine, kept[kept >= 0]), row

    def _rows(self, side: str) -> tuple[pa.ChunkedArray, Ints]:
        """The ids in the file of a side, and for each of the universe's its row there, −1 where there is none."""
        path, known = self.files[side], self.universe[side]
        if kind_of(path) != "embeddings":
            raise InputError(
                f"{path}: holds {kind_of(path)}; as a side of embeddings it should hold {KINDS['embeddings']}"
            )
        ids = read_whole(path, ["id"])["id"]
        owner = _known(path, ids, known, side)
        _once(path, owner, known, side)
        row = np.full(len(known), -1)
        row[owner] = np.arange(len(owner))
        return ids, row

    @staticmethod
    def _complete(task: Task, path: Path, queries: Ids, wanted: Ints, answered: NDArray[np.bool_]) -> None:
        missing = np.unique(wanted[~answered[wanted]])
        if len(missing):
            raise InputError(
                f"{path}: {len(missing)} of {len(np.unique(wanted))} queries of {task.name} are missing: "
                f"{few(queries.names(missing[:4]))}; each needs a prediction"
            )


def read_whole(path: Path, columns: list[str]) -> pa.Table:
    """These columns, ids as dictionaries; no null anywhere."""
    schema = read_schema(path)
    strings = [c for c in columns if c.endswith("_id") and not pa.types.is_integer(schema.field(c).type)]
    table = read_table(path, columns, encoded=strings)
    for name in columns:
        if table[name].null_count:
            rows = np.flatnonzero(np.asarray(table[name].is_null()))
            raise InputError(
                f"{path}: {plural(len(rows), 'null')} in column {name}: row {few(rows)} (counted from 0); "
                "fill or drop them"
            )
    if not table.num_rows:
        raise InputError(f"{path}: no rows; write the predictions into it")
    return table


def read_ranking(path: Path, queries: Ids, task: Task) -> tuple[Ints, pa.Array, NDArray[np.floating]]:
    """Rows of (query, candidate, −place) from either form of a ranking."""
    if "candidate_ids" in read_schema(path).names:
        table = read_whole(path, ["query_id", "candidate_ids"])
        owner = _known(path, table["query_id"], queries, task.query_side)
        _once(path, owner, queries, "query")
        lists = table["candidate_ids"].combine_chunks()
        lengths = np.asarray(pc.list_value_length(lists), np.int64)
        listed = pc.list_flatten(lists)
        _no_null_inside(path, table["query_id"], lists)
        ends = np.cumsum(lengths)
        place = np.arange(len(listed)) - np.repeat(ends - lengths, lengths)
        return np.repeat(owner, lengths), listed, -(place + 1.0)
    table = read_whole(path, ["query_id", "candidate_id", "rank"])
    owner = _known(path, table["query_id"], queries, task.query_side)
    rank = np.asarray(table["rank"].combine_chunks(), np.int64)
    low = np.flatnonzero(rank < 1)
    if len(low):
        raise InputError(f"{path}: {plural(len(low), 'rank')} below 1, {_pairs(table, low)}; 1 is the best")
    order = np.lexsort((rank, owner))
    same = order[1:][(np.diff(owner[order]) == 0) & (np.diff(rank[order]) == 0)]
    if len(same):
        raise InputError(
            f"{path}: {plural(len(same), 'rank')} twice in a query, {_pairs(table, same)}; for ties, give scores"
        )
    return owner, table["candidate_id"].combine_chunks(), -rank.astype(np.float64)


def _known(path: Path, ids: pa.Array | pa.ChunkedArray, known: Ids, side: str) -> Ints:
    """Their indices; raises `InputError` where an id is none of the known."""
    found = known.index(ids)
    foreign = np.flatnonzero(found < 0)
    if len(foreign):
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        names = pc.unique(as_strings(ids.take(pa.array(foreign))))
        times = f", {len(foreign):,} times" if len(foreign) > len(names) else ""
        raise InputError(
            f"{path}: {plural(len(names), 'id')} of no {side} of this benchmark{times}: {few(names[:4].to_pylist())}; "
            f"they look like {few(known.names(np.arange(min(2, len(known)))))}"
        )
    return found


def _once(path: Path, owner: Ints, ids: Ids, what: str) -> None:
    again = np.flatnonzero(np.bincount(owner) > 1)
    if len(again):
        names = few(ids.names(again[:4]))
        raise InputError(f"{path}: {plural(len(again), f'{what} id')} in more than one row: {names}; keep one row each")


def _no_null_inside(path: Path, ids: pa.ChunkedArray, lists: pa.Array) -> None:
    values = pc.list_flatten(lists)
    if values.null_count:
        rows = pc.unique(pc.list_parent_indices(lists).filter(values.is_null())).slice(0, 4)
        first = few(map(str, ids.take(rows).to_pylist()))
        raise InputError(f"{path}: {plural(values.null_count, 'null')} inside lists, of {first}; fill or drop them")


def _pairs(table: pa.Table, rows: Ints) -> str:
    first = table.select(["query_id", "candidate_id"]).take(pa.array(rows[:4])).to_pylist()
    return "the first at " + few(f"{r['query_id']} / {r['candidate_id']}" for r in first)


def canonical(part: Path) -> pa.Table:
    """A prediction file as the project stores it: the contract's columns only, ids as strings."""
    columns = {
        "scores": ["query_id", "candidate_id", "score"],
        "embeddings": ["id", "embedding"],
        "labels": ["query_id", "label"],
    }
    names = columns.get(kind_of(part)) or [
        c for c in ("query_id", "candidate_ids", "candidate_id", "rank") if c in read_schema(part).names
    ]
    table = read_table(part, names)
    for i, name in enumerate(names):
        if name in ("query_id", "candidate_id", "id", "label"):
            table = table.set_column(i, name, as_strings(table[name]).cast(pa.string()))
        elif name == "candidate_ids":
            lists = table[name].combine_chunks()
            lists = lists.cast(pa.large_list(lists.type.value_type))
            values = as_strings(lists.values).cast(pa.string())
            table = table.set_column(
                i, name, pa.LargeListArray.from_arrays(lists.offsets, values).cast(pa.list_(pa.string()))
            )
    return table
