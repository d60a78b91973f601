"""Stage `fetch`: a benchmark's files, from the inbox, a mirror, their own address, or the embedded sample."""

import contextlib
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from rankledger.benchmarks import benchmark
from rankledger.benchmarks.base import Benchmark
from rankledger.download import CHECKSUMS, Differs, NotFound, Progress, check, download
from rankledger.tables import InputError, few, read_json, sha256_file, to_json, whole_folder, write_text
from stages.project import Project

MANIFEST = "manifest.json"
INCOMING = ".incoming"  # beside the files: verified ones wait here until all are there, broken ones to go on

File = dict[str, Any]
"""What the manifest says of a file: name, url, size, sha256, licence, checksum."""


def fetch(project: Project, name: str) -> None:
    """Bring a benchmark's files into `data/raw/<name>` and write its `manifest.json`.

    The folder changes only once every needed file is there and checked. The manifest tells the content, not
    where it came from: `checksum` is what the content was checked against (sha256, md5, git_blob_sha1), or
    "none" where nothing is known, "differs" for a user's own file in the inbox that is not the known one, and
    "sample" for made-up data.

    Raises `InputError` where a file is missing, can't be brought, or is another one (mirror or server).
    """
    bench = benchmark(name)
    parameters = bench.parameters(project.benchmark_params(name))
    try:
        if parameters["source"] == "sample":
            _sample(bench, project.raw(name))
        else:
            _Official(bench, project).bring([Need.parse(text) for text in bench.files(parameters)])
    except OSError as error:
        raise InputError(f"{error.filename or project.raw(name)}: {error.strerror or error}") from None


def _sample(bench: Benchmark, raw: Path) -> None:
    """The embedded sample in the place of the official files."""
    with whole_folder(raw) as new:
        bench.sample(new)
        files: list[File] = [
            {
                "name": path.relative_to(new).as_posix(),
                "url": None,
                "size": path.stat().st_size,
                "sha256": sha256_file(path),
                "licence": "MIT",  # made up by this project
                "checksum": "sample",
            }
            for path in new.rglob("*")
            if path.is_file()
        ]
        _write_manifest(bench, "sample", files, new)
    print(f"{bench.name}: {len(files)} files of the sample, {sum(f['size'] for f in files):,} bytes")


def _write_manifest(bench: Benchmark, source: str, files: list[File], folder: Path) -> None:
    files = sorted(files, key=lambda file: file["name"])
    write_text(to_json({"benchmark": bench.name, "source": source, "files": files}), folder / MANIFEST)


@dataclass(frozen=True)
class Need:
    """What an entry of `Benchmark.files` asks for.

    Attributes:
        names: alternatives, of which the first one found serves; or patterns, of which all matches are taken.
        optional: whether it may be absent.
    """

    names: tuple[str, ...]
    optional: bool

    @classmethod
    def parse(cls, text: str) -> "Need":
        """Read "a", "a|b", "a?", "**/*.xml|**/*.zip".

        >>> Need.parse("layer2+.json|layer2.json")
        Need(names=('layer2+.json', 'layer2.json'), optional=False)
        """
        return cls(tuple(text.removesuffix("?").split("|")), text.endswith("?"))

    def __str__(self) -> str:
        return " or ".join(self.names)

    @property
    def pattern(self) -> bool:
        """Whether the names are patterns."""
        return any("*" in name for name in self.names)

    def within(self, folder: Path) -> dict[str, Path]:
        """The files of a folder that serve, by name; hidden ones never do."""
        if not self.pattern:
            return next(({name: folder / name} for name in self.names if (folder / name).is_file()), {})
        paths = _files(folder) if folder.is_dir() else ()
        found = {path.relative_to(folder).as_posix(): path for path in paths}
        return {name: found[name] for name in sorted(found) if matches(name, self.names)}


def matches(name: str, patterns: Collection[str]) -> bool:
    """Whether a file's name, or its path below the folder, fits one of the patterns, at any depth.

    >>> matches("part1/recette_7.xml", ["**/*.xml"]), matches("recette_7.xml", ["**/*.xml"])
    (True, True)
    >>> matches("part1/._recette_7.xml", ["**/*.xml"])  # hidden files never do
    False
    """
    path = PurePosixPath(name)
    if any(part.startswith(".") for part in path.parts):
        return False
    return any(path.match(pattern.removeprefix("**/")) for pattern in patterns)


class _Official:
    """Where the official files of one benchmark may come from, and what is there already."""

    def __init__(self, bench: Benchmark, project: Project) -> None:
        self.bench = bench
        self.project = project
        self.sources = project.sources(bench.name)
        self.raw = project.raw(bench.name)
        self.incoming = self.raw / INCOMING
        self.inbox = project.inbox(bench.name)
        self.folder, self.address = _mirror(project, bench.name)
        self.previous: dict[str, str] = {}  # name → SHA-256, as the last official fetch recorded it
        with contextlib.suppress(InputError):
            manifest = read_json(self.raw / MANIFEST)
            if manifest["source"] == "official":
                self.previous = {file["name"]: file["sha256"] for file in manifest["files"]}

    def bring(self, needs: list[Need]) -> None:
        """Bring what is needed, or raise and leave the folder as it was."""
        found = {need: self.find(need) for need in needs}
        self.refuse({n: "" for n in needs if not (found[n] or n.optional or self.addresses(n))})
        files: dict[Path, File] = {}  # by where the content lies now
        missing: dict[Need, str] = {}
        for need in needs:
            try:
                new = dict([self.take(*file) for file in found[need].items()] or [self.receive(need)])
            except NotFound as error:
                if not need.optional:
                    missing[need] = str(error)
                continue
            self.tell(need, list(new.values()))
            files |= new
        self.refuse(missing)
        self.commit(files)

    def source(self, name: str) -> Mapping[str, Any]:
        """What `data/sources.yaml` says of a file."""
        fitting = (entry for pattern, entry in self.sources.items() if "*" in pattern and matches(name, [pattern]))
        return self.sources.get(name) or next(fitting, {})

    def find(self, need: Need) -> dict[str, Path]:
        """The files at hand that serve a need, by name: the user's, the mirror's, or those already here."""
        return (
            need.within(self.inbox)
            or self.kept(need, known=True)
            or (need.within(self.folder) if self.folder else {})
            or self.kept(need, known=False)
        )

    def kept(self, need: Need, *, known: bool) -> dict[str, Path]:
        """The files of an earlier fetch that serve and are what they were, by checksum or as recorded.

        An optional file that nobody knows or offers any more is not kept: that it is absent has a meaning.
        """
        if not known and need.optional and not self.addresses(need):
            return {}
        for folder in (self.raw, self.incoming) if known else (self.raw,):
            files = need.within(folder)
            complete = not need.pattern or files.keys() == {n for n in self.previous if matches(n, need.names)}
            if files and complete and all(self.trusted(*file, known) for file in files.items()):
                return files
        return {}

    def trusted(self, name: str, path: Path, known: bool) -> bool:
        """Whether a file of an earlier fetch is what it was."""
        entry = self.source(name)
        if known != any(kind in entry for kind in CHECKSUMS):
            return False
        if not known:
            return name in self.previous and self.previous[name] == sha256_file(path)
        try:
            check(path, entry)
        except Differs:
            return False
        return True

    def addresses(self, need: Need) -> list[tuple[str, str]]:
        """Where a need may be downloaded, as (name, URL), the mirror first; patterns never can."""
        if need.pattern:
            return []
        mirror = [(name, f"{self.address}/{quote(name)}") for name in need.names if self.address]
        return mirror + [(n, url) for n in need.names if (url := self.source(n).get("url"))]

    def take(self, name: str, path: Path) -> tuple[Path, File]:
        """Copy a file at hand, unless the folder holds it already, and check the copy."""
        target = path if path.is_relative_to(self.raw) else self.raw / name
        if path != target and not _same(path, target):
            target = self.incoming / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        try:
            checksum = check(target, self.source(name), self.project.relative(path))
        except Differs as error:
            if not path.is_relative_to(self.inbox):
                raise InputError(f"{error}; to use it all the same, put it into {self.place}") from None
            print(f"note: {error}; taken as it is, published counts become notes", file=sys.stderr)
            checksum = "differs"
        return target, self.file(name, target, checksum)

    def receive(self, need: Need) -> tuple[Path, File]:
        """Download the first of a need's files that a server has; raises `NotFound` where none has one."""
        answers = []
        for name, url in self.addresses(need):
            source, target = self.source(name), self.incoming / name
            try:
                with _bar(name) as progress:
                    received = download(
                        url,
                        target,
                        size=source.get("size"),
                        sha256=source.get("sha256"),
                        md5=source.get("md5"),
                        git_blob_sha1=source.get("git_blob_sha1"),
                        progress=progress,
                    )
            except NotFound as error:
                answers.append(str(error))
            except InputError as error:
                other = f"put {name} into {self.place} yourself, or set mirror: in params.yaml"
                raise InputError(f"{error}; to go on without it, {other}") from None
            else:
                return target, self.file(name, target, received.checksum, received.sha256)
        raise NotFound("; ".join(answers))

    def file(self, name: str, path: Path, checksum: str, sha256: str | None = None) -> File:
        """What the manifest says of a file."""
        source = self.source(name)
        return {
            "name": name,
            "url": source.get("url"),
            "size": path.stat().st_size,
            "sha256": sha256 or (source["sha256"] if checksum == "sha256" else sha256_file(path)),
            "licence": source.get("licence", self.bench.licence),
            "checksum": "none" if checksum == "size" else checksum,
        }

    def tell(self, need: Need, files: list[File]) -> None:
        """One line on what came."""
        if need.pattern and files:
            print(f"{self.bench.name}: {need}: {len(files):,} files, {sum(f['size'] for f in files):,} bytes")
            return
        for file in files:
            checked = {
                "none": f"no checksum is known, sha256 {file['sha256']} recorded",
                "differs": "differs",
            }
            said = checked.get(file["checksum"], f"{file['checksum']} matches")
            print(f"{self.bench.name}: {file['name']}: {file['size']:,} bytes, {said}")

    @property
    def place(self) -> str:
        """Where a user puts files, for messages."""
        return f"{self.project.relative(self.inbox)}/"

    def refuse(self, missing: Mapping[Need, str]) -> None:
        """Raise one error for all missing files and the servers' answers, if any are missing.

        It says how to get each file, where to put it, and how the other benchmarks go on.
        """
        if not missing:
            return
        lines = [f"{self.bench.name}: files are missing:"]
        for need, answers in missing.items():
            known = [self.sources[n] for n in self.sources if n in need.names or f"**/{n}" in need.names]
            access = dict.fromkeys(e["access"] for e in known if "access" in e) or [self.bench.access]
            lines.append(f"  {need}: {'; '.join([*access, answers] if answers else access)}")
        holds = sorted(p.relative_to(self.inbox).as_posix() for p in self.inbox.rglob("*") if p.is_file())
        state = f"it holds {few(holds)}" if holds else "it is empty"
        lines.append(f"put them into {self.place} ({state}) or into a mirror (mirror: in params.yaml)")
        lines.append("the other benchmarks go on with `dvc repro --keep-going`, then `dvc repro -s report`")
        raise InputError("\n".join(lines))

    def commit(self, files: Mapping[Path, File]) -> None:
        """Give the new files their names, remove what no longer belongs, write the manifest."""
        needed, removed = {file["name"] for file in files.values()}, []
        self.raw.mkdir(parents=True, exist_ok=True)
        (self.raw / MANIFEST).unlink(missing_ok=True)
        for path in sorted(self.raw.rglob("*"), reverse=True):  # a folder comes after what it holds
            if path.is_relative_to(self.incoming):
                continue
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif (name := path.relative_to(self.raw).as_posix()) not in needed:
                path.unlink()
                removed.append(name)
        if removed:
            print(f"{self.bench.name}: removed what no longer belongs: {few(sorted(removed))}")
        for path, file in files.items():
            (self.raw / file["name"]).parent.mkdir(parents=True, exist_ok=True)
            path.replace(self.raw / file["name"])  # nothing happens to those that are there already
        if self.incoming.exists():
            shutil.rmtree(self.incoming)
        _write_manifest(self.bench, "official", list(files.values()), self.raw)


def _mirror(project: Project, benchmark: str) -> tuple[Path | None, str | None]:
    """The benchmark's part of the mirror: a folder, or the address of one, or neither."""
    mirror = project.params().get("mirror")
    if mirror is None:
        return None, None
    if not isinstance(mirror, str) or not mirror:
        raise InputError(f"params.yaml: mirror is {mirror!r}; it should be null, a folder, or an http(s) address")
    if mirror.startswith(("http://", "https://")):
        return None, f"{mirror.rstrip('/')}/{benchmark}"
    folder = project.root / Path(mirror).expanduser()
    if not folder.is_dir():
        raise InputError(f"params.yaml: mirror is {mirror!r}, but there is no such folder")
    return folder / benchmark, None


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder, in linked folders too; raises `InputError` where links make a circle."""

    def fail(error: OSError) -> None:  # a folder that can't be read
        raise error

    seen = set()
    for at, _, files in os.walk(folder, onerror=fail, followlinks=True):
        real = Path(at).resolve()
        if real in seen:
            raise InputError(f"{at}: a link to a folder that is there already; remove the link")
        seen.add(real)
        yield from (Path(at, file) for file in files)


def _same(one: Path, other: Path) -> bool:
    """Whether two files have the same content."""
    return other.is_file() and one.stat().st_size == other.stat().st_size and sha256_file(one) == sha256_file(other)


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Progress | None]:
    """A progress bar for a download, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
