"""DEFT 2013: the corpus in every layout that a user may bring, its traps, the organisers' worked numbers."""

import io
import re
import shutil
import tarfile
import zipfile
from fractions import Fraction

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import normalise
from rankledger.benchmarks.deft2013 import DISHES, LEVELS, TASKS
from rankledger.subset import read_subset, write_subset
from rankledger.tables import InputError, fingerprint

DEFT = benchmark("deft2013")
OFFICIAL = {"source": "official", "dmax": "class"}


def xml(recipe, title="Quiche", dish="Plat principal", level="Très facile", head='<?xml version="1.0"?>'):
    return (
        f'{head}<recette id="{recipe}"><titre>{title}</titre><type>{dish}</type><niveau>{level}</niveau>'
        "<cout>Bon marché</cout><ingredients><p>2 oeufs</p><p>sel</p></ingredients>"
        "<preparation><![CDATA[Battre <b>fort</b> & cuire.]]></preparation></recette>"
    )


def gold(recipe, names, kind="Plat principal-Très facile"):
    return f"{recipe}|appr|2013/recette_{recipe}.xml|{kind}|{len(names.split())}|{names}\n"


FILES = {
    "a/recette_1.xml": xml(1, "Quiche à l&apos;ail", "Entrée", "Très facile"),
    "a/recette_2.xml": xml(2, " <![CDATA[Gâteau & crème]]>\n", "Dessert", "Moyennement difficile"),
    "b/c/recette_3.xml": xml(3, "Quiche à l&apos;ail", "Plat principal", "Difficile"),
    "b/c/recette_4.xml": xml(4, "", "", ""),
    "terminologie_2013.txt": gold(1, "ail oeuf", "Entrée-Très facile") + gold(2, "huile-d-olive sel", "Dessert-Facile"),
    "gold.qrels": "3 0 sel 1\n3\t0\tail\t1\n3 0 poivre 0\n",
}


def lay(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def build(folder, files, parameters=OFFICIAL):
    return DEFT.build(lay(folder, files), parameters)


def answers(subset):
    """task → recipe → its right answers."""
    found = {}
    for row in subset.qrels.to_pylist():
        assert row["relevance"] == 1.0
        found.setdefault(row["task"], {}).setdefault(row["query_id"], set()).add(row["candidate_id"])
    return found


def pools(subset):
    found = {}
    for row in subset.pools.to_pylist():
        found.setdefault(row["pool_id"], []).append(row["candidate_id"])
    assert all(len(set(ids)) == len(ids) for ids in found.values())
    return {pool: set(ids) for pool, ids in found.items()}


def universe(subset):
    found = {}
    for row in subset.universe.to_pylist():
        found.setdefault(row["side"], []).append(row["id"])
    assert all(len(set(ids)) == len(ids) for ids in found.values())
    return {side: set(ids) for side, ids in found.items()}


def queries(subset):
    """task → its recipes; the trials must say the same."""
    found = {}
    for row in subset.queries.to_pylist():
        found.setdefault(row["task"], []).append(row["query_id"])
    trials = [(r["task"], r["view"], r["repeat"], r["query_id"], r["pool_id"]) for r in subset.trials.to_pylist()]
    assert sorted(trials) == sorted((t, "all", 0, r, t) for t, recipes in found.items() for r in recipes)
    return found


def refused(folder, files, match):
    with pytest.raises(InputError, match=match) as error:
        build(folder, files)
    assert "\n" not in str(error.value)
    return str(error.value)


class TestTables:
    def test_every_task_from_files_of_every_kind(self, tmp_path):
        subset, _ = build(tmp_path, FILES)
        assert answers(subset) == {
            "difficulty": {"1": {"tres-facile"}, "2": {"moyennement-difficile"}, "3": {"difficile"}},
            "dish_type": {"1": {"entree"}, "2": {"dessert"}, "3": {"plat-principal"}},
            "title": {"1": {"Quiche à l'ail"}, "2": {"Gâteau & crème"}, "3": {"Quiche à l'ail"}},
            "ingredients": {"1": {"ail", "oeuf"}, "2": {"huile-d-olive", "sel"}, "3": {"sel", "ail"}},
        }
        assert queries(subset) == {task.name: ["1", "2", "3"] for task in TASKS}
        assert subset.exclusions.num_rows == 0

    def test_titles_are_no_keys(self, tmp_path):
        subset, _ = build(tmp_path, FILES)
        assert pools(subset)["title"] == {"Quiche à l'ail", "Gâteau & crème"}

    def test_pools_and_universe(self, tmp_path):
        subset, _ = build(tmp_path, FILES | {"titles.txt": "  Soupe au chou \r\n\nQuiche à l'ail\n"})
        names = {"ail", "oeuf", "huile-d-olive", "sel", "poivre"}  # poivre is judged, and wrong
        titles = {"Quiche à l'ail", "Gâteau & crème", "Soupe au chou"}
        labels = {"difficulty": set(LEVELS), "dish_type": set(DISHES)}
        assert pools(subset) == {"title": titles, "ingredients": names, **labels}
        assert universe(subset) == {
            "recipe": {"1", "2", "3", "4"},
            "title": titles,
            "ingredient": names,
            **labels,
        }

    def test_a_recipe_without_what_a_task_needs_is_in_no_test_set_but_known(self, tmp_path):
        blank = xml(9, "Sans rien").replace("<type>Plat principal</type>", "<type> \n</type>")
        subset, _ = build(tmp_path, {"recette_9.xml": blank.replace("<niveau>Très facile</niveau>", "")})
        assert answers(subset) == {"title": {"9": {"Sans rien"}}}
        assert pools(subset).keys() == {"title"}
        assert universe(subset)["recipe"] == {"9"}

    def test_the_terminology_may_list_names_alone(self, tmp_path):
        subset, _ = build(tmp_path, FILES | {"x/terminologie_noms.txt": "cumin\nsel\n  pomme-de-terre\n"})
        assert {"cumin", "pomme-de-terre"} < pools(subset)["ingredients"]
        assert answers(subset)["ingredients"]["1"] == {"ail", "oeuf"}

    def test_line_ends_inside_a_line_split_nothing(self, tmp_path):
        subset, _ = build(tmp_path, FILES | {"titles.txt": "Pot\u2028au\x85feu\x0b!\n"})
        assert "Pot\u2028au\x85feu\x0b!" in pools(subset)["title"]

    def test_gold_given_twice_alike_is_one_gold(self, tmp_path):
        twice = {
            "terminologie_bis.txt": gold(3, "sel ail", "Plat principal-Difficile"),
            "x.qrels": FILES["gold.qrels"],
        }
        subset, _ = build(tmp_path / "twice", FILES | twice)
        once, _ = build(tmp_path / "once", FILES)
        assert fingerprint(subset.qrels) == fingerprint(once.qrels)

    def test_a_gold_without_an_xml_file_tests_ingredients_and_is_noted(self, tmp_path):
        subset, notes = build(tmp_path, FILES | {"more.qrels": "77 0 sel 1\n"})
        assert "77" in queries(subset)["ingredients"]
        assert "77" not in queries(subset)["title"]
        assert "77" in universe(subset)["recipe"]
        assert "1 recipe(s) with gold ingredients but no XML file: '77'" in notes

    def test_survives_the_disk(self, tmp_path):
        subset, notes = build(tmp_path / "raw", FILES)
        write_subset(subset, tmp_path / "subset", "deft2013", OFFICIAL, [], notes)
        again, manifest = read_subset(tmp_path / "subset")
        for name, table in subset.tables().items():
            assert fingerprint(table) == fingerprint(getattr(again, name)) == manifest["fingerprints"][name]
        assert manifest["notes"] == notes


class TestNotes:
    def test_what_is_odd_but_no_error(self, tmp_path):
        odd = {
            "terminologie_x.txt": gold(1, "ail oeuf", "Dessert-Facile") + gold(4, "sel ail sel"),
            "b/index.xml": "<list/>",
            "b/._recette_1.xml": "a Mac's shadow file",
        }
        subset, notes = build(tmp_path, {**FILES, **odd})
        assert notes == [
            "no parts.tsv: each task tests every recipe that has what it needs",
            "2 recipe(s) whose XML file, which counts, has another type or niveau than the terminology: '1', '2'",
            "1 line(s) name an ingredient twice, it counts once: 'terminologie_x.txt:2'",
            "1 XML file(s) not named recette_<id>.xml, not read: 'b/index.xml'",
            "4 recipes, 13 tests; the organisers have published 23094 and 9230",
        ]
        assert answers(subset)["dish_type"]["1"] == {"entree"}
        assert answers(subset)["ingredients"]["4"] == {"sel", "ail"}

    def test_a_task_without_recipes(self, tmp_path):
        _, notes = build(tmp_path, {"recette_1.xml": xml(1)})
        assert notes[0] == "ingredients: no test recipe"

    def test_the_sample_is_compared_with_no_published_count(self, tmp_path):
        _, notes = build(tmp_path, FILES, OFFICIAL | {"source": "sample"})
        assert not [note for note in notes if "published" in note]


class TestParts:
    PARTS = "difficulty\t1\ndifficulty\t2\r\n\ndish_type\t3\ntitle\t2\ningredients\t3\n"

    def test_each_task_tests_its_part(self, tmp_path):
        subset, notes = build(tmp_path, FILES | {"parts.tsv": self.PARTS})
        tests = {"difficulty": ["1", "2"], "dish_type": ["3"], "title": ["2"], "ingredients": ["3"]}
        assert queries(subset) == tests
        assert {task: sorted(of) for task, of in answers(subset).items()} == tests
        everything, _ = build(tmp_path / "all", FILES)
        assert pools(subset) == pools(everything)  # training recipes lend their titles and names
        assert universe(subset) == universe(everything)
        assert not [note for note in notes if "parts.tsv" in note]

    def test_a_task_that_parts_do_not_name_is_not_tested(self, tmp_path):
        subset, notes = build(tmp_path, FILES | {"parts.tsv": "title\t1\n"})
        assert queries(subset) == {"title": ["1"]}
        assert notes[:3] == [f"{t}: no test recipe" for t in ("difficulty", "dish_type", "ingredients")]

    def test_recipes_that_lack_what_their_task_needs_are_refused(self, tmp_path):
        lines = "difficulty\t4\ndifficulty\t1\ndifficulty\t99\n"
        message = refused(tmp_path, FILES | {"parts.tsv": lines}, r"parts\.tsv has 2 recipe\(s\) for difficulty")
        assert "niveau ('4', '99')" in message

    @pytest.mark.parametrize("line", ["title 1", "T1\t1", "title", "title\t", "titre\t1"])
    def test_a_line_of_another_form_is_refused(self, tmp_path, line):
        message = refused(tmp_path, FILES | {"parts.tsv": f"title\t2\n{line}\n"}, "no <task><tab><recipe id>")
        assert "(1: 'parts.tsv:2')" in message

    def test_a_recipe_twice_in_a_part_is_refused(self, tmp_path):
        refused(
            tmp_path,
            FILES | {"parts.tsv": "title\t1\ntitle\t2\ntitle\t1\n"},
            r"twice in the part.*parts\.tsv:3",
        )

    def test_an_empty_file_tests_nothing(self, tmp_path):
        refused(
            tmp_path,
            FILES | {"parts.tsv": "\n"},
            "no recipe has what a task needs",
        )


def pack(files, kind):
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=buffer, mode=f"w:{'' if kind == 'tar' else 'gz'}") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content.encode())
                archive.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


class TestLayout:
    @pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tgz"])
    def test_an_archive_gives_what_loose_files_give(self, tmp_path, kind):
        loose, _ = build(tmp_path / "loose", FILES)
        packed, _ = build(tmp_path / "packed", {f"down/deft.{kind}": pack(FILES, kind)})
        for name, table in loose.tables().items():
            assert fingerprint(table) == fingerprint(packed.tables()[name])

    @settings(max_examples=15, deadline=None)
    @given(st.randoms(use_true_random=False))
    def test_order_and_folders_never_matter(self, tmp_path_factory, random):
        folder = tmp_path_factory.mktemp("mixed")
        expected, _ = build(folder / "straight", FILES)
        names = list(FILES)
        random.shuffle(names)
        mixed = {}
        for name in names:
            lines = FILES[name].splitlines(keepends=True)
            random.shuffle(lines)
            content = FILES[name] if name.endswith(".xml") else "".join(lines)
            mixed[f"{random.choice('xyz')}/{name}"] = content
        half = random.randrange(len(mixed) + 1)
        packed = dict(list(mixed.items())[:half])
        loose = dict(list(mixed.items())[half:])
        subset, _ = build(folder / "mixed", loose | {"q.zip": pack(packed, "zip")})
        for name, table in expected.tables().items():
            assert fingerprint(table) == fingerprint(subset.tables()[name])

    def test_files_asked_for(self):
        recipes, *optional = DEFT.files(OFFICIAL)
        assert recipes.split("|") == ["**/*.xml", "**/*.zip", "**/*.tar", "**/*.tar.gz", "**/*.tgz"]
        assert optional == ["**/terminologie*.txt?", "**/*.qrels?", "titles.txt?", "parts.tsv?"]

    @pytest.mark.parametrize(
        "files", [{}, {"gold.qrels": "1 0 sel 1\n"}, {"recipe_1.xml": xml(1)}, {"recette_é.xml": xml("é")}]
    )
    def test_no_recipe_at_all_is_refused(self, tmp_path, files):
        refused(tmp_path, files, r"no file named recette_<id>\.xml")

    def test_paths_out_of_an_archive_are_refused(self, tmp_path):
        bad = {"../../recette_5.xml": xml(5)}
        for kind in ("zip", "tar", "tgz"):
            refused(tmp_path / kind, FILES | {f"bad.{kind}": pack(bad, kind)}, "leads outside the archive")


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE recette [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>"
)


class TestXml:
    @pytest.mark.parametrize(
        "head",
        [
            BOMB,
            '<!DOCTYPE recette [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
            '<!DOCTYPE recette SYSTEM "http://localhost/recette.dtd">',
            "<!DOCTYPE recette>",
        ],
    )
    def test_document_types_and_entities_are_refused(self, tmp_path, head):
        message = refused(tmp_path, FILES | {"recette_5.xml": xml(5, "&i;", head=head)}, "document type")
        assert "recette_5.xml" in message

    def test_an_undeclared_entity_is_refused_and_predefined_ones_are_text(self, tmp_path):
        refused(tmp_path / "bad", {"recette_5.xml": xml(5, "Cr&egrave;me")}, "undefined entity: line 1")
        subset, _ = build(tmp_path / "good", {"recette_5.xml": xml(5, "Cr&#232;me &amp; &lt;sel&gt;")})
        assert answers(subset)["title"] == {"5": {"Crème & <sel>"}}

    @pytest.mark.parametrize(
        "content",
        [
            xml(5, "Crème").encode("latin-1"),
            xml(5, "Crème", head='<?xml version="1.0" encoding="ISO-8859-1"?>').encode("latin-1"),
            xml(5).encode()[:-4],
            b"",
            b"<html><body>Please log in<br></body></html>",
            xml(5).encode() + b"<recette/>",
            xml(5, "\x00").encode(),
        ],
    )
    def test_malformed_files_are_refused(self, tmp_path, content):
        message = refused(tmp_path, FILES | {"recette_5.xml": content}, "no <recette> in UTF-8")
        assert "(1: 'recette_5.xml: " in message

    def test_a_wrong_declaration_of_utf8_text_does_no_harm(self, tmp_path):
        head = '\ufeff<?xml version="1.0" encoding="ISO-8859-1"?>'
        subset, _ = build(tmp_path, {"recette_5.xml": xml(5, "Crème", head=head)})
        assert answers(subset)["title"] == {"5": {"Crème"}}

    def test_all_bad_files_are_counted_and_the_first_named(self, tmp_path):
        bad = {f"recette_{i}.xml": f"<recette id='{i}'>" for i in range(11, 18)}
        message = refused(tmp_path, FILES | bad, r"\(7: 'recette_11.xml: no element found")
        assert "recette_13" in message
        assert "recette_14" not in message

    def test_markup_in_a_title_is_left_out_and_its_text_kept(self, tmp_path):
        subset, _ = build(tmp_path, {"recette_5.xml": xml(5, "Tarte <i>Tatin<!-- sic --></i><![CDATA[ & co]]>")})
        assert answers(subset)["title"] == {"5": {"Tarte Tatin & co"}}

    def test_a_title_further_down_is_no_title(self, tmp_path):
        nested = xml(5, "Vrai").replace("<p>sel</p>", "<p><titre>Faux</titre></p>")
        subset, _ = build(tmp_path, {"recette_5.xml": nested})
        assert pools(subset)["title"] == {"Vrai"}

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (xml(6), "its id is 6"),
            (xml(5).replace("recette", "recipe"), "its root is <recipe>"),
            (xml(5).replace("<cout>", "<titre>Deux</titre><cout>"), "two <titre>"),
        ],
    )
    def test_another_recipe_is_refused(self, tmp_path, content, reason):
        refused(tmp_path, FILES | {"recette_5.xml": content}, reason)

    def test_a_recipe_in_two_files_is_refused(self, tmp_path):
        message = refused(tmp_path, FILES | {"z.zip": pack({"recette_1.xml": xml(1)}, "zip")}, "a recipe in two files")
        assert "'a/recette_1.xml and z.zip/recette_1.xml'" in message
        again = {"b/recette_1.xml": FILES["a/recette_1.xml"], "b/recette_2.xml": FILES["a/recette_2.xml"]}
        refused(tmp_path / "same", FILES | again, r"a recipe in two files \(2: ")


class TestLabels:
    @pytest.mark.parametrize(
        ("text", "label"),
        [
            ("Très facile", "tres-facile"),
            ("TRE\u0300S  FACILE", "tres-facile"),
            (" très-facile\n", "tres-facile"),
            ("Moyennement\u00a0difficile", "moyennement-difficile"),
            ("Entrée", "entree"),
            ("plat principal", "plat-principal"),
            ("Huile d’olive", "huile-d-olive"),
            ("Plat principal-Très facile", "plat-principal-tres-facile"),
        ],
    )
    def test_normalise(self, text, label):
        assert normalise(text) == label

    @given(st.text())
    def test_normalising_twice_is_normalising_once(self, text):
        once = normalise(text)
        assert normalise(once) == once
        assert not re.search(r"\s", once)

    @pytest.mark.parametrize("label", [*LEVELS, *DISHES])
    def test_labels_are_in_their_own_form(self, label):
        assert normalise(label) == label

    def test_an_unknown_level_or_type_is_refused(self, tmp_path):
        bad = {f"recette_{i}.xml": xml(i, level="Impossible") for i in range(5, 10)}
        message = refused(tmp_path / "level", FILES | bad, r"a <niveau> that is none of tres-facile, facile.*\(5: ")
        assert "'recette_5.xml: Impossible'" in message
        refused(tmp_path / "dish", FILES | {"recette_5.xml": xml(5, dish="Boisson")}, "<type>.*Boisson")


class TestGold:
    @pytest.mark.parametrize(
        "line",
        [
            "1|appr|2013/recette_1.xml|Entrée-Très facile|3|ail oeuf",
            "1|appr|2013/recette_1.xml|Entrée-Très facile|ail oeuf",
            "1|appr|2013/recette_2.xml|Entrée-Très facile|2|ail oeuf",
            "1|appr|2013/recette_1.xml|Entrée-Très facile|two|ail oeuf",
            "1|appr|2013/recette_1.xml|Entrée|Très facile|2|ail oeuf",
            "|appr|2013/recette_.xml|Entrée-Très facile|2|ail oeuf",
            "Liste des ingrédients",
        ],
    )
    def test_a_line_of_another_form_is_refused(self, tmp_path, line):
        files = FILES | {"terminologie_2013.txt": f"{gold(2, 'sel', 'Dessert-Facile')}\n{line}\n"}
        message = refused(tmp_path, files, r"a line that is no id\|appr")
        assert "(1: 'terminologie_2013.txt:3')" in message

    @pytest.mark.parametrize("line", ["3 0 sel", "3 0 sel 1 x", "3 0 sel one", "3 0 sel 1.0", "3 0 sel ١"])
    def test_a_qrels_line_of_another_form_is_refused(self, tmp_path, line):
        refused(tmp_path, FILES | {"gold.qrels": f"3 0 ail 1\n{line}\n"}, r"no <recipe id> 0 .*'gold\.qrels:2'")

    def test_an_ingredient_judged_twice_is_refused(self, tmp_path):
        refused(tmp_path, FILES | {"gold.qrels": "3 0 ail 1\n3 0 sel 1\n3 0 ail 1\n"}, r"twice .*gold\.qrels:3")

    def test_two_golds_of_one_recipe_are_refused(self, tmp_path):
        refused(tmp_path / "lists", FILES | {"terminologie_b.txt": gold(1, "ail")}, "two different lists .*'1 in ")
        refused(tmp_path / "both", FILES | {"b.qrels": "1 0 ail 1\n1 0 oeuf 0\n"}, "two different lists")

    def test_a_recipe_with_nothing_right_is_not_tested(self, tmp_path):
        subset, _ = build(
            tmp_path, FILES | {"gold.qrels": "3 0 ail 0\n3 0 sel -1\n", "terminologie_b.txt": gold(4, "")}
        )
        assert set(queries(subset)["ingredients"]) == {"1", "2"}

    @pytest.mark.parametrize("name", ["terminologie_2013.txt", "gold.qrels", "titles.txt", "parts.tsv"])
    def test_text_files_are_utf8_without_a_byte_order_mark(self, tmp_path, name):
        content = FILES.get(name, "title\t1\n").encode()
        refused(
            tmp_path / "mark",
            FILES | {name: b"\xef\xbb\xbf" + content},
            f"{name}: starts with a byte order mark",
        )
        refused(tmp_path / "code", FILES | {name: content + "é".encode("latin-1")}, f"{name}: not UTF-8")


class TestPlan:
    def test_keys_and_metrics(self):
        plan = DEFT.plan(DEFT.parameters({}))
        shares = ["P_micro", "R_micro", "F_micro", "P_macro", "R_macro", "F_macro"]
        assert [m.key for m in plan.measures] == [
            ("difficulty", "EDRM_micro"),
            ("difficulty", "EDRM_macro"),
            *(("difficulty", name) for name in shares),
            *(("dish_type", name) for name in shares),
            ("title", "MRR"),
            ("title", "P@1"),
            ("ingredients", "MAP"),
        ]
        assert plan.measures[-1].metric == "AP"
        assert not plan.percent
        assert not plan.means
        assert {(m.view, m.std, m.where) for m in plan.measures} == {("all", False, None)}
        assert all(m.task == m.key[0] for m in plan.measures)

    @pytest.mark.parametrize("dmax", ["class", 3])
    def test_dmax_is_in_the_metric(self, dmax):
        plan = DEFT.plan(DEFT.parameters({"source": "official", "dmax": dmax}))
        assert [m.metric for m in plan.measures[:2]] == [
            f"EDRM_micro(dmax={dmax})",
            f"EDRM_macro(dmax={dmax})",
        ]

    @pytest.mark.parametrize("dmax", ["3", 4, 3.0, True, None, ["class"], "classe"])
    def test_another_dmax_is_refused(self, dmax):
        with pytest.raises(InputError, match=r"deft2013\.dmax is .*; it should be one of: class, 3"):
            DEFT.parameters({"dmax": dmax})

    def test_rules_of_the_tasks(self):
        rules = {t.name: (t.query_side, t.candidate_side, t.guided_side, t.ties, t.missing, t.noise) for t in TASKS}
        assert rules == {
            "difficulty": ("recipe", "difficulty", "recipe", "expected", "error", False),
            "dish_type": ("recipe", "dish_type", "recipe", "expected", "error", False),
            "title": ("recipe", "title", "title", "trec", "zero", False),
            "ingredients": ("recipe", "ingredient", "ingredient", "trec", "zero", True),
        }
        assert DEFT.plan(OFFICIAL).task("difficulty").labels == LEVELS
        assert LEVELS == ("tres-facile", "facile", "moyennement-difficile", "difficile")
        assert DEFT.plan(OFFICIAL).task("dish_type").labels == ("entree", "plat-principal", "dessert")


class TestSample:
    def test_it_is_the_same_each_time_and_builds(self, tmp_path):
        DEFT.sample(tmp_path / "a")
        DEFT.sample(tmp_path / "b")
        files = sorted(p.name for p in (tmp_path / "a").iterdir())
        assert files == ["parts.tsv", "recettes.zip", "terminologie_2013.txt", "titles.txt"]
        for name in files:
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        subset, notes = DEFT.build(tmp_path / "a", DEFT.parameters({}))
        assert notes == []
        tests = queries(subset)
        assert {task: len(recipes) for task, recipes in tests.items()} == {t.name: 120 for t in TASKS}
        assert len({recipe for recipes in tests.values() for recipe in recipes}) == 480  # disjoint

    def test_it_holds_what_is_difficult_in_the_corpus(self, tmp_path):
        DEFT.sample(tmp_path)
        subset, _ = DEFT.build(tmp_path, DEFT.parameters({}))
        found = answers(subset)
        assert {label for of in found["difficulty"].values() for label in of} == set(LEVELS)
        assert {label for of in found["dish_type"].values() for label in of} == set(DISHES)
        titles = [title for of in found["title"].values() for title in of]
        assert len(set(titles)) < len(titles)
        assert any("&" in title for title in pools(subset)["title"])
        assert {"huile-d-olive", "creme-fraiche"} < pools(subset)["ingredients"]
        with zipfile.ZipFile(tmp_path / "recettes.zip") as archive:
            text = archive.read(archive.namelist()[0]).decode()
        assert "<![CDATA[" in text

    def test_the_shuffled_sample_has_the_same_fingerprints(self, tmp_path):
        DEFT.sample(tmp_path / "a")
        expected, _ = DEFT.build(tmp_path / "a", DEFT.parameters({}))
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        with zipfile.ZipFile(tmp_path / "b" / "recettes.zip") as archive:
            archive.extractall(tmp_path / "b" / "unpacked")
        (tmp_path / "b" / "recettes.zip").unlink()
        for name in ("parts.tsv", "terminologie_2013.txt", "titles.txt"):
            path = tmp_path / "b" / name
            path.write_text("\n".join(reversed(path.read_text().splitlines())))
        subset, _ = DEFT.build(tmp_path / "b", DEFT.parameters({}))
        assert {n: fingerprint(t) for n, t in subset.tables().items()} == {
            n: fingerprint(t) for n, t in expected.tables().items()
        }


def average_precision(ranking, right):
    """A recipe's AP in the organisers' words: the mean over the right of the precision at each."""
    found, gained = 0, Fraction(0)
    for rank, name in enumerate(ranking, 1):
        if name in right:
            found += 1
            gained += Fraction(found, rank)
    return gained / len(right)


def trec_eval(ranking, right):
    """The same by pytrec_eval."""
    judged = pytrec_eval.RelevanceEvaluator({"q": dict.fromkeys(right, 1)}, {"map"})
    return judged.evaluate({"q": {name: -float(i) for i, name in enumerate(ranking)}})["q"]["map"]


SIX = ["ail", "basilic", "citron", "farine", "sel", "truite"]
WRONG = [f"bruit-{i}" for i in range(10)]


class TestWorkedNumbers:
    """The organisers' examples, on the gold that the benchmark builds."""

    def right(self, folder, recipe="5"):
        files = {"recette_5.xml": xml(5), "terminologie.txt": gold(5, " ".join(SIX))}
        subset, _ = build(folder, files)
        return answers(subset)["ingredients"][recipe]

    @pytest.mark.parametrize(
        ("ranking", "value"),
        [
            *(
                ([*SIX[:i], "bruit", *SIX[i:]], value)
                for i, value in enumerate([0.7345, 0.8179, 0.8734, 0.9151, 0.9484, 0.9762, 1.0])
            ),
            (SIX[:5], 0.8333),
            ([*SIX[:5], *WRONG, SIX[5]], 0.8958),
            ([*WRONG, *SIX], 0.2471),
            (SIX[:3], 0.5),
        ],
    )
    def test_six_ingredients(self, tmp_path, ranking, value):
        right = self.right(tmp_path)
        assert float(average_precision(ranking, right)) == pytest.approx(value, abs=5e-5)
        assert trec_eval(ranking, right) == pytest.approx(float(average_precision(ranking, right)), abs=1e-12)

    def test_the_example_of_the_faq(self, tmp_path, shared):
        folder = shared / "mirror" / "deft2013"
        files = {"recette_94727.xml": xml(94727), "faq.qrels": (folder / "exemple-faq.qrels").read_bytes()}
        subset, _ = build(tmp_path, files)
        right = answers(subset)["ingredients"]["94727"]
        rows = [line.split() for line in (folder / "exemple-faq.results").read_text().splitlines()]
        ranking = [row[2] for row in sorted(rows, key=lambda row: -float(row[4]))]
        assert len(right) == 11
        assert set(ranking) - right == {"sel", "pesto"}
        assert float(average_precision(ranking, right)) == pytest.approx(0.5227, abs=5e-5)
        assert trec_eval(ranking, right) == pytest.approx(float(average_precision(ranking, right)), abs=1e-12)
