"""Scores a run on a subset: predictions and tables in, per-query values and metrics out. It knows no benchmark."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.benchmarks.base import Key, Measure, Plan, Task
from rankledger.predictions.reading import Given, Ids, Reader, check_names
from rankledger.ranking import labels, metrics
from rankledger.ranking.blocks import Engine
from rankledger.ranking.counting import LISTED, Judged, Ragged, Trials, stand, stand_both
from rankledger.ranking.levels import Constant, perfect
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.stands import Floats, Ints, Stands, settle
from rankledger.subset import Subset
from rankledger.tables import InputError, few


class Value(NamedTuple):
    """A metric's value in its unit.

    Attributes:
        mean: over the repeats; with one repeat, its value.
        std: population standard deviation over the repeats.
        n: queries in a repeat.
        repeats: number of repeats.
        metric: the metric's printed form, e.g. "R@10".
        unit: percent, fraction, rank or count.
        higher_is_better: its direction.
        shows_std: whether the standard deviation is reported beside it.
        chance: the value of constant scores, ties counting as their mean; None for label tasks.
        ceiling: the value of a perfect ranking of the same pools, with P@10 well below 1 where few are right.
    """

    mean: float
    std: float
    n: int
    repeats: int
    metric: str
    unit: str
    higher_is_better: bool
    shows_std: bool
    chance: float | None = None
    ceiling: float | None = None


@dataclass
class Scored:
    """What a run reaches on a subset.

    Attributes:
        values: by key, in the order of the plan; what can't be computed is left out, and a note says why.
        tables: per task the per-query values: task, view, repeat, query_id, rank_min, rank_max, n_candidates and a
            column a metric, in the metric's unit.
        notes: what a reader must know.
    """

    values: dict[Key, Value] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def score(
    subset: Subset,
    plan: Plan,
    files: Mapping[str, Path],
    similarity: str = "cosine",
    ties: str | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, of: None,
    engine: Engine = map,
) -> Scored:
    """Score the predictions in `files` (name → path) on a subset.

    Args:
        subset: the tables.
        plan: what the benchmark reports.
        files: prediction files by task or side.
        similarity: of embeddings: cosine or dot.
        ties: the tie rule, where it is not the tasks' own.
        progress: told what is being ranked, how many trials are done, of how many.
        engine: what counts the blocks of embeddings; see `rankledger.ranking.cluster`.

    Raises:
        InputError: a file is not as it should be; the message names it, the rows and what to do.
    """
    check_names(files, plan)
    found = Scored()
    board = _Board(subset, plan, files, similarity == "cosine", ties, progress, engine, found.notes)
    for task in plan.tasks:
        board.score_task(task, found)
    board.note_unused()
    if idle := [str(path) for name, path in files.items() if name not in board.used]:
        sides = dict.fromkeys(f"{t.query_side} + {t.candidate_side}" for t in plan.tasks if not t.labels)
        raise InputError(
            f"{few(idle)}: no task uses it; a task's own file goes first, and embeddings need the files of both its "
            f"sides ({', '.join(sides)})"
        )
    for mean in plan.means:
        parts = {key: found.values[key] for key in mean.of if key in found.values}
        if len(parts) == len(mean.of):
            found.values[mean.key] = _mean(parts)
    return found


def _mean(of: Mapping[Key, Value]) -> Value:
    """The mean of some values; its queries are those of each task (the first part of a key), once."""
    first, *_ = parts = list(of.values())
    return first._replace(
        mean=math.fsum(p.mean for p in parts) / len(parts),
        std=0.0,
        n=sum({key[0]: value.n for key, value in of.items()}.values()),
        metric="mean(" + ", ".join(dict.fromkeys(p.metric for p in parts)) + ")",
        shows_std=False,
        chance=_mean_of_all([p.chance for p in parts]),
        ceiling=_mean_of_all([p.ceiling for p in parts]),
    )


def _mean_of_all(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) else None


class _View(NamedTuple):
    """The trials of one view of a task, in the order of the per-query table."""

    name: str
    queries: Ints
    pools: Ints
    repeat: Ints


class _Board:
    """The subset's tables as indices, shared by the tasks."""

    def __init__(
        self,
        subset: Subset,
        plan: Plan,
        files: Mapping[str, Path],
        cosine: bool,
        ties: str | None,
        progress: Callable[[str, int, int], None],
        engine: Engine,
        notes: list[str],
    ):
        self.subset, self.plan, self.files, self.ties, self.progress = subset, plan, files, ties, progress
        self.engine, self.notes = engine, notes
        sides = pc.unique(subset.universe["side"]).to_pylist()
        self.universe = {s: Ids(_where(subset.universe, "side", s)["id"]) for s in sides}
        self.reader = Reader(files, self.universe, cosine)
        self.pool_names = Ids(subset.pools["pool_id"])
        self.pool_owner = self.pool_names.index(subset.pools["pool_id"])
        self.read: dict[str, tuple[list[_View], dict[str, Given]]] = {}
        self.ahead: dict[tuple[str, str], tuple[Stands, Ints]] = {}  # what was found beside another task's
        self.used: set[str] = set()
        # by file and side, the ids that it holds and those that trials ask for
        self.held: dict[tuple[str, str], NDArray[np.bool_]] = {}
        self.asked: dict[tuple[str, str], NDArray[np.bool_]] = {}

    def score_task(self, task: Task, found: Scored) -> None:
        """Read a task's predictions, rank them in every view, add its values and its table."""
        views, given = self._read(task)
        if not given:
            return
        for g in given.values():
            self.used.update(g.names)
        self._account(task, views, given)
        if task.hidden:
            self.notes.append(
                f"{task.name}: the right answers are hidden; `rankledger submit` writes the server's files"
            )
        tables = []
        for view in views:
            measures = [m for m in self.plan.measures if (m.task, m.view) == (task.name, view.name)]
            if view.name not in given:
                self.notes.append(f"{task.name}: no predictions for the view {view.name}")
            elif task.labels:
                tables.append(self._label_view(task, view, given[view.name], measures, found))
            else:
                table = self._ranked_view(task, view, given[view.name], measures, found)
                if table is not None:
                    tables.append(table)
        if tables and not task.hidden:
            found.tables[task.name] = pa.concat_tables(tables, promote_options="default")

    def _read(self, task: Task) -> tuple[list[_View], dict[str, Given]]:
        """The views of a task, and by view its predictions, where there are some."""
        if task.name in self.read:
            return self.read[task.name]
        queries = self.universe[task.query_side]
        trials = _where(self.subset.trials, "task", task.name)
        views = [self._view(trials, view, queries) for view in dict.fromkeys(trials["view"].to_pylist())]
        served: dict[str, list[_View]] = {}
        for view in views:
            own = self.plan.files.get((task.name, view.name), task.name)
            served.setdefault(own if own in self.files else task.name, []).append(view)
        given: dict[str, Given] = {}
        for name, mine in served.items():
            wanted = np.concatenate([view.queries for view in mine])
            if read := self.reader.read(task, name, wanted, self._ties(task)):
                given |= {view.name: read for view in mine}
        return self.read.setdefault(task.name, (views, given))

    def _ties(self, task: Task) -> str:
        return self.ties or task.ties

    def _view(self, trials: pa.Table, name: str, queries: Ids) -> _View:
        rows = _where(trials, "view", name)
        rows = rows.take(
            pc.sort_indices(rows, [("repeat", "ascending"), ("query_id", "ascending"), ("pool_id", "ascending")])
        )
        repeat = np.asarray(rows["repeat"], np.int64)
        return _View(name, queries.index(rows["query_id"]), self.pool_names.index(rows["pool_id"]), repeat)

    def _account(self, task: Task, views: list[_View], given: Mapping[str, Given]) -> None:
        """Keep what the files hold and what trials ask for; note what is unknown, and what counts 0."""
        for view in views:
            if view.name not in given:
                continue
            mine = given[view.name]
            for name, side, present in mine.holds(task):
                self.held[name, side] = present
                asked = self.asked.setdefault((name, side), np.zeros(len(present), bool))
                asked[view.queries if side == task.query_side else self._members(view, mine)[1]] = True
            if mine.noise:
                self.notes.append(
                    f"{task.name}: {mine.noise} listed candidates are unknown; each took its rank, none is right"
                )
            missing = np.count_nonzero(~mine.answered[view.queries])
            if missing:
                self.notes.append(f"{task.name} {view.name}: {missing} queries have no prediction and count 0")

    def note_unused(self) -> None:
        """Note how many ids of the files no trial asks for: a model often embeds more than a subset needs."""
        for (name, side), present in self.held.items():
            extra, held = np.count_nonzero(present & ~self.asked[name, side]), np.count_nonzero(present)
            if extra:
                self.notes.append(f"{self.files[name].name}: {extra} of {held} {side} ids are in no trial; unused")

    @staticmethod
    def _own(table: pa.Table, task: Task) -> pa.Table:
        """The rows of qrels or exclusions that are the task's: all, unless a column says whose they are."""
        return _where(table, "task", task.name) if "task" in table.column_names else table

    def _ranked_view(
        self, task: Task, view: _View, given: Given, measures: list[Measure], found: Scored
    ) -> pa.Table | None:
        stands, scored, even = self._stands(task, view, given)
        wanted = [metrics.parse(m.metric) for m in measures]
        if not self._deep_enough(task, view, given, stands, scored, wanted):
            return None
        columns: dict[str, Any] = self._identity(task, view, stands)
        settled, faultless = settle(stands, self._ties(task)), perfect(even)
        for measure, metric in zip(measures, wanted, strict=True):
            values = metric.values(settled)
            factor = 100.0 if self.plan.percent and metric.unit == "fraction" else 1.0
            if measure.where is None:
                columns[measure.key[-1]] = values * factor
            mask = self._mask(measure, view)
            if not mask.any():
                self.notes.append(f"{'/'.join(measure.key)}: no query has it; left out")
                continue
            self._check_median(task, given, stands, view, metric)
            repeats = [mask & (view.repeat == r) for r in np.unique(view.repeat)]
            unit = "percent" if factor == 100.0 else metric.unit
            n = int(np.count_nonzero(repeats[0]))
            totals = [metric.total(values[mine]) * factor for mine in repeats]
            value = _over_repeats(totals, n, str(metric), unit, metric.higher_is_better, measure.std)
            levels = [
                None if metric.needs_order and of is even else _level(metric, metric.values(of), repeats, factor)
                for of in (even, faultless)
            ]
            found.values[measure.key] = value._replace(chance=levels[0], ceiling=levels[1])
        return pa.table(columns)

    def _members(self, view: _View, given: Given) -> tuple[Ints, Ints]:
        """The pools of a view as rows (pool, candidate)."""
        used = np.isin(self.pool_owner, view.pools)
        return self.pool_owner[used], given.candidates.index(self.subset.pools["candidate_id"].filter(pa.array(used)))

    def _trials(self, task: Task, view: _View, given: Given) -> Trials:
        """Who is ranked against what in a view."""
        queries, candidates = self.universe[task.query_side], given.candidates
        pool_of, members = self._members(view, given)
        given.demand_vectors(task, members)
        pools = Ragged.group(pool_of, members, len(self.pool_names))
        qrels = self._own(self.subset.qrels, task)
        owner, right = queries.index(qrels["query_id"]), candidates.index(qrels["candidate_id"])
        mine = (owner >= 0) & np.isin(owner, view.queries)
        # a right candidate that no file knows can be in no pool; it still counts in R
        right = np.where(right < 0, len(candidates) + np.arange(len(right)), right)
        judged = Judged.group(owner[mine], right[mine], np.asarray(qrels["relevance"])[mine], len(queries))
        out = self._own(self.subset.exclusions, task)
        out_owner, out_candidate = queries.index(out["query_id"]), candidates.index(out["candidate_id"])
        known = (out_owner >= 0) & (out_candidate >= 0)
        excluded = Ragged.group(out_owner[known], out_candidate[known], len(queries))
        return Trials(view.queries, view.pools, pools, judged, excluded)

    def _stands(self, task: Task, view: _View, given: Given) -> tuple[Stands, Ints, Stands]:
        """Where the judged stand, how many candidates of each trial are scored, and where constant scores put them."""
        if given.source is None:
            raise TypeError("labels are not ranked")
        trials = self._trials(task, view, given)
        even, _ = stand(Constant(), trials)
        if ahead := self.ahead.pop((task.name, view.name), None):
            return *ahead, even
        done, of = 0, len(trials.queries)

        def tell(more: int) -> None:
            nonlocal done
            done += more
            self.progress(f"{task.name} {view.name}", done, of)

        if task.noise:
            trials = replace(trials, pool=np.full_like(trials.pool, LISTED))
        source = given.source
        if isinstance(source, Embeddings):
            source = replace(source, engine=self.engine)
            if reverse := self._reverse(task, view):
                other, other_trials = reverse
                of += len(other_trials.queries)
                found, self.ahead[other.name, view.name] = stand_both(source, trials, other_trials, tell)
                return *found, even
        return *stand(source, trials, tell), even

    def _reverse(self, task: Task, view: _View) -> tuple[Task, Trials] | None:
        """The task that ranks the two sides the other way round in the same view, by the same vectors."""
        for other in self.plan.tasks:
            if (other.query_side, other.candidate_side) == (task.candidate_side, task.query_side) and not other.labels:
                views, given = self._read(other)
                if view.name in given and isinstance(given[view.name].source, Embeddings):
                    (same,) = (v for v in views if v.name == view.name)
                    return other, self._trials(other, same, given[view.name])
        return None

    def _deep_enough(
        self, task: Task, view: _View, given: Given, stands: Stands, scored: Ints, wanted: list[metrics.Metric]
    ) -> bool:
        """Whether every trial's pool is ranked deep enough; raises `InputError`, or notes what is left out."""
        name = self.plan.files.get((task.name, view.name))
        if name and name not in given.names and given.kind == "ranking":
            whole = bool((scored == stands.sizes).all())
            if not whole:
                self.notes.append(
                    f"{task.name}: {given.path.name} does not rank the whole {view.name} of every query; "
                    f"{name}.parquet would, and without it the metrics of {view.name} are left out"
                )
            return whole
        if self._ties(task) == "trec":
            return True
        if given.kind == "scores":
            short = np.flatnonzero(scored < stands.sizes)
            if len(short):
                lost = self._unscored(task, view, given, int(short[0]))
                raise InputError(
                    f"{given.path}: {int((stands.sizes - scored).sum())} candidates have no score, in {len(short)} of "
                    f"{len(scored)} trials of {task.name} {view.name}: {lost}; score the whole pool "
                    f"(−inf ranks a candidate last)"
                )
        if given.kind == "ranking":
            depth = max((m.cutoff or 0 for m in wanted), default=0)
            short = np.flatnonzero(scored < np.minimum(depth, stands.sizes))
            if len(short):
                names = self.universe[task.query_side].names(view.queries[short[:4]])
                raise InputError(
                    f"{given.path}: {len(short)} of {len(scored)} rankings of {task.name} {view.name} are too short: "
                    f"{few(names)}; list at least {depth} candidates of the pool, excluded ones aside"
                )
        return True

    def _unscored(self, task: Task, view: _View, given: Given, trial: int) -> str:
        """The first few pairs of one trial that have no score."""
        query = view.queries[trial]
        (name,) = self.universe[task.query_side].names(np.array([query]))
        pool_of, members = self._members(view, given)
        listed = given.source.listed(int(query)) if given.source else np.zeros(0, np.int64)
        lost = given.candidates.names(np.setdiff1d(members[pool_of == view.pools[trial]], listed))
        out = _where(self._own(self.subset.exclusions, task), "query_id", name)["candidate_id"].to_pylist()
        return "the first at " + few(f"{name} / {c}" for c in lost if c not in out)

    def _check_median(self, task: Task, given: Given, stands: Stands, view: _View, metric: metrics.Metric) -> None:
        """A median must not fall among candidates that are not listed."""
        if metric.unit != "rank":
            return
        right = (stands.gain > 0) & (stands.tied > 0)
        if given.kind == "ranking":  # unlisted candidates tie at the end of the pool; a single one has a rank
            right &= (stands.tied == 1) | (stands.better + stands.tied < stands.sizes[stands.trial])
        unranked = np.ones(len(stands.sizes), bool)
        unranked[stands.trial[right]] = False
        for repeat in np.unique(view.repeat):
            mine = unranked[view.repeat == repeat]
            if 2 * np.count_nonzero(mine) >= len(mine):
                raise InputError(
                    f"{given.path}: the median rank of {task.name} {view.name} falls among candidates that are not "
                    f"listed ({np.count_nonzero(mine)} of {len(mine)} right ones, repeat {repeat}); list more"
                )

    def _identity(self, task: Task, view: _View, stands: Stands) -> dict[str, Any]:
        """The first columns of the per-query table."""
        right = (stands.gain > 0) & (stands.tied > 0)
        n = len(stands.sizes)
        best = np.full(n, np.iinfo(np.int64).max)
        np.minimum.at(best, stands.trial[right], stands.better[right])
        group = np.zeros(n, np.int64)
        top = right & (stands.better == best[stands.trial])
        group[stands.trial[top]] = stands.tied[top]
        if self._ties(task) == "trec":
            settled = settle(stands, "trec")
            best = np.full(n, np.iinfo(np.int64).max)
            np.minimum.at(best, stands.trial[right], settled.better[right])
            group[group > 0] = 1
        none = group == 0
        return {
            "task": pa.array([task.name] * n, pa.string()),
            "view": pa.array([view.name] * n, pa.string()),
            "repeat": pa.array(view.repeat),
            "query_id": self.universe[task.query_side].values.take(pa.array(view.queries)).cast(pa.string()),
            "rank_min": pa.array(np.where(none, 0, best) + 1, mask=none),
            "rank_max": pa.array(np.where(none, 0, best + group), mask=none),
            "n_candidates": pa.array(stands.sizes),
        }

    def _mask(self, measure: Measure, view: _View) -> Any:
        if measure.where is None:
            return np.ones(len(view.queries), bool)
        column, value = measure.where
        mine = _where(self.subset.queries, "task", measure.task)
        held = mine[column].combine_chunks()
        if pa.types.is_list(held.type) or pa.types.is_large_list(held.type):
            owner = np.asarray(pc.list_parent_indices(held), np.int64)
            hit = np.zeros(len(mine), bool)
            hit[owner[np.asarray(pc.equal(pc.list_flatten(held), value))]] = True
        else:
            hit = np.asarray(pc.fill_null(pc.equal(held, value), False))
        side = self.universe[self.plan.task(measure.task).query_side]
        return np.isin(view.queries, side.index(mine["query_id"].filter(pa.array(hit))))

    def _label_view(self, task: Task, view: _View, given: Given, measures: list[Measure], found: Scored) -> pa.Table:
        if given.labels is None:
            raise TypeError("a label task takes labels")
        queries = self.universe[task.query_side]
        qrels = self._own(self.subset.qrels, task)
        gold_of = np.full(len(queries), -1)
        place = {label: i for i, label in enumerate(task.labels)}
        owner = queries.index(qrels["query_id"])
        gold_of[owner] = [place[c] for c in qrels["candidate_id"].to_pylist()]
        gold, predicted = gold_of[view.queries], given.labels[view.queries]
        n = len(gold)
        columns: dict[str, Any] = {
            "task": pa.array([task.name] * n, pa.string()),
            "view": pa.array([view.name] * n, pa.string()),
            "repeat": pa.array(view.repeat),
            "query_id": queries.values.take(pa.array(view.queries)).cast(pa.string()),
            "rank_min": pa.nulls(n, pa.int64()),
            "rank_max": pa.nulls(n, pa.int64()),
            "n_candidates": pa.array(np.full(n, len(task.labels))),
        }
        for measure in measures:
            metric = labels.parse(measure.metric)
            values = metric.values(gold, predicted)
            if values is not None:
                columns[measure.key[-1]] = values
            total = metric.total(gold, predicted)
            value = _over_repeats([total], n, str(metric), metric.unit, metric.higher_is_better, measure.std)
            found.values[measure.key] = value._replace(ceiling=1.0)
        return pa.table(columns)


def _over_repeats(totals: list[float], n: int, metric: str, unit: str, higher: bool, std: bool) -> Value:
    mean = math.fsum(totals) / len(totals)
    spread = math.sqrt(math.fsum((t - mean) ** 2 for t in totals) / len(totals))
    return Value(mean, spread, n, len(totals), metric, unit, higher, std)


def _level(metric: metrics.Metric, values: Floats, repeats: list[NDArray[np.bool_]], factor: float) -> float | None:
    """The mean over the repeats; None where it is not finite, for too few pools hold a right candidate."""
    mean = math.fsum(metric.total(values[mine]) * factor for mine in repeats) / len(repeats)
    return mean if math.isfinite(mean) else None


def _where(table: pa.Table, column: str, value: str) -> pa.Table:
    return table.filter(pc.equal(table[column], value))
