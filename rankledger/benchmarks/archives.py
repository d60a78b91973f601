"""Files in a folder and in its zip and tar archives, read where they lie: nothing is unpacked to disk."""

import contextlib
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rankledger.tables import InputError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
LIMIT = 1 << 26  # bytes of a member: far more than any text file needs, far less than a decompression bomb gives
DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    UnicodeError,
)


def contents(folder: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """The files below `folder` and in its archives whose name, without folders, `wanted` matches as a whole.

    Yields names relative to `folder`, such as `a.zip/2013/b.xml`, with the bytes, in a fixed order; an
    archive inside an archive is not opened. Raises `InputError` on an archive that is cut off, damaged or
    encrypted, or holds a path that leads outside, a link, or a wanted file of more than 64 MiB.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file():
            continue
        if name.endswith(".zip"):
            members = _zip(path, wanted)
        elif name.endswith(SUFFIXES):
            members = _tar(path, wanted)
        else:
            if wanted.fullmatch(path.name):
                yield name, path.read_bytes()
            continue
        with _whole(path):
            yield from ((f"{name}/{member}", content) for member, content in members)


def _zip(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            base = _base(path, info.filename)
            if wanted.fullmatch(base) and not info.is_dir():
                with archive.open(info) as file:
                    yield info.filename, _bounded(path, info.filename, file)


def _tar(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for info in archive:
            base = _base(path, info.name)
            if not info.isfile() and not info.isdir():
                raise InputError(f"{path}: {info.name!r} is a link or a device; pack plain files only")
            file = archive.extractfile(info)
            if wanted.fullmatch(base) and file:
                yield info.name, _bounded(path, info.name, file)
        # tarfile takes a header that it cannot read for the end: only an empty block is one.
        stream = archive.fileobj
        assert stream is not None
        stream.seek(archive.offset)
        if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("no end of archive")
        while stream.read(1 << 20):  # to the end of the compressed stream, where its checksum stands
            pass


def _base(path: Path, member: str) -> str:
    """The name of a member without its folders; raises `InputError` where these lead outside."""
    parts = re.split(r"[\\/]", member)
    if parts[0] == "" or parts[0].endswith(":") or ".." in parts:
        raise InputError(f"{path}: {member!r} leads outside the archive; nothing of it is read")
    return parts[-1]


def _bounded(path: Path, member: str, file: IO[bytes]) -> bytes:
    content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise InputError(f"{path}: {member!r} is larger than {LIMIT >> 20} MiB; it can't be what it is named")
    return content


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise InputError(f"{path}: no whole archive that can be read ({error}); bring it again") from None
