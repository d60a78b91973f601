"""What `rankledger` alone says: what to do next. It imports next to nothing, so that it comes at once."""

import json
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

SHIPPED_RUNS = {"chance", "sample"}

MOST = 4  # runs that are named

ANYWHERE = """\
These need no project:
  rankledger evaluate --qrels Q --run R --metrics R@1,R@10,MRR    scores any run against any qrels
  rankledger convert FILE --out val.parquet                       brings predictions into Parquet
  rankledger submit --check FILE                                  checks a file for the server of CIRR or CIRCO"""

FIRST = """\
Nothing is scored yet. Next:
  dvc repro    runs what params.yaml lists: at first made-up data, without a network, in a few minutes"""

OWN = """\
Score your own model, on CIRR for instance:
  in params.yaml, under cirr, set source: official (until then its data is made up)
  dvc repro validate@cirr                    fetches, builds and checks the test subset
  rankledger template cirr --out mymodel     writes its queries and pools, to fill in
  rankledger add mymodel cirr val.parquet    checks your predictions and makes them a run
  dvc repro                                  scores the run, and nothing else"""

LAST = """\
Something does not work: rankledger doctor. All commands: rankledger --help."""


def welcome(here: Path) -> str:
    """What to do next as seen from a folder: outside a project, before the first results, and after them."""
    root = next((f for f in (here, *here.parents) if all((f / n).is_file() for n in ("dvc.yaml", "params.yaml"))), None)
    if not root:
        lost = f"{here} is in no project, a folder with dvc.yaml and params.yaml. Change into your clone of RankLedger."
        return "\n\n".join([lost, ANYWHERE, LAST])
    results = {run: root / "data" / "scores" / "/".join(run) / "result.json" for run in _listed(root / "params.yaml")}
    scored = [run for run, path in results.items() if path.is_file()]
    waiting = [run for run in results if run not in scored]
    parts = []
    if scored:
        runs, made = sorted({run for run, _ in scored}), {name for run, name in scored if _made_up(results[run, name])}
        page = root / "reports" / "index.html"
        report = "reports/index.html" if page.is_file() else "reports/summary.md"
        many = "1 result" if len(scored) == 1 else f"{len(scored)} results"
        parts.append(f"{many} of {', '.join(runs)}. Look at them:\n  {report}\n  dvc metrics diff main")
        if made:
            parts.append(f"On made-up data, not the benchmark's own: {', '.join(sorted(made))}.")
    if waiting and (scored or not {run for run, _ in waiting} <= SHIPPED_RUNS):
        shown = [f"{run} on {name}" for run, name in waiting]
        more = [f"{len(shown) - MOST} more"] if len(shown) > MOST else []
        parts.append(f"Not scored yet: {', '.join([*shown[:MOST], *more])}. Next:\n  dvc repro")
    elif not scored:
        parts.append(FIRST)
    elif {run for run, _ in scored} <= SHIPPED_RUNS:
        parts.append(OWN)
    return "\n\n".join([*parts, LAST])


def _listed(path: Path) -> list[tuple[str, str]]:
    """The runs of `params.yaml`, each with its benchmark, as far as they can be read; `doctor` says what is wrong."""
    try:
        params = YAML(typ="safe", pure=True).load(path)
    except (YAMLError, ValueError):
        return []
    runs: Any = params.get("runs") if isinstance(params, dict) else None
    entries = [entry for entry in runs.values() if isinstance(entry, dict)] if isinstance(runs, dict) else []
    return [(str(e["run"]), str(e["benchmark"])) for e in entries if {"run", "benchmark"} <= e.keys()]


def _made_up(result: Path) -> bool:
    """Whether a result is of the sample that ships with the project."""
    try:
        return bool(json.loads(result.read_bytes())["protocol"]["parameters"]["source"] == "sample")
    except (ValueError, LookupError, TypeError):
        return False
