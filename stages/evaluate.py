"""`rankledger evaluate`: any run against any qrels, anywhere; its numbers as lines, JSON or Parquet."""

import sys
from pathlib import Path
from typing import Any

from rankledger.evaluation import Evaluation, evaluate
from rankledger.predictions.runs import open_run
from rankledger.tables import InputError, to_json, write_table


def evaluate_run(
    qrels: Path, run: Path, similarity: str, per_query: bool, as_json: bool, out: Path | None, **options: Any
) -> None:
    """Print what a run reaches, notes to stderr; `options` are those of `evaluate`.

    Args:
        qrels, run: their files.
        similarity: of embeddings: cosine or dot.
        per_query: whether each query's values are printed too.
        as_json: JSON instead of lines of metric, query ("all" for the whole) and value.
        out: a Parquet file for the values of each query.
    """
    if out and out.suffix != ".parquet":
        raise InputError(f"--out {out}: the values of each query become Parquet; call the file <name>.parquet")
    found = evaluate(open_run(run, similarity), qrels, **options)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    if out:
        write_table(found.per_query, out)
    print(_json(found, per_query) if as_json else _lines(found, per_query), end="")


def _json(found: Evaluation, per_query: bool) -> str:
    shown: dict[str, Any] = {"metrics": found.metrics}
    if per_query:
        shown["per_query"] = {row.pop("query_id"): row for row in found.per_query.to_pylist()}
    return to_json(shown)


def _lines(found: Evaluation, per_query: bool) -> str:
    """As trec_eval prints them: the name in 22 columns, the query, the value to 4 decimals, apart by tabs."""
    rows = found.per_query.to_pylist() if per_query else []
    return "".join(
        f"{name:22}\t{row['query_id']}\t{_plain(row[name])}\n"
        for row in [*rows, {"query_id": "all", **found.metrics}]
        for name in found.metrics
    )


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
