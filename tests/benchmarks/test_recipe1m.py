"""Recipe1M+: both filters against a slow copy of the official procedure, draws, tables, bad files, memory."""

import gc
import hashlib
import json
import random
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.recipe1m import draws
from rankledger.subset import Subset
from rankledger.tables import InputError, fingerprint, sha256_file

RECIPE1M = benchmark("recipe1m")
FIRST_REMOVED = "000507ca6b"
FILTERS = ("corrected", "official")
SAMPLERS = ("hash", "official")

Raw = dict[str, Any]  # file name → JSON content, or the lines of a text file


def write(raw: Raw, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in raw.items():
        if name.endswith(".txt"):
            (folder / name).write_text("\n".join(content), encoding="utf-8")
        else:
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def build(folder: Path, **given: Any) -> Subset:
    return RECIPE1M.build(folder, RECIPE1M.parameters(given))[0]


def notes(folder: Path, **given: Any) -> list[str]:
    return RECIPE1M.build(folder, RECIPE1M.parameters(given))[1]


def pools(subset: Subset) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in subset.pools.to_pylist():
        found.setdefault(row["pool_id"], set()).add(row["candidate_id"])
    return found


# ------------------------------------------------------------------ the official procedure, slowly


def official_pairs(raw: Raw) -> list[str]:
    """The test pairs as mk_dataset.py selects them: all in memory, layers merged into one, words numbered."""
    vocabulary = {word.rstrip(): number + 2 for number, word in enumerate(raw["vocab.txt"])}
    remove = {line.rstrip(): number for number, line in enumerate(raw["remove1M.txt"])}
    entries = {entry["id"]: dict(entry) for entry in raw["layer1.json"]}
    for layer in ("layer2+.json", "det_ingrs.json"):
        for entry in raw[layer]:
            if entry["id"] in entries:
                entries[entry["id"]].update(entry)
    kept = []
    for entry in entries.values():
        names = [ingredient["text"] for ingredient in entry["ingredients"] if ingredient["text"]]
        detected = set()
        for name in names:
            if number := vocabulary.get(name.replace(" ", "_")):
                detected.add(number)
        n = len([*detected, "end"])
        too_long = len(entry["instructions"]) >= 20 or n >= 20 or n == 0
        if too_long or not entry.get("images") or remove.get(entry["id"]):
            continue
        if entry["partition"] == "test":
            kept.append(entry["id"])
    return sorted(kept)


def corrected_pairs(raw: Raw) -> list[str]:
    """The test pairs as the paper describes them."""
    detected = {entry["id"]: entry["ingredients"] for entry in raw["det_ingrs.json"]}
    with_image = {entry["id"] for entry in raw["layer2+.json"] if entry["images"]}
    kept = []
    for entry in raw["layer1.json"]:
        texts = [i["text"].replace(" ", "_") for i in detected.get(entry["id"], entry["ingredients"])]
        n = len({text for text in texts if text != ""})
        lengths_fit = len(entry["instructions"]) < 20 and 1 <= n <= 19
        listed = entry["id"] in raw["remove1M.txt"]
        if entry["partition"] == "test" and lengths_fit and entry["id"] in with_image and not listed:
            kept.append(entry["id"])
    return sorted(kept)


def all_words(raw: Raw) -> list[str]:
    entries = [*raw["layer1.json"], *raw["det_ingrs.json"]]
    return sorted({i["text"].replace(" ", "_") for e in entries for i in e["ingredients"]})


@pytest.fixture(scope="module")
def raw() -> Raw:
    """12,000 test recipes and 600 others; every rule drops some, alone and with others."""
    dice = random.Random(5)
    words = [f"{kind} {n}" for kind in ("fresh", "dried", "pickled") for n in range(40)]
    layer1, layer2, detected = [], [], []
    ids = [FIRST_REMOVED, *(hashlib.md5(str(n).encode()).hexdigest()[:10] for n in range(12_599))]
    for number, identity in enumerate(ids):
        plain = number == 0
        long = not plain and dice.random() < 0.03
        names = dice.sample(words, dice.choice([0, 17, 18, 19, 20, 21]) if long else dice.randint(1, 6))
        spelled = [name.replace(" ", "_") if dice.random() < 0.1 else name for name in names]
        texts = [*spelled, *dice.choices(names, k=dice.randint(0, 4) if names else 0)]
        texts += [""] * (dice.random() < 0.1)
        dice.shuffle(texts)
        steps = dice.choice([19, 20, 21]) if not plain and dice.random() < 0.02 else dice.randint(1, 4)
        others = dice.sample(words, dice.choice([0, 2, 2, 2, 3, 3, 3, 25]))
        fallback = not plain and dice.random() < 0.05
        partition = "test" if number < 12_000 else ("train", "val")[number % 2]
        layer1.append(
            {
                "id": identity,
                "title": f"Crème no. {number}",
                "ingredients": [{"text": text} for text in (texts if fallback else others)],
                "instructions": [{"text": f"step {n}"} for n in range(steps)],
                "partition": partition,
                "url": f"http://recipes.example/{number}",
            }
        )
        if not fallback:
            valid = [dice.random() < 0.8 for _ in texts]
            detected.append({"id": identity, "valid": valid, "ingredients": [{"text": t} for t in texts]})
        if plain or dice.random() < 0.97:
            count = 1 if plain else dice.choice([0, *range(1, 6)] + [1] * 20)
            images = [{"id": f"{identity}{n}.jpg", "url": "http://images.example"} for n in range(count)]
            layer2.append({"id": identity, "images": images})
    detected.append({"id": "ffffffffff", "valid": [], "ingredients": [{"text": "of another edition"}]})
    layer2.append({"id": "eeeeeeeeee", "images": [{"id": "e.jpg"}]})
    return {
        "layer1.json": layer1,
        "layer2+.json": layer2,
        "det_ingrs.json": detected,
        "remove1M.txt": [FIRST_REMOVED, *dice.sample(ids[1:], 200), "ffffffff00"],
    }


@pytest.fixture(scope="module")
def folder(raw: Raw, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(raw, tmp_path_factory.mktemp("recipe1m"))


@pytest.fixture(scope="module")
def subset(folder: Path) -> Subset:
    """Under the default parameters."""
    return build(folder)


@pytest.mark.parametrize("given", ["corrected", "official", "official, with a vocabulary"])
def test_both_filters_keep_what_a_slow_copy_of_each_keeps(raw: Raw, tmp_path: Path, given: str) -> None:
    vocabulary = all_words(raw)
    if "vocabulary" in given:
        vocabulary = [word for word in vocabulary if "pickled" not in word]
        raw = {**raw, "vocab.txt": vocabulary}
    write(raw, tmp_path)
    pairs = corrected_pairs(raw) if given == "corrected" else official_pairs({**raw, "vocab.txt": vocabulary})
    filter_ = given.split(",")[0]
    assert 9_000 < len(pairs) < 11_500
    assert (FIRST_REMOVED in pairs) == (filter_ == "official")

    found = build(tmp_path, filter=filter_, sizes=[len(pairs)], repeats=1)

    assert sorted(found.pools["candidate_id"].to_pylist()) == pairs
    with pytest.raises(InputError, match=f"{len(pairs)} of 12000 test pairs kept"):
        build(tmp_path, filter=filter_, sizes=[len(pairs) + 1])


def test_the_filters_differ_on_the_made_up_files(raw: Raw) -> None:
    corrected, official = set(corrected_pairs(raw)), set(official_pairs({**raw, "vocab.txt": all_words(raw)}))
    assert len(corrected - official) > 10  # those with 19 ingredients
    assert len(official - corrected) > 10  # those without ingredients, and the first remove id


def recipe(identity: str = "0123456789", **changes: Any) -> Raw:
    """The files of one test recipe that stays; `changes` say what is otherwise."""
    one: dict[str, Any] = {"steps": 3, "layer1": ["salt"], "detected": ["salt"], "images": 1, **changes}
    texts = {name: [{"text": t} for t in one[name] or []] for name in ("layer1", "detected")}
    valid = one.get("valid", [True] * len(texts["detected"]))
    raw: Raw = {
        "layer1.json": [
            {
                "id": identity,
                "title": "Soup",
                "ingredients": texts["layer1"],
                "instructions": [{"text": "Stir."}] * one["steps"],
                "partition": one.get("partition", "test"),
                "url": "",
            }
        ],
        "det_ingrs.json": [{"id": identity, "valid": valid, "ingredients": texts["detected"]}],
        "layer2+.json": [{"id": identity, "images": [{"id": "a.jpg"}, {"id": "b.jpg"}][: one["images"]]}],
        "remove1M.txt": one.get("remove", ["1111111111"]),
    }
    if one["detected"] is None:
        raw["det_ingrs.json"] = [{"id": "of_another", "valid": [], "ingredients": []}]
    if "vocab" in one:
        raw["vocab.txt"] = one["vocab"]
    return raw


def names(n: int) -> list[str]:
    return [f"food {i}" for i in range(n)]


@pytest.mark.parametrize(
    ("changes", "corrected", "official"),
    [
        ({}, True, True),
        ({"partition": "val"}, False, False),
        ({"partition": "train"}, False, False),
        ({"steps": 0}, True, True),
        ({"steps": 19}, True, True),
        ({"steps": 20}, False, False),
        ({"images": 0}, False, False),
        ({"detected": names(18)}, True, True),
        ({"detected": names(19)}, True, False),  # the end token makes 20
        ({"detected": names(20)}, False, False),
        ({"detected": names(18) * 2}, True, True),  # distinct texts count
        ({"detected": [*names(18), *[n.replace(" ", "_") for n in names(18)]]}, True, True),
        ({"detected": [*names(18), "", ""]}, True, True),
        ({"detected": [*names(18), " "]}, True, False),  # a space is a text
        ({"detected": [], "layer1": names(5)}, False, True),  # an empty list counts 0, whatever layer1 has
        ({"detected": [""]}, False, True),
        ({"detected": ["salt"], "layer1": names(30)}, True, True),
        ({"detected": ["salt"], "layer1": []}, True, True),
        ({"detected": None, "layer1": names(18)}, True, True),
        ({"detected": None, "layer1": names(19)}, True, False),
        ({"detected": None, "layer1": names(20)}, False, False),
        ({"detected": None, "layer1": []}, False, True),
        ({"valid": [False]}, True, True),  # the flags are not looked at
        ({"detected": names(20), "valid": [False] * 20}, False, False),
        ({"remove": ["0123456789", "1111111111"]}, False, True),  # the first remove id
        ({"remove": ["1111111111", "0123456789"]}, False, False),
        ({"remove": ["0123456789", "0123456789"]}, False, False),  # the later line counts
        ({"remove": ["1111111111", "0123456789 \r", ""]}, False, False),
        ({"remove": []}, True, True),
        ({"detected": names(20), "vocab": ["food_3", "salt"]}, False, True),  # only known texts count
        ({"detected": names(20), "vocab": ["food 3".replace(" ", "_")] + ["x"] * 30}, False, True),
        ({"detected": names(20), "vocab": [n.replace(" ", "_") for n in names(19)]}, False, False),
        ({"detected": names(20), "vocab": [n.replace(" ", "_") + " \r" for n in names(18)]}, False, True),
        ({"detected": ["salt"], "vocab": ["pepper"]}, True, True),
    ],
)
def test_each_rule_at_its_border(tmp_path: Path, changes: dict[str, Any], corrected: bool, official: bool) -> None:
    write(recipe(**changes), tmp_path)
    for filter_, stays in (("corrected", corrected), ("official", official)):
        if stays:
            assert build(tmp_path, filter=filter_, sizes=[1], repeats=1).qrels.num_rows == 1
        else:
            with pytest.raises(InputError, match=f"too few for a draw of 1 pairs: 0 of {candidates(changes)} test"):
                build(tmp_path, filter=filter_, sizes=[1])


def candidates(changes: Mapping[str, Any]) -> int:
    return int(changes.get("partition", "test") == "test")


def test_a_recipe_that_layer2_does_not_know_has_no_image(tmp_path: Path) -> None:
    write({**recipe(), "layer2+.json": [{"id": "of_another", "images": [{"id": "a.jpg"}]}]}, tmp_path)
    with pytest.raises(InputError, match="1 without an image"):
        build(tmp_path, sizes=[1])


def test_the_first_image_is_the_pairs_and_layer2_may_be_of_either_edition(tmp_path: Path) -> None:
    raw = recipe(images=2)
    write(raw, tmp_path / "plus")
    raw["layer2.json"] = raw.pop("layer2+.json")
    write(raw, tmp_path / "first")
    for edition in ("plus", "first"):
        queries = build(tmp_path / edition, sizes=[1], repeats=1).queries.to_pylist()
        assert [(q["task"], q["query_id"], q["title"], q["image_id"]) for q in queries] == [
            ("im2recipe", "0123456789", "Soup", "a.jpg"),
            ("recipe2im", "0123456789", "Soup", "a.jpg"),
        ]


@pytest.mark.parametrize(
    ("identity", "corrected", "official"),
    [
        ("000507ca6b", False, True),
        ("000a3d10fb", False, False),
        ("last", False, False),
        ("absent", True, True),
    ],
)
def test_the_real_list_of_ids_to_remove(
    shared: Path, tmp_path: Path, identity: str, corrected: bool, official: bool
) -> None:
    lines = (shared / "mirror" / "recipe1m" / "remove1M.txt").read_text().splitlines()
    assert len(lines) == 40_577
    identity = {"last": lines[-1], "absent": "0123456789"}.get(identity, identity)
    write(recipe(identity, remove=lines), tmp_path)
    for filter_, stays in (("corrected", corrected), ("official", official)):
        if stays:
            assert build(tmp_path, filter=filter_, sizes=[1]).qrels["query_id"].to_pylist() == [identity]
        else:
            with pytest.raises(InputError, match=r"1 listed in remove1M\.txt"):
                build(tmp_path, filter=filter_, sizes=[1])


# ------------------------------------------------------------------ draws


@pytest.mark.parametrize(
    ("seed", "size", "start", "first", "last"),
    [
        (1234, 1000, [50997, 28883, 7657, 490, 5940], "97e4eeb240fbeaa0", "6840bfadeb0181df"),
        (1234, 10000, [50997, 28883, 7657, 490, 5940], "7be924ad32ef8a5c", "73cd14e9313c4bca"),
        (42, 1000, [41905, 7296, 1639, 48598, 18024], "4b7a4ae80a98316d", "aaaa988c43dfa63e"),
        (42, 10000, [41905, 7296, 1639, 48598, 18024], "947527c7d2d21902", "ceed2cec0d68df62"),
    ],
)
def test_official_draws_have_the_known_fingerprints(
    seed: int, size: int, start: list[int], first: str, last: str
) -> None:
    places = [str(i) for i in range(51_304)]
    parameters = {"sizes": [10000, 1000], "repeats": 10, "seed": seed, "sampler": "official"}
    found = [[int(i) for i in draw] for draw in draws(places, parameters)[size]]
    assert len(found) == 10
    assert found[0][:5] == start
    prints = [hashlib.sha256(json.dumps(draw).encode()).hexdigest()[:16] for draw in found]
    assert (prints[0], prints[9]) == (first, last)


def official_draws(pairs: Iterable[str], sizes: Iterable[int], seed: int) -> dict[tuple[int, int], list[str]]:
    """As rank.py does it, with the one generator that the module `random` has."""
    ordered, found = sorted(pairs), {}
    for size in sizes:
        random.seed(seed)
        for repeat in range(10):
            found[size, repeat] = [ordered[i] for i in random.sample(range(len(ordered)), size)]
    return found


def hash_draws(pairs: Iterable[str], sizes: Iterable[int], seed: int) -> dict[tuple[int, int], list[str]]:
    """In hex, one size at a time."""
    found = {}
    for size in sizes:
        for repeat in range(10):
            keyed = sorted((hashlib.sha256(f"{seed}/{repeat}/{i}".encode()).hexdigest(), i) for i in pairs)
            found[size, repeat] = [i for _, i in keyed[:size]]
    return found


@pytest.mark.parametrize("filter_", FILTERS)
@pytest.mark.parametrize(("sampler", "draw"), [("official", official_draws), ("hash", hash_draws)])
def test_pools_and_trials_are_the_draws(
    raw: Raw, folder: Path, filter_: str, sampler: str, draw: Callable[..., dict[tuple[int, int], list[str]]]
) -> None:
    official = filter_ == "official"
    pairs = official_pairs({**raw, "vocab.txt": all_words(raw)}) if official else corrected_pairs(raw)
    sizes = [1000, 2500]
    subset = build(folder, filter=filter_, sampler=sampler, sizes=sizes, seed=7)
    drawn = draw(pairs, sizes, 7)

    wanted = {f"{'1k' if size == 1000 else size}/{s}": set(ids) for (size, s), ids in drawn.items()}
    for s in range(10):
        for i in range(100):
            wanted[f"10way/{s}/{i}"] = set(drawn[1000, s][10 * i : 10 * i + 10])
    assert pools(subset) == wanted
    assert all(len(ids) == 10 for name, ids in wanted.items() if name.startswith("10way"))

    trials = {
        (task, pool.split("/")[0], int(pool.split("/")[1]), identity, pool)
        for task in ("im2recipe", "recipe2im")
        for pool, ids in wanted.items()
        for identity in ids
    }
    rows = [tuple(row.values()) for row in subset.trials.to_pylist()]
    assert subset.trials.column_names == ["task", "view", "repeat", "query_id", "pool_id"]
    assert len(rows) == len(trials) == 2 * 10 * (1000 + 2500 + 1000)
    assert set(rows) == trials


def test_tables_agree_with_each_other(raw: Raw, subset: Subset) -> None:
    titles = {r["id"]: r["title"] for r in raw["layer1.json"]}
    images = {r["id"]: r["images"][0]["id"] for r in raw["layer2+.json"] if r["images"]}
    used = set(subset.pools["candidate_id"].to_pylist())
    assert used == set(subset.trials["query_id"].to_pylist())
    queries = subset.queries.to_pylist()
    assert sorted((q["task"], q["query_id"]) for q in queries) == [
        *(("im2recipe", i) for i in sorted(used)),
        *(("recipe2im", i) for i in sorted(used)),
    ]
    assert all(q["title"] == titles[q["query_id"]] and q["image_id"] == images[q["query_id"]] for q in queries)
    assert sorted(tuple(q.values()) for q in subset.qrels.to_pylist()) == [(i, i, 1.0) for i in sorted(used)]
    assert subset.exclusions.num_rows == 0
    assert sorted(tuple(u.values()) for u in subset.universe.to_pylist()) == [
        (side, identity) for side in ("image", "recipe") for identity in sorted(titles)
    ]


def test_under_hash_the_1k_draw_is_inside_the_10k_draw(subset: Subset) -> None:
    found = pools(subset)
    for s in range(10):
        assert len(found[f"1k/{s}"]) == 1000
        assert len(found[f"10k/{s}"]) == 10_000
        assert found[f"1k/{s}"] < found[f"10k/{s}"]
    assert found["1k/0"] != found["1k/1"]


def test_a_recipe_that_is_lost_moves_no_other_between_draws_except_to_fill_its_place(
    raw: Raw, subset: Subset, tmp_path: Path
) -> None:
    before = {name: ids for name, ids in pools(subset).items() if name[:5] != "10way"}
    lost = sorted(before["1k/3"])[500]
    write({**raw, "layer1.json": [r for r in raw["layer1.json"] if r["id"] != lost]}, tmp_path)
    after = pools(build(tmp_path, ten_way=False))
    assert before.keys() == after.keys()
    assert any(lost not in ids for ids in before.values())
    for name, ids in before.items():
        if lost in ids:
            assert ids - after[name] == {lost}
            assert len(after[name] - ids) == 1
        else:
            assert after[name] == ids


@pytest.fixture(scope="module")
def mixed(raw: Raw, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files in another order."""
    dice = random.Random(3)
    mixed = {name: dice.sample(records, len(records)) for name, records in raw.items()}
    mixed["det_ingrs.json"] = [
        {**entry, "ingredients": dice.sample(entry["ingredients"], len(entry["ingredients"]))}
        for entry in mixed["det_ingrs.json"]
    ]
    first, *others = raw["remove1M.txt"]  # the official code makes an exception of the first
    mixed["remove1M.txt"] = [first, *dice.sample(others, len(others))]
    return write(mixed, tmp_path_factory.mktemp("mixed"))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("filter_", FILTERS)
def test_the_order_of_the_raw_lists_changes_no_fingerprint(
    folder: Path, mixed: Path, sampler: str, filter_: str
) -> None:
    def fingerprints(folder: Path, **given: Any) -> dict[str, str]:
        subset = build(folder, sampler=sampler, filter=filter_, sizes=[1000], repeats=3, **given)
        return {name: fingerprint(table) for name, table in subset.tables().items()}

    there = fingerprints(folder)
    assert fingerprints(mixed) == there
    assert fingerprints(folder, seed=1) != there


def test_a_repeat_and_a_size_less_leave_the_others_as_they_were(folder: Path, subset: Subset) -> None:
    fewer = pools(build(folder, sizes=[1000], repeats=9))
    assert fewer == {
        name: ids for name, ids in pools(subset).items() if name[:3] != "10k" and name.split("/")[1] != "9"
    }


def test_views_follow_from_the_parameters(folder: Path) -> None:
    def views(**given: Any) -> set[str]:
        parameters = RECIPE1M.parameters(given)
        found = set(build(folder, **given).trials["view"].to_pylist())
        assert {view for _, view in RECIPE1M.expected(parameters).pool_sizes} == found
        assert {measure.view for measure in RECIPE1M.plan(parameters).measures} == found
        return found

    assert views(repeats=1) == {"1k", "10k", "10way"}
    assert views(repeats=1, sizes=[10000]) == {"10k"}
    assert views(repeats=1, ten_way=False) == {"1k", "10k"}
    assert views(repeats=2, sizes=[5000, 20]) == {"20", "5000"}


def test_the_plan_measures_both_directions() -> None:
    plan = RECIPE1M.plan(RECIPE1M.parameters({}))
    assert plan.percent
    assert {t.name: (t.query_side, t.candidate_side, t.guided_side, t.ties) for t in plan.tasks} == {
        "im2recipe": ("image", "recipe", "image", "expected"),
        "recipe2im": ("recipe", "image", "image", "expected"),
    }
    wanted = []
    for task in ("im2recipe", "recipe2im"):
        for view in ("1k", "10k"):
            wanted += [((task, view, metric), True) for metric in ("medR", "R@1", "R@5", "R@10")]
        wanted += [((task, "10way", "R@1"), False)]
    assert [(m.key, m.std) for m in plan.measures] == wanted
    assert all(m.key == (m.task, m.view, m.metric) for m in plan.measures)
    expected = RECIPE1M.expected(RECIPE1M.parameters({}))
    assert {(view, n) for (_, view), n in expected.pool_sizes.items()} == {
        ("1k", 1000),
        ("10k", 10000),
        ("10way", 10),
    }


def test_the_vocabulary_is_asked_for_by_the_official_filter_only() -> None:
    always = ("layer1.json", "layer2+.json|layer2.json", "det_ingrs.json", "remove1M.txt")
    assert RECIPE1M.files(RECIPE1M.parameters({})) == always
    assert RECIPE1M.files(RECIPE1M.parameters({"filter": "official"})) == (*always, "vocab.txt?")


# ------------------------------------------------------------------ notes


def test_notes_count_each_recipe_under_the_first_rule_that_drops_it(tmp_path: Path) -> None:
    dropped = {
        "a": {"steps": 20, "detected": names(20), "images": 0},
        "b": {"detected": names(20), "images": 0},
        "c": {"images": 0, "remove": ["c"]},
        "d": {},
        "kept": {},
    }
    files = [recipe(identity, **changes) for identity, changes in dropped.items()]
    raw = {name: [entry for file in files for entry in file[name]] for name in files[0] if name[-4:] != ".txt"}
    write({**raw, "remove1M.txt": ["zz", "a", "b", "c", "d"]}, tmp_path)
    rules = "1 by instructions, 1 by ingredients, 1 without an image, 1 listed in remove1M.txt"
    told = f"1 of 5 test pairs kept; dropped, by the first rule that applies: {rules}"
    assert notes(tmp_path, sizes=[1]) == [told]
    absent = "vocab.txt is absent: every ingredient text counts as known"
    assert notes(tmp_path, sizes=[1], filter="official") == [told, absent]
    (tmp_path / "vocab.txt").write_text("\n".join(n.replace(" ", "_") for n in names(20)))
    assert notes(tmp_path, sizes=[1], filter="official") == [told]
    published = "papers report 51,303 test pairs, a released list of ids has 51,304"
    assert notes(tmp_path, sizes=[1], source="official") == [told, published]


def test_a_number_of_pairs_other_than_the_published_ones_is_a_note(tmp_path: Path) -> None:
    one, ids = recipe(), [f"{i:010x}" for i in range(51_304)]
    raw = {name: [{**one[name][0], "id": i} for i in ids] for name in one if name[-5:] == ".json"}
    for removed in range(3):
        write({**(raw if not removed else {}), "remove1M.txt": ids[:removed]}, tmp_path)
        found = notes(tmp_path, sizes=[10], repeats=1, source="official")
        assert len(found) == (2 if removed == 2 else 1)
        assert found[0].startswith(f"{51_304 - removed} of 51304 test pairs kept")


# ------------------------------------------------------------------ bad input


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k != key}


def spoil(name: str, change: Callable[[dict[str, Any]], Any], at: tuple[int, ...] = (2, 5)) -> Callable[[Raw], Raw]:
    def spoiled(raw: Raw) -> Raw:
        records = [change(dict(r)) if n in at else r for n, r in enumerate(raw[name])]
        return {**raw, name: records}

    return spoiled


@pytest.mark.parametrize(
    ("spoiled", "told"),
    [
        (
            spoil("layer1.json", lambda r: without(r, "partition")),
            "layer1.json: 2 records with a \"partition\" that is none of train, val, test ('2222222222', '5555555555')",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "partition": "dev"}, (4,)),
            """layer1.json: 1 record with a "partition" that is none of train, val, test ('4444444444')""",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "partition": ["test"]}, (0, 1, 2, 3, 4, 5)),
            'layer1.json: 6 records with a "partition" that is none of train, val, test '
            "('0000000000', '1111111111', '2222222222', …)",
        ),
        (
            spoil("layer1.json", lambda r: without(r, "instructions")),
            """layer1.json: 2 records without a list "instructions" ('2222222222', '5555555555')""",
        ),
        (
            spoil("layer1.json", lambda r: without({**r, "partition": "train"}, "ingredients")),
            """layer1.json: 2 records without a list "ingredients" ('2222222222', '5555555555')""",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "ingredients": "salt"}, (2,)),
            """layer1.json: 1 record without a list "ingredients" ('2222222222')""",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "ingredients": [{"name": "salt"}]}, (2,)),
            """layer1.json: 1 record with an ingredient that has no string "text" ('2222222222')""",
        ),
        (
            spoil("layer1.json", lambda r: without(r, "id")),
            """layer1.json: 2 records without a string "id" ('number 2', 'number 5')""",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "id": int(r["id"])}, (2,)),
            """layer1.json: 1 record without a string "id" ('number 2')""",
        ),
        (
            spoil("layer1.json", lambda r: r["id"], (2,)),
            """layer1.json: 1 record without a string "id" ('number 2')""",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "title": None}, (2,)),
            """layer1.json: 1 record without a string "title" ('2222222222')""",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "id": "3333333333", "partition": "train"}, (2, 5)),
            """layer1.json: 2 records with the id of an earlier one ('3333333333', '3333333333')""",
        ),
        (
            spoil("layer1.json", lambda r: {**r, "id": "3333333333"} if r["id"][0] == "5" else without(r, "id")),
            """layer1.json: 1 record without a string "id" ('number 2'); """
            """1 record with the id of an earlier one ('3333333333')""",
        ),
        (
            spoil("det_ingrs.json", lambda r: {**r, "id": "3333333333"}, (5,)),
            """det_ingrs.json: 1 record with the id of an earlier one ('3333333333')""",
        ),
        (
            spoil("det_ingrs.json", lambda r: without(r, "ingredients")),
            """det_ingrs.json: 2 records without a list "ingredients" ('2222222222', '5555555555')""",
        ),
        (
            spoil("det_ingrs.json", lambda r: {**r, "ingredients": ["salt"]}, (2,)),
            """det_ingrs.json: 1 record with an ingredient that has no string "text" ('2222222222')""",
        ),
        (
            spoil("layer2+.json", lambda r: {**r, "id": "3333333333"}, (5,)),
            """layer2+.json: 1 record with the id of an earlier one ('3333333333')""",
        ),
        (
            spoil("layer2+.json", lambda r: without(r, "images")),
            """layer2+.json: 2 records without a list "images" ('2222222222', '5555555555')""",
        ),
        (
            spoil("layer2+.json", lambda r: {**r, "images": [{"url": "x"}]}, (2,)),
            """layer2+.json: 1 record without a string "id" ('2222222222')""",
        ),
        (
            lambda raw: {**raw, "layer1.json": {"recipes": raw["layer1.json"]}},
            "layer1.json: should be a JSON list of records",
        ),
        (lambda raw: {**raw, "det_ingrs.json": None}, "det_ingrs.json: should be a JSON list of records"),
        (
            lambda raw: {**raw, "remove1M.txt": ["<!DOCTYPE html>", "<html>", "Please log in"]},
            "remove1M.txt: lines of more than one word: 2 ('<!DOCTYPE html>', 'Please log in')",
        ),
        (
            lambda raw: {**raw, "vocab.txt": ["salt", "sea salt"]},
            "vocab.txt: lines of more than one word: 1 ('sea salt')",
        ),
        *(
            (lambda raw, name=name: without(raw, name), f"{told}: No such file or directory")
            for name, told in (
                ("layer1.json", "layer1.json"),
                ("det_ingrs.json", "det_ingrs.json"),
                ("layer2+.json", "layer2.json"),
                ("remove1M.txt", "remove1M.txt"),
            )
        ),
    ],
)
def test_a_bad_record_is_one_clear_line(tmp_path: Path, spoiled: Callable[[Raw], Raw], told: str) -> None:
    files = [recipe(str(n) * 10) for n in range(6)]
    raw = {name: [entry for file in files for entry in file[name]] for name in files[0] if name[-5:] == ".json"}
    raw["remove1M.txt"] = ["aaaaaaaaaa"]
    assert build(write(raw, tmp_path / "good"), filter="official", sizes=[6]).qrels.num_rows == 6
    write(spoiled(raw), tmp_path / "bad")
    with pytest.raises(InputError) as error:
        build(tmp_path / "bad", filter="official", sizes=[1])
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'bad'}/{told}")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["layer1.json", "det_ingrs.json", "layer2+.json"])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda whole: whole[: len(whole) // 2], id="cut off"),
        pytest.param(lambda whole: whole[:-1], id="cut off by a byte"),
        pytest.param(lambda whole: b"", id="empty"),
        pytest.param(lambda whole: b"<!DOCTYPE html>\n<html><body>Please log in</body></html>", id="login page"),
        pytest.param(lambda whole: whole + whole, id="twice"),
        pytest.param(lambda whole: whole.replace(b"01", b"\xff\xfe"), id="other bytes"),
        pytest.param(lambda whole: b"\x1f\x8b\x08" + whole, id="zipped"),
    ],
)
def test_a_file_that_is_no_json_is_one_clear_line(tmp_path: Path, name: str, content: Callable[[bytes], bytes]) -> None:
    path = write(recipe(), tmp_path) / name
    path.write_bytes(content(path.read_bytes()))
    with pytest.raises(InputError) as error:
        build(tmp_path, sizes=[1])
    message = str(error.value)
    assert message.startswith(f"{path}: not whole JSON (")
    assert message.endswith("); get the official file again")
    assert "\n" not in message
    assert "\\n" not in message


def test_the_search_for_cycles_is_on_again_after_a_file_good_or_bad(tmp_path: Path) -> None:
    assert gc.isenabled()
    build(write(recipe(), tmp_path), sizes=[1])
    assert gc.isenabled()
    (tmp_path / "det_ingrs.json").write_text("[{")
    with pytest.raises(InputError, match="not whole JSON"):
        build(tmp_path, sizes=[1])
    assert gc.isenabled()


@pytest.mark.parametrize(
    "given",
    [
        {"sizes": []},
        {"sizes": [0]},
        {"sizes": [1000, -5]},
        {"sizes": ["1000"]},
        {"sizes": [True]},
        {"sizes": [1000, 1000]},
        {"sizes": 1000},
        {"repeats": 0},
        {"repeats": 1.5},
        {"seed": "1234"},
        {"sampler": "numpy"},
        {"filter": "none"},
        {"ten_way": "no"},
    ],
)
def test_a_bad_parameter_is_named(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(InputError, match=rf"^params\.yaml: benchmarks\.recipe1m\.{name} is "):
        RECIPE1M.parameters(given)


def test_defaults() -> None:
    assert RECIPE1M.parameters(None) == {
        "source": "sample",
        "ties": "expected",
        "sizes": [1000, 10000],
        "repeats": 10,
        "seed": 1234,
        "sampler": "hash",
        "filter": "corrected",
        "ten_way": True,
    }


# ------------------------------------------------------------------ memory, sample


def test_memory_does_not_grow_with_the_text_of_the_files(tmp_path: Path) -> None:
    files = [recipe(f"{n:010x}") for n in range(1500)]
    raw = {name: [entry for file in files for entry in file[name]] for name in files[0] if name[-5:] == ".json"}
    write({**raw, "remove1M.txt": ["zz"]}, tmp_path)
    for entry in raw["layer1.json"]:
        entry["instructions"] = [{"text": "Stir it well. " * 150} for _ in range(10)]
    for entry in raw["det_ingrs.json"]:
        entry["ingredients"] = [{"text": f"{n} " * 500} for n in range(10)]
    (tmp_path / "large").mkdir()
    large = write({**raw, "remove1M.txt": ["zz"]}, tmp_path / "large")
    assert (large / "layer1.json").stat().st_size > 30 << 20
    assert (large / "det_ingrs.json").stat().st_size > 10 << 20

    def peak(folder: Path) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            build(folder, sizes=[100], repeats=1)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(tmp_path)  # imports
    small, big = peak(tmp_path), peak(large)
    assert big < small + (1 << 20)
    assert big < 4 << 20


def test_the_sample_is_the_same_each_time_and_large_enough(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        RECIPE1M.sample(tmp_path / name)
    found, again = ({p.name: sha256_file(p) for p in (tmp_path / name).iterdir()} for name in "ab")
    assert found == again
    assert found.keys() == {"layer1.json", "layer2+.json", "det_ingrs.json", "remove1M.txt"}
    assert sum(p.stat().st_size for p in (tmp_path / "a").iterdir()) < 10 << 20

    raw: Raw = {name: json.loads((tmp_path / "a" / name).read_text()) for name in found if name[-5:] == ".json"}
    raw["remove1M.txt"] = (tmp_path / "a" / "remove1M.txt").read_text().splitlines()
    raw["vocab.txt"] = all_words(raw)
    assert raw["remove1M.txt"][0] == FIRST_REMOVED
    assert {r["partition"] for r in raw["layer1.json"]} == {"train", "val", "test"}
    assert len({r["id"] for r in raw["layer1.json"]}) == len(raw["layer1.json"])
    for filter_, pairs in (("corrected", corrected_pairs(raw)), ("official", official_pairs(raw))):
        assert len(pairs) >= 10_000
        assert (FIRST_REMOVED in pairs) == (filter_ == "official")
        (told, *_) = notes(tmp_path / "a", filter=filter_)
        assert told.startswith(f"{len(pairs)} of 11400 test pairs kept; ")
        assert ": 0 " not in told
        assert ", 0 " not in told
    assert len(set(corrected_pairs(raw)) - set(official_pairs(raw))) > 10
    assert len(set(official_pairs(raw)) - set(corrected_pairs(raw))) > 10
