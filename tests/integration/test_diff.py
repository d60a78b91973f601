"""`rankledger diff` and `compare`: what moved a number, in a history where that is known."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rankledger.provenance.comparison import flatten
from tests.integration.conftest import Workspace
from tests.integration.history import History

FACTORS = {"predictions", "subset", "protocol"}


@pytest.fixture(scope="module")
def history(reproduced: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The branches of `History`, `everything` checked out; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("history")
    shutil.copytree(reproduced.root, folder / "rankledger", symlinks=True)
    return History(Workspace(folder / "rankledger"), folder / "files").workspace


@pytest.fixture
def copy(history: Workspace, tmp_path: Path) -> Workspace:
    shutil.copytree(history.root, tmp_path / "rankledger", symlinks=True)
    return Workspace(tmp_path / "rankledger")


@pytest.fixture(scope="module")
def at_once(history: Workspace) -> dict[str, Any]:
    """What changed on `everything`, which is checked out, since `main`."""
    return diff(history, "main")


def diff(workspace: Workspace, *arguments: str, ok: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(workspace.run("rankledger", "diff", *arguments, "--json", ok=ok).stdout)
    return found


def metrics(workspace: Workspace, rev: str) -> dict[str, float]:
    return flatten(json.loads(workspace.run("git", "show", f"{rev}:reports/metrics.json").stdout))


def rows(found: dict[str, Any], *prefix: str) -> dict[str, dict[str, Any]]:
    return {r["metric"]: r for r in found["rows"] if r["metric"].startswith(".".join((*prefix, "")))}


@pytest.mark.parametrize(
    ("branch", "factor", "prefixes"),
    [
        ("better", "predictions", [("mymodel", "cirr"), ("mymodel", "recipe1m")]),
        ("redrawn", "subset", [("mymodel", "recipe1m")]),
        # of `sample`, which follows the right answers, the predictions changed too; the protocol moved them
        ("soft", "protocol", [("mymodel", "cirr"), ("mymodel", "recipe1m"), ("sample", "cirr"), ("twin", "cirr")]),
    ],
)
def test_each_change_alone_is_named(
    history: Workspace, branch: str, factor: str, prefixes: list[tuple[str, str]]
) -> None:
    old, new = metrics(history, "main"), metrics(history, branch)
    found = diff(history, "main", branch)
    assert {tuple(r["metric"].split(".")[:2]) for r in found["rows"]} == set(prefixes)
    assert [r["metric"] for r in found["rows"]] == sorted(
        k for k in old.keys() | new.keys() if old.get(k) != new.get(k)
    )
    for row in found["rows"]:
        assert (row["old"], row["new"]) == (old[row["metric"]], new[row["metric"]])
        assert row["delta"] == pytest.approx(row["new"] - row["old"], abs=1e-9)
        assert row["causes"] == pytest.approx(dict.fromkeys(FACTORS, 0.0) | {factor: row["delta"]}, abs=1e-9), row
        assert set(row) == {"metric", "old", "new", "delta", "better", "interval", "p", "causes"}


def test_better_predictions_are_better_in_the_metrics_own_direction(history: Workspace) -> None:
    found = diff(history, "main", "better")
    up, down = rows(found)["mymodel.cirr.val.R@1"], rows(found)["mymodel.recipe1m.im2recipe.1k.medR"]
    assert up["delta"] > 0 > down["delta"]
    for row in (up, down):
        assert row["better"] is True
        assert row["p"] < 0.05
        assert row["interval"][0] <= row["delta"] <= row["interval"][1]
        assert row["interval"][0] * row["interval"][1] > 0
    back = rows(diff(history, "better", "main"))["mymodel.recipe1m.im2recipe.1k.medR"]
    assert back["better"] is False
    spread = [r for r in found["rows"] if r["metric"].endswith("_std")]
    assert spread
    assert all((r["better"], r["interval"], r["p"]) == (None, None, None) for r in spread)


def test_all_at_once_is_split_into_parts_that_sum_to_the_move(history: Workspace, at_once: dict[str, Any]) -> None:
    for row in at_once["rows"]:
        assert set(row["causes"]) == FACTORS
        assert sum(row["causes"].values()) == pytest.approx(row["delta"], abs=1e-9), row
    three = [
        r for r in rows(at_once, "mymodel", "recipe1m").values() if all(abs(p) > 1e-6 for p in r["causes"].values())
    ]
    assert len(three) >= 6, "predictions, draw and similarity all have a part"
    assert all(row["causes"]["predictions"] == 0 for row in rows(at_once, "sample").values())
    assert diff(history, "main", "everything") == at_once


def test_the_parts_are_those_of_the_branches_that_changed_one_thing(
    history: Workspace, at_once: dict[str, Any]
) -> None:
    """CIRR is not drawn, so the branches hold all four combinations of predictions and labels."""
    neither, better, soft, both = (metrics(history, rev) for rev in ("main", "better", "soft", "everything"))
    checked = rows(at_once, "mymodel", "cirr")
    assert len(checked) >= 6
    for key, row in checked.items():
        predictions = ((better[key] - neither[key]) + (both[key] - soft[key])) / 2
        protocol = ((soft[key] - neither[key]) + (both[key] - better[key])) / 2
        assert row["causes"] == pytest.approx(
            {"predictions": predictions, "subset": 0.0, "protocol": protocol}, abs=1e-9
        )


def test_a_redraw_is_tested_on_the_queries_of_both_draws(history: Workspace) -> None:
    found = diff(history, "main", "redrawn")
    assert any("queries that both ask" in note for note in found["notes"])
    for row in found["rows"]:
        if not row["metric"].endswith("_std"):
            assert row["interval"] is not None
            assert row["p"] > 0.05, "another draw of the same pairs makes no model better"


def test_two_runs_that_differ_by_noise_are_reported_as_such(history: Workspace) -> None:
    history.run("git", "checkout", "-q", "main")
    try:
        history.run("dvc", "checkout", "-q")
        found = json.loads(history.run("rankledger", "compare", "mymodel", "twin", "cirr", "--json").stdout)
        said = history.run("rankledger", "compare", "mymodel", "twin", "cirr").stdout
        clear = json.loads(history.run("rankledger", "compare", "mymodel", "sample", "cirr", "--json").stdout)
    finally:
        history.run("git", "checkout", "-q", "everything")
        history.run("dvc", "checkout", "-q")
    assert found["rows"]
    for row in found["rows"]:
        assert row["metric"].startswith("cirr.val.")
        assert row["p"] > 0.05
        assert row["causes"] == {"predictions": row["delta"], "subset": 0.0, "protocol": 0.0}
    assert f"{len(found['rows'])} within noise" in said
    best = rows(clear)["cirr.val.R@1"]
    assert best["better"]
    assert best["p"] < 0.05
    # the two also differ in the similarity, which such clear rankings do not feel
    assert sum(best["causes"].values()) == pytest.approx(best["delta"], abs=1e-9)


def test_the_gate(history: Workspace) -> None:
    assert history.run("rankledger", "diff", "main", "better", "--fail-below", "R@1=-0.5").returncode == 0
    done = history.run("rankledger", "diff", "better", "main", "--fail-below", "R@1=-0.5", ok=False)
    assert done.returncode == 1
    assert "mymodel.cirr.val.R@1 got worse by" in done.stderr
    lower = history.run("rankledger", "diff", "better", "main", "--fail-below", "medR=-1", "--json", ok=False)
    assert lower.returncode == 1
    assert json.loads(lower.stdout)["rows"]
    assert history.run("rankledger", "diff", "better", "main", "--fail-below", "medR=-99").returncode == 0
    slip = history.run("rankledger", "diff", "better", "main", "--fail-below", "R@l=-1", ok=False)
    assert slip.returncode == 2
    assert slip.stderr.count("\n") == 1


def test_tables_for_people(history: Workspace) -> None:
    table = history.run("rankledger", "diff", "main", "better", "--md").stdout.splitlines()
    head, rule, *body = (line.strip("|").split("|") for line in table if line.startswith("|"))
    assert [h.strip() for h in head] == [
        "metric",
        "main",
        "better",
        "move",
        "95 % interval",
        "p",
        "verdict",
        *("predictions", "subset", "protocol"),
    ]
    assert len(rule) == len(head)
    assert {len(row) for row in body} == {len(head)}
    shown = history.run("rankledger", "diff", "main", "better").stdout
    for row in body:
        assert row[0].strip() in shown
        assert not row[0].strip().endswith("_std")
    assert "numbers moved" in shown
    assert "No number moved between main and main" in history.run("rankledger", "diff", "main", "main").stdout


def test_the_same_each_time(history: Workspace) -> None:
    said = {
        history.run(
            "rankledger", "diff", "main", "better", "--json", PYTHONHASHSEED=seed, OPENBLAS_NUM_THREADS=threads
        ).stdout
        for seed, threads in (("1", "1"), ("2", "2"))
    }
    assert len(said) == 1


def test_what_is_no_longer_there_is_not_made_up(copy: Workspace) -> None:
    shutil.rmtree(copy.root / ".dvc" / "cache")
    found = diff(copy, "main")
    recipe = rows(found, "mymodel", "recipe1m")
    assert recipe
    for row in recipe.values():
        assert (row["interval"], row["p"]) == (None, None)
        assert row["causes"] == dict.fromkeys(FACTORS)
    assert any("mymodel.recipe1m: the causes are not known" in n and "DVC's cache" in n for n in found["notes"])
    # where the hashes of subset and predictions leave one factor only, nothing needs to be scored
    copy.run("git", "checkout", "-qf", "better")
    alone = rows(diff(copy, "main"), "mymodel", "cirr")
    assert alone
    for row in alone.values():
        assert row["causes"] == {"predictions": row["delta"], "subset": 0.0, "protocol": 0.0}
        assert row["p"] is None


def test_scores_that_are_lost_are_made_again_from_what_they_were_made_of(
    copy: Workspace, at_once: dict[str, Any]
) -> None:
    lock = copy.run("git", "show", "main:dvc.lock").stdout
    md5 = lock.split("path: data/scores/mymodel/cirr\n")[1].split("md5: ")[1].split()[0]
    (copy.root / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]).unlink()
    assert diff(copy, "main") == at_once


def test_what_the_code_moved_is_told_apart(copy: Workspace) -> None:
    """A number that another version of a module made: neither predictions, subset nor protocol changed."""
    path = copy.root / "reports" / "metrics.json"
    text = json.loads(path.read_bytes())
    text["mymodel"]["cirr"]["val"]["R@1"] -= 2.5
    path.write_text(json.dumps(text))
    copy.commit("a number edited by hand")
    by_hand = diff(copy, "HEAD~1")
    assert [r["causes"] for r in by_hand["rows"]] == [dict.fromkeys(FACTORS)]
    assert "can't be reached again" in by_hand["notes"][0]
    lock = (copy.root / "dvc.lock").read_text()
    score = lock.split("  score@mymodel-cirr:\n")[1]
    md5 = score.split("rankledger/scoring.py\n")[1].split("md5: ")[1].split()[0]
    (copy.root / "dvc.lock").write_text(lock.replace(md5, "0" * 32))
    copy.commit("made by other code")
    (row,) = diff(copy, "HEAD~2")["rows"]
    assert row["causes"] == dict.fromkeys(FACTORS, 0.0)
    assert row["code"] == pytest.approx(-2.5, abs=1e-9)
    all_at_once = rows(diff(copy, "main"))["mymodel.cirr.val.R@1"]
    assert all_at_once["code"] == pytest.approx(-2.5, abs=1e-9)
    assert sum(all_at_once["causes"].values()) - 2.5 == pytest.approx(all_at_once["delta"], abs=1e-9)


def test_numbers_that_came_and_went(copy: Workspace) -> None:
    path = copy.root / "reports" / "metrics.json"
    text = json.loads(path.read_bytes())
    text["successor"] = {"cirr": {"val": {"R@1": text["twin"]["cirr"]["val"].pop("R@1")}}}
    path.write_text(json.dumps(text))
    found = rows(diff(copy, "HEAD"))
    assert found["successor.cirr.val.R@1"]["old"] is None
    assert found["twin.cirr.val.R@1"]["new"] is None
    for row in found.values():
        assert (row["delta"], row["better"], row["interval"], row["p"]) == (None,) * 4
        assert row["causes"] == dict.fromkeys(FACTORS)


def test_bad_input_gets_one_line(history: Workspace) -> None:
    for command, said in (
        (("diff", "nowhere"), "nowhere: no such commit"),
        (("compare", "mymodel", "nobody"), "no run 'nobody'"),
        (("compare", "mymodel", "twin", "recipe1m"), "mymodel and twin have no metrics of recipe1m in common"),
    ):
        done = history.run("rankledger", *command, ok=False)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
