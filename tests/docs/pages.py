"""What the pages hold: their fenced blocks, the commands in them, and commands named in running text."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Command:
    """A command in a block for the shell, with the page and heading it stands under."""

    page: str
    heading: str
    line: str

    @property
    def words(self) -> list[str]:
        """As the shell sees it, without the comment."""
        return shlex.split(self.line, comments=True)


def list_commands(page: Path) -> Iterator[Command]:
    """Every command in a page's `sh` blocks, in order; a backslash at the end goes on with the next line."""
    text = page.read_text()
    for block in FENCE.finditer(text):
        if block[1] != "sh":
            continue
        headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text[: block.start()]), re.MULTILINE)
        for line in block[2].replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                yield Command(str(page.relative_to(REPOSITORY)), headings[-1], line.partition("  #")[0].strip())


def list_inline(page: Path) -> Iterator[str]:
    """Every command of adaptd in running text, on one line, without variables before it."""
    for code in re.findall(r"`([^`]+)`", FENCE.sub("", page.read_text())):
        line = re.sub(r"^(ADAPTD_\w+=\S+ )+", "", " ".join(code.split()))
        if line.startswith("adaptd "):
            yield line
