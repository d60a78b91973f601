"""The import graph of this repository, from the source."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def imported(module: str) -> frozenset[str]:
    """Files of ours that a file imports, anywhere in it; packages' `__init__` count where they hold code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.split(".")[0] in ("rankledger", "stages"):
                path = name.replace(".", "/")
                found |= {p for p in (f"{path}.py", f"{path}/__init__.py") if (ROOT / p).is_file()}
    return frozenset(found)


def reachable(start: str, benchmark: str) -> set[str]:
    """All files of ours that `start` needs for one benchmark, itself included; the registry leads to its module."""
    seen, queue = set(), [start]
    while queue:
        module = queue.pop()
        if module in seen:
            continue
        seen.add(module)
        queue += imported(module)
        if module == "rankledger/benchmarks/__init__.py":
            queue.append(f"rankledger/benchmarks/{benchmark}.py")
    return seen
