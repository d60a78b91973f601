"""Made-up data: choices by hash, the same on every machine and under every version of Python."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

THINGS = (
    "dog",
    "bottle",
    "sofa",
    "boat",
    "teapot",
    "bicycle",
    "lamp",
    "basket",
    "horse",
    "cake",
    "window",
    "guitar",
)
COLOURS = ("red", "pale blue", "striped", "dark green", "white", "yellow", "grey", "spotted")
PLACES = (
    "on a beach",
    "in a kitchen",
    "in the snow",
    "under a tree",
    "on a wooden table",
    "in front of a wall",
)
CHANGES = (
    "shows a {colour} {thing} instead",
    "has one more {thing} {place}",
    "is taken from above and has a {colour} background",
    "the same {thing} but {place}",
    "no {thing}, and the rest is {colour}",
    "is closer to the camera, {place}",
)


def number(*key: object) -> int:
    """An integer in 0 … 2⁶⁴ − 1, from the SHA-256 of the key's parts.

    >>> number("cirr", 3) == number("cirr", "3")
    True
    """
    return int.from_bytes(hashlib.sha256("/".join(map(str, key)).encode()).digest()[:8], "big")


def choice(options: Sequence[T], *key: object) -> T:
    """One of the options."""
    return options[number(*key) % len(options)]


def sample(options: Sequence[T], n: int, *key: object) -> list[T]:
    """`n` distinct options (which must have distinct texts), in a mixed order."""
    return sorted(options, key=lambda option: number(*key, option))[:n]


def change(*key: object) -> str:
    """A made-up modification text."""
    return choice(CHANGES, "change", *key).format(
        thing=choice(THINGS, "thing", *key),
        colour=choice(COLOURS, "colour", *key),
        place=choice(PLACES, "place", *key),
    )


def write_raw(value: Any, path: Path) -> None:
    """Write a made-up JSON file, the same bytes each time; keys stay in their order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8", newline="\n")
