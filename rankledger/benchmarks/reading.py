"""From raw JSON to tables: read strictly, checked by shape, each fault told in one line with its records."""

import json
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankledger.tables import InputError, few


class Number(str):
    """A number as the file writes it: "8.0" stays "8.0"."""


def read_raw(path: Path, shape: Any, *, verbatim: bool = False) -> Any:
    """The content of a JSON file that has the given shape (see `parse`)."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; fetch it") from None
    return parse(text, shape, path, verbatim=verbatim)


def parse(text: bytes, shape: Any, path: Path, *, verbatim: bool = False) -> Any:
    """The JSON value in `text`, where it has the given shape; `path` is for messages only.

    A shape is a type (`float` takes integers too, and is finite), a tuple of types, `[shape]` for a list,
    `{str: shape}` for an object with any keys, or `{"key": shape, …}` for one with at least these keys.
    With `verbatim`, numbers are read as `Number`, the text that stands in the file.

    Raises `InputError` where it is no JSON (NaN is none), names a key twice in one object, is an empty list,
    or has another shape; for a list the message names the records (counted from 0).
    """
    number = Number if verbatim else None
    try:
        content = json.loads(
            text,
            parse_int=number,
            parse_float=number,
            parse_constant=_no_constant,
            object_pairs_hook=_distinct,
        )
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); fetch it again") from None
    if not isinstance(shape, list) or type(content) is not list:
        place = _misfit(content, shape)
        if place is not None:
            what = repr(".".join(place)) if place else "its content"
            raise InputError(f"{path}: {what} is missing or of a wrong type; fetch the official file again")
        return content
    if not content:
        raise InputError(f"{path}: an empty list; fetch the official file again")
    found = {i: _misfit(record, shape[0]) for i, record in enumerate(content)}
    places = {i: place for i, place in found.items() if place is not None}
    for place in places.values():
        what = repr(".".join(place)) if place else "the record"
        refuse(path, [i for i in places if places[i] == place], f"{what} is missing or of a wrong type")
    return content


def refuse(path: Path, records: Sequence[int], what: str) -> None:
    """Raise an `InputError` that says `what` of these records of a file (from 0), if there are any."""
    if records:
        several = "records" if len(records) > 1 else "record"
        raise InputError(f"{path}: {what} in {len(records)} {several} ({few(records)}); fetch the official file again")


def repeated(values: Iterable[Hashable]) -> list[int]:
    """Positions of the values that stood earlier too.

    >>> repeated(["a", "b", "a", "a"])
    [2, 3]
    """
    seen: set[Hashable] = set()
    again = []
    for i, value in enumerate(values):
        if value in seen:
            again.append(i)
        seen.add(value)
    return again


def table(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """A table from its rows, each with its values in the order of the schema."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def _misfit(value: Any, shape: Any) -> tuple[str, ...] | None:
    """Where a value first departs from a shape, as keys from the outside in; None where it fits."""
    if isinstance(shape, dict):
        if type(value) is not dict:
            return ()
        for key, inner in dict.fromkeys(value, shape[str]).items() if str in shape else shape.items():
            place = _misfit(value[key], inner) if key in value and _is_text(key) else ()
            if place is not None:
                return (key, *place)
        return None
    if isinstance(shape, list):
        fits = type(value) is list and all(_misfit(item, shape[0]) is None for item in value)
    elif shape is float:
        fits = type(value) in (int, float) and abs(value) <= 1e300
    else:
        fits = type(value) in (shape if isinstance(shape, tuple) else (shape,))
        fits = fits and (type(value) is not str or _is_text(value))
    return None if fits else ()


def _is_text(value: str) -> bool:
    """Whether a string can be encoded: half a surrogate pair, which JSON can write, can not."""
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError(f"the key {pairs[repeated(key for key, _ in pairs)[0]][0]!r} twice in one object")
    return record


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
