"""The command `rankledger`, run in this process."""

import contextlib
import io
from dataclasses import dataclass
from unittest import mock

from stages import cli


@dataclass(frozen=True)
class Done:
    """How it ended, and what it said."""

    code: int
    out: str
    err: str


def rankledger(*arguments: object) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch("sys.argv", ["rankledger", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
