"""What a benchmark tells the pipeline: its files, its tables and its plan, all of it data."""

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from rankledger.subset import Subset
from rankledger.tables import InputError

Key = tuple[str, ...]  # a path below run → benchmark in metrics.json, e.g. ("val", "R@1")
TIES = ("expected", "trec", "pessimistic", "optimistic")


def normalise(label: str) -> str:
    """The hyphenated form of a label: lower case, accents off, spaces and apostrophes → `-`.

    >>> normalise("Très facile"), normalise("huile d'olive")
    ('tres-facile', 'huile-d-olive')
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", label) if not unicodedata.combining(c))
    return re.sub(r"[\s'’-]+", "-", plain.strip().lower())


@dataclass(frozen=True)
class Task:
    """A task of a benchmark: what is asked of which side.

    Attributes:
        name: as in the tables and in metrics.json.
        query_side, candidate_side: sides of `universe.parquet`, and names of the embedding files.
        guided_side: the side that the shipped run `sample` moves towards the right answers.
        ties: the protocol's tie rule, one of `TIES`.
        missing: what a query without a prediction is: an "error", or "zero" where the protocol counts it 0.
        noise: whether a candidate outside the universe takes its rank (as in trec_eval) instead of being an error.
        labels: for a label task, its classes in their order; a query then has one answer and no ranking.
        hidden: whether the right answers are known to the benchmark's server only.
    """

    name: str
    query_side: str = "query"
    candidate_side: str = "image"
    guided_side: str = "query"
    ties: str = "expected"
    missing: str = "error"
    noise: bool = False
    labels: tuple[str, ...] = ()
    hidden: bool = False


@dataclass(frozen=True)
class Measure:
    """A row of the plan: one metric over the trials of one view of one task.

    Attributes:
        task, view: which trials.
        metric: a metric of `rankledger.ranking` in its printed form, e.g. "R@10", "AP(denominator=min)@5".
        key: where its value stands in metrics.json below run → benchmark; the last part names its per-query column.
        std: whether the standard deviation over the repeats stands beside it, as `<name>_std`.
        where: (column, value): only queries whose column in `queries.parquet` is, or has in its list, this value.
    """

    task: str
    view: str
    metric: str
    key: Key
    std: bool = False
    where: tuple[str, str] | None = None


@dataclass(frozen=True)
class Mean:
    """A row of the plan: the unweighted mean of other rows; absent where one of them is."""

    key: Key
    of: tuple[Key, ...]


@dataclass(frozen=True)
class Plan:
    """What a benchmark reports.

    Attributes:
        tasks: its tasks under the given parameters.
        measures: metrics, in the order in which they are shown.
        means: means of metrics (or of earlier means), in order.
        files: predictions of a view that may come in a file of their own: (task, view) → file name without suffix.
            Without that file the task's own file serves.
        percent: whether values are in percent (ranks never are).
        main: the metric that stands for the benchmark where there is room for one only; None: the first measure.
    """

    tasks: tuple[Task, ...]
    measures: tuple[Measure, ...]
    means: tuple[Mean, ...] = ()
    files: Mapping[tuple[str, str], str] = field(default_factory=dict)
    percent: bool = True
    main: Key | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """What files of embeddings are called."""
        ranked = [t for t in self.tasks if not t.labels]
        return tuple(dict.fromkeys(side for t in ranked for side in (t.query_side, t.candidate_side)))

    @property
    def file_names(self) -> tuple[str, ...]:
        """What files of all other predictions are called: the tasks, and views with a file of their own."""
        return (*(t.name for t in self.tasks), *self.files.values())

    def task(self, name: str) -> Task:
        """The task of that name (`KeyError` where there is none)."""
        return {t.name: t for t in self.tasks}[name]


@dataclass(frozen=True)
class Expected:
    """What `validate` demands of a subset.

    Attributes:
        pool_sizes: (task, view) → size of every pool.
        odd_pools: pool_id → its own size, where the official data breaks the rule.
        counts: published numbers by a name such as "queries of val" → (table, filter, number); see `Count`.
        unanswerable: (task, view) → why queries may have no right answer in their pool (a note, not a failure).
    """

    pool_sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    odd_pools: Mapping[str, int] = field(default_factory=dict)
    counts: tuple["Count", ...] = ()
    unanswerable: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Count:
    """A published number: how many distinct queries, or candidates, a view of a task has.

    `what` is "queries", "candidates" or "unanswerable" (queries without a right answer in their pool).
    Checked where the checksum of every source file is known and matched; elsewhere, and where nobody has counted those
    very files (not `certain`), a difference is a note.
    """

    what: str
    task: str
    view: str
    number: int
    certain: bool = True


class Benchmark(ABC):
    """A benchmark; each module of this package makes one and calls it `BENCHMARK`.

    Attributes:
        name, title: the id, and the name as its authors write it.
        paper, year, url: where it is described, when that appeared, and its page.
        licence, access: under which terms, and how one gets the files.
        defaults: every parameter with its default; `source` ("sample" or "official") belongs to all benchmarks.
        choices: parameters that take one of a few values (for a list: each element does).
        ties_fixed: whether the protocol fixes each task's tie rule; where it does not, `ties` is a parameter too.
        variants: kinds of run that must name themselves and never share a row; none where runs are all of one kind.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    url: ClassVar[str]
    licence: ClassVar[str]
    access: ClassVar[str]
    defaults: ClassVar[dict[str, Any]] = {}
    choices: ClassVar[dict[str, tuple[Any, ...]]] = {}
    ties_fixed: ClassVar[bool] = False
    variants: ClassVar[tuple[str, ...]] = ()

    def parameters(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """All parameters, defaults filled in; raises `InputError` on an unknown name or a value out of choice."""
        ties = {} if self.ties_fixed else {"ties": "expected"}
        defaults = {"source": "sample", **ties, **self.defaults}
        choices = {"source": ("sample", "official"), "ties": TIES, **self.choices}
        given = dict(given or {})
        for name, value in given.items():
            where = f"params.yaml: benchmarks.{self.name}.{name}"
            if name not in defaults:
                raise InputError(f"{where} is not a parameter; there are: {', '.join(defaults)}")
            default, options = defaults[name], choices.get(name, ())
            several = isinstance(default, list)
            free = default is None or (options and not several)  # a choice may mix types, as in ("class", 3)
            if not free and type(value) is not type(default):
                raise InputError(f"{where} is {value!r}; it should be a {type(default).__name__} such as {default!r}")
            if several and (not value or len(set(map(repr, value))) < len(value)):
                raise InputError(f"{where} is {value!r}; it should be a list of distinct values, such as {default!r}")
            for one in value if several else [value]:
                if options and not any(type(one) is type(option) and one == option for option in options):
                    raise InputError(f"{where} is {one!r}; it should be one of: {', '.join(map(str, options))}")
        return {**defaults, **given}

    @abstractmethod
    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """The official files that these parameters need, by name in `data/sources.yaml`.

        Alternatives are written "layer2+.json|layer2.json" (the first one found serves), optional ones "vocab.txt?".
        """

    @abstractmethod
    def sample(self, folder: Path) -> None:
        """Write a small made-up data set in the official formats and under the official names; same bytes each time."""

    @abstractmethod
    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """The tables from the raw files, and notes for the manifest; raises `InputError` where a file is bad."""

    @abstractmethod
    def plan(self, parameters: Mapping[str, Any]) -> Plan:
        """The tasks and metrics under these parameters."""

    def expected(self, parameters: Mapping[str, Any]) -> Expected:
        """What `validate` demands under these parameters."""
        return Expected()
