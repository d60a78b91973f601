"""trec_eval: its names, its own test files, and pytrec_eval (trec_eval 9 as a library) on runs with ties."""

import json
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from rankledger.ranking.metrics import AP, MRR, P, R, Rprec, Success, bpref, medR, nDCG, num_q, num_ret
from rankledger.ranking.stands import settle
from rankledger.ranking.trec import named

FAMILIES = {name.rstrip("_0123456789") for name in named("all_trec")}


def read_qrels(path):
    qrels = defaultdict(dict)
    for line in path.read_text().splitlines():
        topic, _, document, relevance = line.split()
        qrels[topic][document] = int(relevance)
    return qrels


def read_run(path):
    run = defaultdict(dict)
    for line in path.read_text().splitlines():
        topic, _, document, _, score = line.split()[:5]
        run[topic][document] = float(score)
    return run


def read_output(path):
    """Topic → measure → what trec_eval printed."""
    printed = defaultdict(dict)
    for line in path.read_text().splitlines():
        measure, topic, value = line.split()
        printed[topic][measure] = value
    return printed


def shown(name, value):
    return str(int(value)) if name.startswith("num_") else f"{value:.4f}"


# ---- trec_eval's own files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "output", "names"),
    [
        ("results.test", "out.test", "official"),
        ("results.test", "out.test.aq", "all_trec"),
        ("results.trunc", "out.test.aqc", "all_trec"),  # written with -c: a topic without results scores 0
    ],
)
def test_trec_evals_own_outputs(shared: Path, naive_stands, run, output, names):
    folder = shared / "mirror/trec_eval"
    qrels, run = read_qrels(folder / "qrels.test"), read_run(folder / run)
    printed = read_output(folder / output)
    topics = sorted(qrels)
    stands = settle(naive_stands([(run.get(topic, {}), qrels[topic]) for topic in topics]), "trec")
    metrics = named(names)
    assert list(metrics) == [name for name in printed["all"] if name in metrics]  # trec_eval's order
    assert len(metrics) == {"official": 17, "all_trec": 48}[names]
    values = {name: metric.values(stands) for name, metric in metrics.items()}
    for name, metric in metrics.items():
        assert shown(name, metric.total(values[name])) == printed["all"][name], name
    for row, topic in enumerate(topics if output != "out.test" else []):
        for name in metrics.keys() - {"num_q"}:
            assert shown(name, values[name][row]) == printed[topic][name], (topic, name)


# ---- pytrec_eval -------------------------------------------------------------------------------------------


def agree(naive_stands, qrels, run, level=1):
    """All measures of all topics that have both qrels and a run, to 1e-12; and their aggregates."""
    oracle = pytrec_eval.RelevanceEvaluator(qrels, set(FAMILIES), relevance_level=level).evaluate(run)
    topics = sorted(oracle)
    assert topics == sorted(qrels.keys() & run.keys())
    stands = settle(naive_stands([(run[topic], qrels[topic]) for topic in topics]), "trec")
    metrics = named("all_trec")
    assert metrics.keys() == oracle[topics[0]].keys()
    for name, metric in metrics.items():
        metric = metric(rel=level) if "rel" in metric.options else metric
        theirs = [oracle[topic][name] for topic in topics]
        np.testing.assert_allclose(metric.values(stands), theirs, rtol=1e-12, atol=1e-15, err_msg=name)
        aggregate = pytrec_eval.compute_aggregated_measure(name, theirs)
        assert metric.total(metric.values(stands)) == pytest.approx(aggregate, rel=1e-12), name


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_pytrec_eval_agrees_on_runs_with_ties(naive_stands, seed, level):
    draw = random.Random(seed)
    documents = [f"{prefix}{number}" for prefix in ("d", "D", "é", "中", "d-") for number in range(40)]
    qrels, run = {}, {}
    for topic in range(40):
        judged = draw.sample(documents, draw.randint(1, 80))
        # trec_eval takes whole numbers; topics without a relevant document are among them
        grades = draw.choice([(-1, 0, 0, 1), (0, 1, 2, 3), (-2, -1, 0, 0, 1, 4), (0, 0, -1), (1, 2)])
        qrels[f"q{topic}"] = {document: draw.choice(grades) for document in judged}
        levels = draw.choice((1, 2, 5, 30, 10_000))  # from all tied to hardly a tie; quarters fit into a float32
        listed = draw.sample(documents, draw.choice((1, 3, 30, 120, 200)))
        run[f"q{topic}"] = {document: draw.randrange(levels) / 4 for document in listed}
    run["unknown"] = {"d1": 1.0}
    qrels["not asked"] = {"d1": 1}
    agree(naive_stands, qrels, run, level)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_pytrec_eval_agrees_on_graded_qrels_with_negatives(shared: Path, naive_stands, level):
    folder = shared / "mirror/trec_eval"
    qrels = read_qrels(folder / "qrels.rel_level")
    run = {
        topic: {document: float(np.float32(score)) for document, score in scores.items()}
        for topic, scores in read_run(folder / "results.test").items()
    }
    assert min(gain for gains in qrels.values() for gain in gains.values()) == -1
    agree(naive_stands, qrels, run, level)


def test_pytrec_evals_recorded_calls(shared: Path, naive_stands):
    compared = 0
    for line in (shared / "mirror/peers/pytrec_eval/inline_cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        asked = [name for name in case["measures"] if name != "set"]  # of which there are but the counts here
        if not asked or case["kwargs"].get("judged_docs_only_flag"):
            continue
        metrics = named(",".join(asked))
        for topic, wanted in case["result"].items():
            stands = settle(naive_stands([(case["run"][topic], case["qrels"][topic])]), "trec")
            for name in wanted:
                if name.rstrip("_0123456789") in FAMILIES:
                    assert metrics[name].values(stands)[0] == pytest.approx(wanted[name], rel=1e-12), (
                        case,
                        name,
                    )
                    compared += 1
    assert compared > 200


def test_mtebs_recorded_cases(shared: Path, naive_stands):
    cases = json.loads((shared / "mirror/peers/mteb/retrieval_cases.json").read_bytes())
    (at_k,) = (case for case in cases if case["test"] == "test_metrics_at_k")
    names = {"ndcg": ("NDCG", nDCG), "map": ("MAP", AP), "recall": ("Recall", R), "precision": ("P", P)}
    ran = 0
    for qrels, run, ignore_identical_ids, expected in at_k["parametrize"][1]:
        if ignore_identical_ids:
            continue
        stands = settle(naive_stands([(run[query], qrels[query]) for query in sorted(qrels)]), "trec")
        for key, (name, family) in names.items():
            for k in (1, 2, 3):
                metric = family @ k
                assert round(metric.total(metric.values(stands)), 5) == expected[key][f"{name}@{k}"]
                ran += 1
    assert ran == 12


# ---- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "metrics"),
    [
        ("map", {"map": AP}),
        ("P_10", {"P_10": P @ 10}),
        ("recip_rank", {"recip_rank": MRR}),
        ("ndcg", {"ndcg": nDCG}),
        ("ndcg_cut_10", {"ndcg_cut_10": nDCG @ 10}),
        ("recall_100", {"recall_100": R @ 100}),
        ("success_5", {"success_5": Success @ 5}),
        ("map_cut_10", {"map_cut_10": AP @ 10}),
        ("Rprec,bpref", {"Rprec": Rprec, "bpref": bpref}),
        ("num_q,num_ret", {"num_q": num_q, "num_ret": num_ret}),
        ("success", {f"success_{k}": Success @ k for k in (1, 5, 10)}),
        ("P", {f"P_{k}": P @ k for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)}),
        ("P.10,5,map", {"P_5": P @ 5, "P_10": P @ 10, "map": AP}),
        ("ndcg_cut.1, 4", {"ndcg_cut_1": nDCG @ 1, "ndcg_cut_4": nDCG @ 4}),
        ("ndcg_cut_20,4", {"ndcg_cut_4": nDCG @ 4, "ndcg_cut_20": nDCG @ 20}),
        ("R@1, medR, map", {"R@1": R @ 1, "medR": medR, "map": AP}),
        ("R(rel=2)@1,P@3", {"R(rel=2)@1": R(rel=2) @ 1, "P@3": P @ 3}),
        (
            "AP(denominator=min,rel=2)@5,P_5",
            {"AP(denominator=min,rel=2)@5": AP(denominator="min", rel=2) @ 5, "P_5": P @ 5},
        ),
        ("map,map", {"map": AP}),
    ],
)
def test_names(names, metrics):
    assert named(names) == metrics
    assert list(named(names)) == list(metrics)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "gm_map",
            r"'gm_map' is no metric; there are: R@K.*; of trec_eval's names: num_q, .*, map, .*, all_trec",
        ),
        ("map_10", r"map_10: trec_eval's map takes no cut-off"),
        ("P_0", "P@0: a cut-off is a whole number from 1 up"),
        ("R", "R needs a cut-off: R@10; of trec_eval's names"),
        ("R@1,5", "R@1,5: a cut-off is a whole number"),
        ("R@1,", "'' is no metric"),
        ("", "'' is no metric"),
    ],
)
def test_unknown_names_say_what_there_is(name, message):
    with pytest.raises(ValueError, match=message):
        named(name)
