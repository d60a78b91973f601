"""Other formats become the Parquet kinds, each told by its content; what is wrong is refused in one line."""

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.evaluation import evaluate
from rankledger.predictions import arrays
from rankledger.predictions.convert import convert
from rankledger.predictions.reading import kind_of
from rankledger.predictions.two_stage import overlay
from rankledger.tables import InputError

Rows = list[dict[str, Any]]


@pytest.fixture
def converted(tmp_path: Path) -> Callable[..., Rows]:
    """The rows that a file's content, or a file, is converted to; `ids` and `candidates` are content too."""

    def run(content: bytes | str | Path, kind: str, **lists: bytes) -> Rows:
        path = content if isinstance(content, Path) else tmp_path / "given"
        if not isinstance(content, Path):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths = {}
        for name, text in lists.items():
            paths[name] = tmp_path / name
            paths[name].write_bytes(text)
        out = tmp_path / "out" / "made.parquet"
        convert(path, out, **paths)
        assert kind_of(out) == kind
        return pq.read_table(out).to_pylist()

    return run


@pytest.fixture
def refused(converted: Callable[..., Rows], tmp_path: Path) -> Callable[..., str]:
    """The one line with which it is refused; nothing is written then."""

    def run(content: bytes | str | Path, **lists: bytes) -> str:
        with pytest.raises(InputError) as caught:
            converted(content, "any", **lists)
        assert "\n" not in str(caught.value)
        assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True
        return str(caught.value)

    return run


def npy(array: Any) -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**members: Any) -> bytes:
    import io

    file = io.BytesIO()
    np.savez(file, **members)
    return file.getvalue()


# TREC and DEFT ----------------------------------------------------------------------------------------------


def test_the_example_of_deft_2013_gives_the_map_of_its_faq(shared: Path, tmp_path: Path) -> None:
    folder = shared / "mirror" / "deft2013"
    assert convert(folder / "exemple-faq.results", tmp_path / "run.parquet") == "scores of 8 pairs, 1 queries"
    rows = pq.read_table(tmp_path / "run.parquet").to_pylist()
    assert rows[2] == {"query_id": "94727", "candidate_id": "truite", "score": 36.42}
    found = evaluate(tmp_path / "run.parquet", folder / "exemple-faq.qrels", "map", ties="trec")
    assert round(found.metrics["map"], 4) == 0.5227


@pytest.mark.parametrize("space", [" ", "\t", "  "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_run_with_spaces_or_tabs(converted: Callable[..., Rows], space: str, end: str, pack: Any) -> None:
    lines = [
        ["7", "Q0", "sel", "3", "1.5", "me"],
        ["7", "Q0", "eau", "1", "-inf", "me"],
        ["08", "x", "é", "y", "2e3", "me"],
    ]
    text = "".join(space.join(line) + end for line in lines)
    assert converted(pack(text.encode()), "scores") == [
        {"query_id": "7", "candidate_id": "sel", "score": 1.5},
        {"query_id": "7", "candidate_id": "eau", "score": -np.inf},
        {"query_id": "08", "candidate_id": "é", "score": 2000.0},
    ]


def test_titles_with_spaces_stand_between_tabs(converted: Callable[..., Rows]) -> None:
    text = "7\t0\tRatatouille\t1\t2.5\tme\n7\t0\tTarte 3 4 fruits \t2\t1.5\tmy run\n"
    assert converted(text, "scores") == [
        {"query_id": "7", "candidate_id": "Ratatouille", "score": 2.5},
        {"query_id": "7", "candidate_id": "Tarte 3 4 fruits", "score": 1.5},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 0 a 1 0.5 me\n1 0 a 2 0.4 me\n", "1 pairs of query and candidate stand there twice: '1 / a'"),
        ("1 0 a 1 0,5 me\n", "'0,5'"),
        ("1 0 a 1 nan me\n", "nan"),
        ("1\t0\tun deux\t1\t0,5\tme\n", "0,5"),
        ("1\t0\tun deux\t1\tnan\tme\n", "1 scores are NaN, line 1"),
        ("1\t0\tun deux\t1\t1\tme\n1\t0\ta\t1\t1\n", "1 lines have not 6 columns apart by tabs, all filled: line 2"),
    ],
)
def test_runs_that_are_wrong(refused: Callable[..., str], text: str, said: str) -> None:
    assert said in refused(text)


def test_labels_lose_accents_case_and_spaces(converted: Callable[..., Rows]) -> None:
    text = "\ufeff12\tTrès facile\r\n007\t FACILE \r\n3\tmoyennement-difficile\r\n4\tMoyennement  Difficile\r\n\r\n"
    labels = ["tres-facile", "facile", "moyennement-difficile", "moyennement-difficile"]
    assert converted(text, "labels") == [
        {"query_id": q, "label": label} for q, label in zip(["12", "007", "3", "4"], labels, strict=True)
    ]
    assert converted("1\tEntrée\n2\tPlat principal", "labels") == [
        {"query_id": "1", "label": "entree"},
        {"query_id": "2", "label": "plat-principal"},
    ]


def test_titles_are_rankings_of_one(converted: Callable[..., Rows]) -> None:
    text = '12\t Tarte "aux" pommes, facile \n7\tFacile\n9\tCrème brûlée 2 3 4 5\n'
    assert converted(text, "ranking") == [
        {"query_id": "12", "candidate_ids": ['Tarte "aux" pommes, facile']},
        {"query_id": "7", "candidate_ids": ["Facile"]},
        {"query_id": "9", "candidate_ids": ["Crème brûlée 2 3 4 5"]},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "1\tfacile\n2\tdifficile\n3\ttres dificile\n",
            "1 answers are no label: 'tres dificile'; there are tres-facile, ",
        ),
        ("1\tdessert\n2\tdessert\n3\tfacile\n", "1 answers are no label: 'facile'; there are entree, plat-principal, "),
        ("1\tfacile\n2\tfacile\n1\tdifficile\n", "1 ids stand there more than once: '1'; each has one answer"),
        ("1\tfacile\n2 facile\n\n4\t \n", "3 lines have not 2 columns apart by tabs, all filled: line 2, 3, 4"),
        (b"1\tTr\xe8s facile\n", "not UTF-8"),
    ],
)
def test_columns_that_are_wrong(refused: Callable[..., str], text: str | bytes, said: str) -> None:
    assert said in refused(text)


# Server files -----------------------------------------------------------------------------------------------


def test_server_files_become_rankings(converted: Callable[..., Rows]) -> None:
    circo = {"1": [7, "8"], "0": ["9"], "10": [3]}
    assert converted(json.dumps(circo), "ranking") == [
        {"query_id": "0", "candidate_ids": ["9"]},
        {"query_id": "1", "candidate_ids": ["7", "8"]},
        {"query_id": "10", "candidate_ids": ["3"]},
    ]
    cirr = {"12": ["b", "a"], "metric": "recall", "3": ["c"], "version": "rc2"}
    assert converted(json.dumps(cirr), "ranking") == [
        {"query_id": "12", "candidate_ids": ["b", "a"]},
        {"query_id": "3", "candidate_ids": ["c"]},
    ]


@pytest.mark.parametrize(
    ("name", "queries", "depth"),
    [
        ("cirr/test1_pred_ranks_recall.json", 4148, 50),
        ("cirr/test1_pred_ranks_recall_subset.json", 4148, 3),
        ("circo/submission_test.json", 800, 50),
    ],
)
def test_real_server_files(shared: Path, tmp_path: Path, name: str, queries: int, depth: int) -> None:
    path = shared / "runs" / name
    assert convert(path, tmp_path / "made.parquet") == f"rankings of {queries:,} queries, {depth} deep"
    found = {r["query_id"]: r["candidate_ids"] for r in pq.read_table(tmp_path / "made.parquet").to_pylist()}
    content = json.loads(path.read_bytes())
    assert found == {q: list(map(str, v)) for q, v in content.items() if isinstance(v, list)}
    turned = tmp_path / "turned.json"
    turned.write_text(json.dumps(dict(reversed(content.items()))))
    convert(turned, tmp_path / "turned.parquet")
    assert (tmp_path / "turned.parquet").read_bytes() == (tmp_path / "made.parquet").read_bytes()


# Arrays -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("numbers", [1, 8, 1 << 22])
def test_embeddings(
    converted: Callable[..., Rows],
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    order: str,
    numbers: int,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(arrays, "NUMBERS", numbers)
    matrix = np.asarray(np.arange(15).reshape(5, 3) / 4, dtype, order=order)
    rows = converted(npy(matrix), "embeddings", ids=b"a\nb b\r\n03\nd\ne\n")
    assert rows == [
        {"id": i, "embedding": row} for i, row in zip(["a", "b b", "03", "d", "e"], matrix.tolist(), strict=True)
    ]
    stored = pq.ParquetFile(tmp_path / "out" / "made.parquet")
    assert stored.num_row_groups == {1: 5, 8: 3}.get(numbers, 1)
    width = {"2": pa.float16(), "4": pa.float32(), "8": pa.float64()}[dtype[-1]]
    assert stored.schema_arrow.field("embedding").type.value_type == width, "numbers keep their width"


def test_bfloat16(converted: Callable[..., Rows], tmp_path: Path) -> None:
    """As NumPy stores what it does not know: two bytes each, the upper half of a float32."""
    wanted = np.float32([[1, -2.5], [0.15625, 3]])
    halves = (wanted.view(np.uint32) >> 16).astype(np.uint16).view("V2")
    rows = converted(npy(halves), "embeddings", ids=b"a\nb\n")
    assert rows == [{"id": i, "embedding": bits} for i, bits in zip("ab", halves.view("<u2").tolist(), strict=True)]
    scores = converted(npy(halves), "scores", ids=b"a\nb\n", candidates=b"x\ny\n")
    assert [row["score"] for row in scores] == wanted.ravel().tolist()


@pytest.mark.parametrize("numbers", [1, 8, 1 << 22])
def test_score_matrices(
    converted: Callable[..., Rows], monkeypatch: pytest.MonkeyPatch, numbers: int, tmp_path: Path
) -> None:
    monkeypatch.setattr(arrays, "NUMBERS", numbers)
    matrix = np.float32([[1, -np.inf, 3, 0.5], [5, 6, np.inf, 8], [9, 10, 11, 0.1]])
    rows = converted(npy(matrix), "scores", ids=b'["q", 2, "03"]', candidates=b"[1, 2, 3, 4]")
    wanted = [
        {"query_id": q, "candidate_id": c, "score": float(matrix[i, j])}
        for i, q in enumerate(["q", "2", "03"])
        for j, c in enumerate("1234")
    ]
    assert rows == wanted
    assert pq.ParquetFile(tmp_path / "out" / "made.parquet").num_row_groups == {1: 3, 8: 2}.get(numbers, 1)


def test_archives_may_hold_their_ids(converted: Callable[..., Rows]) -> None:
    vectors = np.float32([[1, 2], [3, 4]])
    wanted = [{"id": "7", "embedding": [1.0, 2.0]}, {"id": "9", "embedding": [3.0, 4.0]}]
    assert converted(npz(emb=vectors), "embeddings", ids=b"7\n9") == wanted
    assert converted(npz(emb=vectors, ids=np.array([7, 9])), "embeddings") == wanted
    assert converted(npz(emb=vectors, ids=np.array(["7", "9"])), "embeddings") == wanted
    assert converted(npz(emb=vectors, ids=np.array(["a", "b"])), "embeddings", ids=b"7\n9") == wanted, (
        "the file says so"
    )
    scores = converted(npz(s=vectors, query_ids=np.array(["a", "b"]), candidate_ids=np.array([1, 2])), "scores")
    assert [r["score"] for r in scores] == [1, 2, 3, 4]
    assert [(r["query_id"], r["candidate_id"]) for r in scores] == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]


def test_a_large_array_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    monkeypatch.setattr(arrays, "NUMBERS", 1 << 14)
    n, m = 400, 4000
    np.save(tmp_path / "big.npy", np.random.default_rng(1).random((n, m), np.float32))
    for name, count in (("ids", n), ("candidates", m)):
        (tmp_path / name).write_text("\n".join(f"{name}-{i}" for i in range(count)))
    pool = pa.system_memory_pool()
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        convert(tmp_path / "big.npy", tmp_path / "big.parquet", tmp_path / "ids", tmp_path / "candidates")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    size = 4 * n * m
    assert peak < size / 2, f"{peak} bytes for an array of {size}"
    assert pq.read_metadata(tmp_path / "big.parquet").num_rows == n * m


class Trap:
    """A pickled object that would tell that it was read."""

    read = False

    def __reduce__(self) -> Any:
        return (setattr, (Trap, "read", True))


def test_no_pickle_is_ever_read(refused: Callable[..., str], shared: Path) -> None:
    traps = np.array([Trap(), Trap()], dtype=object)
    for content in (npy(traps), npz(emb=np.ones((2, 2)), ids=traps), pickle.dumps(Trap())):
        refused(content, **({"ids": b"a\nb"} if content[:1] != b"\x80" else {}))
    said = refused(shared / "runs" / "cirr" / "cirr_stageII_labels_val.pt", ids=b"a")
    assert "not NumPy's .npz" in said
    assert not Trap.read


EYE = npy(np.eye(3, dtype=np.float32))
ARRAYS = [
    (EYE, {}, "it has 3 rows; name their ids: --ids FILE"),
    (EYE, {"ids": b"a\nb"}, "3 rows, but 2 ids for them"),
    (EYE, {"ids": b"a\nb\nc", "candidates": b"a\nb\nc\nd"}, "3 columns, but 4 ids for them"),
    (EYE, {"ids": b"a\nb\na"}, "ids: 1 ids stand there more than once: 'a'"),
    (EYE, {"ids": b'["1", 1, 2]'}, "ids: 1 ids stand there more than once: '1'"),
    (EYE, {"ids": b"a\n\nc"}, "ids: 1 ids that are empty, or neither text nor whole numbers, at 1 (from 0)"),
    (EYE, {"ids": b"[1.0, null, true]"}, "ids: 3 ids that are empty, or neither text nor whole numbers, at 0, 1, 2"),
    (EYE, {"ids": b"[1, 2"}, "ids: no list of ids"),
    (EYE, {"ids": b"\xff\n"}, "ids: no list of ids"),
    (npy(np.eye(3, dtype=int)), {"ids": b"a\nb\nc"}, "an array of int64, 3 × 3; it should be one of floats"),
    (npy(np.eye(3, dtype=complex)), {"ids": b"a\nb\nc"}, "an array of complex128"),
    (npy(np.ones(3)), {"ids": b"a\nb\nc"}, "an array of float64, 3;"),
    (npy(np.ones((3, 1, 2))), {"ids": b"a\nb\nc"}, "an array of float64, 3 × 1 × 2;"),
    (npy(np.ones((0, 4))), {"ids": b""}, "an array of float64, 0 × 4;"),
    (npy(np.array([[1, np.nan], [1, 2]])), {"ids": b"a\nb"}, "not finite (NaN or infinity), the first of 'a'"),
    (npy(np.array([[1, 2], [np.inf, 2]])), {"ids": b"a\nb"}, "not finite (NaN or infinity), the first of 'b'"),
    (npy(np.array([[1, 2], [3, np.nan]])), {"ids": b"a\nb", "candidates": b"x\ny"}, "NaN, the first at 'b / y'"),
    (EYE[:-5], {"ids": b"a\nb\nc"}, "no whole NumPy array"),
    (EYE[:20], {"ids": b"a\nb\nc"}, "no whole NumPy array"),
    (npz(a=np.eye(2))[:-30], {"ids": b"a\nb"}, "no whole NumPy array"),
    (npz(a=np.eye(2), b=np.eye(2)), {"ids": b"a\nb"}, "2 arrays ('a', 'b'); it should hold one"),
    (npz(ids=np.array(["a"])), {}, "0 arrays"),
    (npz(a=np.eye(2), ids=np.array([0.5, 1])), {}, "ids: 2 ids that are empty, or neither text nor whole numbers"),
    ("1 0 a 1 2 me\n", {"ids": b"a"}, "no NumPy array, so it has its ids in it; leave --ids and --candidates out"),
]


@pytest.mark.parametrize(("content", "lists", "said"), ARRAYS, ids=[said for *_, said in ARRAYS])
def test_arrays_that_are_wrong(refused: Callable[..., str], content: bytes, lists: dict[str, bytes], said: str) -> None:
    assert said in refused(content, **lists)


@pytest.mark.parametrize("content", [b"", b"\n", b"hello\n", b"<xml/>", b"[1, 2]", b"a,b,c,d,e,f\n", b"\x80\x04K\x01."])
def test_what_is_no_format(refused: Callable[..., str], content: bytes) -> None:
    assert "no format that convert reads; it reads a TREC run" in refused(content)


def test_parquet_a_folder_and_nothing(refused: Callable[..., str], tmp_path: Path) -> None:
    pq.write_table(pa.table({"query_id": ["1"], "label": ["facile"]}), tmp_path / "a.parquet")
    assert "Parquet already; `rankledger add` takes it as it is" in refused(tmp_path / "a.parquet")
    assert "no such file" in refused(tmp_path / "absent")
    assert "cannot be read (Is a directory)" in refused(tmp_path)


# Two stages -------------------------------------------------------------------------------------------------


def lists(path: Path) -> dict[str, list[str]]:
    return {row["query_id"]: row["candidate_ids"] for row in pq.read_table(path).to_pylist()}


def ranking(table: dict[str, list[str]], path: Path) -> Path:
    ids = pa.array(list(table.values()), pa.list_(pa.string()))
    pq.write_table(pa.table({"query_id": pa.array(list(table), pa.string()), "candidate_ids": ids}), path)
    return path


def test_a_head_over_a_base(tmp_path: Path) -> None:
    base = ranking(
        {"1": list("abcdef"), "2": list("fedcba"), "3": list("abc"), "4": list("ab")}, tmp_path / "base.parquet"
    )
    head = ranking({"1": list("cab"), "2": list("cfe"), "4": ["b"]}, tmp_path / "head.parquet")
    out = tmp_path / "new" / "val.parquet"
    said = overlay(head, base, out)
    assert lists(out) == {"1": list("cabdef"), "2": list("cfedba"), "3": list("abc"), "4": list("ba")}
    assert said == "rankings of 4 queries, 3 with a head of 1 to 3; 2 heads are no permutation of the base's top"


def test_the_base_may_be_scores_whose_ties_go_by_id_downwards(tmp_path: Path) -> None:
    rows = [("q", "a", 1.0), ("q", "b", 2.0), ("q", "é", 2.0), ("q", "c", -np.inf), ("q", "z", 2.0), ("p", "a", 0.0)]
    columns = dict(zip(["query_id", "candidate_id", "score"], map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "base.parquet")
    long = pa.table({"query_id": ["q", "q"], "candidate_id": ["a", "z"], "rank": [7, 2]})
    pq.write_table(long, tmp_path / "head.parquet")
    said = overlay(tmp_path / "head.parquet", tmp_path / "base.parquet", tmp_path / "val.parquet")
    assert lists(tmp_path / "val.parquet") == {"q": ["z", "a", "é", "b", "c"], "p": ["a"]}
    assert said.endswith("1 with a head of 2; 1 heads are no permutation of the base's top")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_two_stages_against_a_plain_version(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("two")
    names = [f"n{i}" for i in range(12)]
    orders = st.lists(st.sampled_from(names), min_size=1, unique=True)
    base = data.draw(st.dictionaries(st.sampled_from("pqrst"), orders, min_size=1))
    asked = data.draw(st.sets(st.sampled_from(sorted(base)), min_size=1))
    head = {q: data.draw(st.permutations(base[q]))[: data.draw(st.integers(1, len(base[q])))] for q in sorted(asked)}
    out = folder / "out.parquet"
    said = overlay(ranking(head, folder / "head.parquet"), ranking(base, folder / "base.parquet"), out)
    assert lists(out) == {q: [*head.get(q, []), *(c for c in base[q] if c not in head.get(q, []))] for q in base}
    moved = sum(set(top) != set(base[q][: len(top)]) for q, top in head.items())
    assert f"{len(base)} queries, {len(head)} with a head" in said
    assert f"; {moved} heads" in said


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"1": ["a", "x"], "2": ["y", "b"]}, "2 candidates are not in {base}: '1 / x', '2 / y'; "),
        ({"1": ["c"]}, "1 candidates are not in {base}: '1 / c'; "),
        ({"1": ["a"], "9": ["a"]}, "1 queries are not in {base}: '9'; "),
        ({"1": []}, "it lists no candidate"),
        ({"1": ["a", "a"]}, "1 pair of query and candidate twice: '1 / a'"),
    ],
)
def test_heads_that_are_wrong(tmp_path: Path, head: dict[str, list[str]], said: str) -> None:
    base = ranking({"1": ["a", "b"], "2": ["b", "c"]}, tmp_path / "base.parquet")
    path = ranking(head, tmp_path / "head.parquet")
    with pytest.raises(InputError) as caught:
        overlay(path, base, tmp_path / "out.parquet")
    assert str(caught.value).startswith(f"{path}: {said.format(base=base)}")
    assert not (tmp_path / "out.parquet").exists()


def test_stages_of_another_kind(tmp_path: Path) -> None:
    base = ranking({"1": ["a", "b"]}, tmp_path / "base.parquet")
    pq.write_table(pa.table({"id": ["1"], "embedding": [[1.0]]}), tmp_path / "query.parquet")
    with pytest.raises(InputError, match=r"query\.parquet: holds embeddings; a two-stage system is put together from"):
        overlay(tmp_path / "query.parquet", base, tmp_path / "out.parquet")
    (tmp_path / "cut.parquet").write_bytes(base.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"cut\.parquet: not a whole Parquet file"):
        overlay(base, tmp_path / "cut.parquet", tmp_path / "out.parquet")
