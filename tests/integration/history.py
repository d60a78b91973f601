"""A history to compare: one base, one commit that changes each factor alone, one that changes all at once."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.conftest import Workspace

Vectors = np.ndarray


def _hashed(text: str) -> Vectors:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.int8).astype(np.float32)


def embeddings(workspace: Workspace, benchmark: str, weight: float, salt: str, folder: Path) -> list[Path]:
    """Vectors by hash, those of images (Recipe1M+) or queries (CIRR) drawn towards their right answers by a weight."""
    universe = pq.read_table(workspace.root / "data" / "subsets" / benchmark / "universe.parquet").to_pylist()
    ids = {side: [r["id"] for r in universe if r["side"] == side] for side in ("image", "recipe", "query")}
    if benchmark == "recipe1m":
        right = {i: f"recipe/{i}" for i in ids["recipe"]}
        guided, other = "image", "recipe"
    else:
        captions = json.loads((workspace.root / "data" / "raw" / "cirr" / "cap.rc2.val.json").read_bytes())
        right = {str(c["pairid"]): f"image/{c['target_hard']}" for c in captions}
        guided, other = "query", "image"
    paths = []
    for side in (guided, other):
        vectors = [_hashed(f"{salt}{side}/{i}") for i in ids[side]]
        if side == guided:
            pairs = zip(vectors, ids[side], strict=True)
            vectors = [v + weight * _hashed(f"{salt}{right[i]}") if i in right else v for v, i in pairs]
        paths.append(folder / f"{side}.parquet")
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": ids[side], "embedding": vectors}), paths[-1])
    return paths


class History:
    """Branches of a workspace with CIRR and a small Recipe1M+: main, better, redrawn, soft, everything.

    `better` has better predictions of `mymodel`; `redrawn` another seed of Recipe1M+; `soft` soft labels in CIRR and
    another similarity in Recipe1M+; `everything` all of it. `twin` is a run as good as `mymodel`.
    """

    def __init__(self, workspace: Workspace, scratch: Path):
        self.workspace, self.scratch = workspace, scratch
        workspace.keep("cirr", "recipe1m")
        params = workspace.root / "params.yaml"
        small = params.read_text().replace("sizes: [1000, 10000], repeats: 10", "sizes: [1000], repeats: 2")
        other = re.compile(r"  (?!recipe1m: |cirr: |sample-cirr: )[a-z0-9_-]+: \{.*")
        params.write_text("\n".join(line for line in small.splitlines() if not other.match(line)) + "\n")
        self.run("dvc", "repro", "validate@cirr", "validate@recipe1m")
        self.predict("mymodel", 0.5)
        self.add("twin", "cirr", 0.5, "another ")
        self.commit("base")
        for branch in ("better", "redrawn", "soft", "everything"):
            self.run("git", "checkout", "-q", "main")
            self.run("dvc", "checkout", "-q")
            self.run("git", "checkout", "-qb", branch)
            if branch in ("better", "everything"):
                self.predict("mymodel", 0.6)
            if branch in ("redrawn", "everything"):
                workspace.edit("params.yaml", "seed: 1234", "seed: 77")
            if branch in ("soft", "everything"):
                workspace.edit("params.yaml", "labels: hard", "labels: soft")
                workspace.edit(
                    "params.yaml", "benchmark: recipe1m, similarity: cosine", "benchmark: recipe1m, similarity: dot"
                )
            self.commit(branch)

    def run(self, *command: str) -> None:
        self.workspace.run(*command)

    def predict(self, run: str, weight: float) -> None:
        for benchmark in ("cirr", "recipe1m"):
            self.add(run, benchmark, weight, "")

    def add(self, run: str, benchmark: str, weight: float, salt: str) -> None:
        paths = embeddings(self.workspace, benchmark, weight, salt, self.scratch / benchmark)
        self.run("rankledger", "add", run, benchmark, *map(str, paths), "--similarity", "cosine")

    def commit(self, message: str) -> None:
        self.run("dvc", "repro")
        self.workspace.commit(message)
