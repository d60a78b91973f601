"""From predictions and a subset to values, per-query tables and notes."""

import itertools
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rankledger.benchmarks import NAMES, benchmark
from rankledger.benchmarks.base import Mean, Measure, Plan, Task
from rankledger.ranking import blocks, sources
from rankledger.scoring import Scored, score
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset
from rankledger.tables import InputError
from tests.projects import Small

RULES = ("expected", "trec", "optimistic", "pessimistic")


def rows(schema: pa.Schema, content: Sequence[Sequence[object]]) -> pa.Table:
    return pa.table([list(c) for c in zip(*content, strict=True)] or [[]] * len(schema), schema=schema)


def tiny(
    pools: Mapping[str, str],
    trials: Sequence[tuple[str, str, int, str, str]],
    qrels: Sequence[tuple[str, str, float]],
    exclusions: Sequence[tuple[str, str]] = (),
    **columns: Sequence[object],
) -> Subset:
    """A subset whose candidates have one letter; a pool is a text of them. `columns` are of the queries."""
    asked = sorted({(query, task) for task, _, _, query, _ in trials})
    sides = [("query", query) for query in sorted({q for q, _ in asked})]
    sides += [("image", letter) for letter in sorted(set("".join(pools.values())))]
    return Subset(
        queries=pa.table({"query_id": [q for q, _ in asked], "task": [t for _, t in asked], **columns}),
        pools=rows(POOLS, [(pool, letter) for pool, letters in pools.items() for letter in letters]),
        trials=rows(TRIALS, trials),
        qrels=rows(QRELS, qrels),
        exclusions=rows(EXCLUSIONS, exclusions),
        universe=rows(UNIVERSE, sides),
    )


def one_task(*metrics: str, **more: Any) -> Plan:
    """A plan of one task `t` and one view `all`."""
    measures = tuple(Measure("t", "all", m, ("t", m)) for m in metrics)
    return Plan(**{"tasks": (Task("t"),), "measures": measures, **more})


@dataclass(frozen=True)
class Files:
    """Writes predictions and scores them."""

    folder: Path

    def score(
        self, subset: Subset, plan: Plan, ties: str | None = None, similarity: str = "cosine", **files: pa.Table
    ) -> Scored:
        paths = {name: self.folder / f"{name}.parquet" for name in files}
        for name, table in files.items():
            pq.write_table(table, paths[name])
        return score(subset, plan, paths, similarity, ties)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def scores(by_query: Mapping[str, Mapping[str, float]]) -> pa.Table:
    flat = [(q, c, s) for q, given in by_query.items() for c, s in given.items()]
    return pa.table(dict(zip(("query_id", "candidate_id", "score"), map(list, zip(*flat, strict=True)), strict=True)))


def ranking(by_query: Mapping[str, Sequence[str]]) -> pa.Table:
    return pa.table({"query_id": list(by_query), "candidate_ids": [list(names) for names in by_query.values()]})


def means(scored: Scored) -> dict[str, float]:
    return {"/".join(key): value.mean for key, value in scored.values.items()}


# ---- tie rules ---------------------------------------------------------------------------------------------

TIED = tiny({"p": "abcde"}, [("t", "all", 0, "q", "p")], [("q", "b", 1.0)])
B_TIES_WITH_C_AND_D = scores({"q": {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 0.0}})


@pytest.mark.parametrize(
    ("ties", "low", "high", "wanted"),
    [
        ("expected", 2, 4, {"R@2": 1 / 3, "R@3": 2 / 3, "MRR": (1 / 2 + 1 / 3 + 1 / 4) / 3, "medR": 3}),
        ("trec", 4, 4, {"R@2": 0, "R@3": 0, "MRR": 1 / 4, "medR": 4}),
        ("optimistic", 2, 4, {"R@2": 1, "R@3": 1, "MRR": 1 / 2, "medR": 2}),
        ("pessimistic", 2, 4, {"R@2": 0, "R@3": 0, "MRR": 1 / 4, "medR": 4}),
    ],
)
def test_tie_rules(ties: str, low: int, high: int, wanted: dict[str, float], files: Files) -> None:
    found = files.score(TIED, one_task(*wanted, percent=False), ties, t=B_TIES_WITH_C_AND_D)
    assert means(found) == pytest.approx({f"t/{name}": value for name, value in wanted.items()}, rel=1e-15)
    (row,) = found.tables["t"].to_pylist()
    assert (row["rank_min"], row["rank_max"], row["n_candidates"]) == (low, high, 5)


def test_a_tasks_own_rule_holds_where_none_is_asked_for(files: Files) -> None:
    plan = one_task("R@2", percent=False, tasks=(Task("t", ties="optimistic"),))
    assert means(files.score(TIED, plan, t=B_TIES_WITH_C_AND_D)) == {"t/R@2": 1}
    assert means(files.score(TIED, plan, "pessimistic", t=B_TIES_WITH_C_AND_D)) == {"t/R@2": 0}


def test_expected_is_the_mean_over_all_orders(files: Files) -> None:
    """Two right ones among five tied, one of them excluded for one query; every order of the tied, by trec."""
    pool, right = "abcde", [("q", "b", 1.0), ("q", "d", 2.0), ("r", "b", 1.0), ("r", "d", 2.0)]
    trials = [("t", "all", 0, "q", "p"), ("t", "all", 0, "r", "p")]
    subset, metrics = tiny({"p": pool}, trials, right, [("r", "d")]), ("R@2", "AP", "MRR", "nDCG@3", "Success@1", "P@3")
    plan = one_task(*metrics, percent=False)
    flat = files.score(subset, plan, t=scores({q: dict.fromkeys(pool, 1.0) for q in "qr"}))
    each = []
    for order in itertools.permutations(pool):
        falling = {c: -float(place) for place, c in enumerate(order)}
        each.append(files.score(subset, plan, "trec", t=scores({"q": falling, "r": falling})).tables["t"])
    for metric in metrics:
        for i in range(2):
            mean = math.fsum(table[metric][i].as_py() for table in each) / len(each)
            assert flat.tables["t"][metric][i].as_py() == pytest.approx(mean, rel=1e-12)


def test_every_benchmark_lets_ties_be_chosen_unless_its_protocol_fixes_them() -> None:
    for name in NAMES:
        found = benchmark(name)
        own = {task.ties for task in found.plan(found.parameters({})).tasks}
        if name == "deft2013":
            assert own == {"expected", "trec"}
            assert "ties" not in found.parameters({})
            with pytest.raises(InputError, match=r"deft2013\.ties is not a parameter"):
                found.parameters({"ties": "trec"})
            continue
        assert own == {"expected"}, "a parameter would override it"
        assert found.parameters({})["ties"] == "expected"
        for rule in RULES:
            assert found.parameters({"ties": rule})["ties"] == rule
        with pytest.raises(InputError, match=r"ties is 'random'; it should be one of: expected, trec"):
            found.parameters({"ties": "random"})


@pytest.mark.parametrize(("ties", "wanted"), [("expected", 20.0), ("optimistic", 100.0), ("pessimistic", 0.0)])
def test_the_rule_of_params_reaches_the_score(ties: str, wanted: float, tmp_path: Path) -> None:
    small = Small.make(tmp_path / "p", {"genecis": {"source": "sample", "tasks": ["focus_object"], "ties": ties}})
    pools = small.built("genecis").pools
    flat = {"query_id": pools["pool_id"], "candidate_id": pools["candidate_id"], "score": np.zeros(len(pools))}
    small.place("flat", "genecis", {"focus_object": pa.table(flat)})
    assert small.run("score", "flat", "genecis").code == 0
    assert small.run("report").code == 0
    assert result(small, "flat", "genecis")["metrics"]["focus_object"]["R@3"]["mean"] == pytest.approx(wanted)
    assert result(small, "flat", "genecis")["protocol"]["tasks"]["focus_object"]["ties"] == ties
    assert f"ties {ties}" in (small.root / "reports" / "summary.md").read_text()


def result(small: Small, run: str, name: str) -> dict[str, Any]:
    return json.loads((small.scores(run, name) / "result.json").read_bytes())


# ---- values ------------------------------------------------------------------------------------------------


def test_percent_is_for_shares_only(files: Files) -> None:
    for percent in (True, False):
        found = files.score(TIED, one_task("R@5", "medR", "num_rel", percent=percent), t=B_TIES_WITH_C_AND_D)
        values = {v.metric: (v.mean, v.unit, v.higher_is_better) for v in found.values.values()}
        share = (100.0, "percent", True) if percent else (1.0, "fraction", True)
        assert values == {"R@5": share, "medR": (3.0, "rank", False), "num_rel": (1.0, "count", True)}
        assert found.tables["t"]["R@5"].to_pylist() == [share[0]]
        assert found.tables["t"]["medR"].to_pylist() == [3.0]


def test_a_right_candidate_outside_the_pool_adds_nothing_and_counts(files: Files) -> None:
    subset = tiny({"p": "abc"}, [("t", "all", 0, "q", "p")], [("q", "a", 1.0), ("q", "z", 1.0)])
    found = files.score(subset, one_task("R@1", "AP", percent=False), t=scores({"q": {"a": 3.0, "b": 2.0, "c": 1.0}}))
    assert means(found) == {"t/R@1": 0.5, "t/AP": 0.5}


def test_a_query_without_a_right_candidate_in_its_pool_scores_0_and_counts(files: Files) -> None:
    trials = [("t", "all", 0, "q", "p"), ("t", "all", 0, "r", "p")]
    subset = tiny({"p": "abc"}, trials, [("q", "a", 1.0), ("r", "b", 1.0)], [("r", "b")])
    found = files.score(
        subset, one_task("R@1", percent=False), t=scores({q: {"a": 3.0, "b": 2.0, "c": 1.0} for q in "qr"})
    )
    assert means(found) == {"t/R@1": 0.5}
    assert found.values["t", "R@1"].n == 2
    assert [(r["rank_min"], r["rank_max"], r["n_candidates"]) for r in found.tables["t"].to_pylist()] == [
        (1, 1, 3),
        (None, None, 2),
    ]


def test_excluded_candidates_need_no_score_and_take_no_rank(files: Files) -> None:
    trials = [("t", "all", 0, "q", "p"), ("t", "all", 0, "r", "p")]
    subset = tiny({"p": "abc"}, trials, [("q", "b", 1.0), ("r", "b", 1.0)], [("q", "a")])
    found = files.score(
        subset,
        one_task("MRR", percent=False),
        t=scores({"q": {"b": 1.0, "c": 0.0}, "r": {"a": 2.0, "b": 1.0, "c": 0.0}}),
    )
    assert found.tables["t"]["MRR"].to_pylist() == [1.0, 0.5]


def test_a_mean_appears_only_when_all_its_parts_do(files: Files) -> None:
    trials = [("t", "all", 0, "q", "p"), ("u", "all", 0, "r", "p")]
    subset = tiny({"p": "abc"}, trials, [("q", "a", 1.0), ("r", "b", 1.0)])
    plan = Plan(
        tasks=(Task("t"), Task("u")),
        measures=tuple(Measure(t, "all", "R@1", (t, "R@1")) for t in "tu"),
        means=(Mean(("mean", "R@1"), (("t", "R@1"), ("u", "R@1"))), Mean(("twice",), (("mean", "R@1"), ("t", "R@1")))),
    )
    falling = {"a": 3.0, "b": 2.0, "c": 1.0}
    both = files.score(subset, plan, t=scores({"q": falling}), u=scores({"r": falling}))
    assert means(both) == {"t/R@1": 100, "u/R@1": 0, "mean/R@1": 50, "twice": 75}
    mean = both.values["mean", "R@1"]
    assert (mean.metric, mean.unit, mean.higher_is_better, mean.shows_std) == ("mean(R@1)", "percent", True, False)
    assert mean.n == 2, "the tasks ask a query each"
    assert means(files.score(subset, plan, t=scores({"q": falling}))) == {"t/R@1": 100}
    assert means(files.score(subset, plan, u=scores({"r": falling}))) == {"u/R@1": 0}


def test_only_some_queries_have_a_measure(files: Files) -> None:
    trials = [("t", "all", 0, q, "p") for q in "qrs"]
    qrels = [(q, "a", 1.0) for q in "qrs"]
    measures = [Measure("t", "all", "R@1", (name, "R@1"), where=("kinds", name)) for name in ("x", "y", "z")]
    plan = one_task(
        measures=(*measures, Measure("t", "all", "R@1", ("colour",), where=("colour", "red"))), percent=False
    )
    given = scores({"q": {"a": 2.0, "b": 1.0}, "r": {"a": 1.0, "b": 2.0}, "s": {"a": 1.0, "b": 1.0}})
    kinds: pa.Array = pa.array([["x"], ["x", "y"], []], pa.list_(pa.string()))
    subset = tiny({"p": "ab"}, trials, qrels, kinds=kinds, colour=["red", None, "red"])
    found = files.score(subset, plan, t=given)
    assert means(found) == {"x/R@1": 0.5, "y/R@1": 0.0, "colour": 0.75}
    assert [found.values[key].n for key in (("x", "R@1"), ("y", "R@1"), ("colour",))] == [2, 1, 2]
    assert "z/R@1: no query has it; left out" in found.notes


def test_missing_queries_count_0_where_the_protocol_says_so(files: Files) -> None:
    trials = [("t", "all", 0, q, "p") for q in "qr"]
    subset = tiny({"p": "abc"}, trials, [(q, "a", 1.0) for q in "qr"])
    plan = one_task("MRR", percent=False, tasks=(Task("t", ties="trec", missing="zero"),))
    found = files.score(subset, plan, t=scores({"q": {"a": 1.0}}))
    assert means(found) == {"t/MRR": 0.5}
    assert "t all: 1 queries have no prediction and count 0" in found.notes


def test_embeddings_are_of_all_queries_or_of_none(files: Files) -> None:
    """Even where the protocol counts a missing answer 0: there is no vector to rank by."""
    trials = [("t", "all", 0, q, "p") for q in "qr"]
    subset = tiny({"p": "abc"}, trials, [(q, "a", 1.0) for q in "qr"])
    plan = one_task("MRR", percent=False, tasks=(Task("t", ties="trec", missing="zero"),))
    image = pa.table({"id": list("abc"), "embedding": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]})
    query = pa.table({"id": ["q", "r"], "embedding": [[1.0, 0.0], [0.0, 1.0]]})
    assert means(files.score(subset, plan, query=query, image=image)) == {"t/MRR": pytest.approx((1 + 1 / 3) / 2)}
    with pytest.raises(InputError, match=r"query\.parquet: 1 of 2 queries of t are missing: 'r'"):
        files.score(subset, plan, query=query.slice(0, 1), image=image)
    with pytest.raises(InputError, match=r"image\.parquet: 1 of 3 candidates of t have no vector: 'a'"):
        files.score(subset, plan, query=query, image=image.slice(1))


def test_noise_takes_its_rank_and_is_counted(files: Files) -> None:
    subset = tiny({"p": "abc"}, [("t", "all", 0, "q", "p")], [("q", "a", 1.0), ("q", "b", 1.0)])
    plan = one_task("AP", percent=False, tasks=(Task("t", ties="trec", noise=True),))
    found = files.score(subset, plan, t=ranking({"q": ["salt", "a", "pepper", "b"]}))
    assert means(found) == {"t/AP": pytest.approx((1 / 2 + 2 / 4) / 2)}
    assert "t: 2 listed candidates are unknown; each took its rank, none is right" in found.notes
    assert not [note for note in found.notes if "unused" in note]
    with pytest.raises(InputError, match="2 ids of no image"):
        files.score(subset, one_task("AP"), t=ranking({"q": ["salt", "a", "pepper", "b"]}))


def test_trec_does_not_retrieve_what_has_no_score(files: Files) -> None:
    subset = tiny({"p": "abcd"}, [("t", "all", 0, "q", "p")], [("q", "a", 1.0), ("q", "d", 1.0)])
    plan = one_task("AP", "R@4", percent=False)
    assert means(files.score(subset, plan, "trec", t=scores({"q": {"a": 1.0, "b": 2.0}}))) == {
        "t/AP": 0.25,
        "t/R@4": 0.5,
    }
    with pytest.raises(InputError, match="2 candidates have no score, in 1 of 1 trials of t all"):
        files.score(subset, plan, "expected", t=scores({"q": {"a": 1.0, "b": 2.0}}))


# ---- depth -------------------------------------------------------------------------------------------------


def test_a_ranking_is_long_enough_at_the_deepest_cut_off_or_the_whole_pool(files: Files) -> None:
    trials = [("t", "all", 0, "q", "p"), ("t", "all", 0, "r", "small")]
    subset = tiny({"p": "abcdef", "small": "ab"}, trials, [("q", "a", 1.0), ("r", "a", 1.0)], [("q", "f")])
    plan = one_task("R@1", "R@3", percent=False)
    files.score(subset, plan, t=ranking({"q": "bcd", "r": "ba"}))
    for lists in ({"q": "bc", "r": "ba"}, {"q": "bcf", "r": "ba"}, {"q": "bcd", "r": "b"}, {"q": "bcd", "r": "bcd"}):
        with pytest.raises(InputError, match="1 of 2 rankings of t all are too short"):
            files.score(subset, plan, t=ranking(lists))
    files.score(subset, plan, "trec", t=ranking({"q": "b", "r": "b"}))


def test_unlisted_candidates_tie_after_the_listed(files: Files) -> None:
    subset = tiny({"p": "abcdef"}, [("t", "all", 0, "q", "p")], [("q", "e", 1.0)])
    found = files.score(subset, one_task("R@2", percent=False), t=ranking({"q": "ab"}))
    assert means(found) == {"t/R@2": 0}
    assert found.tables["t"].select(["rank_min", "rank_max"]).to_pylist() == [{"rank_min": 3, "rank_max": 6}]


def medians(right: Sequence[str], lists: Mapping[str, str], ties: str | None = None) -> Callable[[Files], Scored]:
    trials = [("t", "all", 0, q, "p") for q in lists]
    subset = tiny({"p": "abcdef"}, trials, list(zip(lists, right, [1.0] * len(right), strict=True)))
    return lambda files: files.score(subset, one_task("medR"), ties, t=ranking(lists))


@pytest.mark.parametrize("ties", RULES)
def test_a_median_must_not_fall_among_the_unranked(ties: str, files: Files) -> None:
    """Sorted ranks of three: the second must be known; of four: the second and the third."""
    assert means(medians("abf", dict.fromkeys("qrs", "abc"), ties)(files)) == {"t/medR": 2}
    assert means(medians("abcf", dict.fromkeys("qrst", "abc"), ties)(files)) == {"t/medR": 2.5}
    for right in ("aff", "abff", "fff"):
        with pytest.raises(InputError, match=r"median rank of t all .*2 of|median rank of t all .*3 of"):
            medians(right, dict.fromkeys("qrst"[: len(right)], "abc"), ties)(files)


def test_a_single_unlisted_candidate_has_a_rank(files: Files) -> None:
    assert means(medians("f", {"q": "abcde"})(files)) == {"t/medR": 6}
    with pytest.raises(InputError, match="1 of 1 right ones, repeat 0"):
        medians("f", {"q": "abcde"}, "trec")(files)


def test_a_median_must_not_fall_among_what_is_not_retrieved(files: Files) -> None:
    subset = tiny({"p": "abc"}, [("t", "all", 0, "q", "p")], [("q", "c", 1.0)])
    with pytest.raises(InputError, match="1 of 1 right ones, repeat 0"):
        files.score(subset, one_task("medR"), "trec", t=scores({"q": {"a": 1.0, "b": 2.0}}))
    flat = files.score(subset, one_task("medR"), t=scores({"q": dict.fromkeys("abc", 1.0)}))
    assert means(flat) == {"t/medR": 2}, "tied scores are ranks all the same"


def test_the_median_is_checked_in_every_repeat(files: Files) -> None:
    trials = [("t", "all", s, q, "p") for s in range(2) for q in "qr"]
    pools = {"p": "abcdef", "easy": "abc"}
    trials = [(*t[:4], "p" if t[2] else "easy") for t in trials]
    subset = tiny(pools, trials, [("q", "c", 1.0), ("r", "c", 1.0)])
    plan = one_task("medR")
    assert files.score(subset, plan, t=ranking({"q": "abcd", "r": "cabd"})).values["t", "medR"].mean == 2
    with pytest.raises(InputError, match="1 of 2 right ones, repeat 1"):
        files.score(subset, plan, t=ranking({"q": "ab", "r": "cabd"}))


# ---- repeats -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Small:
    parameters = {"source": "sample", "sizes": [20, 30], "repeats": 3, "ten_way": False}
    return Small.make(tmp_path_factory.mktemp("scoring") / "recipes", {"recipe1m": parameters})


def noisy(subset: Subset) -> dict[str, pa.Table]:
    ids = sorted(set(subset.pools["candidate_id"].to_pylist()))
    rng = np.random.default_rng(8)
    right = rng.normal(size=(len(ids), 12))
    near = right + 1.1 * rng.normal(size=right.shape)
    return {
        side: pa.table({"id": ids, "embedding": [v.tolist() for v in values.astype(np.float32)]})
        for side, values in (("image", near), ("recipe", right))
    }


def test_values_are_means_over_repeats_of_the_columns(recipes: Small, files: Files) -> None:
    """And the standard deviation is the population's; medR is the mean of the draws' medians."""
    subset = recipes.built("recipe1m")
    plan = benchmark("recipe1m").plan({"sizes": [20, 30], "ten_way": False})
    found = files.score(subset, plan, **noisy(subset))
    assert len(found.values) == 16
    for (task, view, name), value in found.values.items():
        table = [row for row in found.tables[task].to_pylist() if row["view"] == view]
        draws = [[row[name] for row in table if row["repeat"] == s] for s in range(3)]
        assert {len(d) for d in draws} == {int(view)} == {value.n}
        each = [statistics.median(d) if name == "medR" else statistics.fmean(d) for d in draws]
        assert value.mean == pytest.approx(statistics.fmean(each), rel=1e-14)
        assert value.std == pytest.approx(statistics.pstdev(each), rel=1e-9, abs=1e-12)
        assert value.repeats == 3
        assert value.shows_std
        assert len(set(each)) > 1 or name != "R@5", "the draws must differ, or this tests nothing"


def test_dropping_a_repeat_changes_only_what_it_should(recipes: Small, files: Files) -> None:
    subset = recipes.built("recipe1m")
    plan = benchmark("recipe1m").plan({"sizes": [20, 30], "ten_way": False})
    vectors = noisy(subset)
    every = files.score(subset, plan, **vectors)
    fewer = files.score(
        replace(subset, trials=subset.trials.filter(pc.less(subset.trials["repeat"], 2))), plan, **vectors
    )
    for task, table in every.tables.items():
        assert table.filter(pc.less(table["repeat"], 2)).equals(fewer.tables[task])
    assert {v.repeats for v in fewer.values.values()} == {2}
    assert list(fewer.values) == list(every.values)


def test_a_task_or_a_view_more_changes_no_other_value(recipes: Small, files: Files) -> None:
    subset = recipes.built("recipe1m")
    plan = benchmark("recipe1m").plan({"sizes": [20, 30], "ten_way": False})
    vectors = noisy(subset)
    every = files.score(subset, plan, **vectors)
    small = replace(subset, trials=subset.trials.filter(pc.equal(subset.trials["view"], "20")))
    alone = files.score(small, benchmark("recipe1m").plan({"sizes": [20], "ten_way": False}), **vectors)
    assert alone.values == {key: value for key, value in every.values.items() if key[1] == "20"}


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_embeddings_score_as_their_similarities_do(similarity: str, recipes: Small, files: Files) -> None:
    """Written out as a table of float32, each a float64 dot product."""
    subset = recipes.built("recipe1m")
    plan = benchmark("recipe1m").plan({"sizes": [20, 30], "ten_way": False})
    vectors = noisy(subset)
    ids = vectors["image"]["id"].to_pylist()
    left, right = (
        np.array(vectors[side]["embedding"].to_pylist(), np.float32).astype(float) for side in ("image", "recipe")
    )
    if similarity == "cosine":
        left, right = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (left, right))
    table = {
        "query_id": np.repeat(ids, len(ids)),
        "candidate_id": np.tile(ids, len(ids)),
        "score": (left @ right.T).ravel().astype(np.float32),
    }
    from_table = files.score(subset, plan, im2recipe=pa.table(table))
    from_vectors = files.score(subset, plan, None, similarity, **vectors)
    assert from_table.values == {k: v for k, v in from_vectors.values.items() if k[0] == "im2recipe"}
    assert from_table.tables["im2recipe"].equals(from_vectors.tables["im2recipe"])


# ---- views with files of their own: cirr -------------------------------------------------------------------

GALLERY, GROUP = {f"R@{k}" for k in (1, 5, 10, 50)}, {f"Rsubset@{k}" for k in (1, 2, 3)}


@dataclass(frozen=True)
class Cirr:
    """CIRR's sample with what tests need of it."""

    subset: Subset
    plan: Plan
    gallery: list[str]
    groups: Mapping[str, list[str]]
    right: Mapping[str, str]

    def deep(self, length: int) -> pa.Table:
        return ranking(dict.fromkeys(self.right, self.gallery[:length]))

    def grouped(self, length: int) -> pa.Table:
        """The right one second."""
        lists = {q: [c for c in self.groups[q] if c != right] for q, right in self.right.items()}
        return ranking({q: [names[0], self.right[q], *names[1:]][:length] for q, names in lists.items()})


@pytest.fixture(scope="module")
def cirr(tmp_path_factory: pytest.TempPathFactory) -> Cirr:
    found = benchmark("cirr")
    folder = tmp_path_factory.mktemp("cirr")
    found.sample(folder)
    parameters = found.parameters({})
    subset, _ = found.build(folder, parameters)
    groups: dict[str, list[str]] = {}
    for pool, name in zip(subset.pools["pool_id"].to_pylist(), subset.pools["candidate_id"].to_pylist(), strict=True):
        groups.setdefault(pool, []).append(name)
    right = {r["query_id"]: r["candidate_id"] for r in subset.qrels.to_pylist()}
    of_query = {q: groups[f"val/group/{q}"] for q in right}
    return Cirr(subset, found.plan(parameters), groups["val/gallery"], of_query, right)


def of_val(scored: Scored) -> dict[str, float]:
    assert {key[0] for key in scored.values} == {"val"}
    return {key[1]: value.mean for key, value in scored.values.items()}


@pytest.mark.parametrize("ties", [None, "trec"])
def test_a_ranking_without_the_groups_leaves_them_out(ties: str | None, cirr: Cirr, files: Files) -> None:
    found = files.score(cirr.subset, cirr.plan, ties, val=cirr.deep(60))
    assert set(of_val(found)) == GALLERY
    assert set(found.tables["val"]["view"].to_pylist()) == {"gallery"}
    (note,) = [n for n in found.notes if "val_subset" in n]
    assert "val.parquet does not rank the whole group of every query" in note
    assert "left out" in note


def test_a_ranking_of_the_whole_gallery_ranks_the_groups(cirr: Cirr, files: Files) -> None:
    found = files.score(cirr.subset, cirr.plan, val=cirr.deep(len(cirr.gallery)))
    assert set(of_val(found)) == GALLERY | GROUP | {"mean"}
    groups = {q: sorted(names, key=cirr.gallery.index) for q, names in cirr.groups.items()}
    by_hand = files.score(cirr.subset, cirr.plan, val_subset=ranking(groups))
    assert {k: v for k, v in of_val(found).items() if k in GROUP} == of_val(by_hand)


def test_a_file_of_its_own_serves_the_groups(cirr: Cirr, files: Files) -> None:
    found = files.score(cirr.subset, cirr.plan, val=cirr.deep(60), val_subset=cirr.grouped(5))
    assert set(of_val(found)) == GALLERY | GROUP | {"mean"}
    assert [of_val(found)[f"Rsubset@{k}"] for k in (1, 2, 3)] == [0, 100, 100]
    assert of_val(found)["mean"] == (of_val(found)["R@5"] + 0) / 2
    assert not [n for n in found.notes if "left out" in n]
    whole = files.score(cirr.subset, cirr.plan, val=cirr.deep(len(cirr.gallery)), val_subset=cirr.grouped(5))
    assert of_val(whole)["Rsubset@2"] == 100, "the file of the groups goes first"


def test_groups_alone_have_no_mean(cirr: Cirr, files: Files) -> None:
    found = files.score(cirr.subset, cirr.plan, val_subset=cirr.grouped(3))
    assert set(of_val(found)) == GROUP
    assert "val: no predictions for the view gallery" in found.notes
    with pytest.raises(
        InputError, match=r"val_subset\.parquet: 250 of 250 rankings of val group are too short.*at least 3"
    ):
        files.score(cirr.subset, cirr.plan, val_subset=cirr.grouped(2))


def test_scores_of_the_gallery_rank_the_groups(cirr: Cirr, files: Files) -> None:
    falling = {c: -float(i) for i, c in enumerate(cirr.gallery)}
    found = files.score(cirr.subset, cirr.plan, val=scores(dict.fromkeys(cirr.right, falling)))
    assert of_val(found) == of_val(files.score(cirr.subset, cirr.plan, val=cirr.deep(len(cirr.gallery))))


def vectors(subset: Subset, task: str) -> dict[str, pa.Table]:
    """Vectors of a task's queries and of every image."""
    queries = subset.queries.filter(pc.equal(subset.queries["task"], task))["query_id"].to_pylist()
    images = subset.universe.filter(pc.equal(subset.universe["side"], "image"))["id"].to_pylist()
    rng = np.random.default_rng(3)
    tables = {"query": queries, "image": images}
    return {
        side: pa.table({"id": ids, "embedding": rng.normal(size=(len(ids), 4)).tolist()})
        for side, ids in tables.items()
    }


def test_one_pair_of_vectors_serves_gallery_and_groups(cirr: Cirr, files: Files) -> None:
    found = files.score(cirr.subset, cirr.plan, **vectors(cirr.subset, "val"))
    assert set(of_val(found)) == GALLERY | GROUP | {"mean"}
    mixed = files.score(cirr.subset, cirr.plan, **vectors(cirr.subset, "val"), val_subset=cirr.grouped(5))
    assert of_val(mixed)["Rsubset@2"] == 100
    assert {k: of_val(mixed)[k] for k in GALLERY} == {k: of_val(found)[k] for k in GALLERY}


def test_a_hidden_task_is_checked_but_not_scored(cirr: Cirr, files: Files) -> None:
    given = vectors(cirr.subset, "test1")
    found = files.score(cirr.subset, cirr.plan, **given)
    assert (found.values, found.tables) == ({}, {})
    assert [n for n in found.notes if "hidden" in n] == [
        "test1: the right answers are hidden; `rankledger submit` writes the server's files"
    ]
    with pytest.raises(InputError, match="1 of 100 queries of test1 are missing"):
        files.score(cirr.subset, cirr.plan, image=given["image"], query=given["query"].slice(1))
    test1 = cirr.subset.pools.filter(pc.equal(cirr.subset.pools["pool_id"], "test1/gallery"))["candidate_id"]
    lost = given["image"].filter(pc.not_equal(given["image"]["id"], test1[0]))
    with pytest.raises(InputError, match=f"1 of 140 candidates of test1 have no vector: '{test1[0]}'"):
        files.score(cirr.subset, cirr.plan, query=given["query"], image=lost)


def test_val_does_not_need_the_images_of_test1(cirr: Cirr, files: Files) -> None:
    given = vectors(cirr.subset, "val")
    of_test1 = cirr.subset.pools.filter(pc.starts_with(cirr.subset.pools["pool_id"], "test1"))["candidate_id"]
    own = given["image"].filter(pc.invert(pc.is_in(given["image"]["id"], of_test1.combine_chunks())))
    assert len(own) == 350
    found = files.score(cirr.subset, cirr.plan, query=given["query"], image=own)
    assert found.values == files.score(cirr.subset, cirr.plan, **given).values


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_both_directions_come_from_one_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: Files, similarity: str
) -> None:
    """A plan with both tasks multiplies half as much as its tasks alone, and finds the same."""
    found = benchmark("visual_genome")
    found.sample(tmp_path / "raw")
    parameters = found.parameters({})
    subset, _ = found.build(tmp_path / "raw", parameters)
    plan = found.plan(parameters)
    sides = subset.universe["side"].to_pylist()
    ids = {
        s: [i for i, of in zip(subset.universe["id"].to_pylist(), sides, strict=True) if of == s] for s in set(sides)
    }
    rng = np.random.default_rng(5)
    given = {
        s: pa.table({"id": ids[s], "embedding": (rng.integers(-3, 4, (len(ids[s]), 5)) + 0.5).tolist()})
        for s in sorted(ids)
    }
    products: list[int] = []

    def watched(job: blocks.Job) -> tuple[blocks.Tally, blocks.Tally]:
        products.append(len(job.rows) * len(job.right))
        return blocks.count_block(job)

    monkeypatch.setattr(sources, "count_block", watched)
    both = files.score(subset, plan, similarity=similarity, **given)
    in_one = sum(products)
    for task in plan.tasks:
        measures = tuple(m for m in plan.measures if m.task == task.name)
        alone = files.score(subset, replace(plan, tasks=(task,), measures=measures), similarity=similarity, **given)
        assert alone.tables[task.name] == both.tables[task.name]
        assert alone.values == {key: value for key, value in both.values.items() if key[0] == task.name}
    assert sum(products) == 3 * in_one


def test_labels_have_values_a_table_and_no_ranks(tmp_path: Path, files: Files) -> None:
    found = benchmark("deft2013")
    found.sample(tmp_path / "raw")
    subset, _ = found.build(tmp_path / "raw", found.parameters({}))
    asked = subset.queries.filter(pc.equal(subset.queries["task"], "dish_type"))["query_id"].to_pylist()
    right = {r["query_id"]: r["candidate_id"] for r in subset.qrels.to_pylist() if r["task"] == "dish_type"}
    answers = [right[q] if i % 4 else "dessert" for i, q in enumerate(asked)]
    scored = files.score(
        subset, found.plan(found.parameters({})), dish_type=pa.table({"query_id": asked, "label": answers})
    )
    share = sum(a == right[q] for a, q in zip(answers, asked, strict=True)) / len(asked)
    assert scored.values["dish_type", "P_micro"].mean == pytest.approx(share)
    table = scored.tables["dish_type"]
    assert statistics.fmean(table["P_micro"].to_pylist()) == pytest.approx(share)
    assert table["rank_min"].null_count == len(asked)
    assert {v.unit for v in scored.values.values()} == {"fraction"}
    assert {key[0] for key in scored.values} == {"dish_type"}


def test_progress_is_told_to_the_end(cirr: Cirr, tmp_path: Path) -> None:
    told: dict[str, tuple[int, int]] = {}
    pq.write_table(cirr.deep(350), tmp_path / "val.parquet")
    files = {"val": tmp_path / "val.parquet"}
    score(cirr.subset, cirr.plan, files, progress=lambda what, done, of: told.update({what: (done, of)}))
    assert told == {"val gallery": (250, 250), "val group": (250, 250)}
