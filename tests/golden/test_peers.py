"""The recorded cases of other evaluators' own tests, those of our measures and options.

pytrec_eval: of 25 calls 15 are compared, 240 values; 3 have no topic in common, which is an error here; 5 ask for no
measure that exists here, 2 for judged_docs_only_flag. mteb: of 2 cases at cut-offs the one that does not ignore
identical ids, 12 values; its nAUC is no measure of ours.
"""

import json
from pathlib import Path

import pytest

from rankledger import AP, InputError, P, R, evaluate, nDCG
from rankledger.ranking.trec import named


def test_pytrec_evals_recorded_calls(shared: Path):
    text = (shared / "mirror/peers/pytrec_eval/inline_cases.jsonl").read_text()
    cases = [json.loads(line) for line in text.splitlines()]
    assert len(cases) == 25
    counted = {"no measure": 0, "option": 0, "nothing in common": 0, "calls": 0, "values": 0}
    for case in cases:
        asked = [name for name in case["measures"] if name != "set"]
        if not asked:
            counted["no measure"] += 1
            continue
        if case["kwargs"].get("judged_docs_only_flag"):
            counted["option"] += 1
            continue
        options = {"ties": "trec", "missing": "skip"}
        if not case["result"]:
            with pytest.raises(InputError, match="no query is in the qrels"):
                evaluate(case["run"], case["qrels"], asked, **options)
            counted["nothing in common"] += 1
            continue
        found = evaluate(case["run"], case["qrels"], asked, **options)
        mine = {row.pop("query_id"): row for row in found.per_query.to_pylist()}
        assert mine.keys() == case["result"].keys()
        for topic, wanted in case["result"].items():
            here = {name: value for name, value in wanted.items() if name in named("all_trec") or name in mine[topic]}
            assert {name: mine[topic][name] for name in here} == pytest.approx(here, rel=1e-12)
            counted["values"] += len(here)
        counted["calls"] += 1
    assert counted == {"no measure": 5, "option": 2, "nothing in common": 3, "calls": 15, "values": 240}


def test_mtebs_recorded_cases(shared: Path):
    cases = json.loads((shared / "mirror/peers/mteb/retrieval_cases.json").read_bytes())
    at_k, *others = (case for case in cases if "nAUC" not in json.dumps(case))
    assert not others
    ran = 0
    for qrels, run, ignore_identical_ids, expected in at_k["parametrize"][1]:
        if ignore_identical_ids:
            continue
        for key, name, family in (
            ("ndcg", "NDCG", nDCG),
            ("map", "MAP", AP),
            ("recall", "Recall", R),
            ("precision", "P", P),
        ):
            found = evaluate(run, qrels, [family @ k for k in (1, 2, 3)], ties="trec")
            wanted = {f"{family.name}@{k}": expected[key][f"{name}@{k}"] for k in (1, 2, 3)}
            assert {metric: round(value, 5) for metric, value in found.metrics.items()} == wanted
            ran += 3
    assert ran == 12
