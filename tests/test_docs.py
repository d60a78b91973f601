"""The documentation against the code: its links, its commands and options, its parameters, its keys.

That its code blocks run is tested in tests/integration/test_docs.py.
"""

import ast
import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from rankledger.benchmarks import NAMES, benchmark
from stages import cli
from tests.pages import ROOT, RUN, SHOWN, Block, blocks, matches, pages

CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
PAGES = pages()
COMMANDS: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]


def prose(page: str) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def options(command: Any) -> dict[str, Any]:
    return {name: p for p in command.params if p.param_type_name == "option" for name in p.opts}


# Pages ------------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    heads = re.findall(r"^#+ (.+)$", prose(path.relative_to(ROOT).as_posix()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_repository_lead_somewhere(page: str) -> None:
    for link in LINK.findall(prose(page)):
        if re.match("[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target.resolve()), f"{page}: {link}"


def test_every_page_is_reached_from_the_readme() -> None:
    seen, queue = set(), ["README.md"]
    while queue:
        page = queue.pop()
        if page in seen or not page.endswith(".md"):
            continue
        seen.add(page)
        for link in LINK.findall(prose(page)):
            if not re.match("[a-z]+:", link) and (name := link.partition("#")[0]):
                queue.append(((ROOT / page).parent / name).resolve().relative_to(ROOT).as_posix())
    assert seen >= set(PAGES)


def test_every_benchmark_has_its_page() -> None:
    assert {Path(p).stem for p in PAGES if p.startswith("docs/benchmarks/")} == set(NAMES)


# Blocks -----------------------------------------------------------------------------------------------------


def all_blocks() -> Iterator[Block]:
    for page in PAGES:
        yield from blocks(page)


@pytest.mark.parametrize("block", list(all_blocks()), ids=str)
def test_a_block_is_of_a_known_language_and_correct_in_it(block: Block) -> None:
    assert block.language in (*RUN, *SHOWN), f"{block}: {block.language!r}"
    if block.language == "python":
        ast.parse(block.text)
    elif block.language in RUN:
        assert block.commands
        for command, _ in block.commands:
            done = subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True, check=False)
            assert done.returncode == 0, f"{block}: {done.stderr}"
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        YAML(typ="safe").load(block.text)


def test_few_blocks_only_need_what_a_test_has_not() -> None:
    """They are lines of params.yaml that name the official files, and one call of a cluster."""
    needy = [block for block in all_blocks() if block.needs]
    assert [block.page for block in needy if block.head == "needs a cluster"] == ["docs/reference.md"]
    official = [block for block in needy if block.head != "needs a cluster"]
    assert {(block.language, block.head) for block in official} == {("yaml", "needs the official files")}
    for block in official:
        (name,) = YAML(typ="safe").load(block.text)["benchmarks"]
        assert block.page == f"docs/benchmarks/{name}.md"
        given = YAML(typ="safe").load(block.text)["benchmarks"][name]
        assert benchmark(name).parameters(given)["source"] == "official"


def shell_lines(block: Block) -> Iterator[str]:
    """The calls of `rankledger` in a block."""
    for command, _ in block.commands:
        for part in re.split(r"[\n;|>]|&&", command):
            if part.strip().startswith("rankledger "):
                yield part.strip()


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_blocks_are_called_as_they_want(page: str) -> None:
    for block in blocks(page):
        for line in shell_lines(block) if block.language in ("sh", "console") else ():
            _, *words = shlex.split(line, comments=True)
            if words:
                COMMANDS[words[0]].make_context(words[0], words[1:])  # raises where it does not take them


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_commands_in_the_text_exist_with_their_options(page: str) -> None:
    for code in CODE.findall(prose(page)):
        words = code.split()
        if words[0] != "rankledger" or len(words) == 1 or words[1].isupper() or words[1].startswith("-"):
            continue
        for name in words[1].split("|"):
            assert name in COMMANDS, f"{page}: {code}"
        for option in re.findall(r"--[a-z][a-z-]*", code):
            assert option in {*options(COMMANDS[words[1]]), "--help"}, f"{page}: {code}"


def test_what_is_printed_is_compared_with_what_is_shown() -> None:
    assert matches("a\n…\nd\n", "a  \nb\nc\nd\n")
    assert matches("n = …, ok", "n = 3, ok")
    assert not matches("a\n…\nd\n", "a\nb\nc\n")
    assert not matches("a.c", "abc")
    assert not matches("a", "a\nb")


def test_git_ignores_the_predictions_that_pages_write_into_the_root() -> None:
    written = {name for block in all_blocks() for name in re.findall(r"\b([a-z_]+\.parquet)\b", block.text)}
    assert {"val.parquet", "image.parquet", "recipe.parquet"} <= written
    command = ["git", "check-ignore", "--no-index", *sorted(written)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    assert set(done.stdout.split()) == written


# The reference ----------------------------------------------------------------------------------------------


def sections() -> dict[str, tuple[str, str]]:
    """By command, how it is called and the text of its section."""
    text = REFERENCE.partition("\n## Commands\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### `rankledger (.+)`$", text, flags=re.MULTILINE)[1:]
    return {call.split()[0]: (call, body) for call, body in zip(parts[::2], parts[1::2], strict=True)}


def test_the_reference_has_all_commands_and_no_other() -> None:
    assert list(sections()) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_a_commands_arguments_options_and_defaults(name: str) -> None:
    call, body = sections()[name]
    command = COMMANDS[name]
    assert call.split()[1:] == [p.metavar for p in command.params if p.param_type_name == "argument"]
    listed = dict(re.findall(r"^\| `(--[a-z-]+)` \| (.*?) *\|", body, re.MULTILINE))
    expected = {}
    for option, parameter in options(command).items():
        plain = parameter.default is None or parameter.is_flag
        expected[option] = "needed" if parameter.required else "" if plain else f"`{parameter.default}`"
    assert listed == expected


# Parameters and keys ----------------------------------------------------------------------------------------


def section(page: str, title: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert f"\n## {title}\n" in text, f"{page} has no section {title}"
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmarks_page_has_its_parameters_defaults_and_choices(name: str) -> None:
    found = benchmark(name)
    rows = re.findall(
        r"^\| `(\w+)` \| `(.+?)` \| (.+?) \|", section(f"docs/benchmarks/{name}.md", "Choose the protocol"), re.M
    )
    yaml = YAML(typ="safe")
    assert {key: yaml.load(default) for key, default, _ in rows} == found.defaults
    for key, _, values in rows:
        if values != "any":
            shown = [yaml.load(value) for value in CODE.findall(values)]
            truths = (True, False) if isinstance(found.defaults[key], bool) else ()
            assert shown == list(found.choices.get(key, truths)), key


def expand(key: str) -> set[str]:
    """All that a key with {a,b} in it stands for."""
    parts = [part.split(",") for part in re.split(r"[{}]", key)]
    return {"".join(one) for one in itertools.product(*parts)}


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmarks_page_has_the_keys_of_its_metrics(name: str) -> None:
    found = benchmark(name)
    plan = found.plan(found.parameters({}))
    keys = {".".join(row.key) for row in (*plan.measures, *plan.means)}
    keys |= {".".join(measure.key) + "_std" for measure in plan.measures if measure.std}
    rows = re.findall(r"^\| `([^`]+)`", section(f"docs/benchmarks/{name}.md", "What comes out"), re.MULTILINE)
    listed = [key for row in rows for key in expand(row)]
    assert len(listed) == len(set(listed))
    assert set(listed) == keys


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmarks_page_names_its_tasks_and_sides(name: str) -> None:
    found = benchmark(name)
    plan = found.plan(found.parameters({}))
    text = section(f"docs/benchmarks/{name}.md", "Hand in")
    named = {word for code in CODE.findall(text) for word in (code, code.removesuffix(".parquet"))}
    wanted = {task.name for task in plan.tasks} | {
        side for task in plan.tasks if not task.labels for side in (task.query_side, task.candidate_side)
    }
    assert wanted <= named
    assert {label for task in plan.tasks for label in task.labels} <= named
    for option in found.variants:
        assert option in named


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmarks_page_has_the_published_counts(name: str) -> None:
    found = benchmark(name)
    given = {"galleries": ["original", "val"]} if name == "fashioniq" else {}
    counts = found.expected(found.parameters({"source": "official", **given})).counts
    told = set(re.findall(r"\d[\d,]*\d", (ROOT / f"docs/benchmarks/{name}.md").read_text(encoding="utf-8")))
    assert {f"{count.number:,}" for count in counts} <= told


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmarks_page_tells_its_paper_page_and_licence(name: str) -> None:
    found = benchmark(name)
    text = " ".join((ROOT / f"docs/benchmarks/{name}.md").read_text(encoding="utf-8").split())
    assert text.startswith(f"# {found.title} ")
    assert f"<{found.url}>" in text
    assert str(found.year) in text
    assert found.licence.removesuffix(" (as its README says)") in text
