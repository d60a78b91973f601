"""The project as a registry of test subsets: other repositories take them at a tag, remotes keep them."""

import contextlib
import getpass
import hashlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from rankledger.subset import read_subset
from rankledger.tables import fingerprint
from stages.lock import Hashes
from tests.integration.conftest import Workspace

Make = Callable[[], Workspace]

CIRR = "data/subsets/cirr"


def check_subset(folder: Path, origin: Path) -> None:
    """The folder holds the subset that the origin has, and its manifest tells so."""
    subset, manifest = read_subset(folder)
    assert {name: fingerprint(table) for name, table in subset.tables().items()} == manifest["fingerprints"]
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {p.name: p.read_bytes() for p in origin.iterdir()}


@pytest.fixture
def consumer(tmp_path: Path) -> Workspace:
    """Another repository, with DVC in it."""
    repository = Workspace(tmp_path / "consumer")
    repository.root.mkdir()
    repository.run("git", "init", "-qb", "main")
    repository.run("dvc", "init", "-q")
    return repository


def test_another_repository_imports_a_subset_pinned_to_a_tag(
    workspace: Make, consumer: Workspace, tmp_path: Path
) -> None:
    origin = workspace()
    origin.run("git", "tag", "v1")
    first = tmp_path / "first"
    shutil.copytree(origin.root / CIRR, first)
    origin.edit("params.yaml", "{source: sample, labels: hard", "{source: sample, labels: soft")
    origin.run("dvc", "repro", "build@cirr")
    origin.commit("soft labels")
    origin.run("git", "tag", "v2")
    assert read_subset(origin.root / CIRR)[1]["fingerprints"] != read_subset(first)[1]["fingerprints"]

    address = str(origin.root)
    consumer.run("dvc", "import", "-q", "--rev", "v1", address, CIRR, "-o", "cirr")
    check_subset(consumer.root / "cirr", first)
    pointer = (consumer.root / "cirr.dvc").read_text()
    assert "rev: v1" in pointer
    assert f"rev_lock: {origin.run('git', 'rev-parse', 'v1').stdout.strip()}" in pointer
    consumer.commit("the subset of v1")

    consumer.run("dvc", "update", "-q", "cirr.dvc")  # the tag holds it where it is
    check_subset(consumer.root / "cirr", first)
    consumer.run("dvc", "update", "-q", "--rev", "v2", "cirr.dvc")
    check_subset(consumer.root / "cirr", origin.root / CIRR)

    consumer.run("dvc", "get", "-q", "--rev", "v1", address, CIRR, "-o", "loose")
    check_subset(consumer.root / "loose", first)
    assert not (consumer.root / "loose.dvc").exists()


def push_and_pull(origin: Workspace, clone: Path, dvc: str, **env: str) -> Workspace:
    """Pushes the subset to the default remote of the origin, and pulls it into a new clone."""
    origin.commit("a remote")
    origin.run(dvc, "push", "-q", "build@cirr", **env)
    origin.run("git", "clone", "-q", ".", str(clone))
    cloned = Workspace(clone)
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(origin.root / ".dvc" / "config.local", clone / ".dvc")
    cloned.run(dvc, "pull", "-q", "build@cirr", **env)
    return cloned


def test_a_local_remote_holds_all_but_the_licensed_files(workspace: Make, tmp_path: Path) -> None:
    origin, store = workspace(), tmp_path / "store"
    origin.run("dvc", "remote", "add", "-q", "-d", "store", str(store))
    origin.run("dvc", "push", "-q")
    origin.commit("a remote")
    origin.run("git", "clone", "-q", ".", str(tmp_path / "clone"))
    clone = Workspace(tmp_path / "clone")
    clone.run("dvc", "pull", "-q")
    (origin.root / "reports" / "plots.html").unlink()  # in no repository: the next report makes it
    hashes, cloned = Hashes(origin.root), Hashes(clone.root)
    for name in ("data/subsets", "data/predictions", "data/scores", "reports"):
        assert cloned.of(name) == hashes.of(name)
    check_subset(clone.root / CIRR, origin.root / CIRR)
    kept = {path.parent.name + path.name for path in store.rglob("*") if path.is_file()}
    assert hashlib.md5((origin.root / CIRR / "pools.parquet").read_bytes()).hexdigest() in kept
    raw = [path for path in (origin.root / "data/raw").rglob("*") if path.is_file()]
    assert raw
    assert not {hashlib.md5(path.read_bytes()).hexdigest() for path in raw} & kept


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def server(command: list[str], port: int, log: Path) -> Iterator[None]:
    """A program that listens on a port of this machine while the block runs."""
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A real SSH server on this machine: its port, and the key that it lets in."""
    program = shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"]))
    if not program or not shutil.which("ssh-keygen"):
        pytest.skip("sshd is not installed (openssh-server)")
    if os.geteuid() == 0 and not Path("/run/sshd").is_dir():
        pytest.skip("as root, sshd needs the folder /run/sshd")
    folder, port = tmp_path / "sshd", free_port()
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized_keys")
    options = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "Subsystem": "sftp internal-sftp",
    }
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    command = [str(Path(program).resolve()), "-D", "-e", "-f", str(folder / "config")]
    with server(command, port, folder / "log"):
        yield port, folder / "user"


def test_a_remote_over_ssh(workspace: Make, oracles: Path, sshd: tuple[int, Path], tmp_path: Path) -> None:
    port, key = sshd
    origin, dvc = workspace(), str(oracles / "dvc")
    (tmp_path / "store").mkdir()
    url = f"ssh://{getpass.getuser()}@127.0.0.1:{port}{tmp_path}/store"
    origin.run(dvc, "remote", "add", "-q", "-d", "store", url)
    origin.run(dvc, "remote", "modify", "-q", "--local", "store", "keyfile", str(key))
    clone = push_and_pull(origin, tmp_path / "clone", dvc)
    check_subset(clone.root / CIRR, origin.root / CIRR)
    assert any((tmp_path / "store").rglob("*"))


def test_a_remote_on_s3(workspace: Make, oracles: Path, tmp_path: Path) -> None:
    origin, dvc, port = workspace(), str(oracles / "dvc"), free_port()
    endpoint, keys = f"http://127.0.0.1:{port}", {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with server([str(oracles / "moto_server"), "-H", "127.0.0.1", "-p", str(port)], port, tmp_path / "log"):
        requests.put(f"{endpoint}/store", timeout=30).raise_for_status()
        origin.run(dvc, "remote", "add", "-q", "-d", "store", "s3://store/rankledger")
        origin.run(dvc, "remote", "modify", "-q", "store", "endpointurl", endpoint)
        clone = push_and_pull(origin, tmp_path / "clone", dvc, **keys, AWS_DEFAULT_REGION="us-east-1")
        check_subset(clone.root / CIRR, origin.root / CIRR)
        assert b"<Key>rankledger/" in requests.get(f"{endpoint}/store", timeout=30).content
