"""Recipe1M+: a food image finds its recipe and a recipe its image, within fixed draws of test pairs."""

import contextlib
import gc
import hashlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from rankledger.benchmarks.base import Benchmark, Expected, Measure, Plan, Task
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, Subset
from rankledger.tables import InputError, few, write_text

TASKS = (
    Task("im2recipe", query_side="image", candidate_side="recipe", guided_side="image"),
    Task("recipe2im", query_side="recipe", candidate_side="image", guided_side="image"),
)
PARTITIONS = ("train", "val", "test")
MAX_LENGTH = 20  # a recipe with this many instructions or ingredients is too long
TEN_WAY, CHOICES = "10way", 10
TEN_WAY_FROM = 1000  # the draw that the multiple choice cuts into pools
REASONS = ("by instructions", "by ingredients", "without an image", "listed in remove1M.txt")
PUBLISHED = (51_303, 51_304)  # test pairs: in papers, in a released list of ids

FIRST_REMOVED = "000507ca6b"  # of the real remove1M.txt, and so of the sample's
FOODS = ("apple", "basil", "egg", "garlic", "honey", "kale", "lemon", "milk")

T = TypeVar("T", str, list[Any])


class Recipe1M(Benchmark):
    """Recipe1M+, evaluated as in im2recipe-Pytorch: pairs of `mk_dataset.py`, draws of `scripts/rank.py`."""

    name = "recipe1m"
    title = "Recipe1M+"
    paper = (
        "Recipe1M+: A Dataset for Learning Cross-Modal Embeddings for Cooking Recipes and Food Images, "
        "https://arxiv.org/abs/1810.06553"
    )
    url = "http://im2recipe.csail.mit.edu"
    year = 2018
    licence = "research use only"
    access = "behind the registration form at http://im2recipe.csail.mit.edu"
    defaults: ClassVar[dict[str, Any]] = {
        "sizes": [1000, 10000],
        "repeats": 10,
        "seed": 1234,
        "sampler": "hash",
        "filter": "corrected",
        "ten_way": True,
    }
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {
        "sampler": ("hash", "official"),
        "filter": ("corrected", "official"),
    }

    def parameters(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """All parameters, defaults filled in; sizes and repeats must be positive whole numbers."""
        parameters = super().parameters(given)
        for name in ("sizes", "repeats"):
            value = parameters[name]
            if any(type(n) is not int or n < 1 for n in (value if isinstance(value, list) else [value])):
                raise InputError(f"params.yaml: benchmarks.recipe1m.{name} is {value!r}; only whole numbers from 1 on")
        return parameters

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """The three layers and the ids to remove; the vocabulary matters to the official filter only."""
        always = ("layer1.json", "layer2+.json|layer2.json", "det_ingrs.json", "remove1M.txt")
        return (*always, "vocab.txt?") if parameters["filter"] == "official" else always

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """The draws as tables; queries and candidates go by the recipe's id on both sides.

        The JSON files are read as streams: memory holds the ids, and a few facts of each test recipe.
        """
        official = parameters["filter"] == "official"
        words = raw / "vocab.txt"
        vocabulary = set(_lines(words)) if official and words.exists() else None
        removed = _removed(raw / "remove1M.txt", official)
        recipes, known = _recipes(raw, vocabulary)
        dropped = {i: _reason(r, i in removed, official) for i, r in recipes.items()}
        kept = sorted(i for i, reason in dropped.items() if reason is None)
        counts = Counter(dropped.values())
        rules = ", ".join(f"{counts[reason]} {reason}" for reason in REASONS)
        census = f"{len(kept)} of {len(recipes)} test pairs kept; dropped, by the first rule that applies: {rules}"
        notes = [census]
        if official and vocabulary is None:
            notes.append("vocab.txt is absent: every ingredient text counts as known")
        if parameters["source"] == "official" and len(kept) not in PUBLISHED:
            notes.append("papers report {:,} test pairs, a released list of ids has {:,}".format(*PUBLISHED))
        if len(kept) < max(parameters["sizes"]):
            raise InputError(
                f"{raw}: too few for a draw of {max(parameters['sizes'])} pairs: {census}; "
                "bring the whole files, or ask for less in params.yaml (benchmarks.recipe1m.sizes)"
            )
        return _subset(draws(kept, parameters), recipes, known, parameters), notes

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """medR and R@1, 5, 10 of each size, as means over the draws; R@1 of the multiple choice."""
        measures = []
        for task in TASKS:
            for view in map(_view, sorted(parameters["sizes"])):
                for metric in ("medR", "R@1", "R@5", "R@10"):
                    measures.append(Measure(task.name, view, metric, (task.name, view, metric), std=True))
            if _ten_way(parameters):
                measures.append(Measure(task.name, TEN_WAY, "R@1", (task.name, TEN_WAY, "R@1")))
        return Plan(TASKS, tuple(measures))

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        """Pools of N, and of ten in the multiple choice."""
        sizes = {_view(size): size for size in parameters["sizes"]}
        if _ten_way(parameters):
            sizes[TEN_WAY] = CHOICES
        return Expected(pool_sizes={(task.name, view): n for task in TASKS for view, n in sizes.items()})

    def sample(self, folder: Path) -> None:
        """12,600 made-up recipes in three partitions; each rule of the filters has some to drop."""
        layer1, layer2, detected, remove = [], [], [], []
        for number in range(12_600):
            dice = hashlib.sha256(f"recipe/{number}".encode()).digest()
            identity = dice[:5].hex() if number else FIRST_REMOVED
            partition = ("train" if number % 2 else "val") if number >= 11_400 else "test"
            # From 19 on, where the filters differ: the official one counts its end token too.
            ingredients = 2 + dice[5] % 5 if number % 50 != 1 else (0, 0, 18, 19, 20)[number // 50 % 5]
            steps = 1 + dice[6] % 4 if number % 60 != 7 else 19 + number // 60 % 3
            names = [f"{FOODS[(dice[7] + n) % len(FOODS)]}{' paste' * (n // len(FOODS))}" for n in range(ingredients)]
            layer1.append(
                {
                    "id": identity,
                    "title": f"{FOODS[dice[7] % len(FOODS)]} with {FOODS[dice[8] % len(FOODS)]}".capitalize(),
                    "ingredients": [{"text": f"{1 + n % 4} cups {name}"} for n, name in enumerate(names)],
                    "instructions": [{"text": f"Step {n + 1}."} for n in range(steps)],
                    "partition": partition,
                    "url": f"https://example.org/{identity}",
                }
            )
            if number % 40 != 3:
                images = [{"id": f"{dice[10 + n : 15 + n].hex()}.jpg"} for n in range(1 + dice[9] % 2)]
                for image in images:
                    image["url"] = f"https://example.org/{image['id']}"
                layer2.append({"id": identity, "images": images if number % 40 != 23 else []})
            if number % 100 != 9:
                texts = [*names, *names[:1], ""]  # neither a repetition nor an empty text is one more
                valid = [(dice[10] + n) % 5 > 0 for n in range(len(texts))]
                detected.append({"id": identity, "valid": valid, "ingredients": [{"text": t} for t in texts]})
            if number % 70 == 0:
                remove.append(identity)
        layers = {"layer1.json": layer1, "layer2+.json": layer2, "det_ingrs.json": detected}
        for name, records in layers.items():
            write_text(json.dumps(records), folder / name)
        write_text("\n".join(sorted(remove, key=lambda i: (i != FIRST_REMOVED, i))), folder / "remove1M.txt")


BENCHMARK = Recipe1M()


@dataclass(slots=True)
class _Recipe:
    """What is kept of a test recipe; `ingredients` counts the distinct known texts."""

    title: str | None
    instructions: int
    ingredients: int
    image: str | None = None


def _reason(recipe: _Recipe, removed: bool, official: bool) -> str | None:
    """The first rule that drops a recipe, or None where it stays."""
    # mk_dataset.py counts an end token as an ingredient, and so its test for 0 never fires.
    counted = recipe.ingredients + 1 if official else recipe.ingredients
    odd = not 0 < counted < MAX_LENGTH
    rules = (recipe.instructions >= MAX_LENGTH, odd, recipe.image is None, removed)
    return REASONS[rules.index(True)] if True in rules else None


def _recipes(raw: Path, vocabulary: Set[str] | None) -> tuple[dict[str, _Recipe], set[str]]:
    """The test recipes by id, and the ids of all recipes of every partition."""
    recipes: dict[str, _Recipe] = {}

    def layer1(identity: str, record: dict[str, Any]) -> None:
        partition = record.get("partition")
        if partition not in PARTITIONS:
            raise _Malformed(f'with a "partition" that is none of {", ".join(PARTITIONS)}')
        _field(record, "ingredients", list)
        instructions = _field(record, "instructions", list)
        if partition == "test":
            title = _field(record, "title", str) if "title" in record else None
            recipes[identity] = _Recipe(title, len(instructions), _ingredients(record, vocabulary))

    def det_ingrs(identity: str, record: dict[str, Any]) -> None:
        _field(record, "ingredients", list)
        if identity in recipes:
            recipes[identity].ingredients = _ingredients(record, vocabulary)

    def layer2(identity: str, record: dict[str, Any]) -> None:
        images = _field(record, "images", list)
        if identity in recipes and images:
            recipes[identity].image = _field(images[0], "id", str)

    plus = raw / "layer2+.json"
    with _no_cycles():
        known = _read(raw / "layer1.json", layer1)
        _read(raw / "det_ingrs.json", det_ingrs)
        _read(plus if plus.exists() else raw / "layer2.json", layer2)
    return recipes, known


@contextlib.contextmanager
def _no_cycles() -> Iterator[None]:
    """Spare Python the search for cycles: records have none, and every search would visit all ids that are kept."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _ingredients(record: dict[str, Any], vocabulary: Set[str] | None) -> int:
    """How many distinct known ingredient texts a record has; an empty one is none."""
    try:
        texts = {i["text"].replace(" ", "_") for i in _field(record, "ingredients", list)}
    except (TypeError, KeyError, AttributeError):
        raise _Malformed('with an ingredient that has no string "text"') from None
    texts.discard("")
    return len(texts if vocabulary is None else texts & vocabulary)


class _Malformed(Exception):
    """A record is not as the format says; the message completes "3 records …"."""


def _field(record: Any, key: str, kind: type[T]) -> T:
    try:
        value = record[key]
    except (TypeError, KeyError):
        value = None
    if not isinstance(value, kind):
        raise _Malformed(f'without {"a list" if kind is list else "a string"} "{key}"')
    return value


def _read(path: Path, take: Callable[[str, dict[str, Any]], None]) -> set[str]:
    """Give `take` the id and the content of each record of a file, one at a time; returns the ids.

    Raises `InputError` where the file is no JSON list, `take` calls records malformed, or an id comes twice.
    """
    ids: set[str] = set()
    faults: dict[str, list[str]] = {}
    for number, record in enumerate(_stream(path)):
        identity = None
        try:
            identity = _field(record, "id", str)
            if identity in ids:
                raise _Malformed("with the id of an earlier one")
            ids.add(identity)
            take(identity, record)
        except _Malformed as fault:
            faults.setdefault(str(fault), []).append(f"number {number}" if identity is None else identity)
    if faults:
        found = (
            f"{len(names)} record{'s' * (len(names) > 1)} {fault} ({few(names)})" for fault, names in faults.items()
        )
        raise InputError(f"{path}: {'; '.join(found)}; get the official file again")
    return ids


def _stream(path: Path) -> Iterator[Any]:
    """The elements of the JSON list in a file, with a progress bar where stderr is a terminal."""
    import ijson
    import rich.progress
    from rich.console import Console

    shown: dict[str, Any] = {
        "console": Console(stderr=True),
        "transient": True,
        "disable": not sys.stderr.isatty(),
    }
    try:
        with rich.progress.open(path, "rb", description=path.name, **shown) as file:
            empty = True
            for element in ijson.items(file, "item", use_float=True):
                empty = False
                yield element
            file.seek(0)
            if empty and next(ijson.basic_parse(file))[0] != "start_array":
                raise InputError(f"{path}: should be a JSON list of records; get the official file again")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ijson.JSONError as error:
        reason, *_picture = re.split(r"\\n|\n", str(error).removeprefix("b'"))
        raise InputError(f"{path}: not whole JSON ({reason}); get the official file again") from None


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    lines = [line.rstrip() for line in text.split("\n")]
    odd = [line[:40] for line in lines if re.search(r"\s", line)]
    if odd:
        raise InputError(f"{path}: lines of more than one word: {len(odd)} ({few(odd)}); get the official file again")
    return lines


def _removed(path: Path, official: bool) -> set[str]:
    """The ids to remove; the official code takes index 0 for "not listed" and never removes the first one."""
    index = {identity: place for place, identity in enumerate(_lines(path))}
    return {identity for identity, place in index.items() if place or not official}


def draws(ids: Sequence[str], parameters: Mapping[str, Any]) -> dict[int, list[list[str]]]:
    """The draws of each size, a list of ids in the order drawn for each repeat; `ids` are sorted.

    `sampler: hash` takes the smallest SHA-256 of "<seed>/<repeat>/<id>", so small draws begin large ones;
    `official` draws as im2recipe-Pytorch's `rank.py` does, from a generator seeded once a size.
    """
    sizes, repeats, seed = sorted(parameters["sizes"]), range(parameters["repeats"]), parameters["seed"]
    drawn: dict[int, list[list[str]]] = {}
    if parameters["sampler"] == "official":
        for size in sizes:
            generator = random.Random(seed)
            drawn[size] = [[ids[i] for i in generator.sample(range(len(ids)), size)] for _ in repeats]
    else:
        encoded = [i.encode() for i in ids]
        for s in repeats:
            prefix = f"{seed}/{s}/".encode()
            digests = np.array([hashlib.sha256(prefix + i).digest() for i in encoded], "S32")
            order = [ids[place] for place in np.argsort(digests, kind="stable")[: sizes[-1]].tolist()]
            for size in sizes:
                drawn.setdefault(size, []).append(order[:size])
    return drawn


def _view(size: int) -> str:
    return {1000: "1k", 10000: "10k"}.get(size, str(size))


def _ten_way(parameters: Mapping[str, Any]) -> bool:
    return bool(parameters["ten_way"]) and TEN_WAY_FROM in parameters["sizes"]


def _subset(
    drawn: Mapping[int, list[list[str]]],
    recipes: Mapping[str, _Recipe],
    known: Set[str],
    parameters: Mapping[str, Any],
) -> Subset:
    """The tables of the draws; both directions share pools and qrels: an id is the recipe's on both sides."""
    pools = [(_view(n), s, f"{_view(n)}/{s}", ids) for n, repeats in drawn.items() for s, ids in enumerate(repeats)]
    if _ten_way(parameters):
        pools += [
            (TEN_WAY, s, f"{TEN_WAY}/{s}/{start // CHOICES}", ids[start : start + CHOICES])
            for s, ids in enumerate(drawn[TEN_WAY_FROM])
            for start in range(0, TEN_WAY_FROM, CHOICES)
        ]
    views, repeats, names, members = zip(*pools, strict=True)
    rows = pa.table(
        {
            "view": pa.array(views, pa.string()),
            "repeat": pa.array(repeats, pa.int64()),
            "pool_id": pa.array(names, pa.string()),
        }
    ).take(np.repeat(np.arange(len(pools)), list(map(len, members))))
    rows = rows.append_column("query_id", pa.array(chain.from_iterable(members), pa.string()))
    used = sorted(set(chain.from_iterable(members)))
    queries = pa.table(
        {
            "query_id": pa.array(used, pa.string()),
            "title": pa.array([recipes[i].title for i in used], pa.string()),
            "image_id": pa.array([recipes[i].image for i in used], pa.string()),
        }
    )
    tasks = [task.name for task in TASKS]
    return Subset(
        queries=_each("task", tasks, queries).select(["query_id", "task", "title", "image_id"]),
        pools=pa.table({"pool_id": rows["pool_id"], "candidate_id": rows["query_id"]}, schema=POOLS),
        trials=_each("task", tasks, rows).select(TRIALS.names),
        qrels=pa.table({"query_id": used, "candidate_id": used, "relevance": [1.0] * len(used)}, schema=QRELS),
        exclusions=EXCLUSIONS.empty_table(),
        # All partitions: a model that embeds training recipes too has more than is needed, nothing foreign.
        universe=_each("side", ["image", "recipe"], pa.table({"id": pa.array(list(known), pa.string()).sort()})),
    )


def _each(name: str, values: Sequence[str], table: pa.Table) -> pa.Table:
    """The rows of a table once for each value of a new first column."""
    return pa.concat_tables([table.add_column(0, name, pa.repeat(value, len(table))) for value in values])
