"""Stage `build`: raw files → the test subset."""

from rankledger.benchmarks import benchmark
from rankledger.provenance.croissant import croissant
from rankledger.subset import write_subset
from rankledger.tables import InputError, read_json, to_json, whole_folder, write_text
from stages.project import Project


def build(project: Project, name: str) -> None:
    """Build `data/subsets/<name>/` from `data/raw/<name>/`; raises `InputError` where a raw file is not fit for it."""
    found = benchmark(name)
    parameters = found.parameters(project.benchmark_params(name))
    raw = project.raw(name)
    if not (raw / "manifest.json").is_file():
        raise InputError(f"{project.relative(raw)}: nothing fetched yet; run `dvc repro fetch@{name}` first")
    fetched = read_json(raw / "manifest.json")
    subset, notes = found.build(raw, parameters)
    with whole_folder(project.subset(name)) as new:
        manifest = write_subset(subset, new, name, parameters, fetched["files"], notes)
        about = croissant(new, manifest, found.title, found.paper, found.url, found.year)
        write_text(to_json(about), new / "croissant.json")
    counts = ", ".join(f"{n:,} {table}" for table, n in manifest["counts"].items())
    print(f"{name}: {counts}")
