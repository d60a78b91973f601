"""trec_eval: its own test files, and pytrec_eval (version 9 as a library) on made-up runs, through the command."""

import json
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from rankledger.ranking.trec import named
from tests.command import rankledger

Qrels = dict[str, dict[str, int]]
Scores = dict[str, dict[str, float]]


def evaluated(*arguments: object) -> dict[str, Any]:
    done = rankledger("evaluate", *arguments, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def printed(path: Path) -> dict[str, dict[str, str]]:
    """Topic → measure → what trec_eval printed, for measures that exist here."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in path.read_text().splitlines():
        measure, topic, value = line.split()
        if measure in named("all_trec"):
            found[topic][measure] = value
    return found


def shown(name: str, value: float) -> str:
    return str(value) if name.startswith("num_") else f"{value:.4f}"


OWN = [
    ("results.test", "out.test", "official", "error", 17),
    ("results.test", "out.test.aq", "all_trec", "error", 48),
    ("results.trunc", "out.test.aqc", "all_trec", "zero", 48),
]


@pytest.mark.parametrize(("run", "output", "names", "missing", "n"), OWN)
def test_its_own_outputs_to_their_digits(shared: Path, run, output, names, missing, n):
    folder = shared / "mirror/trec_eval"
    paths = ("--qrels", folder / "qrels.test", "--run", folder / run)
    found = evaluated(*paths, "--metrics", names, "--ties", "trec", "--missing", missing, "--per-query")
    wanted = printed(folder / output)
    assert len(wanted["all"]) == len(found["metrics"]) == n
    assert {name: shown(name, value) for name, value in found["metrics"].items()} == wanted.pop("all")
    topics = {"301", "302", "303"} if output != "out.test" else set()
    assert wanted.keys() == topics
    for topic, values in wanted.items():
        mine = found["per_query"][topic]
        assert {name: shown(name, mine[name]) for name in values} == values
        assert mine.keys() - values.keys() == {"num_q"}  # which trec_eval prints for all topics only


def test_its_lines_are_ours_to_the_byte(shared: Path):
    """Without --json the command prints what trec_eval prints, line by line, of the measures that it has."""
    folder = shared / "mirror/trec_eval"
    paths = ("--qrels", folder / "qrels.test", "--run", folder / "results.test")
    done = rankledger("evaluate", *paths, "--metrics", "all_trec", "--ties", "trec", "--per-query")
    mine = [line for line in done.out.splitlines() if not (line.startswith("num_q ") and "\tall\t" not in line)]
    theirs = (folder / "out.test.aq").read_text().splitlines()
    assert mine == [line for line in theirs if line.split()[0] in named("all_trec")]
    assert len(mine) == 4 * 48 - 3


def test_a_topic_that_is_missing_leaves_the_mean_without_c(shared: Path):
    """Topics 301 and 303 alone: their values as in out.test.aqc, the means over the two of them."""
    folder = shared / "mirror/trec_eval"
    paths = ("--qrels", folder / "qrels.test", "--run", folder / "results.trunc")
    found = evaluated(*paths, "--metrics", "all_trec", "--ties", "trec", "--missing", "skip", "--per-query")
    wanted = printed(folder / "out.test.aqc")
    assert found["per_query"].keys() == {"301", "303"}
    assert found["metrics"]["num_q"] == 2
    assert found["metrics"]["num_rel"] == int(wanted["301"]["num_rel"]) + int(wanted["303"]["num_rel"])
    for name, value in found["metrics"].items():
        if not name.startswith("num_"):
            two = [found["per_query"][topic][name] for topic in ("301", "303")]
            assert value == pytest.approx(sum(two) / 2, abs=1e-15)
            assert [f"{x:.4f}" for x in two] == [wanted[topic][name] for topic in ("301", "303")]


# ---- pytrec_eval -------------------------------------------------------------------------------------------

FAMILIES = {name.rstrip("_0123456789") for name in named("all_trec")}  # without iprec, 11pt_avg: version 9's differ


def agree(folder: Path, qrels: Qrels, run: Scores, level: int = 1) -> None:
    """Every measure of every topic that has both qrels and a run, and the aggregates, to 1e-12."""
    lines = [f"{t}\t0 {d} {gain}\n" for t, gains in qrels.items() for d, gain in gains.items()]
    (folder / "qrels").write_text("".join(lines), encoding="utf-8")
    lines = [f"{t} Q0 {d} 1 {score!r} x\n" for t, scores in run.items() for d, score in scores.items()]
    (folder / "run").write_text("".join(lines), encoding="utf-8")
    options = ("--ties", "trec", "--missing", "skip", "--relevance-level", level, "--per-query")
    found = evaluated("--qrels", folder / "qrels", "--run", folder / "run", "--metrics", "all_trec", *options)
    oracle = pytrec_eval.RelevanceEvaluator(qrels, FAMILIES, relevance_level=level).evaluate(run)
    assert found["per_query"].keys() == oracle.keys() == qrels.keys() & run.keys()
    for name, value in found["metrics"].items():
        theirs = [oracle[topic][name] for topic in sorted(oracle)]
        mine = [found["per_query"][topic][name] for topic in sorted(oracle)]
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-15, err_msg=name)
        assert value == pytest.approx(pytrec_eval.compute_aggregated_measure(name, theirs), rel=1e-12), name
    assert found["metrics"].keys() == next(iter(oracle.values())).keys()


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_pytrec_eval_agrees_on_runs_with_ties(tmp_path: Path, seed, level):
    draw = random.Random(seed)
    documents = [f"{prefix}{number}" for prefix in ("d", "D", "é", "中", 'd"', "d-") for number in range(40)]
    qrels: Qrels = {}
    run: Scores = {}
    for topic in range(40):
        judged = draw.sample(documents, draw.randint(1, 80))
        # whole numbers, as trec_eval takes them; some topics have no relevant document
        grades = draw.choice([(-1, 0, 0, 1), (0, 1, 2, 3), (-2, -1, 0, 0, 1, 4), (0, 0, -1), (1, 2)])
        qrels[f"q{topic}"] = {document: draw.choice(grades) for document in judged}
        levels = draw.choice((1, 2, 5, 30, 10_000))  # from all tied to hardly a tie; float32 holds the quarters
        listed = draw.sample(documents, draw.choice((1, 3, 30, 120, 200)))
        run[f"q{topic}"] = {document: draw.randrange(-levels, levels) / 4 for document in listed}
    run["unknown"] = {"d1": 1.0}
    qrels["unasked"] = {"d1": 1}
    agree(tmp_path, qrels, run, level)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_pytrec_eval_agrees_on_graded_qrels_with_negatives(shared: Path, tmp_path: Path, level):
    """trec_eval's own graded file; the scores rounded to float32, in which version 9 compares them."""
    folder = shared / "mirror/trec_eval"
    qrels: Qrels = defaultdict(dict)
    for line in (folder / "qrels.rel_level").read_text().splitlines():
        topic, _, document, gain = line.split()
        qrels[topic][document] = int(gain)
    run: Scores = defaultdict(dict)
    for line in (folder / "results.test").read_text().splitlines():
        topic, _, document, _, score, *_ = line.split()
        run[topic][document] = float(np.float32(score))
    assert {gain for gains in qrels.values() for gain in gains.values()} >= {-1, 0, 1, 2, 4}
    agree(tmp_path, dict(qrels), dict(run), level)


def test_scores_are_compared_as_float64(tmp_path: Path):
    """One unit in the last place of float64 is a difference, as in trec_eval 10 (version 9 sees a tie)."""
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 z 0\n")
    (tmp_path / "run").write_text(f"q Q0 z 1 0.5 x\nq Q0 a 2 {math.nextafter(0.5, 1)!r} x\n")
    found = evaluated("--qrels", tmp_path / "qrels", "--run", tmp_path / "run", "--metrics", "P_1", "--ties", "trec")
    assert found["metrics"] == {"P_1": 1.0}
