"""Downloads against a real server that breaks off, lies, changes its files and shows login pages."""

import functools
import gzip
import hashlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankledger.download import Differs, NotFound, check, download
from rankledger.tables import InputError
from tests.server import Server, serving

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = random.Random(2).randbytes(300_000)
KNOWN = {"size": len(CONTENT), "sha256": SHA256}

fetch = functools.partial(download, pause=0.0, timeout=5.0)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "into" / "a.json"


def left(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir()) if path.parent.exists() else []


# ---- what is known of a file


@pytest.mark.parametrize(
    ("known", "matched"),
    [
        ({}, "none"),
        ({"size": len(CONTENT)}, "size"),
        (KNOWN, "sha256"),
        ({"md5": hashlib.md5(CONTENT).hexdigest()}, "md5"),
        ({"git_blob_sha1": hashlib.sha1(b"blob 300000\0" + CONTENT).hexdigest()}, "git_blob_sha1"),
        ({"md5": hashlib.md5(CONTENT).hexdigest(), "sha256": SHA256}, "sha256"),
    ],
)
def test_a_file_is_checked_by_what_is_known(server: Server, path: Path, known: dict, matched: str) -> None:
    server.add("/a.json", CONTENT)
    received = fetch(f"{server.url}/a.json", path, **known)
    assert (received.size, received.sha256, received.checksum) == (300_000, SHA256, matched)
    assert path.read_bytes() == CONTENT
    assert left(path) == ["a.json"]
    assert check(path, known) == matched


@pytest.mark.parametrize("kind", ["size", "sha256", "md5", "git_blob_sha1"])
def test_another_content_is_refused_and_nothing_of_it_stays(server: Server, path: Path, kind: str) -> None:
    wrong = 7 if kind == "size" else "0" * (64 if kind == "sha256" else 40)
    server.add("/a.json", CONTENT)
    path.parent.mkdir()
    path.write_bytes(b"the last good one")
    with pytest.raises(Differs) as error:
        fetch(f"{server.url}/a.json", path, **{"sha256": SHA256, kind: wrong})
    message = str(error.value)
    assert "expected" in message
    assert "300,000 bytes" in message
    assert SHA256 in message
    assert ("7 bytes" if kind == "size" else str(wrong)) in message
    assert "\n" not in message
    assert left(path) == ["a.json"]
    assert path.read_bytes() == b"the last good one"


def test_all_known_checksums_must_match(tmp_path: Path) -> None:
    file = tmp_path / "hello"
    file.write_bytes(b"hello\n")
    blob = "ce013625030ba8dba906f756967f9e9ca394464a"  # what `git hash-object` says
    assert check(file, {"git_blob_sha1": blob, "url": "https://example.org"}) == "git_blob_sha1"
    with pytest.raises(Differs, match="hello: not the known content"):
        check(file, {"git_blob_sha1": blob, "md5": "0" * 32})
    with pytest.raises(Differs, match="the mirror's: not"):
        check(file, {"size": 7}, "the mirror's")


# ---- broken connections


@pytest.mark.parametrize("known", [{}, KNOWN])
def test_a_broken_download_goes_on_from_where_it_broke(server: Server, path: Path, known: dict) -> None:
    served = server.add("/a.json", CONTENT, drops=[100_000, 50_000])
    fetch(f"{server.url}/a.json", path, **known)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]
    assert server.requests[1][1]["If-Range"] == served.version()
    assert left(path) == ["a.json"]


@pytest.mark.parametrize("known", [{}, KNOWN])
def test_a_later_call_goes_on_from_there_too(server: Server, path: Path, known: dict) -> None:
    server.add("/a.json", CONTENT, drops=[100_000])
    with pytest.raises(InputError, match="what came is kept") as error:
        fetch(f"{server.url}/a.json", path, tries=1, **known)
    assert "\n" not in str(error.value)
    assert left(path) == ["a.json.part", "a.json.part.json"]
    fetch(f"{server.url}/a.json", path, tries=1, **known)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-"]
    assert left(path) == ["a.json"]


def test_what_came_from_another_address_is_not_continued(server: Server, path: Path) -> None:
    server.add("/old.json", OTHER, drops=[100_000], etag='"same"')
    server.add("/new.json", CONTENT, etag='"same"')
    with pytest.raises(InputError):
        fetch(f"{server.url}/old.json", path, tries=1)
    fetch(f"{server.url}/new.json", path, tries=1)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, None]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drops=st.lists(st.integers(0, 4000), max_size=6), ranges=st.booleans(), known=st.booleans())
def test_the_content_does_not_depend_on_where_it_broke(
    server: Server, path: Path, drops: list[int], ranges: bool, known: bool
) -> None:
    content = CONTENT[:4001]
    server.add("/a.json", content, drops=list(drops), ranges=ranges)
    fetch(f"{server.url}/a.json", path, tries=9, sha256=hashlib.sha256(content).hexdigest() if known else None)
    assert path.read_bytes() == content
    assert left(path) == ["a.json"]


def test_a_whole_part_needs_no_server(server: Server, path: Path) -> None:
    path.parent.mkdir()
    path.with_name("a.json.part").write_bytes(CONTENT)
    fetch(f"{server.url}/a.json", path, **KNOWN)
    assert path.read_bytes() == CONTENT
    assert server.requests == []


def test_a_part_that_is_longer_than_the_file_is_dropped(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, drops=[100_000], etag='"same"')
    with pytest.raises(InputError):
        fetch(f"{server.url}/a.json", path, tries=1)
    with path.with_name("a.json.part").open("ab") as part:
        part.write(OTHER)
    fetch(f"{server.url}/a.json", path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=400000-", None]


def test_a_server_without_ranges_starts_over(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, drops=[100_000, 200_000], ranges=False)
    fetch(f"{server.url}/a.json", path)
    assert path.read_bytes() == CONTENT
    assert len(server.requests) == 3


@pytest.mark.parametrize("drops", [[], [100_000]])
def test_a_body_in_chunks(server: Server, path: Path, drops: list[int | None]) -> None:
    server.add("/a.json", CONTENT, drops=drops, chunked=True)
    fetch(f"{server.url}/a.json", path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("known", [{}, KNOWN])
def test_a_server_that_compresses_against_our_wish(server: Server, path: Path, known: dict) -> None:
    server.add("/a.json", gzip.compress(CONTENT), drops=[100_000], encoding="gzip")
    fetch(f"{server.url}/a.json", path, **known)
    assert path.read_bytes() == CONTENT
    assert server.requests[0][1]["Accept-Encoding"] == "identity"
    assert server.ranges == [None, None]  # places in the one are not places in the other


# ---- a file that changes between its parts


def change(served: object) -> None:
    served.content = CONTENT  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("how", "known"),
    [
        ({}, {}),
        ({}, KNOWN),
        ({"etag": None, "modified": "Thu, 01 Jan 2026 00:00:00 GMT"}, KNOWN),  # the same second
        ({"heeds_if_range": False}, {}),
        ({"heeds_if_range": False}, KNOWN),
        ({"etag": None}, {}),
        ({"etag": None}, KNOWN),
        ({"etag": 'W/"weak"'}, {}),
        ({"etag": '"always the same"'}, KNOWN),
    ],
)
def test_parts_of_two_versions_are_never_joined(server: Server, path: Path, how: dict, known: dict) -> None:
    server.add("/a.json", OTHER, drops=[100_000], after=change, **how)
    fetch(f"{server.url}/a.json", path, **known)
    assert path.read_bytes() == CONTENT
    assert left(path) == ["a.json"]


def test_without_version_and_checksum_nothing_is_resumed(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, drops=[100_000], etag=None)
    fetch(f"{server.url}/a.json", path)
    assert server.ranges == [None, None]


def test_without_version_a_checksum_lets_it_go_on(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, drops=[100_000], etag=None)
    fetch(f"{server.url}/a.json", path, **KNOWN)
    assert server.ranges == [None, "bytes=100000-"]


def test_a_date_serves_where_there_is_no_etag(server: Server, path: Path) -> None:
    date = "Thu, 01 Jan 2026 00:00:00 GMT"
    server.add("/a.json", CONTENT, drops=[100_000], etag=None, modified=date)
    fetch(f"{server.url}/a.json", path)
    assert path.read_bytes() == CONTENT
    assert server.requests[1][1]["If-Range"] == date


# ---- lies about the length


@pytest.mark.parametrize("tries", [1, 5])
@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("known", [KNOWN, {"sha256": SHA256}])
def test_more_announced_than_there_is_but_the_checksum_proves_it(
    server: Server, path: Path, ranges: bool, known: dict, tries: int
) -> None:
    server.add("/a.json", CONTENT, announced=400_000, ranges=ranges)
    fetch(f"{server.url}/a.json", path, tries=tries, **known)
    assert path.read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_more_announced_than_there_is_and_the_range_says_so(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, announced=400_000)
    fetch(f"{server.url}/a.json", path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"]


def test_more_announced_than_ever_comes(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, announced=400_000, ranges=False)
    with pytest.raises(InputError, match="5 tries"):
        fetch(f"{server.url}/a.json", path)
    assert not path.exists()
    assert len(server.requests) == 5


@pytest.mark.parametrize("known", [KNOWN, {"sha256": SHA256}, {"size": 300_000}])
def test_less_announced_than_there_is(server: Server, path: Path, known: dict) -> None:
    server.add("/a.json", CONTENT, announced=200_000)
    with pytest.raises(Differs, match="received 200,000 bytes"):
        fetch(f"{server.url}/a.json", path, **known)
    assert left(path) == []


# ---- servers that say no


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_server_that_is_busy_is_asked_again(server: Server, path: Path, status: int) -> None:
    server.add("/a.json", CONTENT, statuses=[status, status])
    fetch(f"{server.url}/a.json", path)
    assert path.read_bytes() == CONTENT
    assert len(server.requests) == 3


def test_a_server_that_stays_busy_is_left_alone(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, statuses=[503] * 9)
    with pytest.raises(InputError, match=r"a\.json: the server answers 503 .*\(3 tries\)"):
        fetch(f"{server.url}/a.json", path, tries=3)
    assert len(server.requests) == 3
    assert left(path) == []


def test_waits_grow_between_tries(server: Server, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("rankledger.download.time.sleep", waits.append)
    server.add("/a.json", CONTENT, statuses=[503] * 9)
    with pytest.raises(InputError):
        download(f"{server.url}/a.json", path, tries=4, pause=0.25)
    assert waits == [0, 0.25, 0.5, 1]


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (410, NotFound), (403, InputError)])
def test_a_no_is_taken_at_once(server: Server, path: Path, status: int, kind: type[InputError]) -> None:
    server.add("/a.json", CONTENT, statuses=[status] * 9)
    with pytest.raises(kind, match=str(status)):
        fetch(f"{server.url}/a.json", path)
    assert len(server.requests) == 1
    assert left(path) == []


PAGE = b"\n<!DOCTYPE html>\n<html><body>Please log in</body></html>"


@pytest.mark.parametrize("known", [{}, KNOWN])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PAGE, "text/html; charset=utf-8"),
        (PAGE, "application/json"),
        (b"\xef\xbb\xbf<HTML>", "application/octet-stream"),
        (b"Please log in", "text/html"),
        (PAGE, "application/xhtml+xml"),
    ],
)
def test_a_login_page_is_not_the_file(server: Server, path: Path, content: bytes, kind: str, known: dict) -> None:
    server.add("/login", content, type=kind)
    server.add("/a.json", CONTENT, location="/login")
    with pytest.raises(InputError, match=r"a\.json: .* web page \(.*/login\)") as error:
        fetch(f"{server.url}/a.json", path, **known)
    assert "\n" not in str(error.value)
    assert left(path) == []


def test_a_login_page_does_not_cost_what_came(server: Server, path: Path) -> None:
    served = server.add("/a.json", CONTENT, drops=[100_000])
    with pytest.raises(InputError):
        fetch(f"{server.url}/a.json", path, tries=1)
    server.add("/a.json", PAGE, type="text/html")
    with pytest.raises(InputError, match="web page"):
        fetch(f"{server.url}/a.json", path)
    server.files["/a.json"] = served
    fetch(f"{server.url}/a.json", path)
    assert path.read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=100000-"


# ---- no server at all


def test_nobody_answers(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        with pytest.raises(InputError, match=r"a\.json: Connection refused \(2 tries\)"):
            fetch(f"http://127.0.0.1:{taken.getsockname()[1]}/a.json", path, tries=2)
    assert left(path) == []


def test_an_unknown_host(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(InputError, match=r"a\.json: Name or service not known \(2 tries\)"):
        fetch("http://nowhere.invalid/a.json", path, tries=2)


def test_no_answer_in_time(server: Server, path: Path) -> None:
    server.add("/a.json", CONTENT, delay=0.5)
    with pytest.raises(InputError, match="no answer in time"):
        download(f"{server.url}/a.json", path, tries=1, timeout=0.1)


@pytest.mark.parametrize("url", ["ftp://example.org/a.json", "http://", "no address"])
def test_no_address(path: Path, url: str) -> None:
    with pytest.raises(InputError, match=url) as error:
        fetch(url, path)
    assert "\n" not in str(error.value)


def test_progress_grows_to_the_whole(server: Server, path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    server.add("/a.json", CONTENT, drops=[100_000])
    fetch(f"{server.url}/a.json", path, progress=lambda *now: seen.append(now))
    assert [now for now, _ in seen] == sorted(now for now, _ in seen)
    assert seen[-1] == (300_000, 300_000)
    assert {total for _, total in seen} == {300_000}


def test_an_empty_file_is_a_file(server: Server, path: Path) -> None:
    server.add("/a.json", b"")
    assert fetch(f"{server.url}/a.json", path).size == 0
    assert path.read_bytes() == b""
