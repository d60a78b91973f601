"""One content, one fingerprint; files and folders whole or absent; what is no table is said to be none."""

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.tables import (
    InputError,
    as_strings,
    few,
    fingerprint,
    meant,
    read_json,
    read_schema,
    read_table,
    sort_rows,
    to_json,
    whole_file,
    whole_folder,
    write_table,
    write_text,
)

ROWS = st.lists(
    st.tuples(
        st.text(max_size=3) | st.none(),
        st.integers(-(2**40), 2**40) | st.none(),
        st.sampled_from([0.0, 0.5, -1.25, 1e300, float("inf")]) | st.none(),
        st.booleans() | st.none(),
    ),
    max_size=8,
    unique_by=lambda row: row[:2],
)
TYPES = (pa.string(), pa.int64(), pa.float64(), pa.bool_())


def table(rows: list[tuple]) -> pa.Table:
    """Columns of each kind, and a list that follows from the row."""
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(TYPES)]
    lists = pa.array([None if r[1] is None else [r[0] or "", str(r[1])] for r in rows], pa.list_(pa.string()))
    return pa.table([*columns, lists], names=["text", "whole", "part", "yes", "many"])


def replace(content: pa.Table, column: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return content.set_column(content.column_names.index(column), column, values)


@settings(max_examples=80, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_a_fingerprint_does_not_depend_on_how_the_content_lies(rows: list[tuple], random: object) -> None:
    content = table(rows)
    wanted = fingerprint(content)
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fingerprint(table(shuffled)) == wanted
    assert fingerprint(content.select(content.column_names[::-1])) == wanted
    assert fingerprint(pa.concat_tables([content.slice(0, 2), content.slice(2)])) == wanted
    extended = pa.concat_tables([table([("zzzz", 7, 0.0, True)]), content])
    assert fingerprint(extended.slice(1)) == wanted, "a slice is what it shows"
    text = content["text"].combine_chunks()
    for other in (text.cast(pa.large_string()), text.dictionary_encode(), text.cast(pa.string_view())):
        assert fingerprint(replace(content, "text", other)) == wanted
    assert fingerprint(replace(content, "many", content["many"].cast(pa.large_list(pa.large_string())))) == wanted
    assert fingerprint(content.replace_schema_metadata({"by": "whoever"})) == wanted


@settings(max_examples=80, deadline=None)
@given(ROWS, ROWS)
def test_different_contents_have_different_fingerprints(one: list[tuple], two: list[tuple]) -> None:
    def key(row: tuple) -> list:
        return [(value is None, str(value)) for value in row]

    same = sorted(one, key=key) == sorted(two, key=key)
    assert (fingerprint(table(one)) == fingerprint(table(two))) == same


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": ["ab", "c"]}, {"a": ["a", "bc"]}),
        ({"a": ["x"]}, {"b": ["x"]}),
        ({"a": ["1"]}, {"a": [1]}),
        ({"a": [1]}, {"a": [1.0]}),
        ({"a": [None, "x"]}, {"a": ["", "x"]}),
        ({"a": [1], "b": [[1, 2]]}, {"a": [1], "b": [[1], [2]][:1]}),
        ({"a": [1, 2], "b": [[1], [2]]}, {"a": [1, 2], "b": [[1, 2], []]}),
        ({"a": [1, 2], "b": [[1], None]}, {"a": [1, 2], "b": [[1], []]}),
        ({"a": [1], "b": [["x", None]]}, {"a": [1], "b": [["x"]]}),
        ({"a": [True, False]}, {"a": [True, True]}),
        ({"a": pa.array([], pa.string())}, {"a": pa.array([], pa.int64())}),
        ({"a": ["x", "x"]}, {"a": ["x"]}),
    ],
)
def test_what_differs_differs(one: dict, two: dict) -> None:
    assert fingerprint(pa.table(one)) != fingerprint(pa.table(two))


def test_widths_of_numbers_do_not_count() -> None:
    values = [[0.5, -2.0], [1.0, 0.25]]
    wanted = fingerprint(pa.table({"i": [1, 2], "f": [0.5, 1.0], "v": values}))
    for whole, part in ((pa.int8(), pa.float16()), (pa.uint64(), pa.float32())):
        for kind in (pa.list_(part), pa.large_list(part), pa.list_(part, 2)):
            other = {
                "i": pa.array([1, 2], whole),
                "f": pa.array([0.5, 1.0]).cast(part),
                "v": pa.array(values).cast(kind),
            }
            assert fingerprint(pa.table(other)) == wanted


def test_both_zeros_are_one() -> None:
    assert fingerprint(pa.table({"a": [0.0]})) == fingerprint(pa.table({"a": [-0.0]}))


def test_a_type_without_a_canonical_form_is_refused() -> None:
    with pytest.raises(TypeError, match="timestamp"):
        fingerprint(pa.table({"a": pa.array([0], pa.timestamp("s"))}))


def test_the_fingerprint_is_fixed_for_good() -> None:
    """Committed results hold fingerprints: another way to compute them would change them all. Here by hand."""
    content = pa.table({"id": ["bé", "a"], "n": [1, None], "x": [0.5, -0.0], "v": [[1.0], []], "y": [True, False]})
    names = [["id", "large_string"], ["n", "int64"], ["v", "large_list<item: double>"], ["x", "double"], ["y", "bool"]]
    parts = [
        json.dumps([names, 2]).encode(),
        bytes([0b11]) + struct.pack("<2q", 1, 3) + "abé".encode(),  # who is there, lengths, values; "a" comes first
        bytes([0b10]) + struct.pack("<q", 1),
        bytes([0b11]) + struct.pack("<2q", 0, 1) + bytes([0b1]) + struct.pack("<d", 1.0),
        bytes([0b11]) + struct.pack("<2d", 0.0, 0.5),
        bytes([0b11]) + bytes([0b10]),
    ]
    assert fingerprint(content) == hashlib.sha256(b"".join(parts)).hexdigest()


# ---- rows and ids ------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 3))))
@settings(max_examples=60, deadline=None)
def test_rows_are_sorted_bytewise_from_the_first_column_on(rows: list[tuple[str, int]]) -> None:
    content = pa.table(
        {"a": pa.array([a for a, _ in rows], pa.string()), "b": pa.array([b for _, b in rows], pa.int64())}
    )
    wanted = sorted(rows, key=lambda row: (row[0].encode(), row[1]))
    assert list(zip(*(c.to_pylist() for c in sort_rows(content).columns), strict=True)) == wanted


def test_lists_have_no_say_in_the_order() -> None:
    content = pa.table({"many": [[2], [1]], "a": ["x", "w"]})
    assert sort_rows(content)["a"].to_pylist() == ["w", "x"]
    only = pa.table({"many": [[2], [1]]})
    assert sort_rows(only).equals(only)


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["7", "-3"]),
        pa.array(["7", "-3"], pa.large_string()),
        pa.array(["7", "-3"], pa.string_view()),
        pa.array([7, -3], pa.int8()),
        pa.array([7, -3], pa.int64()),
        pa.array(["7", "-3"]).dictionary_encode(),
        pa.array([7, -3]).dictionary_encode(),
        pa.chunked_array([["7"], ["-3"]]),
    ],
    ids=lambda ids: str(ids.type),
)
def test_ids_are_strings(ids: pa.Array) -> None:
    found = as_strings(ids)
    assert (found.type, found.to_pylist()) == (pa.large_string(), ["7", "-3"])


@pytest.mark.parametrize(
    "ids", [pa.array([1.0]), pa.array([True]), pa.array([b"x"]), pa.array([["x"]])], ids=lambda a: str(a.type)
)
def test_nothing_else_is_an_id(ids: pa.Array) -> None:
    with pytest.raises(TypeError, match="ids must be strings or integers"):
        as_strings(ids)


@pytest.mark.parametrize(
    ("values", "shown"),
    [([], ""), (["a"], "'a'"), ([1, 2, 3], "1, 2, 3"), (["a", "b", "c", "d", "e"], "'a', 'b', 'c', …")],
)
def test_a_few_are_shown(values: list, shown: str) -> None:
    assert few(values) == shown
    assert few(iter(values)) == shown


# ---- Parquet -----------------------------------------------------------------------------------------------


def test_the_same_table_makes_the_same_bytes(tmp_path: Path) -> None:
    content = pa.table({"a": [str(i) for i in range(1000)], "b": np.arange(1000) / 7})
    write_table(content, tmp_path / "one.parquet")
    chunks = pa.concat_tables([content.slice(0, 100), content.slice(100)]).replace_schema_metadata({"x": "y"})
    write_table(chunks, tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    assert read_table(tmp_path / "one.parquet").equals(content)


def test_a_folder_of_parts_is_one_table_in_name_order(tmp_path: Path) -> None:
    for name, values in (("b", ["y"]), ("a", ["x"]), (".c", ["z"]), ("_d", ["z"])):
        write_table(pa.table({"id": values}), tmp_path / "t" / name)
    (tmp_path / "t" / "deeper").mkdir()
    assert read_table(tmp_path / "t")["id"].to_pylist() == ["x", "y"]
    assert read_schema(tmp_path / "t").names == ["id"]
    coded = read_table(tmp_path / "t", encoded=["id"])["id"]
    assert pa.types.is_dictionary(coded.type)
    assert coded.to_pylist() == ["x", "y"]


def test_a_folder_called_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    write_table(pa.table({"id": ["x"]}), tmp_path / "run=1" / "a.parquet")
    assert read_table(tmp_path / "run=1").column_names == ["id"]


def bad(path: Path, kind: str) -> Path:
    whole = path / "whole.parquet"
    write_table(pa.table({"id": ["x"] * 1000}), whole)
    target = path / "bad.parquet"
    if kind == "cut off":
        target.write_bytes(whole.read_bytes()[:-20])
    elif kind == "text":
        target.write_text("id\nx\n" * 10)
    elif kind == "empty":
        target.touch()
    elif kind == "empty folder":
        target.mkdir()
    return target


@pytest.mark.parametrize("read", [read_table, read_schema])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("cut off", "not a whole"),
        ("text", "not a whole"),
        ("empty", "not a whole"),
        ("empty folder", "empty"),
        ("absent", "no such file"),
    ],
)
def test_what_is_no_table_is_said_to_be_none(
    read: Callable[[Path], object], kind: str, said: str, tmp_path: Path
) -> None:
    path = bad(tmp_path, kind)
    with pytest.raises(InputError, match=said) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_parts_must_share_a_schema(tmp_path: Path) -> None:
    for name, values in (("a", ["x"]), ("b", [1])):
        write_table(pa.table({"id": values}), tmp_path / "t" / name)
    with pytest.raises(InputError, match=r"t/b: other columns than a \('id: int64'\)"):
        read_schema(tmp_path / "t")
    write_table(pa.table({"more": ["x"], "id": ["x"]}), tmp_path / "t" / "b")
    with pytest.raises(InputError, match="more: string"):
        read_schema(tmp_path / "t")


def test_strings_that_are_no_text_are_refused(tmp_path: Path) -> None:
    raw = pa.array([b"\xff"], pa.binary())
    pq.write_table(pa.table({"id": pa.Array.from_buffers(pa.string(), 1, raw.buffers())}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet: .*UTF8"):
        read_table(tmp_path / "x.parquet")


# ---- JSON --------------------------------------------------------------------------------------------------


def test_json_is_sorted_finite_and_ends_with_a_line(tmp_path: Path) -> None:
    assert to_json({"b": 1, "a": "é"}) == '{\n  "a": "é",\n  "b": 1\n}\n'
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_json({"a": value})
    write_text(to_json({"a": "é"}), tmp_path / "x.json")
    assert read_json(tmp_path / "x.json") == {"a": "é"}
    assert (tmp_path / "x.json").read_bytes() == to_json({"a": "é"}).encode()


def test_what_is_no_json_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_json(tmp_path / "x.json")
    for content in (b"{", b"\xff\xfe\x00", b""):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(InputError, match=r"x\.json: not JSON"):
            read_json(tmp_path / "x.json")


# ---- whole or absent ---------------------------------------------------------------------------------------


def listing(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def half(new: Path, error: type[BaseException]) -> None:
    """Write something, then fail."""
    (new / "half").touch() if new.is_dir() else new.write_text("half")
    raise error


def test_a_file_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.txt"
    with pytest.raises(KeyboardInterrupt), whole_file(path) as new:
        half(new, KeyboardInterrupt)
    assert listing(tmp_path) == ["deep"]
    write_text("all", path)
    with pytest.raises(RuntimeError), whole_file(path) as new:
        half(new, RuntimeError)
    assert path.read_text() == "all"
    assert listing(tmp_path) == ["deep", "deep/x.txt"]


def test_a_folder_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(RuntimeError), whole_folder(path) as new:
        half(new, RuntimeError)
    assert listing(tmp_path) == []
    for name in ("one", "two"):
        with whole_folder(path) as new:
            (new / name).touch()
        assert listing(tmp_path) == ["x", f"x/{name}"], "nothing of the last one stays"
    with pytest.raises(RuntimeError), whole_folder(path) as new:
        half(new, RuntimeError)
    assert listing(tmp_path) == ["x", "x/two"]


def test_permissions_are_the_usual_ones(tmp_path: Path) -> None:
    """Not those of a temporary file, which nobody else may read."""
    before = os.umask(0o027)
    try:
        write_text("x", tmp_path / "x.txt")
        with whole_folder(tmp_path / "y"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "x.txt").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "y").stat().st_mode & 0o777 == 0o750


# ---- advice ------------------------------------------------------------------------------------------------


def test_the_advice_on_csv_makes_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids keep their zeros, scores become numbers."""
    monkeypatch.chdir(tmp_path)
    Path("val.csv").write_text("query_id,candidate_id,score\n007,a,0.5\n")
    with pytest.raises(InputError) as refused:
        read_table(Path("val.csv"))
    advice = str(refused.value).partition("polars makes Parquet of that: ")[2]
    exec(advice, {"pl": polars})
    assert read_table(Path("val.parquet")).to_pylist() == [{"query_id": "007", "candidate_id": "a", "score": 0.5}]


def test_near_names_are_what_was_meant() -> None:
    assert meant("Genesis", ["cirr", "genecis"]) == "; did you mean 'genecis'?"
    assert meant("zzz", ["cirr", "genecis"]) == ""
