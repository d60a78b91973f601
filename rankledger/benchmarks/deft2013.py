"""DEFT 2013: four tasks on French recipes: how difficult, which dish, which title, which ingredients."""

import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar
from xml.parsers import expat
from xml.sax.saxutils import escape

import pyarrow as pa

from rankledger.benchmarks.archives import SUFFIXES, contents
from rankledger.benchmarks.base import Benchmark, Measure, Plan, Task, normalise
from rankledger.benchmarks.made import choice, number, sample
from rankledger.subset import EXCLUSIONS, POOLS, QRELS, TRIALS, UNIVERSE, Subset
from rankledger.tables import InputError, few, whole_file, write_text

LEVELS = ("tres-facile", "facile", "moyennement-difficile", "difficile")
DISHES = ("entree", "plat-principal", "dessert")
TASKS = (
    Task("difficulty", "recipe", "difficulty", "recipe", labels=LEVELS),
    Task("dish_type", "recipe", "dish_type", "recipe", labels=DISHES),
    Task("title", "recipe", "title", "title", ties="trec", missing="zero"),
    Task("ingredients", "recipe", "ingredient", "ingredient", ties="trec", missing="zero", noise=True),
)
NEEDS = {"difficulty": "niveau", "dish_type": "type", "title": "titre", "ingredients": "gold ingredients"}
PUBLISHED, PUBLISHED_TESTS = 23_094, 9_230  # recipes that the organisers have handed out, and tested

RECIPE = re.compile(r"recette_([\w-]+)\.xml", re.ASCII)
WANTED = re.compile(r"[^.].*\.xml|terminologie.*\.txt|.+\.qrels|titles\.txt|parts\.tsv", re.DOTALL)
GOLD_LINE = "id|appr|2013/recette_<id>.xml|<type>-<niveau>|<number of ingredients>|<ingredients>"


class Deft2013(Benchmark):
    """DEFT 2013, from whatever folders and archives the organisers' files came in."""

    name = "deft2013"
    title = "DEFT 2013"
    paper = "DEFT2013 se met à table, Actes du neuvième DÉfi Fouille de Textes, 2013"
    url = "http://deft.limsi.fr/2013/"
    year = 2013
    licence = "the organisers' licence"
    access = "from the organisers, under their licence"
    defaults: ClassVar = {"dmax": "class"}
    choices: ClassVar = {"dmax": ("class", 3)}
    ties_fixed = True

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Recipes, loose or in archives; gold, further titles and test parts where there are any."""
        recipes = "|".join(f"**/*{suffix}" for suffix in (".xml", *SUFFIXES))
        return recipes, "**/terminologie*.txt?", "**/*.qrels?", "titles.txt?", "parts.tsv?"

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """The four tasks; all titles are one pool, all ingredients of the terminology another.

        It reads, at any depth and in archives, `recette_<id>.xml`; `terminologie*.txt`, whose lines are
        `id|appr|2013/recette_<id>.xml|<type>-<niveau>|<n>|ing1 ing2 …` or a name alone; `*.qrels` with
        lines `id 0 ing 1`; `titles.txt` with a further title a line; and `parts.tsv` with lines
        `task<TAB>recipe id`, the test recipes of each task. Without that one a task tests every recipe
        that has what it needs.
        """
        corpus = _Corpus(raw)
        rows = [(task.name, recipe) for task in TASKS for recipe in sorted(corpus.test_set(task.name))]
        if not rows:
            raise InputError(
                f"{raw}: no recipe has what a task needs ({', '.join(NEEDS.values())}); bring the gold too"
            )
        tested = Counter(task for task, _ in rows)
        pools = [
            (task.name, candidate)
            for task in TASKS
            if task.name in tested
            for candidate in corpus.sides[task.candidate_side]
        ]
        # A recipe may be asked in several tasks, with another answer in each.
        qrels = [(recipe, right, 1.0, task) for task, recipe in rows for right in corpus.answers[task][recipe]]
        subset = Subset(
            queries=_table(TRIALS.field("task"), TRIALS.field("query_id"), rows=rows),
            pools=_table(*POOLS, rows=pools),
            trials=_table(*TRIALS, rows=[(task, "all", 0, recipe, task) for task, recipe in rows]),
            qrels=_table(*QRELS, TRIALS.field("task"), rows=qrels),
            exclusions=EXCLUSIONS.empty_table(),
            universe=_table(*UNIVERSE, rows=[(side, one) for side, ids in corpus.sides.items() for one in ids]),
        )
        return subset, corpus.notes(tested, parameters["source"])

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """EDRM for the difficulty; precision, recall and F for both label tasks; MRR and P@1; MAP."""
        edrm = {f"EDRM_{of}": f"EDRM_{of}(dmax={parameters['dmax']})" for of in ("micro", "macro")}
        shares = {name: name for name in ("P_micro", "R_micro", "F_micro", "P_macro", "R_macro", "F_macro")}
        shown = {
            "difficulty": edrm | shares,
            "dish_type": shares,
            "title": {"MRR": "MRR", "P@1": "P@1"},
            "ingredients": {"MAP": "AP"},
        }
        return Plan(
            TASKS,
            tuple(Measure(task, "all", shown[task][name], (task, name)) for task in shown for name in shown[task]),
            percent=False,
        )

    def sample(self, folder: Path) -> None:
        """600 made-up recipes in one archive, 120 of them in the part of each task and 120 in none."""
        gold, parts = [], []
        with whole_file(folder / "recettes.zip") as new, zipfile.ZipFile(new, "w") as archive:
            for i in range(600):
                recipe = str(50_001 + 7 * i)
                xml, kind, names = _made(recipe)
                # Stored, not deflated: the same bytes whatever zlib there is.
                member = zipfile.ZipInfo(f"2013/recette_{recipe}.xml", (2013, 1, 1, 0, 0, 0))
                member.create_system = 3
                archive.writestr(member, xml.encode())
                gold.append(f"{recipe}|appr|{member.filename}|{kind}|{len(names)}|{' '.join(names)}\n")
                if i % 5 < len(TASKS):
                    parts.append(f"{TASKS[i % 5].name}\t{recipe}\n")
        write_text("".join(gold), folder / "terminologie_2013.txt")
        write_text("".join(parts), folder / "parts.tsv")
        write_text("".join(f"Recette secrète n° {i}\n" for i in range(1, 41)), folder / "titles.txt")


class _Corpus:
    """What the raw files say, in whatever order and folders they lie.

    Raises `InputError` where they are not as they should be, with all places of the first kind of fault.

    Attributes:
        answers: task → recipe id → what is right, sorted.
        sides: side → the ids that it has, sorted.
    """

    def __init__(self, raw: Path) -> None:
        self._raw = raw
        self._files: dict[str, str] = {}  # recipe id → its XML file
        self._gold: dict[str, Set[str]] = {}  # recipe id → its ingredients, none where the files say so
        self._kinds: dict[str, str] = {}  # recipe id → <type>-<niveau> in the terminology
        self._titles: set[str] = set()
        self._names: set[str] = set()
        self._parts: dict[str, set[str]] | None = None
        self._doubled: list[str] = []  # lines that name an ingredient twice
        self._others: list[str] = []  # XML files of another name
        self._faults: dict[str, list[str]] = {}  # what is wrong → where
        self.answers: dict[str, dict[str, Sequence[str]]] = {task.name: {} for task in TASKS}
        for name, content in contents(raw, WANTED):
            self._read(name, content)
        for what, where in self._faults.items():
            raise InputError(
                f"{raw}: {what} ({len(where)}: {few(where)}); put the organisers' own files into the inbox"
            )
        if not self._files:
            raise InputError(f"{raw}: no file named recette_<id>.xml, loose or in an archive")
        self.answers["ingredients"] = {recipe: sorted(names) for recipe, names in self._gold.items() if names}
        self.sides: dict[str, Sequence[str]] = {
            "recipe": sorted(self._files.keys() | self._gold.keys()),
            "title": sorted(self._titles),
            "ingredient": sorted(self._names),
            "difficulty": LEVELS,
            "dish_type": DISHES,
        }

    def test_set(self, task: str) -> Collection[str]:
        """The task's test recipes; raises `InputError` where one of its part lacks what the task needs."""
        if self._parts is None:
            return self.answers[task]
        lacking = sorted(self._parts[task] - self.answers[task].keys())
        if lacking:
            raise InputError(
                f"{self._raw}: parts.tsv has {len(lacking)} recipe(s) for {task} of which no file has the"
                f" {NEEDS[task]} ({few(lacking)}); bring these files, or take the lines out"
            )
        return self._parts[task]

    def notes(self, tested: Mapping[str, int], source: str) -> list[str]:
        """What a reader of the manifest should know; `tested` is the number of test recipes of each task."""
        notes = [f"{task.name}: no test recipe" for task in TASKS if task.name not in tested]
        if self._parts is None:
            notes.append("no parts.tsv: each task tests every recipe that has what it needs")
        if without := sorted(self._gold.keys() - self._files.keys()):
            notes.append(f"{len(without)} recipe(s) with gold ingredients but no XML file: {few(without)}")
        dishes, levels = self.answers["dish_type"], self.answers["difficulty"]
        own = {recipe: f"{dishes[recipe][0]}-{levels[recipe][0]}" for recipe in dishes.keys() & levels.keys()}
        if other := sorted(recipe for recipe, kind in self._kinds.items() if own.get(recipe, kind) != kind):
            notes.append(
                f"{len(other)} recipe(s) whose XML file, which counts, has another type or niveau than the"
                f" terminology: {few(other)}"
            )
        if self._doubled:
            notes.append(f"{len(self._doubled)} line(s) name an ingredient twice, it counts once: {few(self._doubled)}")
        if self._others:
            notes.append(f"{len(self._others)} XML file(s) not named recette_<id>.xml, not read: {few(self._others)}")
        counts = len(self._files), sum(tested.values())
        if source == "official" and counts != (PUBLISHED, PUBLISHED_TESTS):
            notes.append(
                f"{counts[0]} recipes, {counts[1]} tests; the organisers have published {PUBLISHED} and"
                f" {PUBLISHED_TESTS}"
            )
        return notes

    def _read(self, name: str, content: bytes) -> None:
        base = re.split(r"[\\/]", name)[-1]
        if match := RECIPE.fullmatch(base):
            self._read_recipe(match[1], name, content)
        elif base.endswith(".xml"):
            self._others.append(name)
        elif base.endswith(".qrels"):
            self._read_qrels(name, content)
        elif base == "parts.tsv":
            self._read_parts(name, content)
        elif base == "titles.txt":
            self._titles.update(line for _, line in self._lines(name, content))
        else:
            self._read_terminology(name, content)

    def _read_recipe(self, recipe: str, name: str, content: bytes) -> None:
        if recipe in self._files:
            self._fault("a recipe in two files", f"{self._files[recipe]} and {name}")
            return
        self._files[recipe] = name
        try:
            texts = _texts(content, recipe)
        except (expat.ExpatError, _NoRecipeError) as error:
            self._fault("an XML file that is no <recette> in UTF-8", f"{name}: {error}")
            return
        if title := texts.get("titre"):
            self._titles.add(title)
            self.answers["title"][recipe] = [title]
        for task, labels in (("difficulty", LEVELS), ("dish_type", DISHES)):
            tag = NEEDS[task]
            if text := texts.get(tag):
                label = normalise(text)
                self.answers[task][recipe] = [label]
                if label not in labels:
                    self._fault(f"a <{tag}> that is none of {', '.join(labels)}", f"{name}: {text}")

    def _read_terminology(self, name: str, content: bytes) -> None:
        for where, line in self._lines(name, content):
            fields = [field.strip() for field in line.split("|")]
            if len(fields) == 1 and len(line.split()) == 1:
                self._names.add(line)
                continue
            names = fields[-1].split()
            file = RECIPE.search(fields[2]) if len(fields) == 6 else None
            if not file or file[1] != fields[0] or fields[4] != str(len(names)):
                self._fault(f"a line that is no {GOLD_LINE}", where)
                continue
            if len(set(names)) < len(names):
                self._doubled.append(where)
            self._kinds[fields[0]] = normalise(fields[3])
            self._add_gold(fields[0], set(names), where)

    def _read_qrels(self, name: str, content: bytes) -> None:
        judged: dict[str, dict[str, int]] = {}
        for where, line in self._lines(name, content):
            fields = line.split()
            if len(fields) != 4 or not re.fullmatch(r"-?[0-9]+", fields[3]):
                self._fault("a line that is no <recipe id> 0 <ingredient> <relevance>", where)
                continue
            recipe, _, ingredient, relevance = fields
            if ingredient in judged.setdefault(recipe, {}):
                self._fault("an ingredient that a qrels file judges twice", where)
            judged[recipe][ingredient] = int(relevance)
        for recipe, relevances in judged.items():
            self._names.update(relevances)
            self._add_gold(recipe, {one for one, relevance in relevances.items() if relevance > 0}, name)

    def _read_parts(self, name: str, content: bytes) -> None:
        self._parts = self._parts or {task: set() for task in NEEDS}
        for where, line in self._lines(name, content):
            task, _, recipe = line.partition("\t")
            if task not in self._parts or not recipe:
                self._fault(f"a line that is no <task><tab><recipe id>, task one of {', '.join(NEEDS)}", where)
            elif recipe in self._parts[task]:
                self._fault("a recipe twice in the part of a task", where)
            else:
                self._parts[task].add(recipe)

    def _add_gold(self, recipe: str, names: Set[str], where: str) -> None:
        self._names |= names
        if self._gold.setdefault(recipe, names) != names:
            self._fault("a recipe with two different lists of gold ingredients", f"{recipe} in {where}")

    def _lines(self, name: str, content: bytes) -> Iterator[tuple[str, str]]:
        """The lines that are not blank, trimmed, each with its place."""
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{self._raw / name}: not UTF-8 ({error}); save it as UTF-8") from None
        if text.startswith("\ufeff"):
            raise InputError(f"{self._raw / name}: starts with a byte order mark; save it as UTF-8 without one")
        for i, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"{name}:{i}", line.strip()

    def _fault(self, what: str, where: str) -> None:
        self._faults.setdefault(what, []).append(where)


class _NoRecipeError(Exception):
    """XML that is no recipe of the corpus."""


def _texts(content: bytes, recipe: str) -> dict[str, str]:
    """The trimmed texts of the elements right below `<recette>`, by tag.

    Raises `ExpatError` on what is no XML; `_NoRecipeError` on another root, another recipe's id, a tag
    twice, and a document type, the only place where entities can be declared: the corpus has none.
    """
    path: list[str] = []
    texts: dict[str, list[str]] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if not path and tag != "recette":
            raise _NoRecipeError(f"its root is <{tag}>")
        if not path and attributes.get("id", recipe) != recipe:
            raise _NoRecipeError(f"its id is {attributes['id']}")
        if len(path) == 1 and tag in texts:
            raise _NoRecipeError(f"two <{tag}>")
        path.append(tag)
        if len(path) == 2:
            texts[tag] = []

    def text(data: str) -> None:
        if len(path) > 1:
            texts[path[1]].append(data)

    def doctype(*_: object) -> None:
        raise _NoRecipeError("it has a document type, which may declare entities")

    parser = expat.ParserCreate("UTF-8")
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: path.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    parser.Parse(content, True)
    return {tag: "".join(parts).strip() for tag, parts in texts.items()}


def _table(*fields: pa.Field, rows: Collection[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({f.name: pa.array(c, f.type) for f, c in zip(fields, columns, strict=True)})


MADE_DISHES = {
    "Entrée": ("Salade", "Velouté", "Tartelettes", "Mousse", "Feuilletés", "Terrine"),
    "Plat principal": ("Gratin", "Poêlée", "Quiche", "Risotto", "Cocotte", "Crêpes"),
    "Dessert": ("Gâteau", "Clafoutis", "Sorbet", "Crème brûlée", "Sablés", "Soufflé"),
}
MADE_FLAVOURS = {
    "Entrée": {
        "à l'ail": "ail",
        "aux épinards": "épinard",
        "au saumon": "saumon fumé",
        "au chèvre": "chèvre",
    },
    "Plat principal": {
        "au poulet": "poulet",
        "au jambon": "jambon",
        "aux cèpes": "cèpe",
        "à l'oignon": "oignon",
    },
    "Dessert": {"aux pommes": "pomme", "au citron": "citron", "à l'orange": "orange", "au miel": "miel"},
}
MADE_STYLES = ("", " express", " de grand-mère", " à l'ancienne", " & compagnie", " pour deux", " d'été")
MADE_LEVELS = ("Très facile",) * 9 + ("Facile",) * 8 + ("Moyennement difficile",) * 2 + ("Difficile",)
MADE_BASICS = (
    "beurre",
    "crème fraîche",
    "eau",
    "farine",
    "huile d'olive",
    "lait",
    "poivre",
    "sel",
    "sucre",
    "thym",
)


def _made(recipe: str) -> tuple[str, str, list[str]]:
    """A made-up recipe: its XML, its `<type>-<niveau>`, its ingredients as the terminology writes them."""
    dish = choice(tuple(MADE_DISHES), "dish", recipe)
    level = choice(MADE_LEVELS, "level", recipe)
    flavour = choice(tuple(MADE_FLAVOURS[dish]), "flavour", recipe)
    title = f"{choice(MADE_DISHES[dish], 'noun', recipe)} {flavour}{choice(MADE_STYLES, 'style', recipe)}"
    basics = sample(MADE_BASICS, 3 + number("basics", recipe) % 5, "ingredients", recipe)
    ingredients = [MADE_FLAVOURS[dish][flavour], *basics]
    listed = "".join(f"<p>{10 + number('grams', recipe, one) % 300} g : {one}</p>" for one in ingredients)
    steps = f"Mélanger {' et '.join(ingredients)}.\nCuire < {10 + number('minutes', recipe) % 50} min & servir."
    xml = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<recette id="{recipe}"><titre>{escape(title)}</titre>'
        f"<type>{dish}</type><niveau>{level}</niveau><cout>Bon marché</cout>"
        f"<ingredients>{listed}</ingredients><preparation><![CDATA[{steps}]]></preparation></recette>\n"
    )
    return xml, f"{dish}-{level}", sorted(map(normalise, ingredients))


BENCHMARK = Deft2013()
