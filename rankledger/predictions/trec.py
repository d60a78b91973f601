"""TREC text: runs and qrels, lines of columns apart by any white space, plain or gzipped.

Ids come through as they are, byte for byte: no quoting, no escapes. What trec_eval would read silently as
something else is an error here: a decimal comma (it reads 0), NaN, a byte order mark (it loses a line).
"""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.predictions.rows import Odd
from rankledger.ranking.stands import Floats
from rankledger.ranking.threads import in_parallel
from rankledger.tables import InputError, few, plural

BLOCK_BYTES = 1 << 20  # so that what is made of it stays in the cache of a core
BYTE_ORDER_MARK = "\ufeff"


def read_run(path: Path) -> pa.Table:
    """A run: query_id and candidate_id (dictionaries of strings) and score (double), a row for each line.

    Columns of a line: query, iteration, candidate, rank, score, run id. Iteration, rank, run id and anything
    after it are ignored. Scores may be infinite.

    Raises `InputError` naming lines: too few columns, a score that is no number, or the file is none of text.
    """
    return _read(path, _RUN)


def run_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The same, some lines at a time; raises `Odd` where `read_run` says what is wrong."""
    lines = 0
    for batch in in_parallel(_run_batch, _blocks(path)):
        lines += len(batch)
        yield batch
    if not lines:
        raise Odd


def read_qrels(path: Path) -> pa.Table:
    """Qrels: query_id and candidate_id (dictionaries of strings) and relevance (double), a row for each line.

    Columns of a line: query, iteration (ignored), candidate, relevance.

    Raises `InputError` naming lines: not four columns, a relevance that is no finite number, or the file is
    none of text.
    """
    return _read(path, _Form("qrels have", ("query", "iteration", "candidate", "relevance"), "relevance", more=False))


def _run_batch(block: bytes) -> pa.RecordBatch:
    tokens, first, width = _split(block)
    if _stray(block) or width.min() < len(_RUN.columns):
        raise Odd
    score = _numbers(_pick(tokens, first + _RUN.columns.index("score")))
    query, candidate = (_pick(tokens, first + _RUN.columns.index(name)) for name in ("query", "candidate"))
    if np.isnan(score).any() or not (_readable(block, query) and _readable(block, candidate)):
        raise Odd
    runs = pc.run_end_encode(query)
    index = np.repeat(np.arange(len(runs.values), dtype=np.int32), np.diff(np.asarray(runs.run_ends), prepend=0))
    named = pa.DictionaryArray.from_arrays(index, runs.values.view(pa.string()))
    columns = [named, candidate.view(pa.string()), pa.array(score)]
    return pa.RecordBatch.from_arrays(columns, ["query_id", "candidate_id", "score"])


def _readable(block: bytes, ids: pa.Array) -> bool:
    """Whether ids from it are UTF-8 and none begins with a byte order mark."""
    if block.isascii():
        return True
    try:
        return not pc.any(pc.starts_with(ids.cast(pa.string()), BYTE_ORDER_MARK)).as_py()
    except pa.ArrowInvalid:
        return False


class _Form(NamedTuple):
    """What a line holds; `more`: whether further columns are allowed and ignored."""

    what: str
    columns: tuple[str, ...]
    value: str
    more: bool


_RUN = _Form("a run has", ("query", "iteration", "candidate", "rank", "score", "run id"), "score", more=True)


@dataclass
class _Wrong:
    """Lines that are wrong in one way: how many, and a few words on the first."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, count: int, words: Iterable[str]) -> None:
        self.count += count
        self.first += [w for _, w in zip(range(4 - len(self.first)), words, strict=False)]

    def __str__(self) -> str:
        return "; ".join(self.first[:3]) + ("; …" if self.count > 3 else "")


def _read(path: Path, form: _Form) -> pa.Table:
    parts: dict[str, list[pa.Array]] = {"query": [], "candidate": []}
    values = [np.zeros(0)]
    columns, numbers = _Wrong(), _Wrong()
    lines = 0  # read so far
    for block in _blocks(path):
        if stray := _stray(block):
            place, what = stray
            line_number = lines + 1 + block.count(b"\n", 0, place)
            raise InputError(f"{path}: line {line_number} holds {what}")
        tokens, first, width = _split(block)
        line = lines + 1 + np.arange(len(width))
        lines += len(width)
        fits = width >= len(form.columns) if form.more else width == len(form.columns)
        odd = np.flatnonzero(~fits)
        columns.add(len(odd), (f"line {line[i]} has {width[i]}" for i in odd))
        first, line = first[fits], line[fits]
        for name, part in parts.items():
            part.append(_pick(tokens, first + form.columns.index(name)).dictionary_encode())
        texts = _pick(tokens, first + form.columns.index(form.value))
        found = _numbers(texts)
        bad = np.flatnonzero(np.isnan(found) if form.value == "score" else ~np.isfinite(found))
        numbers.add(len(bad), (f"{texts[i].as_py().decode(errors='replace')!r} in line {line[i]}" for i in bad))
        values.append(found)
    if not lines:
        raise InputError(f"{path}: no lines; {form.what} the columns {', '.join(form.columns)}")
    if columns.count:
        least = " or more" if form.more else ""
        raise InputError(
            f"{path}: {plural(columns.count, 'line')} not of {len(form.columns)}{least} columns ({columns}); "
            f"{form.what} {', '.join(form.columns)}"
        )
    ids = {name: _ids(path, part) for name, part in parts.items()}
    if numbers.count:
        raise InputError(
            f"{path}: {plural(numbers.count, 'line')} whose {form.value} is no number ({numbers}); "
            f"numbers look like 0.9, -3 or 1e-5"
        )
    return pa.table({"query_id": ids["query"], "candidate_id": ids["candidate"], form.value: np.concatenate(values)})


def _blocks(path: Path) -> Iterator[bytes]:
    """The file's text in pieces of whole lines, each with its line end; blank lines at the end left out."""
    text = b""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if zipped else raw as file:
                while block := file.read(BLOCK_BYTES):
                    text += block
                    written = len(text.rstrip())
                    end = written and (text.find(b"\n", written) + 1 or text.rfind(b"\n") + 1)
                    if end:
                        yield text[:end]
                    elif len(text) > 2 * BLOCK_BYTES:
                        raise InputError(f"{path}: not lines of text (none ends within {len(text)} bytes)")
                    text = text[end:]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a whole gzip file ({error}); copy it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if text.strip():
        yield text.rstrip() + b"\n"


def _stray(block: bytes) -> tuple[int, str] | None:
    """The place of a byte that no line should hold, and what to say of it."""
    if b"\0" in block:
        return block.index(b"\0"), "zero bytes; save the file as UTF-8"
    if b"\r" in block and (lone := re.search(rb"\r(?![\r\n])", block)):
        return lone.start(), "a carriage return; end lines with \\n"
    return None


def _split(block: bytes) -> tuple[pa.Array, NDArray[np.int32], NDArray[np.int32]]:
    """Tokens and white space by turns, as an array; by line the first token's number, and how many there are.

    White space is what C's isspace takes for it, and nothing that may stand inside a UTF-8 character.
    """
    data = np.frombuffer(block, np.uint8)
    space = (data == ord(" ")) | (data - np.uint8(9) < 5)  # \t \n \v \f \r; below 9 it wraps around
    edges = np.flatnonzero(space[1:] != space[:-1]).astype(np.int32) + np.int32(1)
    if not space[0]:
        edges = np.concatenate((np.zeros(1, np.int32), edges))
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(block)]
    tokens = pa.BinaryArray.from_buffers(pa.binary(), max(len(edges) - 1, 0), buffers)
    ends = np.flatnonzero(data == ord("\n")).astype(np.int32)
    first = np.zeros(len(ends) + 1, np.int32)
    first[1:] = np.searchsorted(edges[::2], ends)
    return tokens, first[:-1], np.diff(first)


def _pick(tokens: pa.Array, number: NDArray[np.int32]) -> pa.Array:
    return tokens.take(pa.array(2 * number))


def _numbers(texts: pa.Array) -> Floats:
    """Each as a number; NaN where it is none."""
    try:
        return np.asarray(texts.cast(pa.float64()))
    except pa.ArrowInvalid:
        return np.array([_number(text) for text in texts.to_pylist()])


def _number(text: bytes) -> float:
    return (
        float(text) if re.fullmatch(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf(inity)?", text, re.I) else np.nan
    )


def _ids(path: Path, parts: list[pa.Array]) -> pa.DictionaryArray:
    """The ids of all blocks with one dictionary of strings."""
    array = pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    try:
        known = array.dictionary.cast(pa.string())
    except pa.ArrowInvalid:
        raise _bad_ids(path, array, map(_undecodable, array.dictionary.to_pylist()), "that are not UTF-8") from None
    marked = pc.starts_with(known, BYTE_ORDER_MARK)
    if pc.any(marked).as_py():
        raise _bad_ids(path, array, marked.to_pylist(), "that begin with a byte order mark")
    return pa.DictionaryArray.from_arrays(array.indices, known)


def _undecodable(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return True
    return False


def _bad_ids(path: Path, array: pa.DictionaryArray, bad: Iterable[bool], what: str) -> InputError:
    lines = 1 + np.flatnonzero(np.fromiter(bad, bool)[np.asarray(array.indices)])
    return InputError(
        f"{path}: {plural(len(lines), 'line')} with ids {what} (line {few(lines)}); save the file as plain UTF-8"
    )
