"""Blocks counted on a Dask cluster: two workers, each a process."""

import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rankledger.ranking import cluster, vectors
from rankledger.ranking.blocks import Engine, Job, Tally, count_block
from rankledger.ranking.cluster import Cluster, Function, engine_at
from rankledger.ranking.counting import Group
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.vectors import Vectors
from rankledger.tables import InputError
from tests.clusters import LONG, WITHOUT_US, Processes, noted, wait
from tests.command import Done, rankledger
from tests.projects import Small

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'rankledger[dask]'")

BLOCK = 30  # vectors
LACKING = "no RankLedger there, or another version; the scheduler and all workers need this one"


@pytest.fixture(autouse=True)
def _all_blocks_go_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "SMALL", 0)
    monkeypatch.setattr(cluster, "PATIENCE", LONG)
    monkeypatch.setattr(vectors, "BLOCK_VECTORS", BLOCK)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("cluster"), workers=2) as found:
        yield found


@pytest.fixture
def engine(processes: Processes) -> Iterator[Cluster]:
    with Cluster(processes.address) as found:
        found.client.wait_for_workers(2, LONG)
        yield found


def near(n: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors some of which are equal, and others all but equal."""
    few = rng.normal(size=(7, 48))
    return few[rng.integers(0, 7, n)] * (1 + 1e-7 * rng.integers(-2, 3, (n, 48)) * (rng.random((n, 1)) < 0.5))


def stored(matrix: np.ndarray, width: str) -> np.ndarray:
    if width == "bfloat16":
        return (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return matrix.astype(width)


def pairs(rng: np.random.Generator, n: int, m: int, right: int, excluded: int) -> tuple[np.ndarray, ...]:
    """Of n queries and m candidates: the right ones of each query, and others that are excluded."""
    chosen = rng.permutation(n * m)[: right + excluded]
    one, other = np.sort(chosen[:right]), np.sort(chosen[right:])
    return one // m, one % m, other // m, other % m


def case(width: str = "float32", cosine: bool = True) -> tuple[Embeddings, Group, Group]:
    """Some queries and some candidates of many, with several right ones a query, ranked for each other."""
    rng = np.random.default_rng(11)
    n, m = 90, 310
    source = Embeddings(
        Vectors(stored(near(120, rng), width), cosine),
        Vectors(stored(near(350, rng), width), cosine),
        rng.permutation(120),
        rng.permutation(350),
    )
    queries, candidates = (np.sort(rng.choice(of, k, replace=False)) for of, k in ((120, n), (350, m)))
    there = Group(candidates, queries, *pairs(rng, n, m, 200, 150))
    back = Group(queries, candidates, *pairs(rng, m, n, 500, 100))
    return source, there, back


def on(source: Embeddings, engine: Engine) -> Embeddings:
    return replace(source, engine=engine)


def blocks(source: Embeddings, group: Group) -> list[Job]:
    """All jobs of a group."""
    jobs: list[Job] = []

    def keep(function: Function, made: Iterator[Job]) -> Iterator[tuple[Tally, Tally]]:
        jobs.extend(made)
        return map(function, jobs)

    on(source, keep).count(group)
    return jobs


def same(found: tuple[object, ...], wanted: tuple[object, ...]) -> bool:
    return len(found) == len(wanted) and all(
        len(a) == len(b) and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize(
    ("width", "cosine"),
    [("float32", True), ("float32", False), ("float64", True), ("float16", True), ("bfloat16", False)],
)
def test_the_counts_are_those_of_this_process(engine: Cluster, width: str, cosine: bool) -> None:
    source, there, back = case(width, cosine)
    both = source.count_both(there, back)
    assert all(len(np.unique(counts.tied)) > 5 for counts in both)
    assert same(on(source, engine).count_both(there, back), both)
    assert same((on(source, engine).count(there),), (source.count(there),))
    assert same((on(source, engine).reverse().count(back),), (source.reverse().count(back),))


def test_the_shared_side_is_sent_once(engine: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """To all workers; the rest of each block to one."""
    sent: list[bool] = []
    scatter = engine.client.scatter

    def watched(data: list[object], broadcast: bool = False, **more: object) -> object:
        sent.append(broadcast)
        return scatter(data, broadcast=broadcast, **more)

    monkeypatch.setattr(engine.client, "scatter", watched)
    source, there, _ = case()
    on(source, engine).count(there)
    assert Counter(sent) == {True: 1, False: -(-len(there.candidates) // BLOCK)}


@pytest.mark.parametrize(("limit", "most"), [(cluster.AHEAD_BYTES, 2 * cluster.AHEAD), (1, 1)], ids=["number", "bytes"])
def test_blocks_are_made_as_they_can_be_sent(
    engine: Cluster, monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    """Of a gallery on disk only so much is in memory."""
    monkeypatch.setattr(cluster, "AHEAD_BYTES", limit)
    source, there, _ = case()
    jobs, made = blocks(source, there), 0

    def making() -> Iterator[Job]:
        nonlocal made
        for job in jobs:
            made += 1
            yield job

    for done, (found, wanted) in enumerate(zip(engine(count_block, making()), map(count_block, jobs), strict=True)):
        assert same(found, wanted)
        assert made == min(done + most + 1, len(jobs))
    assert done == len(jobs) - 1 > 2 * most


def test_small_blocks_are_counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    source, there, _ = case()
    monkeypatch.setattr(cluster, "SMALL", len(there.queries) * BLOCK * 48 + 1)
    with engine_at("dask://127.0.0.1:1") as engine:  # where nobody is
        assert same((on(source, engine).count(there),), (source.count(there),))


def test_nothing_to_count(engine: Cluster) -> None:
    assert list(engine(count_block, iter(()))) == []


def watch(folder: Path, victim: subprocess.Popen[bytes], then: Callable[[], object]) -> threading.Thread:
    """End a worker without a word, in the middle of its first block."""
    (folder / f"victim-{victim.pid}").touch()

    def kill() -> None:
        for _ in wait():
            if list(folder.glob(f"{victim.pid}-*")):
                victim.kill()
                then()
                return

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_a_worker_that_ends_costs_only_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, there, back = case()
    both = source.count_both(there, back)
    jobs = blocks(source, there)
    with Processes(tmp_path, workers=2) as processes, Cluster(processes.address) as engine:
        engine.client.wait_for_workers(2, LONG)
        one, two = processes.workers

        def count(name: str, victim: subprocess.Popen[bytes], then: Callable[[], object]) -> list[list[str]]:
            """Count, the victim ends; by process, the blocks that it began."""
            folder = tmp_path / name
            folder.mkdir()
            watcher = watch(folder, victim, then)

            def watched(function: Function, jobs: Iterator[Job]) -> Iterator[tuple[Tally, Tally]]:
                return engine(partial(noted, folder), jobs)

            try:
                assert same(on(source, watched).count_both(there, back), both)
            finally:
                watcher.join()
            notes = [path.name.split("-") for path in folder.glob("*-*-*")]
            return [sorted(block for pid, block, *_ in notes if int(pid) == p.pid) for p in processes.started[1:]]

        lost, kept = count("one", one, lambda: None)
        assert len(lost) == 1
        assert kept == sorted(str(job.at[0]) for job in jobs)  # each once, the lost one again

        # the last that holds the shared side ends; another comes
        _, lost, kept = count("two", two, processes.add)
        assert len(lost) == 1
        assert kept == sorted(str(job.at[0]) for job in jobs)

        monkeypatch.setattr(cluster, "ATTEMPTS", 1)
        with pytest.raises(InputError, match="workers ended 1 times with one block"):
            count("three", processes.started[-1], lambda: None)


def test_workers_that_are_not_there_or_lack_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, there, _ = case()
    with Processes(tmp_path) as processes:
        address = processes.address
        monkeypatch.setattr(cluster, "PATIENCE", 0.5)
        with engine_at(address) as engine, pytest.raises(InputError) as error:
            on(source, engine).count(there)
        scheduler = address.removeprefix("dask://")
        assert str(error.value) == f"{address}: no worker for 0.5 s; start some with `dask worker {scheduler}`"

        worker = processes.add("--preload", WITHOUT_US)
        monkeypatch.setattr(cluster, "PATIENCE", LONG)
        with engine_at(address) as engine, pytest.raises(InputError, match=LACKING):
            on(source, engine).count(there)
        assert worker.poll() is None  # it is somebody's, and goes on


def test_workers_and_schedulers_with_another_version(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    source, there, _ = case()
    monkeypatch.setattr(cluster, "CODE", "newer")
    with engine_at(processes.address) as engine, pytest.raises(InputError, match=LACKING):
        on(source, engine).count(there)


def test_a_worker_of_another_version_that_came_later(engine: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    source, there, _ = case()
    assert engine.client
    monkeypatch.setattr(cluster, "CODE", "newer")
    with pytest.raises(InputError, match="has another version of RankLedger; all need the same"):
        on(source, engine).count(there)


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    source, there, _ = case()
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    for mute in (False, True):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            if mute:
                taken.listen()
            address = f"dask://127.0.0.1:{taken.getsockname()[1]}"
            with engine_at(address) as engine, pytest.raises(InputError) as error:
                on(source, engine).count(there)
            assert str(error.value).startswith(f"{address}: no Dask scheduler answers (")
            assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "local",
        "dask",
        "127.0.0.1:8786",
        "tcp://127.0.0.1:8786",
        "dask://host",
        "dask://:8786",
        "dask://host:many",
        "dask://host:99999",
        "dask://host:8786/status",
        8786,
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(InputError, match="it should look like dask://host:8786"):
        engine_at(address)


def test_dask_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    source, there, _ = case()
    monkeypatch.setitem(sys.modules, "distributed", None)
    with engine_at("dask://host:8786") as engine, pytest.raises(InputError) as error:
        on(source, engine).count(there)
    assert str(error.value) == "dask://host:8786: Dask is not installed: pip install 'rankledger[dask]'"


def sides(folder: Path, source: Embeddings) -> Path:
    """The vectors of both sides as files."""
    folder.mkdir()
    for name, vectors_, row in ("query", source.left, source.query_row), ("image", source.right, source.candidate_row):
        assert isinstance(vectors_, Vectors)
        ids = pa.array(f"{name}{i:03}" for i in range(len(row)))
        pq.write_table(
            pa.table({"id": ids, "embedding": list(vectors_.stored[row])}),
            folder / f"{name}.parquet",
            row_group_size=50,
        )
    return folder


def test_evaluate_on_a_cluster(processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, *_ = case()
    run, qrels, scores = sides(tmp_path / "run", source), tmp_path / "qrels", tmp_path / "scores"
    qrels.write_text(
        "".join(f"query{i:03} 0 image{(i * k) % 350:03} 1\n" for i in range(120) for k in (1, 2, 3)[: i + 1])
    )
    scores.write_text("query001 Q0 image001 1 0.5 x\n")

    def evaluate(run: Path, *more: object) -> Done:
        return rankledger("evaluate", "--qrels", qrels, "--run", run, "--metrics", "R@1,MRR,map", "--per-query", *more)

    here, there = evaluate(run), evaluate(run, "--engine", processes.address)
    assert here.code == 0
    assert len(set(here.out.split())) > 100
    assert there == here
    monkeypatch.setattr("rankledger.predictions.vectors.HELD_BYTES", 0)  # a gallery on disk
    assert evaluate(run, "--engine", processes.address) == here
    table = evaluate(scores, "--missing", "skip", "--engine", "dask://127.0.0.1:1")
    assert table.code == 0
    assert "note: dask://127.0.0.1:1 is not used: a cluster counts embeddings, and" in table.err
    assert evaluate(run, "--engine", "many").err == (
        "error: engine 'many': it should look like dask://host:8786, the address of a Dask scheduler\n"
    )


def test_score_on_a_cluster(processes: Processes, tmp_path: Path) -> None:
    """As `--engine` says, or params.yaml; and nothing that is written tells."""
    project = Small.make(tmp_path / "project", {"fashioniq": {"source": "sample"}})
    universe = project.built("fashioniq").universe
    rng = np.random.default_rng(5)
    ids = {side: universe.filter(pc.equal(universe["side"], side))["id"] for side in ("query", "image")}
    project.place(
        "mine", "fashioniq", {k: pa.table({"id": v, "embedding": list(near(len(v), rng))}) for k, v in ids.items()}
    )
    params = project.root / "params.yaml"

    def score(*more: str) -> dict[str, bytes]:
        shutil.rmtree(project.scores("mine", "fashioniq"), ignore_errors=True)
        done = project.run("score", "mine", "fashioniq", *more)
        assert done.code == 0, done.err
        return {path.name: path.read_bytes() for path in project.scores("mine", "fashioniq").iterdir()}

    here = score()
    assert len(here) > 1
    assert score("--engine", processes.address) == here
    text = params.read_text()
    params.write_text(f"{text}engine: {processes.address}\n")
    assert score() == here
    params.write_text(f"{text}engine: many\n")
    assert project.run("score", "mine", "fashioniq").err.startswith("error: engine 'many': it should look like dask://")
    assert score("--engine", processes.address) == here
