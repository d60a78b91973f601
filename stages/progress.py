"""A progress bar for long work, on a terminal only."""

import sys
from types import TracebackType
from typing import Any


class Progress:
    """A bar a piece of work, shown after a moment and gone at the end; silent where stderr is no terminal."""

    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}
        self._shown: Any = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bars

            self._shown = Bars(console=Console(stderr=True), transient=True)
            self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._shown.stop()

    def tell(self, what: str, done: int, of: int) -> None:
        """How far a piece of work has come."""
        if self._shown:
            if what not in self._bars:
                self._bars[what] = self._shown.add_task(what, total=of)
            self._shown.update(self._bars[what], completed=done)
