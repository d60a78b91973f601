"""`rankledger benchmarks`: what there is, and what is on disk."""

import json
import shutil
from pathlib import Path

import pytest

from rankledger.benchmarks import NAMES, benchmark
from stages.fetch import fetch
from tests.conftest import ROOT
from tests.projects import Small


@pytest.fixture
def project(tmp_path: Path) -> Small:
    """CIRR built from the sample, GeneCIS only fetched, CIRCO listed, the others not."""
    made = Small.make(tmp_path / "project", {"cirr": {"source": "sample"}})
    (made.root / "params.yaml").write_text(
        "mirror: null\nbenchmarks: {cirr: {}, genecis: {source: sample}, circo: {source: official}}\nruns: {}\n"
    )
    fetch(made, "genecis")
    shutil.copy(ROOT / "data" / "sources.yaml", made.root / "data" / "sources.yaml")
    return made


def test_outside_a_project_it_says_what_there_is(tmp_path: Path) -> None:
    done = Small(tmp_path).run("benchmarks", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)["benchmarks"]
    assert [row["name"] for row in found] == list(NAMES)
    for row in found:
        about = benchmark(row["name"])
        assert row == {n: getattr(about, n) for n in ("name", "title", "paper", "url", "licence", "access")}
    lines = Small(tmp_path).run("benchmarks").out.splitlines()
    assert lines[0].split("  ")[0] == "benchmark"
    assert len(lines) == 1 + len(NAMES)
    assert lines[2].split() == ["cirr", "CIRR", "MIT", "open"]


def test_in_a_project_it_says_what_is_there(project: Small) -> None:
    found = {row["name"]: row for row in json.loads(project.run("benchmarks", "--json").out)["benchmarks"]}
    assert {name: row["parameters"] and row["parameters"]["source"] for name, row in found.items()} == {
        **dict.fromkeys(NAMES),
        "cirr": "sample",
        "genecis": "sample",
        "circo": "official",
    }
    queries = len(project.built("cirr").queries)
    raw = [p for p in project.raw("cirr").iterdir() if p.name != "manifest.json"]
    size = sum(p.stat().st_size for p in raw)
    assert found["cirr"]["raw"] == {"source": "sample", "files": len(raw), "bytes": size}
    assert found["cirr"]["subset"] == {"source": "sample", "queries": queries}
    assert found["genecis"]["raw"]["source"] == "sample"
    assert found["genecis"]["subset"] is found["circo"]["raw"] is found["circo"]["subset"] is None
    assert found["cirr"]["official"] == {"bytes": 1254129 + 1609916 + 120364 + 105568, "unknown": []}
    assert found["circo"]["official"] == {"bytes": 167660 + 111978, "unknown": ["image_info_unlabeled2017.zip"]}
    assert found["visual_genome"]["official"]["bytes"] == 1_780_854, "optional files are not counted"
    assert found["recipe1m"]["official"]["unknown"] == ["layer1.json", "layer2+.json or layer2.json", "det_ingrs.json"]
    lines = {line.split()[0]: line for line in project.run("benchmarks").out.splitlines()}
    assert " ".join(lines["cirr"].split()).endswith(f"open 3.1 MB sample, {size / 1e6:.1f} MB {queries:,} (sample)")
    assert " ".join(lines["circo"].split()).endswith("open 0.3 MB + 1 of unknown size no no")


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    shown = Small(tmp_path).run("benchmarks").out
    assert "┃" in shown
    assert "http://im2recipe.csail.mit.edu" in shown


def test_bad_parameters_are_one_line(project: Small) -> None:
    (project.root / "params.yaml").write_text("benchmarks: {cirr: {labels: firm}}\n")
    done = project.run("benchmarks")
    assert done.code == 2
    assert done.err == "error: params.yaml: benchmarks.cirr.labels is 'firm'; it should be one of: hard, soft\n"
