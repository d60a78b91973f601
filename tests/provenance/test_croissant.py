"""`croissant.json` of each benchmark's subset: what it says, and what mlcroissant reads with it."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rankledger.benchmarks import NAMES, benchmark
from rankledger.provenance.croissant import croissant
from rankledger.subset import Subset, write_subset
from rankledger.tables import InputError, read_json, read_table, sha256_file, to_json
from stages.build import build
from stages.fetch import fetch
from stages.project import Project

MOST = 400  # records that are loaded back of a table; mlcroissant takes its time
LOAD = """
import itertools, json, sys
import mlcroissant

def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    return [plain(v) for v in value] if isinstance(value, list) else value

found = {}
for path in sys.argv[2:]:
    dataset = mlcroissant.Dataset(jsonld=path)
    about = dataset.metadata
    records = {
        table.id: [
            {name.split("/", 1)[1]: plain(value) for name, value in record.items()}
            for record in itertools.islice(dataset.records(table.id), int(sys.argv[1]))
        ]
        for table in about.record_sets
    }
    found[path] = {
        "issues": about.ctx.issues.report(),
        "version": about.ctx.conforms_to.value,
        "license": [term if isinstance(term, str) else term.name for term in about.license],
        "records": records,
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def subset(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a benchmark's subset, built by the stages from its sample."""
    project = Project(tmp_path_factory.mktemp("croissant"))
    listed = "".join(f"  {name}: {{}}\n" for name in NAMES)
    (project.root / "params.yaml").write_text(f"mirror: null\nbenchmarks:\n{listed}")

    def built(name: str) -> Path:
        if not project.subset(name).exists():
            fetch(project, name)
            build(project, name)
        return project.subset(name)

    return built


def about(folder: Path, **manifest: Any) -> dict[str, Any]:
    """The description of a subset with another manifest, as JSON gives it back."""
    made = croissant(
        folder, {**read_json(folder / "manifest.json"), **manifest}, "Title", "Paper", "https://a.org", 2020
    )
    found: dict[str, Any] = json.loads(to_json(made))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_it_describes_every_file_and_column(subset: Callable[[str], Path], name: str) -> None:
    folder = subset(name)
    said, manifest = read_json(folder / "croissant.json"), read_json(folder / "manifest.json")
    tables = {path.stem: read_table(path) for path in folder.glob("*.parquet")}
    files = {f["@id"]: f for f in said["distribution"]}
    assert set(files) == {f"{table}.parquet" for table in tables}
    for file, described in files.items():
        content = (folder / described["contentUrl"]).read_bytes()
        assert described["sha256"] == hashlib.sha256(content).hexdigest()
        assert described["contentSize"] == f"{len(content)} B"
        assert described["@type"] == "cr:FileObject"
        assert described["name"] == file
    columns = {r["name"]: [f["name"] for f in r["field"]] for r in said["recordSet"]}
    assert columns == {table: content.column_names for table, content in tables.items()}
    for records in said["recordSet"]:
        for column in records["field"]:
            assert column["@id"] == f"{records['@id']}/{column['name']}"
            assert column["source"]["fileObject"]["@id"] == f"{records['@id']}.parquet"
            assert column["source"]["extract"]["column"] == column["name"]
    assert said["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert said["license"] == ["https://spdx.org/licenses/MIT"]
    assert said["citeAs"] == benchmark(name).paper
    assert said["url"].startswith("http")
    raw = folder.parents[1] / "raw" / name
    derived = {s["name"]: s for s in said["prov:wasDerivedFrom"]}
    assert set(derived) == {p.relative_to(raw).as_posix() for p in raw.rglob("*") if p.is_file()} - {"manifest.json"}
    assert all(source["sha256"] == sha256_file(raw / file) for file, source in derived.items())
    activity = said["prov:wasGeneratedBy"]
    assert activity["prov:label"] == f"rankledger build {name}"
    assert {p["name"]: p.get("value") for p in activity["additionalProperty"]} == manifest["parameters"]
    assert {used["@id"] for used in activity["prov:used"]} == {s["@id"] for s in derived.values()}


def test_the_same_bytes_each_time(subset: Callable[[str], Path], tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "params.yaml").write_text("benchmarks:\n  cirr: {}\n")
    fetch(project, "cirr")
    build(project, "cirr")
    first = {p.name: p.read_bytes() for p in project.subset("cirr").iterdir()}
    assert first == {p.name: p.read_bytes() for p in subset("cirr").iterdir()}
    build(project, "cirr")
    assert first == {p.name: p.read_bytes() for p in project.subset("cirr").iterdir()}
    assert {p.name for p in project.subset("cirr").parent.iterdir()} == {"cirr"}


def test_a_failed_build_leaves_the_old_subset_whole(
    subset: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path)
    (tmp_path / "params.yaml").write_text("benchmarks:\n  cirr: {}\n")
    fetch(project, "cirr")
    build(project, "cirr")
    before = {p.name: p.read_bytes() for p in project.subset("cirr").iterdir()}
    (tmp_path / "params.yaml").write_text("benchmarks:\n  cirr: {labels: soft}\n")

    def fails(*arguments: Any) -> Any:
        raise InputError("it can't be described")

    monkeypatch.setattr("stages.build.croissant", fails)
    with pytest.raises(InputError, match="described"):
        build(project, "cirr")
    assert before == {p.name: p.read_bytes() for p in project.subset("cirr").iterdir()}
    assert {p.name for p in project.subset("cirr").parent.iterdir()} == {"cirr"}


def test_its_version_is_that_of_the_content(subset: Callable[[str], Path]) -> None:
    folder = subset("cirr")
    said, fingerprints = about(folder), read_json(folder / "manifest.json")["fingerprints"]
    assert about(folder, notes=["another"])["version"] == said["version"]
    other = about(folder, fingerprints={**fingerprints, "pools": "0" * 64})
    assert other["version"] != said["version"]
    assert said["version"].startswith("1.0.0+")


def test_official_sources_have_their_address_and_licence(subset: Callable[[str], Path]) -> None:
    source = {"name": "a b/c.json", "url": "https://a.org/c.json", "size": 7, "sha256": "0" * 64, "checksum": "sha256"}
    sources = [
        source | {"licence": "CC-BY-NC-4.0"},
        source | {"name": "d.json", "url": None, "licence": "research use, registration"},
        source | {"name": "e.json", "licence": "CC-BY-4.0 (COCO annotations)"},
    ]
    parameters = {"source": "official", "labels": "soft", "ties": None, "sizes": [1000, 10000]}
    said = about(subset("cirr"), sources=sources, parameters=parameters)
    assert said["license"] == [
        "https://spdx.org/licenses/CC-BY-4.0",
        "https://spdx.org/licenses/CC-BY-NC-4.0",
        {"@type": "CreativeWork", "name": "research use, registration"},
    ]
    assert [s.get("url") for s in said["prov:wasDerivedFrom"]] == ["https://a.org/c.json", None, "https://a.org/c.json"]
    assert said["prov:wasDerivedFrom"][0]["@id"] == "raw/cirr/a%20b/c.json"
    assert "Made-up" not in said["description"]
    assert "Made-up" in about(subset("cirr"))["description"]
    assert {p["name"]: p.get("value") for p in said["prov:wasGeneratedBy"]["additionalProperty"]} == parameters


def test_types_of_columns(tmp_path: Path) -> None:
    one = pa.table(
        {
            "text": pa.array(["a"]),
            "many": pa.array([["a"]]),
            "number": pa.array([1]),
            "half": pa.array([0.5]),
            "flag": pa.array([True]),
        }
    )
    empty = pa.table({"id": pa.array([], pa.string())})
    manifest = write_subset(Subset(one, *[empty] * 5), tmp_path / "toy", "toy", {"source": "sample"}, [])
    fields = croissant(tmp_path / "toy", manifest, "Toy", "", "", 2020)["recordSet"][0]["field"]
    found = {f["name"]: (f["dataType"], f.get("isArray", False), f.get("arrayShape")) for f in fields}
    assert found == {
        "text": ("sc:Text", False, None),
        "many": ("sc:Text", True, "-1"),
        "number": ("sc:Integer", False, None),
        "half": ("sc:Float", False, None),
        "flag": ("sc:Boolean", False, None),
    }


def load(oracles: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    command = [oracles / "python", "-c", LOAD, str(MOST), *paths]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_mlcroissant_validates_it_and_loads_the_records(subset: Callable[[str], Path], oracles: Path) -> None:
    paths = {name: subset(name) / "croissant.json" for name in NAMES}
    done = load(oracles, *paths.values())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name, path in paths.items():
        said = found[str(path)]
        assert said["issues"] == "", name
        assert said["version"] == "http://mlcommons.org/croissant/1.1"
        assert said["license"] == ["https://spdx.org/licenses/MIT"]
        tables = {p.stem: read_table(p).slice(0, MOST).to_pylist() for p in path.parent.glob("*.parquet")}
        assert said["records"] == tables, name


def test_mlcroissant_reads_words_for_a_licence(subset: Callable[[str], Path], oracles: Path, tmp_path: Path) -> None:
    sources = [{"name": "a.json", "url": None, "size": 7, "sha256": "0" * 64, "licence": "CDLA (as its README says)"}]
    for path in subset("cirr").glob("*.parquet"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "croissant.json").write_text(to_json(about(subset("cirr"), sources=sources)))
    done = load(oracles, tmp_path / "croissant.json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)[str(tmp_path / "croissant.json")]
    assert (said["issues"], said["license"]) == ("", ["CDLA (as its README says)"])


def test_mlcroissant_refuses_a_broken_one(subset: Callable[[str], Path], oracles: Path, tmp_path: Path) -> None:
    """The validator that the tests above rely on does say no."""
    said = about(subset("cirr"))
    del said["distribution"][0]["contentUrl"]
    (tmp_path / "croissant.json").write_text(to_json(said))
    done = load(oracles, tmp_path / "croissant.json")
    assert done.returncode != 0
    assert "contentUrl" in done.stderr
