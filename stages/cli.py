"""The command `rankledger`: arguments in, calls out. Imports happen inside the commands, so that help comes at once."""

import atexit
import contextlib
import gc
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Scores retrieval models on published benchmarks so that a number can be trusted, reproduced and explained.",
    epilog="Example: rankledger add mymodel cirr val.parquet && dvc repro",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="BENCHMARK", help="A benchmark listed in params.yaml, such as cirr.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's name, such as mymodel.")]
Engine = Annotated[
    str | None,
    typer.Option(metavar="dask://HOST:PORT", help="A Dask cluster to count embeddings on; it changes no number."),
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"rankledger {version('rankledger')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What `rankledger` takes without a command."""


def _project() -> Any:
    from stages.project import Project

    return Project.find()


@app.command()
def fetch(benchmark: Name) -> None:
    """Get a benchmark's files: from data/inbox, the mirror, their official URL, or the embedded sample.

    Example: rankledger fetch cirr
    """
    from stages.fetch import fetch

    fetch(_project(), benchmark)


@app.command()
def build(benchmark: Name) -> None:
    """Build the test subset from the fetched files.

    Example: rankledger build cirr
    """
    from stages.build import build

    build(_project(), benchmark)


@app.command()
def validate(benchmark: Name) -> None:
    """Check the test subset: every table, and named rules across tables. Exit code 1 where a check fails.

    Example: rankledger validate cirr
    """
    from stages.validate import validate

    if not validate(_project(), benchmark):
        raise typer.Exit(1)


@app.command()
def predict(benchmark: Name) -> None:
    """Write the predictions of the two runs that ship with the project, chance and sample.

    Example: rankledger predict cirr
    """
    from stages.predict import predict

    predict(_project(), benchmark)


@app.command()
def score(run: Run, benchmark: Name, engine: Engine = None) -> None:
    """Score a registered run on a benchmark.

    Example: rankledger score mymodel cirr
    """
    from stages.score import score_run

    score_run(_project(), run, benchmark, engine)


@app.command()
def report(
    as_latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX tables for a paper instead.")] = False,
) -> None:
    """Write reports/index.html, summary.md and metrics.json from all scored runs.

    Example: rankledger report --latex > tables.tex
    """
    if as_latex:
        from stages.latex import latex

        print(latex(_project()), end="")
        return
    from stages.report import report

    report(_project())


@app.command()
def add(
    run: Run,
    benchmark: Name,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Parquet files (or folders of parts) named <task>.parquet or <side>.parquet."
        ),
    ],
    similarity: Annotated[str | None, typer.Option(help="Of embeddings: cosine (the default) or dot.")] = None,
    variant: Annotated[str | None, typer.Option(help="Scene graphs: location_free or location_bound.")] = None,
) -> None:
    """Check predictions, make them a run of the project and version them with DVC.

    Example: rankledger add mymodel cirr val.parquet
    """
    from stages.add import add

    if similarity not in (None, "cosine", "dot"):
        raise typer.BadParameter("it should be cosine or dot", param_hint="--similarity")
    scored = add(_project(), run, benchmark, files, similarity, variant)
    for note in scored.notes:
        print(f"note: {note}")
    print("next: dvc repro && dvc metrics diff main")


@app.command()
def remove(
    run: Run,
    benchmark: Annotated[str | None, typer.Argument(metavar="[BENCHMARK]", help="Only from this benchmark.")] = None,
) -> None:
    """Take a run out of the project: its entry in params.yaml, its .dvc file, its predictions and scores.

    Example: rankledger remove mymodel cirr
    """
    from stages.remove import remove

    remove(_project(), run, benchmark)
    print("next: dvc repro")


@app.command()
def evaluate(
    qrels: Annotated[
        Path, typer.Option(help="What is right: TREC text, or Parquet with query_id, candidate_id, relevance.")
    ],
    run: Annotated[
        Path, typer.Option(help="TREC text, Parquet (scores or ranking), or a folder with two sides' embeddings.")
    ],
    metrics: Annotated[str, typer.Option(help="Such as R@1,R@10,MRR,AP; trec_eval's names too; all_trec.")],
    ties: Annotated[str, typer.Option(help="Equal scores: expected, trec, optimistic or pessimistic.")] = "expected",
    missing: Annotated[str, typer.Option(help="A query that the run lacks: error, zero or skip.")] = "error",
    relevance_level: Annotated[float, typer.Option(help="The least relevance that is right.")] = 1,
    similarity: Annotated[str, typer.Option(help="Of embeddings: cosine or dot.")] = "cosine",
    engine: Engine = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="Show each query's values too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="A Parquet file to write each query's values to.")] = None,
) -> None:
    """Evaluate any run against any qrels; needs no project. Prints metric, query and value, as trec_eval does.

    Example: rankledger evaluate --qrels qrels.txt --run run.txt --metrics R@1,R@10,MRR,AP
    """
    from stages.evaluate import evaluate_run

    evaluate_run(
        qrels,
        run,
        similarity,
        per_query,
        as_json,
        out,
        metrics=metrics,
        ties=ties,
        missing=missing,
        relevance_level=relevance_level,
        engine=engine,
    )


@app.command()
def convert(
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")],
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Recognised by its content.")] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Of an array: the ids of its rows, one a line or a JSON list.")
    ] = None,
    candidates: Annotated[Path | None, typer.Option(help="Of an array of scores: the ids of its columns.")] = None,
    head: Annotated[Path | None, typer.Option(help="A reranked head (Parquet), to be put over a base.")] = None,
    over: Annotated[Path | None, typer.Option(help="The base of --head: a ranking or scores (Parquet).")] = None,
) -> None:
    """Bring predictions into Parquet; needs no project.

    FILE is a TREC run, a server file of CIRR or CIRCO, DEFT's two columns or trec_eval form, or a NumPy array:
    embeddings (--ids), or scores (--ids, --candidates). Or put a reranked --head --over a base ranking.

    Example: rankledger convert scores.npy --ids queries.txt --candidates images.txt --out val.parquet
    """
    from stages.convert import convert

    convert(file, out, ids, candidates, head, over)


@app.command()
def submit(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run's name, such as mymodel.")] = None,
    benchmark: Annotated[str | None, typer.Argument(metavar="cirr|circo", help="Whose server.")] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path(),
    check: Annotated[Path | None, typer.Option(help="Only check this file, made elsewhere.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write the files that the servers of CIRR and CIRCO take, or check one. Exit code 1 where a check fails.

    Example: rankledger submit mymodel cirr --out submissions
    """
    from stages.submit import check_file, submit

    if check and not run:
        fine = check_file(check, as_json)
    elif run and benchmark and not check:
        fine = submit(_project(), run, benchmark, out, as_json)
    else:
        raise typer.BadParameter("give a run and a benchmark, or --check FILE")
    if not fine:
        raise typer.Exit(1)


@app.command()
def template(
    benchmark: Name,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path(),
) -> None:
    """Write a benchmark's queries and their pools as Parquet, to fill in and hand to `rankledger add`.

    Example: rankledger template cirr --out mymodel
    """
    from stages.template import template

    for line in template(_project(), benchmark, out):
        print(line)


@app.command()
def benchmarks(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show what benchmarks there are, their licence, how to get them, and what is on disk.

    Example: rankledger benchmarks
    """
    from stages.benchmarks import show_benchmarks

    show_benchmarks(as_json)


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Look at the environment and say what is wrong and how to mend it. Exit code 1 where something fails.

    Example: rankledger doctor
    """
    from stages.doctor import doctor

    if not doctor(Path.cwd(), as_json):
        raise typer.Exit(1)


@app.command()
def audit(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]…", help="With --recompute: only these runs, such as mymodel.")
    ] = None,
    recompute: Annotated[bool, typer.Option("--recompute", help="Score again, and compare.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check every link from the raw files to the reports. Exit code 1 where one does not hold.

    Example: rankledger audit --recompute mymodel
    """
    from rich.console import Console

    from rankledger.tables import to_json
    from stages.audit import audit, show

    if runs and not recompute:
        raise typer.BadParameter("runs are named to score them again: add --recompute", param_hint="RUN")
    checks = audit(_project(), runs or (), recompute)
    if as_json:
        print(to_json({"checks": [check._asdict() for check in checks]}), end="")
    else:
        show(checks, Console(highlight=False))
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Md = Annotated[bool, typer.Option("--md", help="Print Markdown, for a pull request.")]
Allowed = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-below", metavar="METRIC=NUMBER", help="Exit code 1 where this metric got worse by more, e.g. R@1=-0.5."
    ),
]


@app.command()
def trace(
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="A key of reports/metrics.json, with dots.")],
    rev: Annotated[str | None, typer.Option(help="A revision of Git, in place of the workspace.")] = None,
    query: Annotated[str | None, typer.Option(help="Go down to this query: its rank, its pool, who beat it.")] = None,
    as_json: Json = False,
) -> None:
    """Show where a number comes from: its files, draws, choices, predictions, commit and package versions.

    Example: rankledger trace sample.recipe1m.im2recipe.1k.medR
    """
    from rankledger.tables import to_json
    from stages.trace import show, trace

    lineage = trace(_project(), metric, rev, query)
    if as_json:
        print(to_json(lineage), end="")
    else:
        show(lineage)


@app.command()
def diff(
    rev: Annotated[str, typer.Argument(metavar="REV", help="A revision of Git, such as main, HEAD~1 or a tag.")],
    rev2: Annotated[
        str | None, typer.Argument(metavar="[REV2]", help="Another one, in place of the workspace.")
    ] = None,
    md: Md = False,
    as_json: Json = False,
    fail_below: Allowed = None,
) -> None:
    """Show which metrics moved since REV, whether that is more than noise, and what moved them.

    Example: rankledger diff main --fail-below 'R@1=-0.5'
    """
    from stages.diff import diff

    _compared(diff(_project(), rev, rev2), md, as_json, fail_below or [])


@app.command()
def compare(
    run1: Annotated[str, typer.Argument(metavar="RUN1", help="A run's name: the one to compare with.")],
    run2: Annotated[str, typer.Argument(metavar="RUN2", help="Another run's name.")],
    benchmark: Annotated[str | None, typer.Argument(metavar="[BENCHMARK]", help="Only this benchmark.")] = None,
    md: Md = False,
    as_json: Json = False,
    fail_below: Allowed = None,
) -> None:
    """Show where two runs differ, whether that is more than noise, and why.

    Example: rankledger compare baseline mymodel cirr
    """
    from stages.diff import compare

    _compared(compare(_project(), run1, run2, benchmark), md, as_json, fail_below or [])


def _compared(comparison: Any, md: bool, as_json: bool, fail_below: list[str]) -> None:
    """Print a comparison; exit code 1 where a metric got worse than it may."""
    from rankledger.provenance.comparison import breaches, tolerances
    from rankledger.tables import to_json
    from stages.diff import markdown, show

    allowed = tolerances(fail_below, comparison.keys)
    if as_json:
        print(to_json(comparison.to_dict()), end="")
    elif md:
        print(markdown(comparison))
    else:
        show(comparison)
    broken = list(breaches(comparison.rows, allowed))
    for line in broken:
        print(f"fail: {line}", file=sys.stderr)
    if broken:
        raise typer.Exit(1)


def main() -> None:
    """Run the command; bad input ends in one message and exit code 2. Without a command, say what to do next."""
    if not sys.argv[1:]:
        from stages.welcome import welcome

        with contextlib.suppress(BrokenPipeError):  # of `rankledger | head`
            print(welcome(Path.cwd()), flush=True)
        return
    # what is imported stays: to look through it for garbage, now and at the end, takes a fifth of an import's time
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    try:
        app()
    except Exception as error:
        from rankledger.tables import InputError

        if not isinstance(error, InputError):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
