"""`rankledger benchmarks`: what there is, under which licence, how to get it, and what of it is on disk."""

from typing import Any

from rankledger.benchmarks import NAMES, benchmark
from rankledger.benchmarks.base import Benchmark
from rankledger.tables import InputError, read_json, to_json
from stages.fetch import MANIFEST, Need
from stages.project import Project


def show_benchmarks(as_json: bool) -> None:
    """Print a table, or JSON; outside a project only what needs none."""
    try:
        project = Project.find()
    except InputError:
        project = None
    rows = [describe(benchmark(name), project) for name in NAMES]
    print(to_json({"benchmarks": rows}), end="") if as_json else _print_table(rows, project is not None)


def describe(found: Benchmark, project: Project | None) -> dict[str, Any]:
    """What there is to say of a benchmark.

    Always name, title, paper, url, licence, access. In a project also `parameters` (null where `params.yaml` does
    not list it), `official` (bytes of the files that it needs, and those of unknown size), `raw` (source, files,
    bytes) and `subset` (source, queries), the last two null where they are not there.
    """
    shown: dict[str, Any] = {n: getattr(found, n) for n in ("name", "title", "paper", "url", "licence", "access")}
    if project is None:
        return shown
    listed = project.params().get("benchmarks") or {}
    parameters = found.parameters(listed.get(found.name))
    sources = project.sources(found.name)
    needs = [need for text in found.files(parameters) if not (need := Need.parse(text)).optional]
    sizes = {
        need: next((sources[n]["size"] for n in need.names if "size" in sources.get(n, {})), None) for need in needs
    }
    raw, subset = (folder / MANIFEST for folder in (project.raw(found.name), project.subset(found.name)))
    fetched, built = (read_json(path) if path.is_file() else None for path in (raw, subset))
    return {
        **shown,
        "parameters": parameters if found.name in listed else None,
        "official": {
            "bytes": sum(size for size in sizes.values() if size),
            "unknown": [str(need).replace("**/", "") for need, size in sizes.items() if not size],
        },
        "raw": fetched
        and {
            "source": fetched["source"],
            "files": len(fetched["files"]),
            "bytes": sum(file["size"] for file in fetched["files"]),
        },
        "subset": built and {"source": built["parameters"]["source"], "queries": built["counts"]["queries"]},
    }


def _print_table(rows: list[dict[str, Any]], here: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heads = ["benchmark", "title", "licence", "how to get it"]
    heads += ["official files", "fetched", "queries built"] if here else []
    console = Console(highlight=False)
    table = Table() if console.is_terminal else Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        cells = [row["name"], row["title"], row["licence"], row["access"]]
        if here:
            official, raw, subset = row["official"], row["raw"], row["subset"]
            sizes = [_megabytes(official["bytes"])] if official["bytes"] else []
            sizes += [f"{len(official['unknown'])} of unknown size"] if official["unknown"] else []
            cells += [
                " + ".join(sizes),
                f"{raw['source']}, {_megabytes(raw['bytes'])}" if raw else "no",
                f"{subset['queries']:,} ({subset['source']})" if subset else "no",
            ]
        table.add_row(*map(Text, cells))
    if console.is_terminal:
        console.print(table)
    else:
        console.width = 1000  # a line a row
        with console.capture() as shown:
            console.print(table)
        print("\n".join(line.rstrip() for line in shown.get().splitlines()))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
