"""DEFT 2013: the worked numbers of the organisers' FAQ, through the pipeline."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.golden.conftest import Official, values


def corpus(folder: Path, gold: dict[str, list[str]], names: list[str]) -> Official:
    """A corpus of recipes with gold ingredients; `names` is the terminology."""
    made = Official(folder / "project", "deft2013", {}, None)
    inbox = made.project.inbox("deft2013")
    inbox.mkdir(parents=True)
    for recipe, wanted in gold.items():
        (inbox / f"recette_{recipe}.xml").write_text(
            f'<?xml version="1.0" encoding="UTF-8"?>\n<recette id="{recipe}"><titre>Plat {recipe}</titre>'
            f"<type>Plat principal</type><niveau>Facile</niveau><cout>Bon marché</cout><ingredients>"
            f"{''.join(f'<p>{w}</p>' for w in wanted)}</ingredients>"
            f"<preparation><![CDATA[Mélanger.]]></preparation></recette>\n"
        )
    lines = [f"{recipe} 0 {name} 1" for recipe, wanted in gold.items() for name in wanted]
    (inbox / "terminologie_2013_appr.qrels").write_text("\n".join(lines) + "\n")
    (inbox / "terminologie.txt").write_text("\n".join(names) + "\n")
    return made.make()


def scores(lists: dict[str, list[str]]) -> pa.Table:
    rows = [(q, c, float(-i)) for q, names in lists.items() for i, c in enumerate(names)]
    q, c, s = zip(*rows, strict=True)
    return pa.table({"query_id": q, "candidate_id": c, "score": s})


def test_the_faq_example(tmp_path: Path, shared: Path) -> None:
    folder = shared / "mirror" / "deft2013"
    gold: dict[str, list[str]] = {}
    for line in (folder / "exemple-faq.qrels").read_text().splitlines():
        recipe, _, name, relevance = line.split()
        assert relevance == "1"
        gold.setdefault(recipe, []).append(name)
    made = corpus(tmp_path, gold, ["sel", "pesto"])
    rows = [line.split() for line in (folder / "exemple-faq.results").read_text().splitlines()]
    found = made.score(
        ingredients=pa.table(
            {
                "query_id": [r[0] for r in rows],
                "candidate_id": [r[2] for r in rows],
                "score": [float(r[4]) for r in rows],
            }
        )
    )
    assert values(found, "ingredients") == {"MAP": 0.5227}


GOLD = [f"bon-{i}" for i in range(6)]
NOISE = [f"faux-{i}" for i in range(10)]


@pytest.mark.parametrize(
    ("ranked", "wanted"),
    [
        *(
            ([*GOLD[:i], "faux-0", *GOLD[i:]], w)
            for i, w in enumerate([0.7345, 0.8179, 0.8734, 0.9151, 0.9484, 0.9762, 1])
        ),
        (GOLD[:5], 0.8333),
        ([*GOLD[:5], *NOISE, GOLD[5]], 0.8958),
        ([*NOISE, *GOLD], 0.2471),
        (GOLD[:3], 0.5),
    ],
)
def test_the_faq_worked_numbers(tmp_path: Path, ranked: list[str], wanted: float) -> None:
    made = corpus(tmp_path, {"1": GOLD}, [*GOLD, *NOISE])
    assert values(made.score(ingredients=scores({"1": ranked})), "ingredients") == {"MAP": wanted}


def test_a_recipe_without_an_answer_counts_0_and_an_unknown_name_is_noise(tmp_path: Path) -> None:
    made = corpus(tmp_path, {"1": GOLD, "2": GOLD}, GOLD)
    found = made.score(ingredients=scores({"1": ["inconnu", *GOLD]}))
    assert values(found, "ingredients") == {"MAP": 0.3673}
    assert any("unknown" in note for note in found.notes)
    assert any("count 0" in note for note in found.notes)


def test_ties_go_by_name_descending(tmp_path: Path) -> None:
    made = corpus(tmp_path, {"1": ["ail"]}, ["ail", "zeste"])
    tied = pa.table({"query_id": ["1", "1"], "candidate_id": ["ail", "zeste"], "score": [1.0, 1.0]})
    assert values(made.score(ingredients=tied), "ingredients") == {"MAP": 0.5}


def test_titles_are_no_keys_and_a_ranking_of_one_is_enough(tmp_path: Path) -> None:
    made = corpus(tmp_path, {"1": ["ail"], "2": ["ail"]}, ["ail"])
    found = made.score(title=pa.table({"query_id": ["1", "2"], "candidate_ids": [["Plat 1"], ["Plat 1"]]}))
    assert values(found, "title") == {"MRR": 0.5, "P@1": 0.5}
