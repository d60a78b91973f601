"""TREC text, as it comes and as it should not come."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.predictions import trec
from rankledger.predictions.rows import Odd
from rankledger.predictions.trec import read_qrels, read_run, run_batches
from rankledger.tables import InputError


@pytest.fixture
def file(tmp_path: Path):
    def write(content: str | bytes, name: str = "file.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def rows(table: pa.Table) -> list[tuple[str, str, float]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def in_batches(path: Path) -> list[tuple[str, str, float]]:
    return [tuple(row.values()) for batch in run_batches(path) for row in batch.to_pylist()]


RUN = "q1 Q0 a 1 0.9 me\nq1 Q0 b 2 0.5 me\nq2 Q0 a 1 -3 me\n"
PARSED = [("q1", "a", 0.9), ("q1", "b", 0.5), ("q2", "a", -3.0)]


@pytest.mark.parametrize(
    "text",
    [
        RUN,
        RUN.replace(" ", "\t"),
        RUN.replace(" ", "   \t "),
        RUN.replace("q", "  q"),  # white space before the first column
        RUN.replace("\n", "\r\n"),
        RUN.replace("\n", "  \n"),
        RUN.replace(" ", "\v\f"),
        RUN.removesuffix("\n"),
        RUN + "\n  \n\t\n",  # blank lines at the end
        RUN.replace("me", "me reserved for future expansion"),
        RUN.replace(" me", ' "me').replace("Q0", ","),  # no quoting
        RUN.replace("1 0.9", "rank? 0.9"),  # the rank is ignored, whatever it is
        RUN.replace("0.9", "+0.9").replace("0.5", "5e-1").replace("-3", "-3.E0"),
    ],
)
def test_runs(file, text):
    assert rows(read_run(file(text))) == in_batches(file(text)) == PARSED


@pytest.mark.parametrize("text", ["q1 0 a 1\nq1 0 b -2\nq2 0 a 0.5\n", "q1\t0  a\t 1\r\nq1 x b -2\r\n q2 0 a 5e-1 \t"])
def test_qrels(file, text):
    assert rows(read_qrels(file(text))) == [("q1", "a", 1.0), ("q1", "b", -2.0), ("q2", "a", 0.5)]


def test_columns_and_their_types(file):
    ids = pa.dictionary(pa.int32(), pa.string())
    path = file(RUN)
    assert read_run(path).schema == pa.schema({"query_id": ids, "candidate_id": ids, "score": pa.float64()})
    path = file("q1 0 a 1\n")
    assert read_qrels(path).schema == pa.schema({"query_id": ids, "candidate_id": ids, "relevance": pa.float64()})


ODD = [
    '"a"',
    "a,b",
    "'",
    '"',
    "a\\tb",
    "é",
    "e\u0301",
    "中文",
    "a\u00a0b",
    "\u3000",
    "\u2028",
    "🍲",
    "#",
    "null",
    "NaN",
    "007",
    "\x01",
]


def test_ids_come_through_untouched(file):
    """No quotes, escapes, comments, numbers or nulls; only ASCII white space parts columns."""
    lines = [f"{one} Q0 {other} 1 0.5 x" for one in ODD for other in ODD]
    path = file("\n".join(lines))
    assert rows(read_run(path)) == in_batches(path) == [(one, other, 0.5) for one in ODD for other in ODD]


def test_a_byte_order_mark_inside_a_line_is_no_error(file):
    path = file("q\ufeff Q0 a\ufeff 1 1 \ufeff\n")
    assert rows(read_run(path)) == in_batches(path) == [("q\ufeff", "a\ufeff", 1.0)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("+Infinity", "inf"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e-320", "1e-320"),
        ("2.1291330000000001", "2.129133"),
        ("0.1234567890123456789", "0.12345678901234568"),
        ("-0", "-0.0"),
    ],
)
def test_scores_are_the_nearest_float64(file, text, value):
    (row,) = rows(read_run(file(f"q Q0 a 1 {text} x\n")))
    assert repr(row[2]) == repr(float(value))


@pytest.mark.parametrize("join", [False, True])
def test_gzip(file, join):
    """Also several gzip files one after the other."""
    lines = RUN.encode().splitlines(keepends=True)
    content = b"".join(map(gzip.compress, lines)) if join else gzip.compress(RUN.encode(), mtime=0)
    for name in ("run.gz", "run"):
        assert rows(read_run(file(content, name))) == PARSED


space = st.sampled_from([" ", "\t", "  ", " \t", "\v"])
token = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0 \t\n\v\f\r\ufeff"), min_size=1, max_size=4
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(token, token, st.integers(-9, 9), space, st.lists(token, max_size=2)), min_size=1, max_size=12),
    st.integers(1, 40),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_text_in_blocks_of_any_size(tmp_path_factory, lines, size, newline, last):
    """Against str.split."""
    texts = [gap.join([q, "0", c, "1", str(s), "id", *more]) for q, c, s, gap, more in lines]
    path = tmp_path_factory.mktemp("run") / "run"
    path.write_bytes((newline.join(texts) + newline * last).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec, "BLOCK_BYTES", size + max(len(t.encode()) for t in texts))
        assert rows(read_run(path)) == in_batches(path) == [(q, c, float(s)) for q, c, s, *_ in lines]


# ---- what is refused: one line that says which file, which line, how many ----------------------------------

A_RUN = "q1 Q0 a 1 0.9 me\n"

REFUSED_RUNS = [
    ("", r"no lines; a run has the columns query, iteration, candidate, rank, score, run id"),
    ("\n \n", r"no lines"),
    (A_RUN + "q1 Q0 b 2 0,9 me\n", r"1 line whose score is no number \('0,9' in line 2\)"),
    (
        A_RUN + "q1 Q0 b 2 nan x\nq1 Q0 c 2 NaN x\nq1 Q0 d 2 -nan x\nq1 Q0 e 2 1_0 x\n",
        r"4 lines whose score is no number \('nan' in line 2; 'NaN' in line 3; '-nan' in line 4; …\)",
    ),
    *((f"q1 Q0 b 2 {bad} me\n", rf"1 line .* \('{bad}' in line 1\)") for bad in ("x", "0x10", "1e", "--1", "１")),
    (A_RUN + "q1 Q0 b 2 0.9\n" + A_RUN, r"1 line not of 6 or more columns \(line 2 has 5\); a run has query, iter"),
    ("q1 0 a 1\n" * 5, r"5 lines not of 6 or more columns \(line 1 has 4; line 2 has 4; line 3 has 4; …\)"),
    (A_RUN + "\n" + A_RUN, r"1 line not of 6 or more columns \(line 2 has 0\)"),
    ("\n" + A_RUN + "\n", r"1 line not of 6 or more columns \(line 1 has 0\)"),
    ("\ufeff" + A_RUN, r"1 line with ids that begin with a byte order mark \(line 1\); save the file as plain UTF-8"),
    (A_RUN + "\ufeff" + A_RUN, r"1 line with ids that begin with a byte order mark \(line 2\)"),
    (("\ufeff" + A_RUN).encode("utf-16-le"), r"line 1 holds zero bytes; save the file as UTF-8"),
    ("é Q0 a 1 1 x\n".encode("latin-1") * 2, r"2 lines with ids that are not UTF-8 \(line 1, 2\)"),
    ("q Q0 à 1 1 x\n".encode("latin-1"), r"1 line with ids that are not UTF-8 \(line 1\)"),
    (A_RUN + A_RUN.replace("\n", "\r") * 2, r"line 2 holds a carriage return; end lines with \\n"),
    (gzip.compress(RUN.encode(), mtime=0)[:-4], r"not a whole gzip file \(.*\); copy it again"),
    (gzip.compress(RUN.encode(), mtime=0)[:20], r"not a whole gzip file"),
    (gzip.compress(RUN.encode(), mtime=0).replace(b"\x03", b"\x13", 1) + b"q1 Q0", r"not a whole gzip file"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED_RUNS)
def test_runs_that_are_refused(file, content, message):
    path = file(content, "run.txt")
    with pytest.raises(InputError, match=rf"run\.txt: {message}") as caught:
        read_run(path)
    assert "\n" not in str(caught.value)
    with pytest.raises((Odd, InputError)):  # where it is Odd, `read_run` is asked for words
        in_batches(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"no lines; qrels have the columns query, iteration, candidate, relevance"),
        ("q1 0 a 1\nq1 0 b yes\n", r"1 line whose relevance is no number \('yes' in line 2\)"),
        ("q1 0 a 1\nq1 0 b 0,5\n", r"1 line .*'0,5' in line 2"),
        ("q1 0 a nan\nq1 0 b inf\n", r"2 lines .*\('nan' in line 1; 'inf' in line 2\)"),
        ("q1 0 a 1\nq1 0 b\n", r"1 line not of 4 columns \(line 2 has 3\)"),
        ("q1 0 a 1\nq1 0 b 1 x\n", r"1 line not of 4 columns \(line 2 has 5\)"),
        (A_RUN, r"1 line not of 4 columns \(line 1 has 6\); qrels have query, iteration, candidate, relevance"),
        ("\ufeffq1 0 a 1\n", r"1 line with ids that begin with a byte order mark \(line 1\)"),
    ],
)
def test_qrels_that_are_refused(file, content, message):
    with pytest.raises(InputError, match=rf"qrels\.txt: {message}"):
        read_qrels(file(content, "qrels.txt"))


def test_lines_are_counted_over_blocks(file, monkeypatch):
    monkeypatch.setattr(trec, "BLOCK_BYTES", 64)
    with pytest.raises(
        InputError, match=r"3 lines whose score .*\('x' in line 100; 'x' in line 101; 'x' in line 150\)"
    ):
        read_run(file("".join(f"q Q0 {i} 1 {'x' if i in (100, 101, 150) else 1} x\n" for i in range(1, 201))))
    with pytest.raises(InputError, match=r"line 90 holds a carriage return"):
        read_run(file("".join(f"q Q0 {i} 1 1 x\n" for i in range(1, 201)).replace(" 90 1 1 ", " 90 1 1 \r")))
    with pytest.raises(InputError, match=r"2 lines not of 6 or more columns \(line 41 has 0; line 82 has 0\)"):
        read_run(file((A_RUN * 40 + "\n") * 2 + A_RUN + "\n\n"))


def test_what_is_no_text_at_all(file, monkeypatch):
    monkeypatch.setattr(trec, "BLOCK_BYTES", 64)
    with pytest.raises(InputError, match=r"not lines of text"):
        read_run(file(b"\x01\x02" * 500))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match=r"absent: no such file"):
        read_run(tmp_path / "absent")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        read_run(tmp_path)
