"""The library's `evaluate`: what it counts, what it refuses, and the small public API around it."""

import itertools
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankledger
from rankledger import AP, MRR, InputError, P, R, evaluate, medR, nDCG, read_qrels, read_run
from rankledger.predictions import rows
from rankledger.predictions.runs import open_run

Gains = Mapping[str, float]

# ---- the plain metrics of one order, written down from their definitions -----------------------------------


def plain(order: Sequence[str], gains: Gains, level: float = 1) -> dict[str, float]:
    right = {c for c, gain in gains.items() if gain >= level}
    hits = [c in right for c in order]
    found = {}
    for k in (1, 2, 5):
        found[f"R@{k}"] = sum(hits[:k]) / len(right) if right else 0
        found[f"P@{k}"] = sum(hits[:k]) / k
        found[f"Success@{k}"] = float(any(hits[:k]))
        found[f"MRR@{k}"] = next((1 / (i + 1) for i, hit in enumerate(hits[:k]) if hit), 0)
        found[f"AP@{k}"] = sum(sum(hits[: i + 1]) / (i + 1) for i in range(min(k, len(hits))) if hits[i]) / max(
            len(right), 1
        )
        found[f"nDCG@{k}"] = dcg([gains.get(c, 0) for c in order[:k]]) / (dcg(sorted(gains.values())[::-1][:k]) or 1)
    found["MRR"] = next((1 / (i + 1) for i, hit in enumerate(hits) if hit), 0)
    found["AP"] = sum(sum(hits[: i + 1]) / (i + 1) for i in range(len(hits)) if hits[i]) / max(len(right), 1)
    found["nDCG"] = dcg([gains.get(c, 0) for c in order]) / (dcg(sorted(gains.values())[::-1]) or 1)
    found["Rprec"] = sum(hits[: len(right)]) / len(right) if right else 0
    found["medR"] = next((i + 1 for i, hit in enumerate(hits) if hit), math.inf)
    found |= {"num_q": 1, "num_ret": len(order), "num_rel": len(right), "num_rel_ret": sum(hits)}
    return found


def dcg(gains: Sequence[float]) -> float:
    return sum(max(gain, 0) / math.log2(i + 2) for i, gain in enumerate(gains))


NAMES = list(plain([], {}))


def orders(scores: Mapping[str, float]) -> Iterator[list[str]]:
    """Every order of the candidates in which no lower score stands before a higher one."""
    groups = [[c for c in scores if scores[c] == s] for s in sorted(set(scores.values()), reverse=True)]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [c for part in parts for c in part]


def by_query(run, qrels, metrics=NAMES, **options) -> dict[str, dict[str, float]]:
    return {row.pop("query_id"): row for row in evaluate(run, qrels, metrics, **options).per_query.to_pylist()}


a_list = st.dictionaries(
    st.sampled_from("abcdef"), st.sampled_from([-math.inf, -1.0, 0.0, -0.0, 0.5, math.inf]), max_size=6
)
some_gains = st.dictionaries(st.sampled_from("abcdefxy"), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), min_size=1)


@settings(max_examples=40, deadline=None)
@given(a_list, some_gains, st.sampled_from([0.5, 1, 2]))
def test_ties_are_the_mean_the_best_the_worst_of_all_orders_of_what_is_listed(scores, gains, level):
    """Among the judged are x and y, which nobody lists; among the listed some that nobody judged."""
    every = [plain(order, gains, level) for order in orders(scores)]
    run, qrels = {"q": scores}, {"q": gains}
    wanted = {
        "expected": lambda values: statistics.fmean(values),
        "optimistic": max,
        "pessimistic": min,
        "trec": lambda values: values[-1],
    }
    every.append(plain(sorted(scores, key=lambda c: (scores[c], c), reverse=True), gains, level))
    for rule, pick in wanted.items():
        names = [name for name in NAMES if name != "medR"]
        (found,) = by_query(run, qrels, names, ties=rule, relevance_level=level).values()
        chosen = every if rule == "trec" else every[:-1]
        assert found == pytest.approx({name: pick([v[name] for v in chosen]) for name in names}, rel=1e-12, abs=1e-15)
        if not any(gain >= level for c, gain in gains.items() if c in scores):
            continue
        (found,) = by_query(run, qrels, "medR", ties=rule, relevance_level=level).values()
        best, worst = min(v["medR"] for v in every), max(v["medR"] for v in every)
        if rule in ("expected", "trec"):
            assert found["medR"] == pytest.approx(pick([v["medR"] for v in chosen]))
        else:
            assert found["medR"] == {"optimistic": best, "pessimistic": worst}[rule]


# ---- what counts -------------------------------------------------------------------------------------------

RUN = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"a": 1.0, "b": 2.0}}
QRELS = {"q1": {"b": 1}, "q2": {"b": 1, "a": 0}}


def test_means_medians_and_sums():
    found = evaluate(RUN, QRELS, [R @ 1, R @ 2, MRR, medR, "num_ret", "num_q"])
    assert found.metrics == {"R@1": 0.5, "R@2": 1.0, "MRR": 0.75, "medR": 1.5, "num_ret": 5, "num_q": 2}
    assert [type(value) for value in found.metrics.values()] == [float] * 4 + [int] * 2
    assert found.per_query.column_names == ["query_id", *found.metrics]
    assert found.per_query.to_pylist() == [
        {"query_id": "q1", "R@1": 0.0, "R@2": 1.0, "MRR": 0.5, "medR": 2.0, "num_ret": 3, "num_q": 1},
        {"query_id": "q2", "R@1": 1.0, "R@2": 1.0, "MRR": 1.0, "medR": 1.0, "num_ret": 2, "num_q": 1},
    ]
    assert found.notes == []


@pytest.mark.parametrize("asked", [MRR, "MRR", ["MRR"], [MRR], " MRR ", (m for m in [MRR])])
def test_a_metric_may_be_asked_for_in_any_way(asked):
    assert evaluate(RUN, QRELS, asked).metrics == {"MRR": 0.75}


def test_names_are_those_asked_for():
    asked = ["map", "AP", "P_1", "P@1", "R(rel=2)@1", "success.1,2"]
    found = evaluate(RUN, QRELS, asked)
    assert list(found.metrics) == ["map", "AP", "P_1", "P@1", "R(rel=2)@1", "success_1", "success_2"]
    assert found.metrics["map"] == found.metrics["AP"] == 0.75


def test_a_missing_query():
    qrels = {**QRELS, "q3": {"a": 1}, "q0": {"a": 1}}
    with pytest.raises(
        InputError, match=r"the run: 2 of 4 queries of the qrels are missing: 'q0', 'q3'; --missing zero"
    ):
        evaluate(RUN, qrels, MRR)
    zero = evaluate(RUN, qrels, [MRR, "num_q", "num_rel", "num_ret"], missing="zero")
    assert zero.metrics == {"MRR": 0.375, "num_q": 4, "num_rel": 4, "num_ret": 5}
    assert zero.per_query["MRR"].to_pylist() == [0, 0.5, 1, 0]
    assert zero.notes == ["2 of 4 queries of the qrels are missing and count 0: 'q0', 'q3'"]
    skip = evaluate(RUN, qrels, [MRR, "num_q", "num_rel"], missing="skip")
    assert skip.metrics == {"MRR": 0.75, "num_q": 2, "num_rel": 2}
    assert skip.per_query["query_id"].to_pylist() == ["q1", "q2"]
    assert skip.notes == ["2 of 4 queries of the qrels are missing and are left out: 'q0', 'q3'"]


def test_queries_without_qrels_are_counted_and_ignored():
    run = {"p9": {"a": 1.0}, **RUN, **{f"r{i}": {"b": 2.0} for i in range(4)}}
    found = evaluate(run, QRELS, "MRR,num_ret,num_q")
    assert found.metrics == {"MRR": 0.75, "num_ret": 5, "num_q": 2}
    assert found.notes == ["5 of 7 queries of the run are not in the qrels and are ignored: 'p9', 'r0', 'r1', …"]


def test_a_query_that_lists_nothing_is_no_missing_one():
    found = evaluate({"q1": {}, "q2": {"b": 1.0}}, QRELS, "MRR,R@1")
    assert found.metrics == {"MRR": 0.5, "R@1": 0.5}


def test_a_query_without_right_candidates_stays_in_the_mean():
    qrels = {"q1": {"b": 1}, "q2": {"b": 0, "a": -1}}
    found = evaluate(RUN, qrels, "MRR,R@2,P@2,AP,nDCG,Rprec,Success@2,num_rel")
    assert found.metrics == {
        "MRR": 0.25,
        "R@2": 0.5,
        "P@2": 0.25,
        "AP": 0.25,
        "nDCG": pytest.approx(0.5 / math.log2(3)),
        "Rprec": 0,
        "Success@2": 0.5,
        "num_rel": 1,
    }


def test_qrels_without_a_candidate():
    found = evaluate({"q": {"a": 1.0}}, {"q": {}}, ["R@1", "num_rel"])
    assert (found.metrics, found.notes) == ({"R@1": 0.0, "num_rel": 0}, [])


def test_no_list_is_too_short_and_ap_divides_by_all_right_ones():
    run, qrels = {"q": {"a": 1.0}}, {"q": dict.fromkeys("abcd", 1)}
    found = evaluate(run, qrels, "R@50,P@50,AP@2,AP@50,AP(denominator=min)@2,map_cut_2")
    assert found.metrics == {
        "R@50": 0.25,
        "P@50": 0.02,
        "AP@2": 0.25,
        "AP@50": 0.25,
        "AP(denominator=min)@2": 0.5,
        "map_cut_2": 0.25,
    }


def test_a_median_among_queries_without_a_right_candidate():
    run = {f"q{i}": {"a": 1.0, "b": 2.0} for i in range(5)}
    few = {f"q{i}": {"a" if i < 3 else "x": 1} for i in range(5)}
    found = evaluate(run, few, medR)
    assert found.metrics == {"medR": 2.0}
    assert found.per_query["medR"].to_pylist() == [2, 2, 2, None, None]
    with pytest.raises(InputError, match=r"the run: medR falls among the 3 of 5 queries that list no right candidate"):
        evaluate(run, {f"q{i}": {"a" if i < 2 else "x": 1} for i in range(5)}, medR)
    with pytest.raises(InputError, match=r"medR falls among the 1 of 2 queries"):  # one of the middle two
        evaluate(RUN, {"q1": {"b": 1}, "q2": {"x": 1}}, "MRR,medR")


def test_the_relevance_level():
    run, qrels = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": {"a": 1, "b": 2, "c": -3}}
    asked = ["R@1", "P_1", "R(rel=1)@1", R(rel=2) @ 2, "nDCG", "num_rel", "MRR"]
    one, two = evaluate(run, qrels, asked), evaluate(run, qrels, asked, relevance_level=2)
    ndcg = (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))
    assert one.metrics == pytest.approx(
        {"R@1": 0.5, "P_1": 1, "R(rel=1)@1": 0.5, "R(rel=2)@2": 1, "nDCG": ndcg, "num_rel": 2, "MRR": 1}
    )
    assert two.metrics == pytest.approx(
        {"R@1": 0, "P_1": 0, "R(rel=1)@1": 0.5, "R(rel=2)@2": 1, "nDCG": ndcg, "num_rel": 1, "MRR": 0.5}
    )
    with pytest.raises(InputError, match="rel is a number above 0, not 0"):
        evaluate(run, qrels, asked, relevance_level=0)


def test_a_metric_without_a_formula_for_ties():
    for metrics in ("bpref", "all_trec", "MRR,bpref"):
        with pytest.raises(InputError, match=r"^bpref: no formula .*; use --ties trec$"):
            evaluate(RUN, QRELS, metrics)
        for rule in ("trec", "optimistic", "pessimistic"):
            assert "bpref" in evaluate(RUN, QRELS, metrics, ties=rule).metrics


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ties": "random"}, "ties 'random': it is one of expected, trec, optimistic, pessimistic"),
        ({"missing": "ignore"}, "missing 'ignore': it is one of error, zero, skip"),
        ({"metrics": "R@1,MAPP"}, "'MAPP' is no metric"),
        ({"metrics": R}, "R needs a cut-off: R@10"),
        ({"metrics": ""}, "'' is no metric"),
        ({"metrics": []}, "'' is no metric"),
        (
            {"qrels": {"other": {"a": 1}}},
            "the run: no query is in the qrels; ids here look like 'q1', 'q2', there like 'other'",
        ),
        ({"run": {}}, "the run: no query is in the qrels; ids here look like none, there like 'q1', 'q2'"),
        ({"run": {"q1": {"b": math.nan}}}, "the run: 1 score NaN, the first at 'q1 / b'"),
        ({"qrels": {"q1": {"b": math.inf}}}, "the qrels: 1 relevance NaN or infinite, the first at 'q1 / b'"),
        ({"run": {1: {2: 1.0, "2": 2.0}}}, "the run: 1 pair of query and candidate twice: '1 / 2'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InputError) as caught:
        evaluate(**{"run": RUN, "qrels": QRELS, "metrics": MRR, **options})
    assert str(caught.value).startswith(message)


def test_run_and_qrels_cannot_be_exchanged():
    with pytest.raises(TypeError):
        evaluate(read_qrels(QRELS), read_run(RUN), MRR)  # type: ignore[arg-type]


def test_ids_that_never_meet_are_noted():
    found = evaluate({"q": {"1.jpg": 1.0}}, {"q": {"1": 1}}, MRR)
    assert found.metrics == {"MRR": 0}
    assert found.notes == ["no judged candidate is in the run; do ids like '1' and '1.jpg' mean the same?"]
    empty = evaluate({"q": {}}, {"q": {"1": 1}}, MRR)
    assert (empty.metrics, empty.notes) == ({"MRR": 0}, [])


# ---- every form of a run says the same ---------------------------------------------------------------------


def write_text(path: Path, run: Mapping[str, Mapping[str, float]]) -> Path:
    path.write_text("".join(f"{q} Q0 {c} 1 {s!r} x\n" for q, scores in run.items() for c, s in scores.items()))
    return path


def in_every_form(folder: Path, run: Mapping[str, Mapping[str, float]]) -> Iterator[Path]:
    """Files with this run: of integers as ids, the same number of candidates for each query, and no ties."""
    triples = [(int(q), int(c), s) for q, scores in run.items() for c, s in scores.items()]
    query, candidate, score = (list(column) for column in zip(*triples, strict=True))
    best = {q: sorted(scores, key=lambda c, scores=scores: -scores[c]) for q, scores in run.items()}
    ranked = [(int(q), int(c), i + 1) for q, listed in best.items() for i, c in enumerate(listed)]

    yield write_text(folder / "text", run)
    for name, dtype in (
        ("int64", pa.int64()),
        ("uint32", pa.uint32()),
        ("strings", pa.string()),
        ("large", pa.large_string()),
    ):
        ids = {"query_id": pa.array(query).cast(dtype), "candidate_id": pa.array(candidate).cast(dtype)}
        pq.write_table(pa.table({**ids, "score": score}), folder / f"{name}.parquet", row_group_size=7)
        yield folder / f"{name}.parquet"
    encoded = {name: column.dictionary_encode() for name, column in ids.items()}
    pq.write_table(pa.table({**encoded, "score": pa.array(score).cast(pa.float32())}), folder / "encoded.parquet")
    yield folder / "encoded.parquet"
    (folder / "parts").mkdir()
    table = pa.table({**ids, "score": score})
    for i in range(3):
        pq.write_table(table.slice(i * 5, 5 if i < 2 else None), folder / "parts" / f"{i}.parquet")
    yield folder / "parts"

    lists = {
        "query_id": [int(q) for q in best],
        "candidate_ids": [[int(c) for c in listed] for listed in best.values()],
    }
    pq.write_table(pa.table(lists), folder / "lists.parquet")
    yield folder / "lists.parquet"
    lists = {"query_id": list(best), "candidate_ids": list(best.values())}
    pq.write_table(pa.table(lists), folder / "string_lists.parquet")
    yield folder / "string_lists.parquet"
    ids = pa.array([c for listed in best.values() for c in listed]).dictionary_encode()
    starts = np.cumsum([0, *map(len, best.values())], dtype=np.int32)
    lists = {"query_id": list(best), "candidate_ids": pa.ListArray.from_arrays(starts, ids)}
    pq.write_table(pa.table(lists), folder / "encoded_lists.parquet", row_group_size=5)
    yield folder / "encoded_lists.parquet"
    columns = dict(zip(("query_id", "candidate_id", "rank"), zip(*ranked[::-1], strict=True), strict=True))
    pq.write_table(pa.table({k: list(v) for k, v in columns.items()}), folder / "ranks.parquet")
    yield folder / "ranks.parquet"

    (folder / "embeddings").mkdir()
    everyone = sorted({c for scores in run.values() for c in scores})
    assert all(len(scores) == len(everyone) for scores in run.values())
    units = np.eye(len(everyone), dtype=np.float32)
    rows = np.array([[scores[c] for c in everyone] for scores in run.values()], np.float64)
    for name, keys, vectors in (("asked", list(run), rows), ("images", everyone[::-1], units[::-1])):
        pq.write_table(pa.table({"id": keys, "embedding": list(vectors)}), folder / "embeddings" / f"{name}.parquet")
    yield folder / "embeddings"


@pytest.mark.parametrize("ties", ["expected", "trec"])
def test_every_form_of_a_run_gives_the_same(tmp_path: Path, ties):
    draw = np.random.default_rng(3)
    scores = [draw.permutation(np.arange(9) / 8 - 0.5) for _ in range(12)]
    run = {str(q): {str(c): float(s[c - 95]) for c in range(95, 104)} for q, s in enumerate(scores)}
    qrels = {
        str(q): {str(c): float(draw.integers(-1, 4)) for c in draw.choice(np.arange(95, 110), 5, False)}
        for q in range(12)
    }
    wanted = evaluate(run, qrels, NAMES, ties=ties, relevance_level=2, missing="error")
    assert 0 < wanted.metrics["MRR"] < 1
    text = "".join(f"{q} 0 {c} {gain}\n" for q, gains in qrels.items() for c, gain in gains.items())
    (tmp_path / "qrels").write_text(text)
    rows = [(q, c, gain) for q, gains in qrels.items() for c, gain in gains.items()]
    pq.write_table(
        pa.table([list(c) for c in zip(*rows, strict=True)], ["query_id", "candidate_id", "relevance"]),
        tmp_path / "q.parquet",
    )
    whole = {
        "query_id": [int(r[0]) for r in rows],
        "candidate_id": [int(r[1]) for r in rows],
        "relevance": [int(r[2]) for r in rows],
    }
    pq.write_table(pa.table(whole), tmp_path / "i.parquet")
    forms = 0
    for path in in_every_form(tmp_path, run):
        for right in ("qrels", "q.parquet", "i.parquet") if forms < 3 else ("qrels",):
            for read in (read_run, open_run):
                found = evaluate(read(path, "dot"), tmp_path / right, NAMES, ties=ties, relevance_level=2)
                assert found.metrics == wanted.metrics, path
                assert found.per_query.equals(wanted.per_query), path
        forms += 1
    assert forms == 12


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["expected", "trec", "optimistic", "pessimistic"]))
def test_the_order_of_lines_changes_nothing(tmp_path_factory, draw, ties):
    """To the last bit, with ties and graded qrels."""
    lines = [f"q{q} Q0 d{c} {draw.randrange(99)} {draw.randrange(3)} x\n" for q in range(6) for c in range(8)]
    right = [f"q{q} 0 d{draw.randrange(4) + 4 * c} {draw.randrange(-1, 4)}\n" for q in range(7) for c in range(3)]
    folder = tmp_path_factory.mktemp("shuffled")
    found = []
    for _ in range(2):
        (folder / "run").write_text("".join(lines))
        (folder / "qrels").write_text("".join(right))
        options = {"ties": ties, "missing": "zero"}
        found.append(evaluate(folder / "run", folder / "qrels", [n for n in NAMES if n != "medR"], **options))
        draw.shuffle(lines)
        draw.shuffle(right)
    assert found[0].metrics == found[1].metrics
    assert found[0].per_query.equals(found[1].per_query)


@settings(max_examples=40, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(["expected", "trec", "optimistic", "pessimistic"]),
    st.sampled_from([pa.float16(), pa.float32(), pa.float64()]),
    st.booleans(),
    st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(1, 3), st.sampled_from(["none", "snappy", "plain"])),
)
def test_how_a_file_is_cut_changes_nothing(tmp_path_factory, draw, ties, dtype, shuffled, cut):
    """To the last bit: row groups, blocks, threads, the order of rows, how strings are stored."""
    groups, block, threads, storage = cut
    levels = draw.choice((1, 3, 1000))
    triples = [
        (f"q{q}", f"d{c}é" * (1 + c % 3), draw.randrange(-levels, levels) / 8)
        for q in draw.sample(range(9), 7)
        for c in draw.sample(range(30), draw.randrange(1, 30))
    ]
    qrels = {f"q{q}": {f"d{c}é" * (1 + c % 3): draw.randrange(-1, 3) for c in range(0, 30, q)} for q in range(1, 9)}
    run: dict[str, dict[str, float]] = {}
    for q, c, s in triples:
        run.setdefault(q, {})[c] = s
    if shuffled:
        draw.shuffle(triples)
    options = {"metrics": [n for n in NAMES if n != "medR"], "ties": ties, "missing": "zero"}
    wanted = evaluate(run, qrels, **options)
    query, candidate, score = zip(*triples, strict=True)
    table = pa.table({"query_id": query, "candidate_id": candidate, "score": pa.array(score).cast(dtype)})
    path = tmp_path_factory.mktemp("cut") / "run.parquet"
    compression = "none" if storage == "plain" else storage
    pq.write_table(table, path, row_group_size=groups, compression=compression, use_dictionary=storage != "plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BLOCK_ROWS", block)
        patch.setattr(rows, "SORTED_ROWS", block)
        patch.setattr("rankledger.ranking.threads.THREADS", threads)
        found = evaluate(path, qrels, **options)
    assert found.metrics == wanted.metrics
    assert found.per_query.equals(wanted.per_query)
    assert sorted(found.notes) == sorted(wanted.notes)


# ---- embeddings --------------------------------------------------------------------------------------------


def write_sides(folder: Path, **sides: Mapping[str, Sequence[float]]) -> Path:
    folder.mkdir()
    for name, vectors in sides.items():
        table = pa.table({"id": list(vectors), "embedding": [list(map(float, v)) for v in vectors.values()]})
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


IMAGES = {"i1": [1, 0], "i2": [9, 9], "i3": [0, 1]}


def test_the_similarity_of_embeddings(tmp_path: Path):
    folder = write_sides(tmp_path / "run", text={"t1": [1, 0], "t2": [0, 1]}, image=IMAGES)
    qrels = {"t1": {"i1": 1}, "t2": {"i3": 1}}
    assert evaluate(folder, qrels, "MRR,num_ret").metrics == {"MRR": 1.0, "num_ret": 6}
    assert evaluate(read_run(folder, "dot"), qrels, "MRR").metrics == {"MRR": 0.5}
    with pytest.raises(InputError, match="similarity 'euclid': it is cosine or dot"):
        read_run(folder, "euclid")


def test_either_side_asks(tmp_path: Path):
    """The query side is the one whose ids the qrels ask for, whatever the names."""
    folder = write_sides(tmp_path / "run", text={"t1": [1, 0], "t2": [0, 1]}, image=IMAGES)
    run = read_run(folder)
    assert evaluate(run, {"t1": {"i1": 1}}, "num_ret").metrics == {"num_ret": 3}
    assert evaluate(run, {"i1": {"t1": 1}, "i3": {"t1": 1}}, "num_ret,MRR").metrics == {"num_ret": 4, "MRR": 0.75}
    with pytest.raises(InputError, match=r"no side holds queries of the qrels; name the queries' file query.parquet"):
        evaluate(run, {"x": {"t1": 1}}, MRR)


def test_sides_that_share_their_ids(tmp_path: Path):
    """As image and recipe do in Recipe1M+: then a name must say which side asks."""
    one, two = {"1": [1, 0], "2": [0, 1]}, {"1": [1, 0], "2": [1, 1], "3": [0, 1]}
    qrels = {"1": {"1": 1}, "2": {"2": 1}}
    with pytest.raises(InputError, match=r"both sides hold queries of the qrels; name the queries' file query.parquet"):
        evaluate(write_sides(tmp_path / "a", image=one, recipe=two), qrels, MRR)
    assert evaluate(write_sides(tmp_path / "b", query=one, recipe=two), qrels, "num_ret,MRR").metrics == {
        "num_ret": 6,
        "MRR": 0.75,
    }
    assert evaluate(write_sides(tmp_path / "c", image=one, query=two), qrels, "num_ret").metrics == {"num_ret": 4}


@pytest.mark.parametrize(("missing", "metrics"), [("zero", {"MRR": 0.5, "num_q": 2}), ("skip", {"MRR": 1, "num_q": 1})])
def test_a_query_without_a_vector(tmp_path: Path, missing, metrics):
    folder = write_sides(tmp_path / "run", text={"t1": [1, 0]}, image=IMAGES)
    qrels = {"t0": {"i1": 1}, "t1": {"i1": 1}}
    assert evaluate(folder, qrels, "MRR,num_q", missing=missing).metrics == metrics
    with pytest.raises(InputError, match=r"run: 1 of 2 queries of the qrels are missing: 't0'"):
        evaluate(folder, qrels, "MRR")


def test_equal_vectors_are_chance(tmp_path: Path):
    same = {f"i{i:03}": [0.1, 0.7, 0.3] for i in range(200)}
    folder = write_sides(tmp_path / "run", query={"q1": [3, 1, 2], "q2": [1, 1, 1]}, image=same)
    found = evaluate(folder, {"q1": {"i000": 1}, "q2": {"i199": 1}}, "R@1,R@10,medR")
    assert found.metrics == pytest.approx({"R@1": 1 / 200, "R@10": 10 / 200, "medR": 100.5}, rel=1e-12)


# ---- the public API ----------------------------------------------------------------------------------------


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_it_costs_nothing():
    """Nothing heavy is imported before it is used; a whole evaluation does without polars, pandera and pandas."""
    heavy = "sorted({'numpy', 'pyarrow', 'polars', 'pandera', 'pandas', 'typer'} & set(sys.modules))"
    assert python(f"import sys, rankledger; print({heavy})") == "[]\n"
    evaluation = "rankledger.evaluate({'q': {'a': 1.0}}, {'q': {'a': 1}}, rankledger.R @ 1)"
    used = json.loads(python(f"import sys, rankledger; {evaluation}; print({heavy})").replace("'", '"'))
    assert used == ["numpy", "pyarrow"]


def test_all_of_it_is_there():
    for name in rankledger.__all__:
        assert getattr(rankledger, name) is not None
    assert set(rankledger.__all__) <= set(dir(rankledger))
    assert rankledger.benchmark("cirr").title == "CIRR"
    assert str(rankledger.R @ 10) == "R@10"
    assert (rankledger.AP, rankledger.P, rankledger.nDCG) == (AP, P, nDCG)
    with pytest.raises(AttributeError, match="has no attribute 'recall'"):
        rankledger.recall  # noqa: B018


def test_type_checkers_see_the_same_names():
    """What is imported for them is what `__all__` names and `__getattr__` finds."""
    source = Path(rankledger.__file__).read_text()
    checked = source[source.index("if TYPE_CHECKING") : source.index("__all__")]
    assert all(f" {name}" in checked for name in rankledger.__all__)
