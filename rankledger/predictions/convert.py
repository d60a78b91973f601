"""Predictions in other formats, recognised by their content, brought into the Parquet kinds of the contract."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from rankledger.benchmarks.base import normalise
from rankledger.benchmarks.reading import repeated
from rankledger.predictions import server
from rankledger.predictions.arrays import convert_array
from rankledger.predictions.trec import read_run
from rankledger.tables import InputError, few, write_table

SEEN = 1 << 16  # bytes that are looked at to recognise a format
GZIP, NUMPY, PARQUET, ZIP = b"\x1f\x8b", b"\x93NUMPY", b"PAR1", b"PK\x03\x04"
FORMATS = (
    "a TREC run (DEFT's trec_eval form too), DEFT's two columns apart by a tab, a server file of CIRR or CIRCO, "
    "or a NumPy array (.npy, .npz)"
)


def convert(path: Path, out: Path, ids: Path | None = None, candidates: Path | None = None) -> str:
    """Write the predictions in `path` as Parquet to `out`, ids as strings; says what they are.

    A TREC run gives scores (its iteration and rank columns are ignored); a server file of CIRR or CIRCO a ranking;
    DEFT's `id<TAB>label` labels in their hyphenated form, its `id<TAB>title` a ranking of one; a NumPy array
    embeddings or scores, see `arrays.convert_array`, which takes the ids of its rows and columns from files.

    Raises `InputError` where the content is none of these, or not as it should be.
    """
    try:
        with path.open("rb") as file:
            start = file.read(SEEN)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise InputError(f"{path}: {reason}") from None
    if start.startswith((NUMPY, ZIP)):
        return convert_array(path, out, ids, candidates)
    if ids or candidates:
        raise InputError(f"{path}: no NumPy array, so it has its ids in it; leave --ids and --candidates out")
    if start.startswith(PARQUET):
        raise InputError(f"{path}: Parquet already; `rankledger add` takes it as it is")
    if start.startswith(GZIP):
        return _write_scores(read_run(path), path, out)
    if start.lstrip()[:1] == b"{":
        return _write_lists(server.ranked(server.read(path), path), out)
    lines = [line.split(b"\t") for line in start.split(b"\n")]
    if len(lines[0]) == 2 and len(lines[0][0].split()) == 1:
        return _two_columns(path, out)
    if any(len(line) == 6 and b" " in line[2].strip() for line in lines):
        return _write_scores(_spaced_run(path), path, out)
    if len(b" ".join(lines[0]).split()) >= 6:
        return _write_scores(read_run(path), path, out)
    raise InputError(f"{path}: no format that convert reads; it reads {FORMATS}")


def _two_columns(path: Path, out: Path) -> str:
    """DEFT's `id<TAB>answer`: labels where most answers are those of one task, else titles."""
    from rankledger.benchmarks.deft2013 import DISHES, LEVELS

    recipes, answers = _columns(path, 2)
    again = dict.fromkeys(recipes[i] for i in repeated(recipes))
    if again:
        raise InputError(f"{path}: {len(again)} ids stand there more than once: {few(again)}; each has one answer")
    labels = [normalise(answer) for answer in answers]
    known = max((LEVELS, DISHES), key=lambda some: sum(label in some for label in labels))
    strange = [answer for answer, label in zip(answers, labels, strict=True) if label not in known]
    if 2 * len(strange) > len(labels):
        return _write_lists({recipe: [title] for recipe, title in zip(recipes, answers, strict=True)}, out)
    if strange:
        raise InputError(f"{path}: {len(strange)} answers are no label: {few(strange)}; there are {', '.join(known)}")
    write_table(pa.table({"query_id": pa.array(recipes, pa.string()), "label": pa.array(labels, pa.string())}), out)
    return f"labels of {len(labels):,} recipes"


def _spaced_run(path: Path) -> pa.Table:
    """A run in trec_eval's six columns, apart by tabs alone, whose candidates (titles) have spaces in them."""
    queries, _, candidates, _, texts, _ = _columns(path, 6)
    try:
        scores = pa.array(texts).cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: a score is no number ({error}); numbers look like 0.9, -3 or 1e-5") from None
    wrong = 1 + np.flatnonzero(np.isnan(scores))
    if len(wrong):
        raise InputError(f"{path}: {len(wrong)} scores are NaN, line {few(wrong)}; ±inf is allowed")
    query, candidate = (pa.array(column).dictionary_encode() for column in (queries, candidates))
    return pa.table({"query_id": query, "candidate_id": candidate, "score": scores})


def _columns(path: Path, n: int) -> list[tuple[str, ...]]:
    """The columns of a text with n of them, apart by tabs, without the spaces around them."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error}); save it as UTF-8") from None
    rows = [[cell.strip() for cell in line.split("\t")] for line in text.rstrip().split("\n")]
    wrong = [i for i, row in enumerate(rows, 1) if len(row) != n or not all(row)]
    if wrong:
        raise InputError(
            f"{path}: {len(wrong)} lines have not {n} columns apart by tabs, all filled: line {few(wrong)}"
        )
    return list(zip(*rows, strict=True))


def _write_scores(run: pa.Table, path: Path, out: Path) -> str:
    query, candidate = (run[name].combine_chunks() for name in ("query_id", "candidate_id"))
    pair = np.asarray(query.indices, np.int64) * len(candidate.dictionary) + np.asarray(candidate.indices)
    order = np.argsort(pair, kind="stable")
    again = np.sort(order[1:][np.diff(pair[order]) == 0])
    if len(again):
        pairs = few(f"{query[int(i)]} / {candidate[int(i)]}" for i in again[:4])
        raise InputError(
            f"{path}: {len(again)} pairs of query and candidate stand there twice: {pairs}; keep one line each"
        )
    write_table(run, out)
    return f"scores of {len(run):,} pairs, {len(query.dictionary):,} queries"


def _write_lists(lists: Mapping[str, Sequence[str]], out: Path) -> str:
    queries = sorted(lists)
    ranked = pa.array([lists[query] for query in queries], pa.list_(pa.string()))
    write_table(pa.table({"query_id": pa.array(queries, pa.string()), "candidate_ids": ranked}), out)
    shortest, longest = (pick(map(len, lists.values())) for pick in (min, max))
    depth = f"{shortest} to {longest}" if shortest < longest else f"{longest}"
    return f"rankings of {len(queries):,} queries, {depth} deep"
