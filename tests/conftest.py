"""What all tests share."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real benchmark files and submissions; a test that needs it is skipped where it is absent."""
    if not (SHARED / "mirror").is_dir():
        pytest.skip("the folder ../shared with the benchmarks' real files is absent")
    return SHARED


@pytest.fixture(scope="session")
def oracles() -> Path:
    """The programs of `.venv-oracles`: what tests compare with and .venv shall not hold; skipped where it is absent."""
    programs = ROOT / ".venv-oracles" / "bin"
    if not (ROOT / ".venv-oracles" / ".built").is_file():
        pytest.skip("the environment .venv-oracles is absent; `make oracles` builds it")
    return programs
