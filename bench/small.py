"""What should cost nothing: help, a pipeline with nothing to do, building subsets, Recipe1M+'s largest file."""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.common import ROOT, Goal, cached, environment, python, rankledger

DVC = str(Path(sys.executable).with_name("dvc"))
OFFICIAL: Mapping[str, Mapping[str, Any]] = {
    "cirr": {},
    "circo": {},
    "fashioniq": {},
    "genecis": {"tasks": ["change_object", "focus_object"]},  # the other two have files of hundreds of megabytes
}
RECIPES, TEST = 1_029_720, 154_045  # of Recipe1M+
FILES = ("layer1.json", "layer2+.json", "det_ingrs.json")
SHAPE = '{"id": "%010x", "title": "%s", "partition": "%s", "url": "http://example.org/%010x", '


def main() -> None:
    """Measure all; building CIRR, CIRCO, FashionIQ and GeneCIS only where there is a folder with their files."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--mirror", type=Path, default=ROOT.parent / "shared" / "mirror", help="a folder with <benchmark>/<file>"
    )
    mirror = options.parse_args().mirror.resolve()
    commit = _git("rev-parse", "HEAD", cwd=ROOT)
    pipeline = cached(f"pipeline-{commit[:12]}", _pipeline)
    ours = [len(stage["deps"]) for stage in YAML(typ="safe").load(pipeline / "dvc.lock")["stages"].values()]
    stages, deps = len(ours), sum(ours)
    empty = cached(f"nothing-{stages}", partial(_nothing, deps=[1] * stages))
    full = cached(f"nothing-{stages}-{deps}", partial(_nothing, deps=ours))
    recipes = cached(f"recipe1m-{RECIPES}", _recipes)
    with Goal("small", "The rest stays small") as goal:
        goal.measure("rankledger --help", rankledger("--help"), seconds=0.3)
        nothing = goal.measure(f"dvc repro, {stages} stages that do nothing", [DVC, "repro"], cwd=empty)
        goal.measure(f"dvc repro, the same with our {deps} dependencies", [DVC, "repro"], cwd=full, against=nothing)
        goal.measure(f"dvc repro, our {stages}, nothing to do", [DVC, "repro"], cwd=pipeline, against=nothing, time=1.3)
        for name, parameters in OFFICIAL.items():
            if (mirror / name).is_dir():
                project = cached(
                    f"official-{name}", partial(_official, name=name, parameters=parameters, mirror=mirror)
                )
                goal.measure(f"build {name} from its files", rankledger("build", name), cwd=project, seconds=5)
            else:
                goal.note(f"build {name}", f"not measured: no folder {name} in the mirror")
        raw = recipes / "data" / "raw" / "recipe1m"
        goal.note("layer1.json, MB", round((raw / "layer1.json").stat().st_size / 1e6))
        bare = goal.measure("ijson alone on Recipe1M+'s files", python("bench.small_parse", *FILES), cwd=raw)
        goal.measure("build recipe1m", rankledger("build", "recipe1m"), cwd=recipes, against=bare, time=1.5, mib=1024)


def _git(*arguments: object, cwd: Path) -> str:
    done = subprocess.run(["git", *map(str, arguments)], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _pipeline(folder: Path) -> None:
    """A clone of the last commit in which every stage has run."""
    _git("clone", "-q", ROOT, folder, cwd=ROOT)
    subprocess.run([DVC, "repro", "-q"], cwd=folder, env={**environment(), "PYTHONPATH": str(folder)}, check=True)


def _nothing(folder: Path, deps: Sequence[int]) -> None:
    """A project with our settings, whose stages copy a file of one byte; each depends on so many such files."""
    folder.mkdir()
    _git("init", "-q", cwd=folder)
    subprocess.run([DVC, "init", "-q"], cwd=folder, env=environment(), check=True)
    (folder / ".dvc" / "config").write_bytes((ROOT / ".dvc" / "config").read_bytes())
    for i in range(max(deps)):
        (folder / f"in{i}").write_text("x")
    entries = {
        f"stage{i}": {"cmd": f"cp in0 out{i}", "deps": [f"in{k}" for k in range(n)], "outs": [f"out{i}"]}
        for i, n in enumerate(deps)
    }
    (folder / "dvc.yaml").write_text(json.dumps({"stages": entries}))
    subprocess.run([DVC, "repro", "-q"], cwd=folder, env=environment(), check=True)


def project(folder: Path, name: str, parameters: Mapping[str, Any], mirror: Path | None = None) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "dvc.yaml").touch()
    (folder / "data" / "sources.yaml").write_bytes((ROOT / "data" / "sources.yaml").read_bytes())
    listed = {"mirror": str(mirror) if mirror else None, "benchmarks": {name: {"source": "official", **parameters}}}
    (folder / "params.yaml").write_text(json.dumps(listed))


def _official(folder: Path, name: str, parameters: Mapping[str, Any], mirror: Path) -> None:
    """A project in which the official files of a benchmark are fetched."""
    project(folder, name, parameters, mirror)
    subprocess.run(rankledger("fetch", name), cwd=folder, env=environment(), check=True, stdout=subprocess.DEVNULL)


def _recipes(folder: Path) -> None:
    """Recipe1M+'s files as large as the real ones, made up: layer1.json of 1.4 GB.

    The other two hold the test recipes only, for no other's content is asked for.
    """
    project(folder, "recipe1m", {})
    raw = folder / "data" / "raw" / "recipe1m"
    raw.mkdir(parents=True)
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5000)]
    ids = rng.sample(range(16**10), RECIPES)

    def texts(count: int, length: int) -> str:
        return json.dumps([{"text": " ".join(rng.choices(words, k=length))} for _ in range(count)])

    with (raw / "layer1.json").open("w") as file:
        for n, number in enumerate(ids):
            partition = "test" if n < TEST else "val" if n < 2 * TEST else "train"
            head = SHAPE % (number, " ".join(rng.choices(words, k=4)), partition, number)
            shape = f'"ingredients": {texts(2 + n % 15, 4)}, "instructions": {texts(1 + n % 18, 12)}}}'
            file.write(f"{',' if n else '['}\n{head}{shape}")
        file.write("]\n")
    images = [
        {"id": f"{n:010x}", "images": [{"id": f"{n:x}.jpg", "url": f"http://example.org/{n:x}.jpg"}]}
        for n in ids[:TEST]
    ]
    (raw / "layer2+.json").write_text(json.dumps(images))
    found = [
        {"id": f"{n:010x}", "valid": [True] * 3, "ingredients": [{"text": w} for w in rng.sample(words, 3)]}
        for n in ids[:TEST]
    ]
    (raw / "det_ingrs.json").write_text(json.dumps(found))
    (raw / "remove1M.txt").write_text("0" * 10 + "\n")
    (raw / "manifest.json").write_text(json.dumps({"source": "official", "files": []}))


if __name__ == "__main__":
    main()
