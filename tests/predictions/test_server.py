"""The servers' files: real ones pass, and each rule has a copy that breaks it and no other."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankledger.benchmarks import benchmark
from rankledger.predictions import server
from rankledger.tables import InputError

RECALL, SUBSET, CIRCO = server.FORMS
FILES = {
    "recall": ("cirr", "test1_pred_ranks_recall.json", RECALL),
    "subset": ("cirr", "test1_pred_ranks_recall_subset.json", SUBSET),
    "circo": ("circo", "submission_test.json", CIRCO),
}


class Real:
    """A real submission, what it says, and what the official subset asks."""

    def __init__(self, path: Path, form: server.Form, asked: server.Asked):
        self.path, self.form, self.asked = path, form, asked

    @property
    def content(self) -> dict[str, Any]:
        return json.loads(self.path.read_bytes())


@pytest.fixture(scope="module")
def real(shared: Path) -> Callable[[str], Real]:
    subsets = {}
    for name in ("cirr", "circo"):
        found = benchmark(name)
        subsets[name] = found.build(shared / "mirror" / name, found.parameters({"source": "official"}))[0]
    made = {
        key: Real(shared / "runs" / name / file, form, server.ask(subsets[name], form))
        for key, (name, file, form) in FILES.items()
    }
    return made.__getitem__


def failed(path: Path, asked: server.Asked | None) -> dict[str, str]:
    return {check.name: check.detail for check in server.check(server.read(path), asked) if not check.ok}


@pytest.mark.parametrize("key", FILES)
def test_real_files_keep_every_rule(real: Callable[[str], Real], key: str) -> None:
    file = real(key)
    found = server.read(file.path)
    assert found.form == file.form
    checks = server.check(found, file.asked)
    assert all(check.ok for check in checks)
    names = ["keys", "queries", "lists", "length", "distinct"]
    if key != "circo":
        names = ["size", "version", "metric", *names]
    assert [check.name for check in server.check(found, None)] == names
    more = {"recall": ["gallery", "reference"], "subset": ["group", "reference"], "circo": ["gallery"]}[key]
    assert [check.name for check in checks] == [*names, "query-ids", *more]


# Copies, each with one thing changed; the rules that it breaks when ids are looked up, and what is said of the first.


def first(content: dict[str, Any]) -> str:
    return next(key for key, value in content.items() if isinstance(value, list))


def drop(real: Real, content: dict[str, Any]) -> None:
    del content[first(content)]


def shorten(real: Real, content: dict[str, Any]) -> None:
    content[first(content)].pop()


def repeat(real: Real, content: dict[str, Any]) -> None:
    content[first(content)][2] = content[first(content)][1]


def repeat_as_string(real: Real, content: dict[str, Any]) -> None:
    content["7"][2], content["7"][40] = 12541, "12541"  # both are in the gallery


def foreign(real: Real, content: dict[str, Any]) -> None:
    content[first(content)][1] = 12 if real.form.numbers else "test1-0-0-img9"


def reference(real: Real, content: dict[str, Any]) -> None:
    query = first(content)
    content[query][-1] = real.asked.references[query]


def outside_the_group(real: Real, content: dict[str, Any]) -> None:
    one, *others = [key for key in content if key not in ("version", "metric")]
    own = {*real.asked.pools[one], real.asked.references[one]}
    alien = next(n for key in others for n in content[key] if n not in own)
    content[one][0] = alien


def version(real: Real, content: dict[str, Any]) -> None:
    content["version"] = "rc1"


def metric(real: Real, content: dict[str, Any]) -> None:
    content["metric"] = {"recall": "recall_subset", "recall_subset": "recall"}[content["metric"]]


def headless(real: Real, content: dict[str, Any]) -> None:
    del content["version"], content["metric"]


def number_among_names(real: Real, content: dict[str, Any]) -> None:
    content[first(content)][0] = 12541


def fraction(real: Real, content: dict[str, Any]) -> None:
    content["0"][0] = 12541.0


def no_list(real: Real, content: dict[str, Any]) -> None:
    content[first(content)] = " ".join(map(str, content[first(content)]))


def another_query(real: Real, content: dict[str, Any]) -> None:
    content["999999"] = content.pop(first(content))


def remark(real: Real, content: dict[str, Any]) -> None:
    content["team"] = content[first(content)]


CHANGES = [
    (
        "recall",
        drop,
        {"queries": "4,147 of 4,148", "query-ids": "1 differences from the queries of test1: '12063' is missing"},
    ),
    ("circo", drop, {"queries": "799 of 800", "query-ids": "1 differences from the queries of test: '0' is missing"}),
    ("recall", shorten, {"length": "1 lists are not of 50: '12063' has 49"}),
    ("subset", shorten, {"length": "1 lists are not of 3: '12063' has 2"}),
    ("circo", shorten, {"length": "1 lists are not of 50: '0' has 49"}),
    ("recall", repeat, {"distinct": "1 lists name a candidate more than once: '12063' has 'test1-147-0-img1' twice"}),
    ("subset", repeat, {"distinct": "1 lists name a candidate more than once: '12063' has 'test1-83-0-img1' twice"}),
    ("circo", repeat_as_string, {"distinct": "1 lists name a candidate more than once: '7' has '12541' twice"}),
    ("recall", foreign, {"gallery": "1 lists name a candidate outside the gallery: '12063' has 'test1-0-0-img9'"}),
    ("subset", foreign, {"group": "1 lists name a candidate outside the group: '12063' has 'test1-0-0-img9'"}),
    ("subset", outside_the_group, {"group": "1 lists name a candidate outside the group: '12063' has 'test1-"}),
    ("circo", foreign, {"gallery": "1 lists name a candidate outside the gallery: '0' has '12'"}),
    ("recall", reference, {"reference": "1 lists name the query's own reference: '12063'"}),
    ("subset", reference, {"reference": "1 lists name the query's own reference: '12063'"}),
    ("recall", version, {"version": '"rc1"; with lists of 50 it should be "rc2"'}),
    ("recall", metric, {"metric": '"recall_subset"; with lists of 50 it should be "recall"'}),
    ("subset", metric, {"metric": '"recall"; with lists of 3 it should be "recall_subset"'}),
    ("subset", headless, {"version": "absent;", "metric": 'absent; with lists of 3 it should be "recall_subset"'}),
    ("recall", number_among_names, {"lists": "1 entries are no list of strings: '12063'", "gallery": "1 lists"}),
    ("circo", fraction, {"lists": "1 entries are no list of whole numbers: '0'", "gallery": "1 lists"}),
    ("recall", no_list, {"lists": "1 entries are no list of strings: '12063'"}),
    (
        "recall",
        another_query,
        {"query-ids": "2 differences from the queries of test1: '12063' is missing, '999999' is unknown"},
    ),
    (
        "circo",
        another_query,
        {"queries": "800 of 800; 1 keys are no query ids: '999999'", "query-ids": "2 differences"},
    ),
    ("recall", remark, {"queries": "4,149 of 4,148; 1 keys are no query ids: 'team'", "query-ids": "1 differences"}),
]


@pytest.mark.parametrize(("key", "change", "wanted"), CHANGES, ids=[f"{k}-{c.__name__}" for k, c, _ in CHANGES])
def test_a_changed_copy_breaks_its_rule_and_no_other(
    real: Callable[[str], Real], tmp_path: Path, key: str, change: Any, wanted: dict[str, str]
) -> None:
    file, path = real(key), tmp_path / "copy.json"
    content = file.content
    change(file, content)
    path.write_text(json.dumps(content))
    found = failed(path, file.asked)
    assert found.keys() == wanted.keys()
    for name, said in wanted.items():
        assert found[name].startswith(said)
    looked_up = {"query-ids", "gallery", "group", "reference"}
    assert failed(path, None).keys() == wanted.keys() - looked_up


def test_more_than_five_megabytes(real: Callable[[str], Real], tmp_path: Path) -> None:
    file, path = real("recall"), tmp_path / "copy.json"
    text = file.path.read_text()
    path.write_text(text + " " * (5_000_000 - len(text)))
    assert not failed(path, file.asked)
    path.write_text(text + " " * (5_000_001 - len(text)))
    assert failed(path, file.asked) == {"size": "5,000,001 bytes; the server takes 5,000,000 at most"}


def test_a_key_that_stands_there_twice(real: Callable[[str], Real], tmp_path: Path) -> None:
    file, path = real("circo"), tmp_path / "copy.json"
    text = file.path.read_text()
    path.write_text(f'{text.rstrip().removesuffix("}")}, "5": {json.dumps(file.content["5"])}}}')
    assert failed(path, file.asked) == {"keys": "1 keys stand there more than once: '5'"}
    with pytest.raises(InputError, match=r"copy\.json: 1 keys stand there more than once: '5'"):
        server.ranked(server.read(path), path)


def test_ids_as_strings_and_keys_in_any_order_are_the_same_to_circo(
    real: Callable[[str], Real], tmp_path: Path
) -> None:
    file, path = real("circo"), tmp_path / "copy.json"
    turned = {q: list(map(str, listed)) for q, listed in reversed(file.content.items())}
    path.write_text(json.dumps(turned))
    assert not failed(path, file.asked)
    assert server.ranked(server.read(path), path) == server.ranked(server.read(file.path), file.path) == turned


def test_the_example_of_val_is_no_submission(shared: Path) -> None:
    assert failed(shared / "runs" / "circo" / "submission_val.json", None) == {"queries": "220 of 800"}


UNREADABLE = {
    "cut.json": b'{"0": [1, 2',
    "nan.json": b'{"0": [NaN]}',
    "mark.json": b'\xef\xbb\xbf{"0": [1]}',
    "wide.json": '{"0": [1]}'.encode("utf-16"),
    "half.json": b'{"0": ["\\ud800"]}',
    "deep.json": b'{"0":' * 100_000,
    "python.json": b"{0: [1]}",
    "list.json": b"[1, 2]",
    "empty.json": b"{}",
    "other.json": b'{"a": {"b": 1}}',
    "nothing.json": b"",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_server_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(UNREADABLE[name])
    with pytest.raises(InputError, match=name) as caught:
        server.read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        server.read(tmp_path / "absent.json")
    with pytest.raises(InputError, match="cannot be read"):
        server.read(tmp_path)


def test_torch_files_are_not_read(shared: Path) -> None:
    with pytest.raises(InputError, match="not JSON"):
        server.read(shared / "runs" / "cirr" / "cirr_stageII_labels_val.pt")


def lists(form: server.Form) -> Iterator[tuple[str, list[str]]]:
    for query in map(str, range(form.queries)):
        yield query, [str(int(query) + 3 * i) if form.numbers else f"n{i}" for i in range(form.length)]


@pytest.mark.parametrize("form", server.FORMS, ids=lambda form: form.name)
def test_what_is_written_is_read_back(tmp_path: Path, form: server.Form) -> None:
    small, path = replace(form, queries=12), tmp_path / "made.json"
    made = dict(lists(small))
    server.write(small, dict(reversed(made.items())), path)
    found = server.read(path)
    assert found.form == form
    assert all(check.ok for check in server.check(replace(found, form=small), None))
    assert server.ranked(found, path) == made
    content = json.loads(path.read_bytes())
    assert list(content) == [*form.head, *map(str, range(12))], "queries by number"
    assert {type(c) for listed in content.values() if isinstance(listed, list) for c in listed} == {
        int if form.numbers else str
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"0": [1, True]}, "1 entries are no list of ids"),
        ({"0": [1.5]}, "1 entries are no list of ids"),
        ({"0": [1], "1": []}, "1 entries are no list of ids, strings or whole numbers: '1'"),
        ({"0": [1], "team": "us"}, "1 entries are no list of ids, strings or whole numbers: 'team'"),
        ({"0": [12, "12"]}, "1 lists name a candidate more than once: '0' has '12' twice"),
    ],
)
def test_lists_that_are_no_ranking(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    path = tmp_path / "made.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        server.ranked(server.read(path), path)
    assert str(caught.value).startswith(f"{path}: {said}")
