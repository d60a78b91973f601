"""The command `rankledger evaluate`: options in, numbers and notes out, anywhere."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command import Done, rankledger

RUN = "q1 Q0 a 1 3 x\nq1 Q0 b 2 2 x\nq2 Q0 a 1 1 x\nq2 Q0 b 1 1 x\n"
QRELS = "q1 0 b 1\nq2 0 b 1\nq2 0 a 0\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is no project."""
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluate(*arguments: object, run: str = "run", qrels: str = "qrels", metrics: str = "R@1,MRR") -> Done:
    return rankledger("evaluate", "--qrels", qrels, "--run", run, "--metrics", metrics, *arguments)


def test_json():
    assert evaluate("--json") == Done(0, '{\n  "metrics": {\n    "MRR": 0.625,\n    "R@1": 0.25\n  }\n}\n', "")
    found = json.loads(evaluate("--json", "--per-query", metrics="R@1,map,num_ret,medR").out)
    assert found == {
        "metrics": {"R@1": 0.25, "map": 0.625, "num_ret": 4, "medR": 1.75},
        "per_query": {
            "q1": {"R@1": 0.0, "map": 0.5, "num_ret": 2, "medR": 2.0},
            "q2": {"R@1": 0.5, "map": 0.75, "num_ret": 2, "medR": 1.5},
        },
    }
    assert len(json.loads(evaluate("--json", "--ties", "trec", metrics="all_trec").out)["metrics"]) == 48


def test_lines():
    assert evaluate(metrics="MRR,num_q").out == "MRR                   \tall\t0.6250\nnum_q                 \tall\t2\n"
    done = evaluate("--per-query", metrics="MRR,medR")
    assert [line.split() for line in done.out.splitlines()] == [
        ["MRR", "q1", "0.5000"],
        ["medR", "q1", "2.0000"],
        ["MRR", "q2", "0.7500"],
        ["medR", "q2", "1.5000"],
        ["MRR", "all", "0.6250"],
        ["medR", "all", "1.7500"],
    ]


def test_parquet(files: Path):
    done = evaluate("--out", "deep/values.parquet", metrics="MRR,num_ret,medR")
    assert (done.code, done.out.split()[:3]) == (0, ["MRR", "all", "0.6250"])
    table = pq.read_table("deep/values.parquet")
    types = {"query_id": pa.string(), "MRR": pa.float64(), "num_ret": pa.int64(), "medR": pa.float64()}
    assert table.schema.equals(pa.schema(types))
    assert table.to_pydict() == {"query_id": ["q1", "q2"], "MRR": [0.5, 0.75], "num_ret": [2, 2], "medR": [2, 1.5]}
    first = Path("deep/values.parquet").read_bytes()
    (files / "run").write_text("".join(RUN.splitlines(keepends=True)[::-1]))
    evaluate("--out", "deep/values.parquet", metrics="MRR,num_ret,medR")
    assert Path("deep/values.parquet").read_bytes() == first
    done = evaluate("--out", "values.csv")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err == "error: --out values.csv: the values of each query become Parquet; call the file <name>.parquet\n"
    )


@pytest.mark.parametrize(
    ("ties", "value"), [("expected", 0.25), ("trec", 0.5), ("optimistic", 0.5), ("pessimistic", 0.0)]
)
def test_ties(ties, value):
    assert json.loads(evaluate("--ties", ties, "--json").out)["metrics"]["R@1"] == value


def test_the_default_of_ties_is_expected_and_of_missing_error(files: Path):
    assert json.loads(evaluate("--json").out)["metrics"]["R@1"] == 0.25
    (files / "qrels").write_text(QRELS + "q3 0 a 1\n")
    done = evaluate("--json")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: run: 1 of 3 queries of qrels are missing: 'q3'; "
        "--missing zero counts them 0, --missing skip leaves them out\n"
    )
    zero, skip = evaluate("--missing", "zero", "--json"), evaluate("--missing", "skip", "--json")
    assert json.loads(zero.out)["metrics"] == {"R@1": pytest.approx(0.5 / 3), "MRR": pytest.approx(1.25 / 3)}
    assert json.loads(skip.out)["metrics"] == {"R@1": 0.25, "MRR": 0.625}
    assert zero.err == "note: 1 of 3 queries of the qrels are missing and count 0: 'q3'\n"
    assert skip.err == "note: 1 of 3 queries of the qrels are missing and are left out: 'q3'\n"


def test_topics_without_qrels_are_counted_warned_of_and_ignored(files: Path):
    (files / "run").write_text(RUN + "q7 Q0 a 1 3 x\nq8 Q0 a 1 3 x\n")
    done = evaluate("--json")
    assert json.loads(done.out)["metrics"] == {"R@1": 0.25, "MRR": 0.625}
    assert done.err == "note: 2 of 4 queries of the run are not in the qrels and are ignored: 'q7', 'q8'\n"


def test_the_relevance_level(files: Path):
    (files / "qrels").write_text("q1 0 b 2\nq1 0 a 1\nq2 0 b 1\n")
    assert json.loads(evaluate("--relevance-level", 2, "--json").out)["metrics"] == {"R@1": 0, "MRR": 0.25}


def test_a_query_without_a_rank(files: Path):
    """Absent right candidates: no rank in JSON is null, in a line a dash."""
    (files / "qrels").write_text("q1 0 b 1\nq2 0 b 1\nq3 0 x 1\n")
    (files / "run").write_text(RUN + "q3 Q0 a 1 3 x\n")
    assert json.loads(evaluate("--json", "--per-query", metrics="medR").out) == {
        "metrics": {"medR": 2.0},
        "per_query": {"q1": {"medR": 2.0}, "q2": {"medR": 1.5}, "q3": {"medR": None}},
    }
    assert "medR                  \tq3\t-\n" in evaluate("--per-query", metrics="medR").out


def test_similarity(files: Path):
    (files / "both").mkdir()
    table = pa.table({"id": ["a", "b"], "embedding": [[1.0, 0.0], [5.0, 5.0]]})
    pq.write_table(table, files / "both" / "image.parquet")
    pq.write_table(pa.table({"id": ["q1", "q2"], "embedding": [[1.0, 0.1]] * 2}), files / "both" / "query.parquet")
    assert json.loads(evaluate("--json", run="both").out)["metrics"]["R@1"] == 0
    assert json.loads(evaluate("--json", "--similarity", "dot", run="both").out)["metrics"]["R@1"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": "R@1,bpref"}, "bpref: no formula for the mean over the orders of ties; use --ties trec"),
        ({"metrics": "all_trec"}, "bpref: no formula for the mean over the orders of ties; use --ties trec"),
        ({"metrics": "recall"}, None),  # trec_eval's cut-offs
        ({"metrics": "RR"}, "'RR' is no metric"),
        ({"run": "absent"}, "absent: no such file"),
        ({"qrels": "absent"}, "absent: no such file"),
        ({"run": "qrels"}, "qrels: 3 lines not of 6 or more columns (line 1 has 4;"),
        ({"qrels": "run"}, "run: 4 lines not of 4 columns (line 1 has 6;"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    done = evaluate(**arguments)
    if message is None:
        assert (done.code, len(done.out.splitlines())) == (0, 9)
        return
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {message}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("--ties", "random"), ("--missing", "never"), ("--similarity", "x"), ("--relevance-level", 0)]
)
def test_bad_options_are_exit_code_2(arguments):
    done = evaluate(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_help():
    done = rankledger("evaluate", "--help")
    assert done.code == 0
    for option in (
        "--qrels",
        "--run",
        "--metrics",
        "--ties",
        "--missing",
        "--relevance-level",
        "--per-query",
        "--json",
        "--out",
    ):
        assert option in done.out
