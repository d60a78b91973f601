"""`rankledger convert`: predictions in other formats, or of two stages, become a Parquet file, in a project or not."""

from pathlib import Path

from rankledger.tables import InputError


def convert(
    path: Path | None,
    out: Path,
    ids: Path | None = None,
    candidates: Path | None = None,
    head: Path | None = None,
    over: Path | None = None,
) -> None:
    """Convert one file, or put a head over a base; prints what was written.

    Raises `InputError` where neither or both are asked for, `out` is no name for predictions, or an input is bad.
    """
    if out.suffix != ".parquet":
        raise InputError(f"{out}: the output is Parquet; call it <task>.parquet or <side>.parquet, as `add` wants it")
    try:
        if path and not (head or over):
            from rankledger.predictions.convert import convert

            said = convert(path, out, ids, candidates)
        elif head and over and not (path or ids or candidates):
            from rankledger.predictions.two_stage import overlay

            said = overlay(head, over, out)
        else:
            raise InputError("convert takes one file (an array with --ids, --candidates), or --head with --over")
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror}") from None
    print(f"{out}: {said}")
