"""What `rankledger` alone says: what to do next. Only the standard library, so that it comes at once."""

from pathlib import Path

SHIPPED_RUNS = {"chance", "sample"}

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
    scores, predictions = root / "data" / "scores", root / "data" / "predictions"
    scored = {path.parent.relative_to(scores) for path in scores.glob("*/*/result.json")}
    added = {path.relative_to(predictions).with_suffix("") for path in predictions.glob("*/*.dvc")}
    waiting = [f"{run.parent} on {run.name}" for run in sorted(added - scored)]
    parts = []
    if scored:
        runs = sorted({run.parent.name for run in scored})
        page = root / "reports" / "index.html"
        report = "reports/index.html" if page.is_file() else "reports/summary.md"
        parts.append(f"{len(scored)} results of {', '.join(runs)}. Look at them:\n  {report}\n  dvc metrics diff main")
    if waiting:
        parts.append(f"Not scored yet: {', '.join(waiting)}. Next:\n  dvc repro")
    elif not scored:
        parts.append(FIRST)
    elif {run.parent.name for run in scored} <= SHIPPED_RUNS:
        parts.append(OWN)
    return "\n\n".join([*parts, LAST])
