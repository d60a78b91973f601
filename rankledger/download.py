"""Files over HTTP(S): resumed where they broke off, checked before they take their name."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankledger.tables import InputError, read_json, sha256_file, to_json, write_text

if TYPE_CHECKING:
    from requests import Response

CHECKSUMS = ("sha256", "md5", "git_blob_sha1")
CHUNK = 1 << 20

Progress = Callable[[int, int | None], None]
"""Told the bytes that are there so far, and how many there will be where that is known."""


class Differs(InputError):
    """The content is not the one whose size and checksum are known."""


class NotFound(InputError):
    """The server has no such file."""


class _Again(Exception):
    """The connection or the server failed in a way that may pass."""


@dataclass(frozen=True)
class Received:
    """What came: its size in bytes, its SHA-256, and what it was checked against (see `check`)."""

    size: int
    sha256: str
    checksum: str


def check(path: Path, entry: Mapping[str, Any], shown: str | None = None) -> str:
    """Compare a file with what is known of it; returns the best of what matched.

    Args:
        path: the file.
        entry: any of `size`, `sha256`, `md5` and `git_blob_sha1`; all that are given must match.
        shown: how a message calls the file; its path otherwise.

    Returns:
        "sha256", "md5", "git_blob_sha1", "size", or "none" where nothing is known.

    Raises:
        Differs: the content is another one; the message holds the expected and the received values.
    """
    known = {kind: entry[kind] for kind in ("size", *CHECKSUMS) if entry.get(kind) is not None}
    received = {"size": path.stat().st_size} | {k: _digest(path, k) for k in CHECKSUMS if k in known}
    if any(received[kind] != value for kind, value in known.items()):
        raise Differs(f"{shown or path}: not the known content: expected {_facts(known)}; received {_facts(received)}")
    return next((kind for kind in (*CHECKSUMS, "size") if kind in known), "none")


def download(
    url: str,
    path: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    md5: str | None = None,
    git_blob_sha1: str | None = None,
    progress: Progress | None = None,
    tries: int = 5,
    pause: float = 0.5,
    timeout: float = 30.0,
) -> Received:
    """Bring a file; it takes its name only when it is whole and is what it should be.

    What came stays in `<path>.part` when the connection breaks, with a note in `<path>.part.json` of the
    version of the file that it belongs to (ETag or Last-Modified), so that this call, or a later one, goes on
    from there. A server without ranges, or a file that changed meanwhile, makes it start over.

    Args:
        url: an http or https address.
        path: the file to write.
        size, sha256, md5, git_blob_sha1: what is known of the content (bytes; hex).
        progress: called as bytes arrive.
        tries: how often to ask; between two tries it waits `pause` seconds, twice as long each time.
        timeout: seconds to wait for a connection, and for each next piece.

    Raises:
        NotFound: the server has no such file.
        Differs: the content is not the one that is known; nothing of it is kept.
        InputError: the server can't be reached, refuses, answers with a web page, or keeps breaking off.
    """
    entry = {"size": size, "sha256": sha256, "md5": md5, "git_blob_sha1": git_blob_sha1}
    checkable = any(entry[kind] is not None for kind in CHECKSUMS)
    part = _Part(path)
    failure = "never asked"
    for wait in (0.0, *(pause * 2**i for i in range(tries - 1))):
        time.sleep(wait)
        if checkable and part.proven(entry):
            break
        try:
            resumed = _receive(url, part, checkable, timeout, progress)
        except _Again as error:
            failure = str(error)
            continue
        if not (resumed and checkable) or part.proven(entry):
            break
        part.remove()
        failure = "the file changed between its parts"
    else:
        if not (checkable and part.proven(entry)):  # a server may announce more than the file has
            kept = "; what came is kept, another run goes on from there" if part.content.exists() else ""
            raise InputError(f"{url}: {failure} ({tries} tries{kept})")
    try:
        checksum = check(part.content, entry, url)
    except Differs:
        part.remove()
        raise
    known = entry["sha256"] if checksum == "sha256" else None
    received = Received(part.content.stat().st_size, str(known or sha256_file(part.content)), checksum)
    part.content.replace(path)
    part.remove()
    return received


class _Part:
    """What came of a file so far, and a note of where it came from and which version of the file it is."""

    def __init__(self, path: Path) -> None:
        self.content = path.with_name(f"{path.name}.part")
        self.note = path.with_name(f"{path.name}.part.json")

    def start(self, url: str | None, version: str | None) -> None:
        """Begin anew; without a `url` what follows can't be resumed."""
        self.remove()
        self.content.parent.mkdir(parents=True, exist_ok=True)
        if url is not None:
            write_text(to_json({"url": url, "version": version}), self.note)

    def state(self, url: str) -> tuple[int, str | None]:
        """How many bytes came from `url`, and of which version."""
        try:
            note, have = read_json(self.note), self.content.stat().st_size
        except (InputError, FileNotFoundError):
            return 0, None
        return (have, note["version"]) if note["url"] == url else (0, None)

    def proven(self, entry: Mapping[str, Any]) -> bool:
        """Whether it is whole, by what is known of the file."""
        try:
            check(self.content, entry)
        except (Differs, FileNotFoundError):
            return False
        return True

    def remove(self) -> None:
        """Forget all that came."""
        self.content.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _receive(url: str, part: _Part, checkable: bool, timeout: float, progress: Progress | None) -> bool:
    """Ask for what is missing and append it; returns whether the part is now of more than one answer."""
    import requests
    from urllib3.exceptions import HTTPError

    have, version = part.state(url)
    if version is None and not checkable:  # parts of two versions could not be told apart
        have = 0
    headers = {"Accept-Encoding": "identity"}  # lengths and ranges are then those of the file itself
    if have:
        headers |= {"Range": f"bytes={have}-"} | ({"If-Range": version} if version else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
            _refuse(url, response)
            encoded = response.headers.get("Content-Encoding", "identity") != "identity"
            resumed = response.status_code in (206, 416)
            if resumed:
                stands = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", response.headers.get("Content-Range", ""))
                whole = stands is not None and stands[1] is None and stands[2] == str(have)
                follows = stands is not None and stands[1] == str(have)
                same = _version(response) in (None, version)
                if encoded or not same or not (whole if response.status_code == 416 else follows):
                    part.remove()
                    raise _Again("the file changed between its parts")
                if response.status_code == 416:  # nothing is left to send
                    return True
            first = response.raw.read1(CHUNK, decode_content=True)
            if not resumed:
                _refuse_page(url, response, first)
                part.start(None if encoded else url, _version(response))
                have = 0
            length = response.headers.get("Content-Length", "")
            total = have + int(length) if length.isdecimal() and not encoded else None
            with part.content.open("ab") as file:
                chunk = first
                while chunk:
                    file.write(chunk)
                    have += len(chunk)
                    if progress:
                        progress(have, total)
                    chunk = response.raw.read1(CHUNK, decode_content=True)
    except (requests.ConnectionError, requests.Timeout, HTTPError) as error:
        raise _Again(_reason(error)) from None
    except requests.RequestException as error:
        raise InputError(f"{url}: {' '.join(str(error).split())}") from None
    return resumed


def _refuse(url: str, response: "Response") -> None:
    """Raise what an answer without content deserves."""
    status = response.status_code
    answer = f"the server answers {status} {response.reason or ''}".rstrip()
    if status in (404, 410):
        raise NotFound(f"{url}: {answer}")
    if status in (408, 425, 429) or status >= 500:
        raise _Again(answer)
    if status not in (200, 206, 416):
        login = ", it wants a login" if status in (401, 403) else ""
        raise InputError(f"{url}: {answer}{login}")


def _refuse_page(url: str, response: "Response", first: bytes) -> None:
    """Raise where a login or error page stands in for the file; no file that we bring is a web page."""
    said = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    looks = first.removeprefix(b"\xef\xbb\xbf").lstrip()[:14].lower().startswith((b"<!doctype html", b"<html"))
    if looks or said in ("text/html", "application/xhtml+xml"):
        final = f" ({response.url})" if response.url != url else ""
        raise InputError(f"{url}: the server answers with a web page{final}, a login or an error, not with the file")


def _version(response: "Response") -> str | None:
    """What tells this version of the file from others in an If-Range: a strong ETag, else Last-Modified."""
    etag: str | None = response.headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")


def _reason(error: BaseException) -> str:
    """What lies at the bottom of a failed connection."""
    import requests

    if isinstance(error, requests.Timeout):
        return "no answer in time"
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _digest(path: Path, kind: str) -> str:
    """A checksum of a file, in hex; Git's is the SHA-1 of `blob <size>`, a zero byte, and the content."""
    if kind == "sha256":
        return sha256_file(path)
    start = hashlib.md5(usedforsecurity=False)
    if kind == "git_blob_sha1":
        start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: start).hexdigest()


def _facts(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{value:,} bytes" if kind == "size" else f"{kind} {value}" for kind, value in facts.items())
