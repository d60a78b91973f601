"""The files that the servers of hidden test sets take: what they demand, writing them, checking them.

CIRR (version rc2) takes two files of its split test1, CIRCO one of its split test; `FORMS` says how they look.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rankledger.benchmarks.base import Plan
from rankledger.benchmarks.reading import repeated
from rankledger.predictions.reading import Ids, Reader
from rankledger.ranking.counting import Ragged
from rankledger.subset import Subset
from rankledger.tables import InputError, few, write_text

NUMBER = re.compile("0|[1-9][0-9]*")


@dataclass(frozen=True)
class Form:
    """What a server demands of one file: a JSON object with a list of candidates for each query.

    Attributes:
        benchmark, task, view: what is asked.
        name: what tells a benchmark's files apart.
        queries: how many lists.
        length: candidates in each list, best first.
        head: entries that are no query.
        numbers: whether ids are whole numbers, and queries are counted from 0; else ids are names.
        reference: whether the query's reference may be listed.
        most_bytes: the largest file that the server takes (5 MB, in its stricter sense); None where it does not say.
    """

    benchmark: str
    task: str
    view: str
    name: str
    queries: int
    length: int
    head: Mapping[str, str] = field(default_factory=dict)
    numbers: bool = False
    reference: bool = False
    most_bytes: int | None = None


FORMS = (
    *(
        Form("cirr", "test1", view, metric, 4148, length, {"version": "rc2", "metric": metric}, most_bytes=5_000_000)
        for view, metric, length in (("gallery", "recall", 50), ("group", "recall_subset", 3))
    ),
    Form("circo", "test", "all", "test", 800, 50, numbers=True, reference=True),
)


@dataclass(frozen=True)
class Asked:
    """What a subset asks in one view of a task: by query its reference and the candidates that a list may name."""

    references: Mapping[str, str]
    pools: Mapping[str, Set[str]]


@dataclass(frozen=True)
class Submission:
    """A server file as it was read.

    Attributes:
        form: what it is meant to be.
        size: of the file, in bytes.
        head, lists: the entries that are no query, and the others, as the JSON has them.
        twice: keys that stand there more than once.
    """

    form: Form
    size: int
    head: Mapping[str, Any]
    lists: Mapping[str, Any]
    twice: Sequence[str]


@dataclass(frozen=True)
class Check:
    """A rule of a server, and whether a file keeps it."""

    name: str
    ok: bool
    detail: str


def ask(subset: Subset, form: Form) -> Asked:
    """What a subset asks of this file."""
    trials = subset.trials.filter((pc.field("task") == form.task) & (pc.field("view") == form.view))
    pools: dict[str, set[str]] = {name: set() for name in trials["pool_id"].to_pylist()}
    rows = subset.pools.filter(pc.is_in(subset.pools["pool_id"], trials["pool_id"].combine_chunks()))
    for pool, candidate in zip(rows["pool_id"].to_pylist(), rows["candidate_id"].to_pylist(), strict=True):
        pools[pool].add(candidate)
    queries = subset.queries.filter(pc.field("task") == form.task)
    return Asked(
        dict(zip(queries["query_id"].to_pylist(), queries["reference_id"].to_pylist(), strict=True)),
        {q: pools[p] for q, p in zip(trials["query_id"].to_pylist(), trials["pool_id"].to_pylist(), strict=True)},
    )


# Writing ----------------------------------------------------------------------------------------------------


def rank(
    form: Form,
    subset: Subset,
    plan: Plan,
    files: Mapping[str, Path],
    cosine: bool,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> dict[str, list[str]]:
    """The best candidates of each query, as many as the server takes; {} where no prediction is of the task.

    Candidates that the protocol excludes, and the reference where the server refuses it, are left out. Equal
    scores: by id, descending, bytewise, as trec_eval does.

    Raises `InputError` where predictions are not as they should be. A list is shorter where a ranking is: that
    is for the caller to judge.
    """
    task = plan.task(form.task)
    sides = {
        side: Ids(subset.universe.filter(pc.field("side") == side)["id"])
        for side in (task.query_side, task.candidate_side)
    }
    queries = sides[task.query_side]
    trials = subset.trials.filter((pc.field("task") == form.task) & (pc.field("view") == form.view))
    wanted = queries.index(trials["query_id"])
    reader, own = Reader(files, sides, cosine), plan.files.get((form.task, form.view))
    names = [name for name in (own, form.task) if name]
    given = next(filter(None, (reader.read(task, name, wanted, "expected") for name in names)), None)
    if given is None or given.source is None:
        return {}
    candidates, source = given.candidates, given.source
    pool_ids = Ids(trials["pool_id"])
    owner = pool_ids.index(subset.pools["pool_id"])
    used = pa.array(owner >= 0)
    pools = Ragged.group(owner[owner >= 0], candidates.index(subset.pools["candidate_id"].filter(used)), len(pool_ids))
    given.demand_vectors(task, pools.values)
    out = _left_out(form, subset, queries, candidates)
    found: dict[str, list[str]] = {}
    asked_of = pool_ids.index(trials["pool_id"])
    for pool in range(len(pool_ids)):
        mine = wanted[asked_of == pool]
        for query, best in zip(queries.names(mine), source.top(pools[pool], mine, out, form.length), strict=True):
            found[query] = candidates.names(best)
            progress(f"{form.task} {form.view}", len(found), len(wanted))
    return found


def _left_out(form: Form, subset: Subset, queries: Ids, candidates: Ids) -> Ragged:
    """By query, the candidates that leave its pools."""
    tables = [subset.exclusions]
    if not form.reference:
        tables.append(subset.queries.rename_columns({"reference_id": "candidate_id"}))
    pairs = [t.filter(pc.field("task") == form.task) if "task" in t.column_names else t for t in tables]
    rows = pa.concat_tables(t.select(["query_id", "candidate_id"]) for t in pairs)
    query, candidate = queries.index(rows["query_id"]), candidates.index(rows["candidate_id"])
    known = (query >= 0) & (candidate >= 0)
    return Ragged.group(query[known], candidate[known], len(queries))


def write(form: Form, lists: Mapping[str, Sequence[str]], path: Path) -> None:
    """Write the file, queries in the order of their numbers."""
    ordered = sorted(lists, key=lambda query: (len(query), query))
    entries = {q: [int(c) for c in lists[q]] if form.numbers else list(lists[q]) for q in ordered}
    write_text(json.dumps({**form.head, **entries}, ensure_ascii=False), path)


# Reading and checking ---------------------------------------------------------------------------------------


class _Repeated(dict[str, Any]):
    """A JSON object that remembers the keys that it had more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]):
        super().__init__(pairs)
        self.twice = [key for key, n in Counter(key for key, _ in pairs).items() if n > 1]


def read(path: Path) -> Submission:
    """Read a server file, recognised by its content; raises `InputError` where it is none."""
    try:
        content = path.read_bytes()
        found = json.loads(content.decode(), object_pairs_hook=_Repeated, parse_constant=_no_constant)
        json.dumps(found, ensure_ascii=False).encode()  # JSON can write half a character, which is no text
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); a server file is a JSON object in UTF-8") from None
    form = _recognise(found)
    if form is None:
        raise InputError(
            f"{path}: no server file of CIRR or CIRCO; they look like "
            '{"version": "rc2", "metric": "recall", "12063": ["test1-38-2-img1", …], …} and {"0": [544864, …], …}'
        )
    head = {key: value for key, value in found.items() if key in form.head}
    lists = {key: value for key, value in found.items() if key not in form.head}
    return Submission(form, len(content), head, lists, found.twice)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _recognise(found: Any) -> Form | None:
    """CIRR by its head or its names, CIRCO by its numbers; CIRR's two by the length of their lists, or the metric."""
    lists = [value for value in found.values() if isinstance(value, list)] if isinstance(found, dict) else []
    if not lists:
        return None
    names = sum(isinstance(c, str) and not _is_number(c) for c in lists[0])
    cirr = 2 * names > len(lists[0]) or bool({"version", "metric"} & found.keys())
    length = Counter(map(len, lists)).most_common(1)[0][0]
    forms = [form for form in FORMS if form.numbers != cirr]
    by_length = [form for form in forms if form.length == length]
    by_metric = [form for form in forms if form.head.get("metric") == found.get("metric")]
    return (by_length or by_metric or forms)[0]


def _is_number(value: object) -> bool:
    """Whether it is a whole number, or a string of one."""
    return type(value) is int or (isinstance(value, str) and bool(NUMBER.fullmatch(value)))


def check(found: Submission, asked: Asked | None) -> list[Check]:
    """Every rule of the server, one after the other; those on ids only where it is known what is `asked`."""
    return [*_form(found), *(_ids(found, asked) if asked else ())]


def ranked(found: Submission, path: Path) -> dict[str, list[str]]:
    """The lists, of any number and length, ids as strings; raises `InputError` where one is no ranking."""
    strange = [repr(q) for q, listed in found.lists.items() if not listed or not _holds(listed, (str, int))]
    rules = [
        _rule("lists", strange, "entries are no list of ids, strings or whole numbers", ""),
        *(rule for rule in _form(found) if rule.name in ("keys", "distinct")),
    ]
    for rule in rules:
        if not rule.ok:
            raise InputError(f"{path}: {rule.detail}")
    return {query: list(map(str, listed)) for query, listed in found.lists.items()}


def _form(found: Submission) -> Iterator[Check]:
    form = found.form
    if form.most_bytes is not None:
        fits = found.size <= form.most_bytes
        yield Check("size", fits, f"{found.size:,} bytes; the server takes {form.most_bytes:,} at most")
    for key, value in form.head.items():
        said = json.dumps(found.head[key], ensure_ascii=False)[:40] if key in found.head else "absent"
        yield Check(key, found.head.get(key) == value, f'{said}; with lists of {form.length} it should be "{value}"')
    yield _rule("keys", map(repr, found.twice), "keys stand there more than once", "each stands there once")
    yield _queries(found)
    kind, types = ("whole numbers", (int,)) if form.numbers else ("strings", (str,))
    strange = [repr(q) for q, listed in found.lists.items() if not _holds(listed, types)]
    yield _rule("lists", strange, f"entries are no list of {kind}", f"each entry is a list of {kind}")
    lists = {q: list(map(str, listed)) for q, listed in found.lists.items() if isinstance(listed, list)}
    lengths = [f"{q!r} has {len(listed)}" for q, listed in lists.items() if len(listed) != form.length]
    yield _rule("length", lengths, f"lists are not of {form.length}", f"each list has {form.length}")
    again = [(q, listed[i]) for q, listed in lists.items() for i in repeated(listed)[:1]]
    pairs = [f"{q!r} has {candidate!r} twice" for q, candidate in again]
    yield _rule("distinct", pairs, "lists name a candidate more than once", "no list names a candidate twice")


def _queries(found: Submission) -> Check:
    """The number of queries, and what is known of their ids without a look-up."""
    form = found.form
    known = set(map(str, range(form.queries))) if form.numbers else None
    strange = [q for q in found.lists if not _is_number(q) or (known and q not in known)]
    more = f"; {len(strange)} keys are no query ids: {few(strange)}" if strange else ""
    return Check(
        "queries", len(found.lists) == form.queries and not more, f"{len(found.lists):,} of {form.queries:,}{more}"
    )


def _holds(listed: object, types: tuple[type, ...]) -> bool:
    """Whether it is a list of these; a whole number may be written as a string too, as CIRCO's server takes it."""
    return isinstance(listed, list) and all(type(c) in types or (str not in types and _is_number(c)) for c in listed)


def _ids(found: Submission, asked: Asked) -> Iterator[Check]:
    form, place = found.form, "group" if found.form.view == "group" else "gallery"
    wrong = [f"{q!r} is missing" for q in asked.pools if q not in found.lists]
    wrong += [f"{q!r} is unknown" for q in found.lists if q not in asked.pools]
    yield _rule("query-ids", wrong, f"differences from the queries of {form.task}", f"those of {form.task}")
    lists = {q: set(map(str, v)) for q, v in found.lists.items() if q in asked.pools and isinstance(v, list)}
    beyond = {q: sorted(listed - asked.pools[q] - {asked.references[q]}) for q, listed in lists.items()}
    foreign = [f"{q!r} has {few(names, 1)}" for q, names in beyond.items() if names]
    yield _rule(place, foreign, f"lists name a candidate outside the {place}", f"all candidates are of the {place}")
    if not form.reference:
        named = [repr(q) for q, listed in lists.items() if asked.references[q] in listed]
        yield _rule("reference", named, "lists name the query's own reference", "no list names the query's reference")


def _rule(name: str, wrong: Iterable[str], what: str, good: str) -> Check:
    """Failed where anything is wrong, with how much, what, and the first few."""
    wrong = list(wrong)
    more = ", …" if len(wrong) > 3 else ""
    return Check(name, not wrong, f"{len(wrong):,} {what}: {', '.join(wrong[:3])}{more}" if wrong else good)
