"""Recipe1M+ as published: 51,304 pairs, ten draws of 1,000 and of 10,000, both directions."""

import json
import subprocess
from pathlib import Path

from bench.common import Goal, cached, environment, peer, python, rankledger
from bench.small import project
from bench.vectors import Maker, write

PAIRS, D = 51_304, 1024


def main() -> None:
    """Measure `score` against the loop of the benchmark's own code, over the same numbers of vectors."""
    folder = cached(f"recipe1m-{PAIRS}-{D}", _make)
    vectors = folder / "data" / "predictions" / "bench" / "recipe1m"
    with Goal(
        "recipe1m", f"Recipe1M+, {PAIRS:,} pairs, d = {D:,}, 10 × 1,000 and 10 × 10,000, both directions"
    ) as goal:
        loop = goal.measure("the official loop, NumPy", peer("recipe_loop", vectors), runs=1, inside=True)
        bare = python("bench.products", 10_000, 100_000, D)
        goal.measure("the bare products of 10 × 10,000, float32", bare, against=loop, inside=True)
        goal.measure("our ranking", python("bench.vectors", "draws", vectors), against=loop, time=1 / 8, inside=True)
        goal.measure(
            "rankledger score, the whole process",
            rankledger("score", "bench", "recipe1m"),
            cwd=folder,
            against=loop,
            time=1 / 8,
        )


def _make(folder: Path) -> None:
    """A project with made-up test recipes, of which every one is kept, its subset, and embeddings of them."""
    project(folder, "recipe1m", {})
    parameters = json.loads((folder / "params.yaml").read_text())
    parameters["runs"] = {"bench-recipe1m": {"run": "bench", "benchmark": "recipe1m", "similarity": "cosine"}}
    (folder / "params.yaml").write_text(json.dumps(parameters))
    raw = folder / "data" / "raw" / "recipe1m"
    raw.mkdir(parents=True)
    ids = [f"{n:010x}" for n in range(PAIRS)]
    texts = [{"text": f"word{i}"} for i in range(3)]
    tables = {
        "layer1.json": {"title": "made up", "partition": "test", "ingredients": texts, "instructions": texts},
        "layer2+.json": {"images": [{"id": "a.jpg", "url": "http://example.org/a.jpg"}]},
        "det_ingrs.json": {"valid": [True] * 3, "ingredients": texts},
    }
    for name, shape in tables.items():
        (raw / name).write_text(json.dumps([{"id": i, **shape} for i in ids]))
    (raw / "remove1M.txt").write_text("0" * 10 + "\n")
    (raw / "manifest.json").write_text(json.dumps({"source": "official", "files": []}))
    for stage in ("build", "validate"):
        command = rankledger(stage, "recipe1m")
        subprocess.run(command, cwd=folder, env=environment(), check=True, stdout=subprocess.DEVNULL)
    for number, side in enumerate(("image", "recipe")):
        write(folder / "data" / "predictions" / "bench" / "recipe1m", side, ids, D, Maker("trained", number))


if __name__ == "__main__":
    main()
