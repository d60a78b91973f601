"""The pages of the documentation, and the code blocks in them.

What a block is, a reader sees too:

* `sh`: commands. `console`: commands after `$ `, and below each what it prints.
* `python`: a program. A first line `# name.py` says that it is a file of that name. A `text` block that follows at
  once is what the program prints.
* `yaml` with a first line `# params.yaml`: lines of that file, each in the place of the line with the same key.
* A first line `# needs …` says what a reader must have to run the block; it is then only looked at.
* Other languages are shown, not run.

In what is printed, `…` stands for anything, of any length.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = ("sh", "console", "python")
SHOWN = ("yaml", "json", "text", "csv", "xml", "latex")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: the file, below the root.
        line: of its fence, from 1.
        language: as the fence names it.
        text: what stands in it.
        output: of a program, what it prints; None where the page does not say.
    """

    page: str
    line: int
    language: str
    text: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def head(self) -> str:
        """A comment in the first line, without its sign."""
        match = re.match(r"# (.+)\n", self.text)
        return match[1] if match else ""

    @property
    def needs(self) -> bool:
        """Whether it needs what a test does not have."""
        return self.head.startswith("needs ")

    @property
    def commands(self) -> list[tuple[str, str | None]]:
        """Commands, and what each prints; None where the block does not say."""
        if self.language == "sh":
            return [(self.text, None)]
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def pages() -> list[str]:
    """Every page, below the root."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order; what a program prints is not one of its own."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(FENCE.findall(text)), f"{page}: an odd fence"
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        language, content = match.groups()
        if language == "text" and found and found[-1].language == "python" and not text[end : match.start()].strip():
            last = found.pop()
            found.append(Block(page, last.line, last.language, last.text, content))
        else:
            found.append(Block(page, text.count("\n", 0, match.start()) + 1, language, content))
        end = match.end()
    return found


def matches(shown: str, printed: str) -> bool:
    """Whether a program printed what the page shows; spaces at the ends of lines don't matter."""
    wanted, got = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (shown, printed))
    return re.fullmatch(".*".join(map(re.escape, wanted.split("…"))), got, re.DOTALL) is not None
