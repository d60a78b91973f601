"""What the numbers of a run are worth: its per-query tables in, intervals and paired tests by key out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankledger.benchmarks.base import Key, Mean, Measure, Plan, Task
from rankledger.ranking import labels, metrics, statistics
from rankledger.ranking.stands import Floats, Ints
from rankledger.ranking.statistics import Aggregate, Paired, Trials, mean_of
from rankledger.subset import Subset
from rankledger.tables import as_strings, read_table


@dataclass(frozen=True, eq=False)
class Observed:
    """The trials of one measure, as they were scored.

    Attributes:
        of: task, view and condition: measures of one such group have the same queries.
        query_id: large_string[m].
        repeat: int64[m].
        values: float64[m], see `Trials`.
        aggregate: what makes the metric of them.
    """

    of: tuple[object, ...]
    query_id: pa.Array
    repeat: Ints
    values: Floats
    aggregate: Aggregate

    def trials(self, queries: pa.Array) -> Trials:
        """The trials of these queries, which are known by their place."""
        at = np.asarray(pc.fill_null(pc.index_in(self.query_id, value_set=queries), -1), np.int64)
        mine = at >= 0
        return Trials(at[mine], self.repeat[mine], self.values[mine])


def observe(
    plan: Plan, subset: Subset, tables: Mapping[str, pa.Table], predictions: Mapping[str, Path]
) -> dict[Key, Observed]:
    """The trials of each measure that the per-query `tables` hold, by key.

    Macro averages over labels are no function of single queries' values: they are made of the answers, which
    `predictions` hold. Without that file they are left out.
    """
    found = {}
    for measure in plan.measures:
        task = plan.task(measure.task)
        if task.name in tables:
            rows = tables[task.name].filter(pc.equal(tables[task.name]["view"], measure.view))
            if measure.where:
                rows = rows.filter(pc.is_in(rows["query_id"], value_set=_having(subset.queries, measure)))
            observed = _answers(measure, task, rows, subset, predictions) if task.labels else None
            column = _column(measure, plan)
            if observed is None and column in rows.column_names:
                ranks = not task.labels and metrics.parse(measure.metric).unit == "rank"
                values = np.asarray(rows[column].combine_chunks(), np.float64)
                observed = values, statistics.median if ranks else statistics.mean
            if observed and len(rows):
                of = measure.task, measure.view, measure.where
                ids, repeat = as_strings(rows["query_id"]), np.asarray(rows["repeat"], np.int64)
                found[measure.key] = Observed(of, ids, repeat, *observed)
    return found


def _column(measure: Measure, plan: Plan) -> str:
    """The column that holds the measure's values: its own, or where it has a condition that of its metric."""
    same = (m for m in plan.measures if (m.task, m.view, m.metric) == (measure.task, measure.view, measure.metric))
    return next((m.key[-1] for m in same if m.where is None), measure.key[-1])


def _having(queries: pa.Table, measure: Measure) -> pa.Array:
    """The queries of a task that meet the measure's condition."""
    assert measure.where
    column, value = measure.where
    mine = queries.filter(pc.equal(queries["task"], measure.task))
    held = mine[column].combine_chunks()
    ids = mine["query_id"].combine_chunks()
    if pa.types.is_list(held.type) or pa.types.is_large_list(held.type):
        ids, held = ids.take(pc.list_parent_indices(held)), pc.list_flatten(held)
    return ids.filter(pc.fill_null(pc.equal(held, value), False))


def _answers(
    measure: Measure, task: Task, rows: pa.Table, subset: Subset, predictions: Mapping[str, Path]
) -> tuple[NDArray[np.float64], Aggregate] | None:
    """A macro average's pairs of right and given class; none for other measures, or without the predictions."""
    metric = labels.parse(measure.metric)
    if metric.average != "macro" or task.name not in predictions:
        return None
    right = subset.qrels
    if "task" in right.column_names:
        right = right.filter(pc.equal(right["task"], task.name))
    given = read_table(predictions[task.name], ["query_id", "label"])
    classes = pa.array(task.labels, pa.large_string())

    def classes_of(table: pa.Table, column: str) -> Ints:
        at = pc.index_in(as_strings(rows["query_id"]), value_set=as_strings(table["query_id"]))
        return np.asarray(pc.index_in(as_strings(table[column]).take(at), value_set=classes), np.int64)

    codes = classes_of(right, "candidate_id") * len(classes) + classes_of(given, "label")
    return codes.astype(np.float64), statistics.of_pairs(metric.of_pairs, len(classes))


def intervals(
    benchmark: str, means: Sequence[Mean], observed: Mapping[Key, Observed], wanted: Iterable[Key]
) -> dict[Key, statistics.Interval | None]:
    """The 95 % bootstrap interval of each wanted key, as far as its trials are known."""
    parts = {key: _parts(key, means) for key in wanted}
    drawn: dict[Key, Floats] = {}
    for of, keys in _groups(observed, parts):
        queries = _sorted(observed[keys[0]].query_id)
        measures = [(observed[key].aggregate, observed[key].trials(queries)) for key in keys]
        drawn.update(zip(keys, statistics.resampled(measures, len(queries), _seed(benchmark, of)), strict=True))
    return {
        key: statistics.interval(np.sum([drawn[part] for part in of], axis=0) / len(of))
        for key, of in parts.items()
        if drawn.keys() >= set(of)
    }


def compare(
    benchmark: str,
    means: Sequence[Mean],
    old: Mapping[Key, Observed],
    new: Mapping[Key, Observed],
    wanted: Iterable[Key],
) -> dict[Key, Paired]:
    """Each wanted key, new − old, on the queries that both were asked, as far as there are any."""
    parts = {key: _parts(key, means) for key in wanted}
    both = {key: new[key] for key in new if key in old}
    found: dict[Key, Paired] = {}
    for of, keys in _groups(both, parts):
        ids = new[keys[0]].query_id
        queries = _sorted(ids.filter(pc.is_in(ids, value_set=old[keys[0]].query_id)))
        if len(queries):
            measures = [(new[k].aggregate, old[k].trials(queries), new[k].trials(queries)) for k in keys]
            found.update(zip(keys, statistics.compared(measures, len(queries), _seed(benchmark, of)), strict=True))
    return {
        key: found[of[0]] if of == [key] else mean_of([found[part] for part in of])
        for key, of in parts.items()
        if found.keys() >= set(of)
    }


def _seed(benchmark: str, of: tuple[object, ...]) -> str:
    """One for all views and measures of a task, so that a mean of them is drawn as one."""
    return f"{benchmark} {of[0]}"


def _sorted(ids: pa.Array) -> pa.Array:
    ids = pc.unique(ids)
    return ids.take(pc.sort_indices(ids))


def _parts(key: Key, means: Sequence[Mean]) -> list[Key]:
    """The measures that a key is the mean of, means of means resolved (their parts are equally many); else itself."""
    of = next((mean.of for mean in means if mean.key == key), None)
    return [part for one in of for part in _parts(one, means)] if of else [key]


def _groups(
    observed: Mapping[Key, Observed], parts: Mapping[Key, Sequence[Key]]
) -> list[tuple[tuple[object, ...], list[Key]]]:
    """The measures that are needed, by what has the same queries."""
    needed = dict.fromkeys(part for of in parts.values() for part in of if part in observed)
    groups: dict[tuple[object, ...], list[Key]] = {}
    for key in needed:
        groups.setdefault(observed[key].of, []).append(key)
    return list(groups.items())
