"""Which code made a result: the commit of the source tree, else the version."""

import subprocess
from functools import cache
from pathlib import Path

from adaptd import __version__

UNKNOWN = "unknown"
"""The stamp of a result that an older version left without one."""


@cache
def find_commit(source: Path = Path(__file__)) -> str:
    """The commit that a source file is at, with `+dirty` where files of the tree differ from it; without git the version."""
    try:
        _git(source, "ls-files", "--error-unmatch", source.name)  # an installed package may lie in somebody else's tree
        commit = _git(source, "rev-parse", "--short=12", "HEAD")
        return commit + ("+dirty" if _git(source, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return __version__


def _git(source: Path, *words: str) -> str:
    # Without its locks: one that a kill leaves behind would keep the tree's owner from committing.
    command = ["git", "--no-optional-locks", "-C", str(source.parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
