"""What moved a number, measured: old and new predictions, subset and protocol combined and scored."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rankledger.benchmarks.base import Key, Plan
from rankledger.provenance.attribution import ASKED, FACTORS, Unknown, judge_alike, mixed, shapley
from rankledger.provenance.comparison import Row
from rankledger.scoring import Scored, score
from rankledger.subset import Subset
from rankledger.tables import InputError, few, write_table
from stages.evidence import Evidence
from stages.lock import Hashes
from stages.predict import predictions
from stages.progress import Progress
from stages.project import SHIPPED_RUNS
from stages.report import DIGITS, rounded
from stages.revision import Gone


class Causes:
    """What moved the numbers of a run on a benchmark.

    Predictions, subset and protocol of either side are combined and scored, with the present code. The predictions
    are the files' content. The subset is who is asked against which candidates (queries, pools, trials, exclusions).
    The protocol is all else that the parameters decide: what is right (qrels), the metrics, the tie rule, and of
    embeddings the similarity, where both sides have them.
    The runs that ship with the project are functions of the subset and the protocol: they are made anew for each
    combination, so that what moves them is never called a better model.
    """

    def __init__(self, title: str, old: Evidence, new: Evidence, notes: list[str]):
        self.title, self.old, self.new, self.notes = title, old, new, notes
        self._made = old.run == new.run and old.run in SHIPPED_RUNS
        self._cells: dict[frozenset[str], Mapping[Key, float] | None] = {}

    @cached_property
    def changed(self) -> tuple[str, ...] | None:
        """The factors in which the sides differ; none where that can't be known."""
        try:
            differs = self._differs()
        except InputError as error:
            try:
                differs = self._hashes_differ()
            except InputError:
                self._say(f"the causes are not known: {self._plain(error)}")
                return None
        return tuple(factor for factor in FACTORS if differs[factor])

    def _differs(self) -> dict[str, bool]:
        """Which factors differ, by the content of the data."""
        old, new = (side.result["inputs"] for side in (self.old, self.new))
        return {
            "predictions": not self._made and old["predictions"] != new["predictions"],
            "subset": any(old["subset"][name] != new["subset"][name] for name in ASKED),
            "protocol": not _same_rules(self.old, self.new) or not self._judge_alike(),
        }

    def _hashes_differ(self) -> dict[str, bool]:
        """Which factors differ, by what DVC recorded: enough where the subset, right answers and all, is the same."""
        (old, new), (old_subset, new_subset) = (
            [side.revision.hash(*side.where[of]) for side in (self.old, self.new)] for of in ("predictions", "subset")
        )
        if old_subset is None or old_subset != new_subset:
            raise Gone("another subset, and its tables are gone")
        return {
            "predictions": not self._made and old != new,
            "subset": False,
            "protocol": not _same_rules(self.old, self.new),
        }

    def _judge_alike(self) -> bool:
        old, new = (side.result["inputs"]["subset"]["qrels"] for side in (self.old, self.new))
        return old == new or judge_alike(self.old.subset.tables(), self.new.subset.tables())

    @cached_property
    def other_code(self) -> list[str]:
        """The modules that are not the same on both sides and now."""
        old, new = (
            {
                path: md5
                for stage in (side.stage, *([f"predict@{side.name}"] if self._made else []))
                for path, md5 in side.revision.code(stage).items()
            }
            for side in (self.old, self.new)
        )
        hashes = Hashes(self.new.revision.project.root)
        now = {path: (hashes.of(path) or {}).get("md5") for path in old.keys() | new.keys()}
        return sorted(path for path in now if not old.get(path) == new.get(path) == now[path])

    def attribute(self, row: Row, key: Key) -> Row:
        """The row with its causes. Where one factor changed, and no code, it moved the number; else all is measured."""
        if self.changed is None or row.delta is None:
            return row
        if len(self.changed) == 1 and not self.other_code:
            return replace(row, causes={f: row.delta if f in self.changed else 0.0 for f in FACTORS})
        parts = shapley(self.changed, lambda new: (self._cell(new) or {}).get(key))
        known = [part for part in parts.values() if part is not None]
        if len(known) < len(parts):
            return replace(row, causes=parts)
        rest = round(row.delta - sum(known), DIGITS)
        if not rest:
            return replace(row, causes=parts)
        if not self.other_code:
            self._say(
                "what is recorded can't be reached again from what lies there; `dvc repro`, or `rankledger audit`"
            )
            return row
        some = few(self.other_code).replace("'", "")
        self._say(
            f"the code changed too ({some}); the parts are measured with the present code, the rest is called `code`"
        )
        return replace(row, causes=parts, code=rest)

    def _cell(self, new: frozenset[str]) -> Mapping[Key, float] | None:
        """The numbers with these factors new, the others old; none where they can't be had, and a note says why."""
        if new not in self._cells:
            sides = {factor: self.new if factor in new else self.old for factor in FACTORS}
            try:
                found = self._scored(**sides).values
                self._cells[new] = rounded((key, value._asdict()) for key, value in found.items())
            except (InputError, Unknown) as error:
                of = ", ".join(f"{'new' if factor in new else 'old'} {factor}" for factor in self.changed or ())
                self._say(f"some causes are not known: {of} can't be scored: {self._plain(error)}")
                self._cells[new] = None
        return self._cells[new]

    def _scored(self, predictions: Evidence, subset: Evidence, protocol: Evidence) -> Scored:
        asked = Subset(**mixed(subset.subset.tables(), protocol.subset.tables()))
        plan = protocol.plan
        with tempfile.TemporaryDirectory(prefix="rankledger-") as scratch, Progress() as progress:
            files = _made_for(asked, plan, self.new.run, Path(scratch)) if self._made else predictions.files
            files = {n: path for n, path in files.items() if n in (*plan.file_names, *plan.sides)}
            # where a side has no embeddings, the similarity goes with those of the other
            similar = protocol if self.old.embeds and self.new.embeds else predictions
            return score(asked, plan, files, similar.similarity, protocol.ties, progress.tell)

    def _plain(self, error: Exception) -> str:
        return self.old.revision.plain(InputError(self.new.revision.plain(error)))

    def _say(self, note: str) -> None:
        self.notes.append(f"{self.title}: {note}")


def _same_rules(old: Evidence, new: Evidence) -> bool:
    """Whether the parameters decide alike, tables aside, of all that both report."""
    if old.ties != new.ties or (old.embeds and new.embeds and old.similarity != new.similarity):
        return False
    rules = [
        {t.name: t for t in plan.tasks} | {m.key: m for m in plan.measures} | {m.key: m for m in plan.means}
        for plan in (old.plan, new.plan)
    ]
    return all(rules[0][key] == rules[1][key] for key in rules[0].keys() & rules[1].keys())


def _made_for(subset: Subset, plan: Plan, run: str, folder: Path) -> dict[str, Path]:
    """The predictions of a shipped run for a subset."""
    files = {}
    for name, table in predictions(subset, plan, guided=run == "sample").items():
        files[name] = folder / f"{name}.parquet"
        write_table(table, files[name])
    return files
