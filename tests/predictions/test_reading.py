"""Every way to write down the same predictions gives the same values; what a file holds is told by its columns."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.benchmarks import benchmark
from rankledger.predictions.reading import Ids, canonical, kind_of, locate
from rankledger.scoring import Scored, score
from rankledger.tables import InputError, fingerprint, read_table
from tests.projects import Small

Score = Callable[..., Scored]
TASK = "focus_object"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Small:
    sample = {"source": "sample"}
    return Small.make(
        tmp_path_factory.mktemp("reading") / "project", {"genecis": {**sample, "tasks": [TASK]}, "cirr": sample}
    )


@pytest.fixture
def scored(project: Small, tmp_path: Path) -> Score:
    """Scores tables, given by file name without suffix; a mapping is a folder of parts."""

    def run(name: str, files: Mapping[str, pa.Table | Mapping[str, pa.Table]], similarity: str = "cosine") -> Scored:
        paths = {}
        for file, content in files.items():
            paths[file] = tmp_path / (file if isinstance(content, Mapping) else f"{file}.parquet")
            if isinstance(content, Mapping):
                paths[file].mkdir(exist_ok=True)
                for part, table in content.items():
                    pq.write_table(table, paths[file] / part)
            else:
                pq.write_table(content, paths[file])
        parameters = benchmark(name).parameters(project.benchmark_params(name))
        return score(project.built(name), benchmark(name).plan(parameters), paths, similarity)

    return run


@pytest.fixture(scope="module")
def scores(project: Small) -> pa.Table:
    """Scores of focus_object with a few ties, halves and quarters only: exact in every width."""
    pools = project.built("genecis").pools
    values = np.random.default_rng(3).integers(-40, 40, len(pools)) / 4
    return pa.table({"query_id": pools["pool_id"], "candidate_id": pools["candidate_id"], "score": values})


@pytest.fixture(scope="module")
def lists(project: Small) -> pa.Table:
    """The first 60 of cirr's val gallery, in an order of its own for each query."""
    subset, rng = project.built("cirr"), np.random.default_rng(4)
    queries = subset.queries.filter(pc.equal(subset.queries["task"], "val"))["query_id"].to_pylist()
    gallery = subset.pools.filter(pc.equal(subset.pools["pool_id"], "val/gallery"))["candidate_id"].to_pylist()
    return pa.table({"query_id": queries, "candidate_ids": [rng.permutation(gallery)[:60].tolist() for _ in queries]})


@pytest.fixture(scope="module")
def vectors(project: Small) -> Mapping[str, pa.Table]:
    """Vectors of every id that cirr's files know, of small whole numbers."""
    universe, rng = project.built("cirr").universe, np.random.default_rng(5)
    tables = {}
    for side in ("query", "image"):
        ids = universe.filter(pc.equal(universe["side"], side))["id"]
        values = rng.integers(-3, 4, (len(ids), 6)).astype(np.float32)
        values[:, 0] = 5
        tables[side] = pa.table({"id": ids, "embedding": pa.FixedSizeListArray.from_arrays(values.ravel(), 6)})
    return tables


def column(table: pa.Table, name: str, values: object) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def shuffled(table: pa.Table, seed: int = 6) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(len(table)))


# ---- one meaning, many forms -------------------------------------------------------------------------------

INTEGERS = {"int64": pa.int64(), "int32": pa.int32(), "uint16": pa.uint16()}
STRINGS = {"string": pa.string(), "large_string": pa.large_string(), "string_view": pa.string_view()}


@pytest.mark.parametrize("kind", [*STRINGS, *INTEGERS, "dictionary", "dictionary of large_string"])
def test_ids_of_every_type_are_the_same_ids(kind: str, scored: Score, scores: pa.Table) -> None:
    wanted = scored("genecis", {TASK: scores}).values
    ids = scores["candidate_id"].combine_chunks()
    if kind.startswith("dictionary"):
        ids = ids.cast(pa.large_string() if "large" in kind else pa.string()).dictionary_encode()
    else:
        ids = ids.cast({**STRINGS, **INTEGERS}[kind])
    assert scored("genecis", {TASK: column(scores, "candidate_id", ids)}).values == wanted


def test_lists_of_integers_are_lists_of_ids(scored: Score, scores: pa.Table) -> None:
    by_query: dict[str, list[str]] = {}
    for row in scores.to_pylist():
        by_query.setdefault(row["query_id"], []).append(row["candidate_id"])
    texts = pa.table({"query_id": list(by_query), "candidate_ids": list(by_query.values())})
    numbers = [[int(c) for c in candidates] for candidates in by_query.values()]
    wanted = scored("genecis", {TASK: texts}).values
    assert scored("genecis", {TASK: column(texts, "candidate_ids", pa.array(numbers))}).values == wanted
    coded = pa.array(list(by_query.values()), pa.list_(pa.dictionary(pa.int32(), pa.string())))
    assert scored("genecis", {TASK: column(texts, "candidate_ids", coded)}).values == wanted


def test_integer_queries_are_the_same_queries(scored: Score, lists: pa.Table) -> None:
    wanted = scored("cirr", {"val": lists}).values
    assert scored("cirr", {"val": column(lists, "query_id", lists["query_id"].cast(pa.int64()))}).values == wanted


@pytest.mark.parametrize("width", [pa.float16(), pa.float32(), pa.float64()])
def test_scores_of_every_width(width: pa.DataType, scored: Score, scores: pa.Table) -> None:
    wanted = scored("genecis", {TASK: scores}).values
    assert scored("genecis", {TASK: column(scores, "score", scores["score"].cast(width))}).values == wanted


@pytest.mark.parametrize("kind", ["fixed_size_list", "list", "large_list"])
@pytest.mark.parametrize("width", [pa.float16(), pa.float32(), pa.float64()])
def test_vectors_of_every_width_and_list(
    kind: str, width: pa.DataType, scored: Score, vectors: Mapping[str, pa.Table]
) -> None:
    wanted = scored("cirr", vectors, "dot").values
    maker = {"fixed_size_list": lambda t: pa.list_(t, 6), "list": pa.list_, "large_list": pa.large_list}[kind]
    other = {side: column(table, "embedding", table["embedding"].cast(maker(width))) for side, table in vectors.items()}
    assert scored("cirr", other, "dot").values == wanted


def test_cosine_and_dot_differ(scored: Score, vectors: Mapping[str, pa.Table]) -> None:
    assert scored("cirr", vectors, "dot").values != scored("cirr", vectors, "cosine").values


def test_parts_are_one_table(scored: Score, scores: pa.Table) -> None:
    wanted = scored("genecis", {TASK: scores}).values
    parts = {"b.parquet": scores.slice(0, 500), "a": scores.slice(500, 1), "c.parquet": scores.slice(501)}
    ignored = {".crc": scores, "_metadata": scores}
    assert scored("genecis", {TASK: {**parts, **ignored}}).values == wanted


def test_parts_may_have_dictionaries_of_their_own(scored: Score, scores: pa.Table) -> None:
    wanted = scored("genecis", {TASK: scores}).values
    coded = {}
    for name, part in (("a.parquet", scores.slice(0, 600)), ("b.parquet", scores.slice(600))):
        for key in ("query_id", "candidate_id"):
            part = column(part, key, part[key].combine_chunks().dictionary_encode())
        coded[name] = part
    assert scored("genecis", {TASK: coded}).values == wanted


@pytest.mark.parametrize("step", [1, 7])
def test_a_long_ranking_is_the_same_ranking(step: int, scored: Score, lists: pa.Table) -> None:
    """Ranks say an order; they need not be without gaps."""
    wanted = scored("cirr", {"val": lists}).values
    rows = [
        (query, candidate, 1 + step * place)
        for query, names in zip(*(lists[c].to_pylist() for c in lists.column_names), strict=True)
        for place, candidate in enumerate(names)
    ]
    long = pa.table(dict(zip(("query_id", "candidate_id", "rank"), map(list, zip(*rows, strict=True)), strict=True)))
    assert scored("cirr", {"val": shuffled(long)}).values == wanted
    assert scored("cirr", {"val": column(long, "rank", long["rank"].cast(pa.uint32()))}).values == wanted


@pytest.mark.parametrize("kind", ["fixed_size_list", "large_list"])
def test_rankings_in_lists_of_every_kind(kind: str, scored: Score, lists: pa.Table) -> None:
    wanted = scored("cirr", {"val": lists}).values
    to = pa.list_(pa.string(), 60) if kind == "fixed_size_list" else pa.large_list(pa.large_string())
    assert scored("cirr", {"val": column(lists, "candidate_ids", lists["candidate_ids"].cast(to))}).values == wanted


def test_further_columns_are_ignored(scored: Score, scores: pa.Table) -> None:
    wanted = scored("genecis", {TASK: scores}).values
    more = scores.append_column("note", pa.array([None] * len(scores), pa.string())).append_column(
        "rank", scores["score"]
    )
    assert scored("genecis", {TASK: more}).values == wanted


def test_infinite_scores_are_allowed(scored: Score, scores: pa.Table, project: Small) -> None:
    """Masking: −inf last, +inf first; the infinities of one sign tie."""
    right = {(r["query_id"], r["candidate_id"]) for r in project.built("genecis").qrels.to_pylist()}
    hit = np.array([(r["query_id"], r["candidate_id"]) in right for r in scores.to_pylist()])
    best = scored("genecis", {TASK: column(scores, "score", pa.array(np.where(hit, np.inf, 0.0)))})
    assert best.values[TASK, "R@1"].mean == 100
    worst = scored("genecis", {TASK: column(scores, "score", pa.array(np.where(hit, -np.inf, 0.0)))})
    assert worst.values[TASK, "R@3"].mean == 0
    flat = scored("genecis", {TASK: column(scores, "score", pa.array(np.full(len(hit), -np.inf)))})
    assert flat.values[TASK, "R@3"].mean == pytest.approx(20)


# ---- order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_changes_nothing(
    seed: int, scored: Score, scores: pa.Table, lists: pa.Table, vectors: Mapping[str, pa.Table]
) -> None:
    for name, files in (("genecis", {TASK: scores}), ("cirr", {"val": lists}), ("cirr", vectors)):
        other = {file: shuffled(table, seed) for file, table in files.items()}
        one, two = scored(name, files), scored(name, other)
        assert one.values == two.values
        assert one.notes == two.notes
        assert one.tables == two.tables
        for file, table in files.items():
            assert fingerprint(table) == fingerprint(other[file])


# ---- what is not used --------------------------------------------------------------------------------------


def test_unused_ids_are_counted_once(scored: Score, vectors: Mapping[str, pa.Table], project: Small) -> None:
    """Gallery and group both use the images; those of test1 are all asked for."""
    assert "unused" not in " ".join(scored("cirr", vectors).notes), "every id is in a trial here"
    subset = project.built("cirr")
    of_val = subset.queries.filter(pc.equal(subset.queries["task"], "val"))["query_id"]
    queries = vectors["query"]
    val = {**vectors, "query": queries.filter(pc.is_in(queries["id"], of_val.combine_chunks()))}
    assert [n for n in scored("cirr", val).notes if "unused" in n] == [
        "image.parquet: 140 of 490 image ids are in no trial; unused"
    ]


def test_unused_queries_and_candidates_of_tables_are_counted(scored: Score, lists: pa.Table, project: Small) -> None:
    subset = project.built("cirr")
    other = subset.queries.filter(pc.equal(subset.queries["task"], "test1"))["query_id"].to_pylist()[:3]
    images = subset.pools.filter(pc.equal(subset.pools["pool_id"], "test1/gallery"))["candidate_id"].to_pylist()[:4]
    longer = [[*names, *images] for names in lists["candidate_ids"].to_pylist()]
    more = pa.table({"query_id": [*lists["query_id"].to_pylist(), *other], "candidate_ids": [*longer, *[images] * 3]})
    found = scored("cirr", {"val": more})
    assert found.values == scored("cirr", {"val": lists}).values
    assert [n for n in found.notes if "unused" in n] == [
        "val.parquet: 3 of 253 query ids are in no trial; unused",
        "val.parquet: 4 of 354 image ids are in no trial; unused",
    ]


# ---- kinds, names, places ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"query_id": ["a"], "candidate_id": ["b"], "score": [1.0]}, "scores"),
        ({"query_id": [1], "candidate_id": [2], "score": [1.0], "rank": [1]}, "scores"),
        ({"query_id": ["a"], "candidate_ids": [["b"]]}, "ranking"),
        ({"query_id": ["a"], "candidate_ids": [[2]]}, "ranking"),
        ({"query_id": ["a"], "candidate_id": ["b"], "rank": [1]}, "ranking"),
        ({"id": ["a"], "embedding": [[1.0]]}, "embeddings"),
        ({"query_id": ["a"], "label": ["x"]}, "labels"),
    ],
)
def test_a_kind_is_told_by_its_columns(columns: dict[str, list], kind: str, tmp_path: Path) -> None:
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    assert kind_of(tmp_path / "x.parquet") == kind


def test_predictions_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "val.parquet").touch()
    (tmp_path / "test1").mkdir()
    (tmp_path / ".hidden").touch()
    assert locate(tmp_path) == {"test1": tmp_path / "test1", "val": tmp_path / "val.parquet"}
    with pytest.raises(InputError, match="no predictions"):
        locate(tmp_path / "test1")


@given(st.lists(st.text(max_size=4)), st.lists(st.text(max_size=4)))
@settings(max_examples=80, deadline=None)
def test_ids_stand_in_bytewise_order(known: list[str], asked: list[str]) -> None:
    ids = Ids(pa.array(known, pa.string()))
    order = sorted(set(known), key=str.encode)
    assert ids.names(np.arange(len(ids))) == order
    wanted = [order.index(x) if x in order else -1 for x in asked]
    for array in (pa.array(asked, pa.string()), pa.array(asked, pa.string()).dictionary_encode()):
        assert ids.index(array).tolist() == wanted
        assert ids.index(pa.chunked_array([array.slice(0, 1), array.slice(1)])).tolist() == wanted
    assert ids.index(ids.values).tolist() == list(range(len(order)))


@given(st.permutations(range(60)), st.lists(st.integers(50, 70), max_size=5))
@settings(max_examples=40, deadline=None)
def test_a_few_ids_are_found_among_many(known: list[int], asked: list[int]) -> None:
    ids = Ids(pa.array(known))
    order = sorted(map(str, known))
    wanted = [order.index(str(x)) if x < 60 else -1 for x in asked]
    assert ids.index(pa.array(asked, pa.int64())).tolist() == wanted


def test_canonical_keeps_the_contract_and_the_meaning(
    scores: pa.Table, lists: pa.Table, vectors: Mapping[str, pa.Table], tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    for table in (scores, lists, vectors["image"]):
        pq.write_table(table.append_column("note", pa.array(["x"] * len(table))), path)
        kept = canonical(path)
        assert kept.column_names == table.column_names
        assert fingerprint(kept) == fingerprint(table)


def test_canonical_writes_ids_as_strings(scores: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    coded = scores["query_id"].combine_chunks().dictionary_encode()
    pq.write_table(
        column(column(scores, "candidate_id", scores["candidate_id"].cast(pa.int64())), "query_id", coded), path
    )
    kept = canonical(path)
    assert kept.schema.field("query_id").type == kept.schema.field("candidate_id").type == pa.string()
    assert fingerprint(kept) == fingerprint(scores)
    for values in ([[1, 2], [], [30]], [["1", "2"], [], ["30"]]):
        for kind in (pa.list_, pa.large_list):
            element = pa.int64() if values[0][0] == 1 else pa.string()
            pq.write_table(
                pa.table({"query_id": ["a", "b", "c"], "candidate_ids": pa.array(values, kind(element))}), path
            )
            assert canonical(path)["candidate_ids"].to_pylist() == [["1", "2"], [], ["30"]]
    pq.write_table(
        pa.table({"query_id": ["a", "b"], "candidate_ids": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))}), path
    )
    assert canonical(path)["candidate_ids"].to_pylist() == [["1", "2"], ["3", "4"]]
    pq.write_table(pa.table({"query_id": ["a"], "label": pa.array(["x"]).dictionary_encode()}), path)
    assert canonical(path).to_pydict() == {"query_id": ["a"], "label": ["x"]}


def test_a_table_reads_the_same_from_parts(scores: pa.Table, tmp_path: Path) -> None:
    pq.write_table(scores, tmp_path / "one.parquet", row_group_size=100, compression="gzip")
    (tmp_path / "many").mkdir()
    for i in range(3):
        pq.write_table(scores.slice(i * 400, 400 if i < 2 else None), tmp_path / "many" / f"{i}.parquet")
    one, many = read_table(tmp_path / "one.parquet"), read_table(tmp_path / "many")
    assert one.to_pydict() == many.to_pydict()
    assert fingerprint(one) == fingerprint(many) == fingerprint(scores)
