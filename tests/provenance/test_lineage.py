"""What a lineage is read from."""

import platform

import pyarrow as pa
import pytest

from rankledger.provenance.lineage import draw_fingerprints, lines, packages, pruned

PARAMS = """# a comment
mirror: null
benchmarks:
  cirr: {source: sample, labels: hard}
  recipe1m:
    source: sample
    seed: 1
runs:
  a-cirr: {run: a, benchmark: cirr}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (["mirror"], 2),
        (["benchmarks", "cirr", "labels"], 4),
        (["benchmarks", "recipe1m", "seed"], 7),
        (["runs", "a-cirr", "similarity"], None),
        (["benchmarks", "circo", "source"], None),
        (["mirror", "x"], None),
    ],
)
def test_the_line_of_a_choice(path: list[str], line: int | None) -> None:
    assert lines(PARAMS).get(tuple(path)) == line


def test_a_text_without_keys_has_no_lines() -> None:
    assert lines("") == lines("- a\n") == {}


def test_versions_come_from_the_lock() -> None:
    here = platform.python_version()
    lock = (
        f"numpy==2.4.6 ; python_full_version < '{here}' \\\n    --hash=sha256:00\n    # via rankledger\n"
        f"numpy==2.5.5 ; python_full_version >= '{here}' \\\n    --hash=sha256:11\n"
        "elsewhere==1.0 ; sys_platform == 'none' \\\n"
        "dvc[ssh]==3.67.0 \\\n    --hash=sha256:22\nruamel-yaml==0.19.1\n"
    )
    assert packages(lock) == {"dvc": "3.67.0", "numpy": "2.5.5", "ruamel-yaml": "0.19.1"}
    assert packages(lock.replace(">=", ">").replace("<", "<="))["numpy"] == "2.4.6"
    assert packages("") == {}


def test_each_draw_has_its_fingerprint() -> None:
    trials = pa.table(
        {
            "task": ["t"] * 5 + ["other"],
            "view": ["1k"] * 4 + ["10k", "1k"],
            "repeat": [0, 0, 1, 1, 0, 0],
            "query_id": ["a", "b", "a", "b", "a", "z"],
            "pool_id": ["p", "p", "p", "p", "p", "p"],
        }
    )
    found = draw_fingerprints(trials, "t", "1k")
    assert list(found) == [0, 1]
    assert found[0] != found[1], "the repeat belongs to what was asked"
    assert draw_fingerprints(trials.take([3, 1, 0, 2, 5, 4]), "t", "1k") == found


def test_empty_headings_are_left_out() -> None:
    node = "number", [("parts", []), ("draws", [("repeat 0", [])]), ("interval", [])]
    assert pruned(node) == ("number", [("draws", [("repeat 0", [])]), ("interval", [])])
