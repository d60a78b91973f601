"""GeneCIS on its real object files."""

from collections.abc import Callable

import pyarrow as pa

from tests.golden.conftest import Official, values


def test_constant_scores_give_chance_and_record_19_has_14(official: Callable[..., Official]) -> None:
    genecis = official("genecis", tasks=["change_object", "focus_object"])
    tables = {}
    for task in ("change_object", "focus_object"):
        assert len(genecis.queries(task)) == 1960
        pools = genecis.subset.pools.filter(pa.compute.starts_with(genecis.subset.pools["pool_id"], f"{task}/"))
        tables[task] = pa.table(
            {
                "query_id": pools["pool_id"],
                "candidate_id": pools["candidate_id"],
                "score": pa.array([1.0] * len(pools), pa.float32()),
            }
        )
    found = genecis.score(**tables)
    assert values(found, "focus_object") == {"R@1": 6.6667, "R@2": 13.3333, "R@3": 20.0}
    assert values(found, "change_object") == {"R@1": 6.6669, "R@2": 13.3338, "R@3": 20.0007}
    assert values(found, "mean") == {}, "a mean over tasks appears only when all are there"
    assert len(genecis.pool("change_object/19")) == 14
