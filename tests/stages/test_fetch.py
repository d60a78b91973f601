"""The stage `fetch`: from the inbox, a mirror, a server or the sample, whole and checked or not at all."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rankledger.benchmarks.base import Benchmark, Plan
from rankledger.subset import Subset
from rankledger.tables import InputError
from stages.fetch import fetch
from stages.project import Project, read_yaml
from tests.conftest import ROOT
from tests.server import Server, serving

A, B = b'{"a": 1}\n' * 2000, b'{"b": 2}\n' * 3000
OTHER = b'{"a": 7}\n' * 2000


class Toy(Benchmark):
    name = "toy"
    title = "Toy"
    paper = ""
    licence = "CC0"
    access = "ask the authors"

    def __init__(self) -> None:
        self.needs: tuple[str, ...] = ("a.json", "b.json")

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        return self.needs

    def sample(self, folder: Path) -> None:
        (folder / "part").mkdir()
        (folder / "a.json").write_bytes(b"a made-up a")
        (folder / "part" / "c.json").write_bytes(b"a made-up c")

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        raise NotImplementedError

    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        raise NotImplementedError


class World:
    """A project with one benchmark, `toy`, and a server."""

    def __init__(self, root: Path, server: Server, toy: Toy) -> None:
        self.root, self.server, self.toy = root, server, toy
        self.project = Project(root)
        self.raw = self.project.raw("toy")
        self.params: dict[str, Any] = {"mirror": None, "benchmarks": {"toy": {"source": "official"}}}
        self.sources: list[dict[str, Any]] = []

    def know(self, name: str, content: bytes | None = None, *kinds: str, url: bool = True) -> None:
        """Enter a file into data/sources.yaml, with its size and the checksums of these kinds."""
        entry: dict[str, Any] = {"file": name, "licence": f"licence of {name}", "access": f"open: {name}"}
        if url:
            entry["url"] = f"{self.server.url}/official/{name}"
        if content is not None:
            blob = b"blob %d\0" % len(content) + content
            sums = {"sha256": hashlib.sha256(content), "md5": hashlib.md5(content)}
            sums["git_blob_sha1"] = hashlib.sha1(blob)
            entry |= {"size": len(content)} | {kind: sums[kind].hexdigest() for kind in kinds}
        self.sources = [e for e in self.sources if e["file"] != name] + [entry]

    def put(self, place: str, name: str, content: bytes) -> Path:
        """Put a file into a folder of the project."""
        path = self.root / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def inbox(self, name: str, content: bytes) -> Path:
        return self.put("data/inbox/toy", name, content)

    def fetch(self) -> dict[str, Any]:
        """Run the stage and return the manifest by file name."""
        (self.root / "dvc.yaml").write_text("stages: {}\n")
        (self.root / "data").mkdir(exist_ok=True)
        YAML().dump(self.params, self.root / "params.yaml")
        YAML().dump({"toy": self.sources}, self.root / "data" / "sources.yaml")
        fetch(self.project, "toy")
        return self.manifest()

    def manifest(self) -> dict[str, Any]:
        manifest = json.loads((self.raw / "manifest.json").read_bytes())
        assert manifest.keys() == {"benchmark", "source", "files"}
        assert manifest["benchmark"] == "toy"
        assert manifest["source"] == self.params["benchmarks"]["toy"]["source"]
        names = [file["name"] for file in manifest["files"]]
        assert names == sorted(names)
        for file in manifest["files"]:
            assert file.keys() == {"name", "url", "size", "sha256", "licence", "checksum"}
            content = (self.raw / file["name"]).read_bytes()
            assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        assert {"manifest.json", *names} == self.content().keys()
        return {file["name"]: file for file in manifest["files"]}

    def content(self) -> dict[str, bytes]:
        """All that lies in data/raw/toy."""
        found = (p for p in self.raw.rglob("*") if p.is_file() and ".incoming" not in p.parts)
        return {p.relative_to(self.raw).as_posix(): p.read_bytes() for p in found}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def world(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> World:
    toy = Toy()
    monkeypatch.setattr("stages.fetch.benchmark", {"toy": toy}.__getitem__)
    monkeypatch.setattr("rankledger.download.time.sleep", lambda _: None)
    world = World(tmp_path, server, toy)
    world.know("a.json", A, "sha256", "git_blob_sha1")
    world.know("b.json", B, "md5")
    server.add("/official/a.json", A)
    server.add("/official/b.json", B)
    return world


Source = Callable[[World], None]


def from_inbox(world: World) -> None:
    world.inbox("a.json", A)
    world.inbox("b.json", B)
    world.inbox("unneeded.json", B)


def from_folder(world: World) -> None:
    world.put("mirror/toy", "a.json", A)
    world.put("mirror/toy", "b.json", B)
    world.params["mirror"] = "mirror"


def from_absolute_folder(world: World) -> None:
    from_folder(world)
    world.params["mirror"] = str(world.root / "mirror")


def from_mirror(world: World) -> None:
    world.server.files.clear()
    world.server.add("/m/toy/a.json", A)
    world.server.add("/m/toy/b.json", B)
    world.params["mirror"] = f"{world.server.url}/m/"


def from_address(world: World) -> None:
    pass


PLACES = [from_inbox, from_folder, from_absolute_folder, from_mirror, from_address]


# ---- where files come from


def test_the_manifest_tells_the_content_not_where_it_came_from(world: World) -> None:
    manifests = set()
    for place in PLACES:
        shutil.rmtree(world.root / "data", ignore_errors=True)
        place(world)
        files = world.fetch()
        assert world.content() | {"manifest.json": b""} == {"a.json": A, "b.json": B, "manifest.json": b""}
        assert {name: file["checksum"] for name, file in files.items()} == {
            "a.json": "sha256",
            "b.json": "md5",
        }
        assert files["a.json"]["url"] == f"{world.server.url}/official/a.json"
        assert files["a.json"]["licence"] == "licence of a.json"
        manifests.add((world.raw / "manifest.json").read_bytes())
    assert len(manifests) == 1


@pytest.mark.parametrize("place", [from_inbox, from_folder])
def test_local_files_are_copied(world: World, place: Source) -> None:
    place(world)
    world.fetch()
    original = next(p for p in world.root.rglob("a.json") if p.parent != world.raw)
    assert not (world.raw / "a.json").is_symlink()
    assert (world.raw / "a.json").stat().st_ino != original.stat().st_ino
    original.write_bytes(b"changed later")
    assert (world.raw / "a.json").read_bytes() == A
    assert world.server.requests == []


def test_a_link_in_the_inbox_is_read(world: World) -> None:
    elsewhere = world.put("elsewhere", "big.json", A)
    world.inbox("x", b"").with_name("a.json").symlink_to(elsewhere)
    world.fetch()
    assert not (world.raw / "a.json").is_symlink()
    assert world.server.paths == ["/official/b.json"]


def test_inbox_then_mirror_then_address(world: World) -> None:
    world.toy.needs = ("a.json", "b.json", "c.json")
    for name in world.toy.needs:
        world.know(name)
        world.server.add(f"/official/{name}", b"from the address")
        world.put("mirror/toy", name, b"from the mirror")
        world.inbox(name, b"from the inbox")
    world.params["mirror"] = "mirror"
    (world.root / "data/inbox/toy/b.json").unlink()
    (world.root / "data/inbox/toy/c.json").unlink()
    (world.root / "mirror/toy/c.json").unlink()
    world.fetch()
    assert world.content().items() >= {
        ("a.json", b"from the inbox"),
        ("b.json", b"from the mirror"),
        ("c.json", b"from the address"),
    }


def test_what_a_mirror_lacks_comes_from_its_address(world: World) -> None:
    world.server.add("/m/toy/a.json", A)
    world.params["mirror"] = f"{world.server.url}/m"
    world.fetch()
    assert world.server.paths == ["/m/toy/a.json", "/m/toy/b.json", "/official/b.json"]


def test_only_what_is_needed_is_fetched(world: World) -> None:
    world.toy.needs = ("b.json",)
    assert world.fetch().keys() == {"b.json"}
    assert world.server.paths == ["/official/b.json"]


@pytest.mark.parametrize("mirror", ["nowhere", "", 7, ["mirror"]])
def test_a_mirror_that_is_none(world: World, mirror: object) -> None:
    world.params["mirror"] = mirror
    with pytest.raises(InputError, match=r"params\.yaml: mirror"):
        world.fetch()


# ---- what is known of a file, and what is not


@pytest.mark.parametrize("place", [from_folder, from_mirror, from_address])
def test_another_content_is_an_error(world: World, place: Source) -> None:
    place(world)
    world.put("mirror/toy", "b.json", OTHER)
    for served in world.server.files.values():
        served.content = A if served.content == A else OTHER
    with pytest.raises(InputError) as error:
        world.fetch()
    message = str(error.value)
    for fact in ("b.json", f"{len(B):,} bytes", f"{len(OTHER):,} bytes", hashlib.md5(B).hexdigest()):
        assert fact in message
    assert hashlib.md5(OTHER).hexdigest() in message
    assert "data/inbox/toy/" in message
    assert "\n" not in message
    assert world.content() == {}


def test_a_users_own_content_is_taken_and_said(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.inbox("a.json", OTHER)
    files = world.fetch()
    assert files["a.json"]["checksum"] == "differs"
    assert files["b.json"]["checksum"] == "md5"
    note = capsys.readouterr().err
    assert "note: data/inbox/toy/a.json" in note
    assert hashlib.sha256(A).hexdigest() in note
    assert hashlib.sha256(OTHER).hexdigest() in note


def test_taken_out_of_the_inbox_another_content_does_not_stay(world: World) -> None:
    own = world.inbox("a.json", OTHER)
    world.fetch()
    own.unlink()
    assert world.fetch()["a.json"]["checksum"] == "sha256"
    assert world.content()["a.json"] == A


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [None, len(A)])
def test_where_no_checksum_is_known_that_is_said(
    world: World, place: Source, size: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    world.know("a.json", A if size else None)
    place(world)
    assert world.fetch()["a.json"]["checksum"] == "none"
    assert "a.json: 18,000 bytes, no checksum is known" in capsys.readouterr().out


def test_a_login_page_in_the_mirror(world: World) -> None:
    from_mirror(world)
    world.server.add("/m/toy/a.json", b"<html>log in</html>", type="text/html")
    with pytest.raises(InputError, match="web page"):
        world.fetch()
    assert world.content() == {}


# ---- alternatives, optional files, patterns


@pytest.mark.parametrize("place", ["data/inbox/toy", "mirror/toy"])
def test_the_first_alternative_serves(world: World, place: str) -> None:
    world.toy.needs = ("l2+.json|l2.json",)
    (world.root / "mirror").mkdir()
    world.params["mirror"] = "mirror"
    world.put(place, "l2.json", B)
    assert world.fetch().keys() == {"l2.json"}
    world.put(place, "l2+.json", A)
    assert world.fetch().keys() == {"l2+.json"}
    (world.root / place / "l2+.json").unlink()
    assert world.fetch().keys() == {"l2.json"}


def test_alternatives_of_a_mirror_on_a_server(world: World) -> None:
    world.toy.needs = ("l2+.json|l2.json",)
    world.params["mirror"] = world.server.url
    world.server.add("/toy/l2.json", B)
    assert world.fetch().keys() == {"l2.json"}
    assert world.server.paths == ["/toy/l2+.json", "/toy/l2.json"]
    shutil.rmtree(world.raw)
    world.server.add("/toy/l2+.json", A)
    assert world.fetch().keys() == {"l2+.json"}


def test_an_optional_file_may_be_absent(world: World) -> None:
    world.toy.needs = ("a.json", "more.txt?")
    assert world.fetch().keys() == {"a.json"}
    world.params["mirror"] = f"{world.server.url}/m"
    assert world.fetch().keys() == {"a.json"}
    world.server.add("/m/toy/more.txt", b"more")
    files = world.fetch()
    assert files["more.txt"]["licence"] == "CC0"
    assert files["more.txt"]["url"] is None


def test_an_optional_file_goes_when_it_leaves_the_inbox(world: World) -> None:
    world.toy.needs = ("a.json", "more.txt?")
    more = world.inbox("more.txt", b"more")
    assert world.fetch().keys() == {"a.json", "more.txt"}
    more.unlink()
    assert world.fetch().keys() == {"a.json"}


def test_patterns_take_all_matches_at_any_depth(world: World) -> None:
    world.toy.needs = ("**/*.xml|**/*.zip|**/*.tar.gz", "**/terms*.txt?", "parts.tsv?")
    world.sources = [{"file": "*.xml", "licence": "theirs"}]
    for name in ("1.xml", "x/2.xml", "x/y/3.xml", "x/y/z.zip", "w.tar.gz", "x/terms_2013.txt", "parts.tsv"):
        world.inbox(name, name.encode())
    for name in ("x/parts.tsv", "1.json", "x/.hidden.xml", "__MACOSX/._1.xml", ".git/4.xml", "1.xml.gz"):
        world.inbox(name, b"not asked for")
    files = world.fetch()
    names = {"1.xml", "x/2.xml", "x/y/3.xml", "x/y/z.zip", "w.tar.gz", "x/terms_2013.txt", "parts.tsv"}
    assert files.keys() == names
    assert world.content().items() >= {(name, name.encode()) for name in names}
    assert {files["x/2.xml"]["licence"], files["w.tar.gz"]["licence"]} == {"theirs", "CC0"}
    assert {file["checksum"] for file in files.values()} == {"none"}
    (world.root / "data/inbox/toy/x/y/3.xml").unlink()  # a folder of patterns is what it is now
    assert world.fetch().keys() == names - {"x/y/3.xml"}
    shutil.rmtree(world.root / "data/inbox/toy")
    kept = world.fetch().keys()
    assert kept == {"1.xml", "x/2.xml", "x/y/z.zip", "w.tar.gz"}


@pytest.mark.parametrize("damage", ["changed", "removed", "added"])
def test_what_patterns_brought_is_kept_whole_or_not_at_all(world: World, damage: str) -> None:
    world.toy.needs = ("**/*.xml",)
    for name in ("1.xml", "x/2.xml"):
        world.inbox(name, name.encode())
    world.fetch()
    before = world.content()
    shutil.rmtree(world.root / "data/inbox/toy")
    world.fetch()
    assert world.content() == before
    if damage == "removed":
        (world.raw / "x/2.xml").unlink()
    else:
        (world.raw / ("x/2.xml" if damage == "changed" else "3.xml")).write_bytes(b"other")
    with pytest.raises(InputError, match=r"\*\.xml: ask the authors"):
        world.fetch()


def test_patterns_come_from_one_place(world: World) -> None:
    world.toy.needs = ("**/*.xml",)
    world.params["mirror"] = "mirror"
    world.put("mirror/toy", "old/1.xml", b"1")
    assert world.fetch().keys() == {"old/1.xml"}
    world.inbox("1.xml", b"1")
    assert world.fetch().keys() == {"1.xml"}
    assert not (world.raw / "old").exists()


def test_a_folder_that_cannot_be_read_is_not_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.toy.needs = ("**/*.xml",)
    world.inbox("1.xml", b"1")
    closed = str(world.inbox("x/2.xml", b"2").parent)

    def scan(path: str, real: Callable[..., Any] = os.scandir) -> Any:
        if str(path) == closed:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.raises(InputError, match=f"{closed}: Permission denied"):
        world.fetch()


def test_linked_folders_are_read_once(world: World) -> None:
    world.toy.needs = ("**/*.xml",)
    world.inbox("1.xml", b"1")
    link = world.root / "data/inbox/toy/corpus"
    link.symlink_to(world.put("elsewhere", "2.xml", b"2").parent)
    assert world.fetch().keys() == {"1.xml", "corpus/2.xml"}
    assert not (world.raw / "corpus").is_symlink()
    link.unlink()
    link.symlink_to(link.parent)  # it holds itself
    with pytest.raises(InputError, match="corpus: a link to a folder that is there already"):
        world.fetch()


# ---- again


@pytest.mark.parametrize("place", [from_inbox, from_folder])
def test_what_is_there_is_not_copied_again(world: World, place: Source) -> None:
    place(world)
    world.know("a.json")
    world.fetch()
    before = {name: (world.raw / name).stat().st_mtime_ns for name in world.toy.needs}
    world.fetch()
    assert before == {name: (world.raw / name).stat().st_mtime_ns for name in world.toy.needs}


def test_what_is_there_is_not_fetched_again(world: World) -> None:
    world.know("c.json")
    world.toy.needs = ("a.json", "b.json", "c.json")
    world.server.add("/official/c.json", OTHER)
    world.fetch()
    before = {name: (world.raw / name).stat().st_mtime_ns for name in world.toy.needs}
    assert len(world.server.requests) == 3
    world.fetch()
    assert len(world.server.requests) == 3
    assert before == {name: (world.raw / name).stat().st_mtime_ns for name in world.toy.needs}


@pytest.mark.parametrize("name", ["a.json", "b.json", "c.json"])
def test_what_was_damaged_is_fetched_again(world: World, name: str) -> None:
    world.know("c.json")
    world.toy.needs = ("a.json", "b.json", "c.json")
    world.server.add("/official/c.json", OTHER)
    world.fetch()
    good = world.content()
    (world.raw / name).write_bytes(b"x" * len(good[name]))
    world.fetch()
    assert world.content() == good
    assert world.server.paths[3:] == [f"/official/{name}"]


@pytest.mark.parametrize("place", ["data/inbox/toy", "mirror/toy"])
def test_a_new_content_of_an_unchecked_file_replaces_the_old(world: World, place: str) -> None:
    world.toy.needs = ("c.json",)
    world.know("c.json")
    world.server.add("/official/c.json", OTHER)
    world.fetch()
    world.params["mirror"] = "mirror"
    world.put("mirror", "README.md", b"")
    world.put(place, "c.json", A)
    world.fetch()
    assert world.content()["c.json"] == A


def test_a_required_file_stays_when_it_leaves_the_inbox(world: World) -> None:
    world.toy.needs = ("mine.json",)
    mine = world.inbox("mine.json", A)
    world.fetch()
    before = (world.raw / "manifest.json").read_bytes()
    mine.unlink()
    world.fetch()
    assert world.content() == {"mine.json": A, "manifest.json": before}


def test_from_sample_to_official_and_back(world: World) -> None:
    world.toy.needs = ("a.json", "mine.json")
    world.inbox("mine.json", B)
    seen = []
    for source in ("sample", "official", "sample", "official"):
        world.params["benchmarks"]["toy"]["source"] = source
        files = world.fetch()
        seen.append(world.content())
        if source == "sample":
            assert files.keys() == {"a.json", "part/c.json"}
            assert {(file["checksum"], file["url"]) for file in files.values()} == {("sample", None)}
        else:
            assert files.keys() == {"a.json", "mine.json"}
            assert not (world.raw / "part").exists()
    assert seen[0] == seen[2] != seen[1] == seen[3]
    assert [p.name for p in world.raw.parent.iterdir()] == ["toy"]


def test_a_sample_is_no_official_file(world: World) -> None:
    world.know("a.json", url=False)
    world.toy.needs = ("a.json",)
    world.params["benchmarks"]["toy"]["source"] = "sample"
    world.fetch()
    before = world.content()
    world.params["benchmarks"]["toy"]["source"] = "official"
    with pytest.raises(InputError, match="missing"):
        world.fetch()
    assert world.content() == before


# ---- failures


def test_all_missing_files_are_told_at_once(world: World) -> None:
    world.toy.needs = ("a.json", "l1.json", "l2+.json|l2.json", "det.json", "v.txt?", "d.json")
    for name in ("l1.json", "l2+.json", "l2.json", "d.json"):
        world.know(name, url=False)
    world.inbox("d.json", A)
    with pytest.raises(InputError) as error:
        world.fetch()
    lines = str(error.value).splitlines()
    assert lines[0] == "toy: files are missing:"
    assert lines[1:4] == [
        "  l1.json: open: l1.json",
        "  l2+.json or l2.json: open: l2+.json; open: l2.json",
        "  det.json: ask the authors",
    ]
    assert "data/inbox/toy/ (it holds 'd.json')" in lines[4]
    assert "`dvc repro --keep-going`, then `dvc repro -s report`" in lines[5]
    assert len(lines) == 6
    assert world.server.requests == []  # nothing is fetched in vain
    assert world.content() == {}


def test_missing_on_a_server_too(world: World) -> None:
    world.toy.needs = ("a.json", "b.json", "l1.json", "v.txt?")
    world.params["mirror"] = f"{world.server.url}/m"
    del world.server.files["/official/b.json"]
    with pytest.raises(InputError) as error:
        world.fetch()
    lines = str(error.value).splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("  b.json: open: b.json; ")
    assert f"{world.server.url}/m/toy/b.json: the server answers 404" in lines[1]
    assert f"{world.server.url}/official/b.json: the server answers 404" in lines[1]
    assert lines[2].startswith("  l1.json: ask the authors; ")


def test_without_a_network_it_says_how_to_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in world.sources:
        entry["url"] = "http://127.0.0.1:9/" + entry["file"]
    with pytest.raises(InputError) as error:
        world.fetch()
    message = str(error.value)
    assert "\n" not in message
    assert "Connection refused" in message
    assert "put a.json into data/inbox/toy/ yourself, or set mirror:" in message


@pytest.mark.parametrize("first", ["sample", "nothing"])
def test_a_failure_leaves_all_as_it_was_and_the_next_run_goes_on(world: World, first: str) -> None:
    if first == "sample":
        world.params["benchmarks"]["toy"]["source"] = "sample"
        world.fetch()
        world.params["benchmarks"]["toy"]["source"] = "official"
    before = world.content()
    world.server.files["/official/b.json"].drops = [10_000] * 5
    world.server.files["/official/b.json"].ranges = False
    with pytest.raises(InputError, match="another run goes on from there"):
        world.fetch()
    assert world.content() == before
    world.server.files["/official/b.json"].ranges = True
    world.server.requests.clear()
    world.fetch()
    assert world.server.paths == ["/official/b.json"]  # a.json waited
    assert world.server.ranges == ["bytes=10000-"]
    assert [p.name for p in sorted(world.raw.rglob("*"))] == ["a.json", "b.json", "manifest.json"]


def test_what_waits_from_a_failed_run_is_never_taken_unchecked(world: World) -> None:
    world.fetch()
    world.put("data/raw/toy/.incoming", "a.json", OTHER)
    world.put("data/raw/toy/.incoming", "b.json", OTHER)
    world.fetch()
    assert world.content().items() >= {("a.json", A), ("b.json", B)}


def test_a_full_disk_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    world.inbox("a.json", A)
    monkeypatch.setattr("stages.fetch.shutil.copyfile", full)
    with pytest.raises(InputError, match=r"data/raw/toy: No space left on device"):
        world.fetch()
    assert world.content() == {}


def test_no_bar_where_no_terminal_is(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.fetch()
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        "toy: a.json: 18,000 bytes, sha256 matches",
        "toy: b.json: 27,000 bytes, md5 matches",
    ]


def test_a_bar_on_a_terminal(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    world.fetch()
    out, err = capsys.readouterr()
    assert "a.json" in err
    assert "toy: a.json: 18,000 bytes, sha256 matches" in out


# ---- the real sources


def sources() -> dict[str, dict[str, dict[str, Any]]]:
    listed = read_yaml(ROOT / "data" / "sources.yaml")
    return {name: {entry["file"]: entry for entry in entries} for name, entries in listed.items()}


def test_the_sources_are_well_formed() -> None:
    from rankledger.benchmarks import NAMES

    assert tuple(sources()) == NAMES
    lengths = {"sha256": 64, "md5": 32, "git_blob_sha1": 40}
    for entries in sources().values():
        for entry in entries.values():
            assert entry.keys() <= {"file", "url", "size", "licence", "access", *lengths}
            assert entry["access"]
            assert type(entry.get("size", 0)) is int
            for kind in lengths.keys() & entry.keys():
                assert len(entry[kind]) == lengths[kind]
                assert set(entry[kind]) <= set("0123456789abcdef")


def test_the_sources_are_those_of_the_list(shared: Path) -> None:
    lines = (shared / "sources.tsv").read_text(encoding="utf-8").splitlines()[1:]
    ours = sources()
    urls = set()
    for line in lines:
        name, file, url, size, checksum, blob, licence, _ = line.split("\t")
        if not url:
            continue
        urls.add(url)
        kind = "md5" if checksum.startswith("md5:") else "sha256"
        expected = {"file": file, "url": url, "size": int(size or 0), kind: checksum.removeprefix("md5:")}
        expected |= {"git_blob_sha1": blob, "licence": licence}
        entry = {k: v for k, v in ours[name][file].items() if k != "access"}
        assert entry == {k: v for k, v in expected.items() if v}
    assert urls == {e["url"] for entries in ours.values() for e in entries.values() if "url" in e}


@pytest.mark.parametrize("place", ["folder", "server"])
@pytest.mark.parametrize(
    ("name", "parameters", "checksums"),
    [
        ("cirr", {}, {"sha256"}),
        ("genecis", {"tasks": ["change_object", "focus_object"]}, {"sha256"}),
    ],
)
def test_real_files_from_a_mirror(
    shared: Path, tmp_path: Path, server: Server, place: str, name: str, parameters: dict, checksums: set
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    shutil.copy(ROOT / "data" / "sources.yaml", tmp_path / "data")
    for file in (shared / "mirror" / name).iterdir():
        server.add(f"/{name}/{file.name}", file.read_bytes(), drops=[100_000])
    mirror = server.url if place == "server" else str(shared / "mirror")
    params = {"mirror": mirror, "benchmarks": {name: {"source": "official", **parameters}}}
    YAML().dump(params, tmp_path / "params.yaml")
    project = Project(tmp_path)
    fetch(project, name)
    manifest = json.loads((project.raw(name) / "manifest.json").read_bytes())
    assert {file["checksum"] for file in manifest["files"]} == checksums
    for file in manifest["files"]:
        content = (shared / "mirror" / name / file["name"]).read_bytes()
        assert (project.raw(name) / file["name"]).read_bytes() == content
    text = (project.raw(name) / "manifest.json").read_text()
    assert server.url not in text
    assert str(shared) not in text
