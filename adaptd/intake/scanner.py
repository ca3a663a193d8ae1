"""The whole inbox at one moment: which drops there are and how far each is. Looks and touches nothing; takes nothing."""

import contextlib
import heapq
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from adaptd.beneath import REPLACED
from adaptd.errors import InboxUnavailable
from adaptd.intake.names import READY_MARK, find_domain_name, is_clutter, is_temporary
from adaptd.intake.settling import DropState, Settling, Verdict
from adaptd.intake.tree import GONE, Tree, read_stamp, read_tree
from adaptd.machine import mount_point
from adaptd.text import printable

LOOK_SECONDS = 1.0
LOOK_SHARE = 20
"""While a drop changes it is read this often, or with this many times the time between two looks that one takes."""
NAMED = 3
"""Names that a warning tells; of the rest it says how many there are."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A folder in the inbox with files in it: a delivery of its domain, once it is settled."""

    folder: Path
    domain: str
    state: DropState
    why: str
    tree: Tree


ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".7z", ".rar")


class Untaken(StrEnum):
    """Why something in the inbox is not taken."""

    LOOSE = "loose"
    ARCHIVE = "archive"
    LINK = "link"
    NAME = "name"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class InboxWarning:
    """What in the inbox is not taken, for one reason: however much that is, it is one message with the fact and the remedy.

    `names` are the first few of them.
    """

    kind: Untaken
    count: int
    names: tuple[str, ...]
    message: str


_MESSAGES = {
    Untaken.LOOSE: (
        "files that lie loose in the inbox are not taken, {count:,} of them ({names}). This makes them a domain NAME: "
        "mkdir {inbox}/NAME && find {inbox} -maxdepth 1 -type f ! -name '.*' -exec mv -t {inbox}/NAME {{}} +"
    ),
    Untaken.ARCHIVE: (
        "archives in the inbox are not looked into, {count:,} of them ({names}): unpack each into a folder, "
        "`unzip {inbox}/FILE.zip -d {inbox}/NAME` or `tar -xf FILE --one-top-level={inbox}/NAME`, and move it away"
    ),
    Untaken.LINK: "links in the inbox are never followed, {count:,} of them ({names}): put folders of images there",
    Untaken.NAME: (
        "folders in the inbox whose names cannot name a domain, {count:,} of them ({names}): "
        "rename them, `source` is the source's own name"
    ),
    Untaken.UNREADABLE: (
        "folders in the inbox that cannot be read, {count:,} of them ({names}): make them readable for adaptd, or remove them"
    ),
}


@dataclass(frozen=True, slots=True)
class Scan:
    """What the inbox holds; drops stand in the order in which they came. `next_look` is when to scan again at the latest."""

    drops: tuple[Drop, ...]
    warnings: tuple[InboxWarning, ...]
    next_look: float


@dataclass(slots=True)
class _Known:
    """The last look at a folder. Its `mark` changes with the names directly in it, and when another takes its place."""

    mark: tuple[int, int]
    tree: Tree
    verdict: Verdict
    looked: float
    next_look: float


class Scanner:
    """Scans one inbox, again and again.

    A drop is read as a whole when its `next_look` is due and at least every `scan_seconds`. In between a scan only lists the
    inbox and asks for a `_READY` mark and for the temporary file that a drop waits for.
    """

    def __init__(
        self, inbox: Path, settling: Settling, scan_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._inbox = inbox
        self._settling = settling
        self._scan_seconds = scan_seconds
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._next_full = clock()
        self._identity: tuple[int, int] | None = None
        self._mount = Path("/")

    def scan(self) -> Scan:
        """Look at the inbox.

        Raises:
            InboxUnavailable: it is gone, unmounted or unreadable; what is known of its drops is kept until it is back.
        """
        self._require_inbox()
        full = self._clock() >= self._next_full
        untaken: dict[Untaken, list[str]] = {kind: [] for kind in Untaken}
        present: set[str] = set()
        for name, status in self._list(untaken):
            self._look(name, status, untaken, full=full)
            present.add(name)
        # Unmounted while it was looked at: nothing that was seen counts.
        self._require_inbox()
        for name in self._known.keys() - present:
            self._forget(name)
        if full:
            self._next_full = self._clock() + self._scan_seconds
        return self._report([_warn(self._inbox, kind, names) for kind, names in untaken.items() if names])

    def _require_inbox(self) -> None:
        """An unmounted mount point is an empty folder that is no mount point: an alarm. A folder made anew is accepted."""
        try:
            status = self._inbox.stat()
            identity = (status.st_dev, status.st_ino)
            if identity == self._identity:
                return
            mount = mount_point(self._inbox)
        except OSError as error:
            raise _unavailable(self._inbox, error) from error
        if self._identity is not None and len(mount.parts) < len(self._mount.parts):
            raise InboxUnavailable(
                f"{self._mount} is not mounted any more, and the inbox {self._inbox} is on it: mount it again; "
                "if the inbox is meant to be where it is now, restart adaptd"
            )
        self._identity, self._mount = identity, mount

    def _list(self, untaken: dict[Untaken, list[str]]) -> list[tuple[str, os.stat_result]]:
        """The folders in the inbox that mean something, in the order in which they came. What is no folder is not even asked."""
        found = []
        try:
            with os.scandir(self._inbox) as entries:
                for entry in entries:
                    if is_clutter(entry.name) or is_temporary(entry.name):
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        untaken[_why_untaken(entry)].append(entry.name)
                    elif find_domain_name(entry.name) is None:
                        untaken[Untaken.NAME].append(entry.name)
                    else:
                        with contextlib.suppress(FileNotFoundError):
                            found.append((entry.name, entry.stat(follow_symlinks=False)))
        except OSError as error:
            raise _unavailable(self._inbox, error) from error
        # A folder's time of change is that of its arrival, or of its filling; it decides between two that are new.
        return sorted(found, key=lambda item: (item[1].st_ctime_ns, item[0]))

    def _look(self, name: str, status: os.stat_result, untaken: dict[Untaken, list[str]], *, full: bool) -> None:
        folder, known = self._inbox / name, self._known.get(name)
        mark = (status.st_ino, status.st_ctime_ns)
        if known is not None and not full and not self._is_due(folder, known, mark):
            return
        began = self._clock()
        try:
            tree = read_tree(folder)
        except OSError as error:
            self._forget(name)
            if error.errno not in REPLACED:
                untaken[Untaken.UNREADABLE].append(f"{name}: {error.strerror}")
            return
        now = self._clock()
        verdict = self._settling.look(name, tree, now)
        next_look = verdict.next_look
        if verdict.state is DropState.ARRIVING and verdict.waiting_for is None:
            # Seen late, the last change would be waited for late: looking often enough, but not at a large tree all the time.
            next_look = min(next_look, now + max(LOOK_SECONDS, LOOK_SHARE * (now - began)))
        self._known[name] = _Known(mark, tree, verdict, now, next_look)

    def _is_due(self, folder: Path, known: _Known, mark: tuple[int, int]) -> bool:
        verdict = known.verdict
        if verdict.state is DropState.SETTLED and known.mark != mark:
            return True
        if verdict.state is DropState.ARRIVING:
            if not known.tree.ready and read_stamp(folder / READY_MARK) != GONE:
                return True
            awaited = verdict.waiting_for
            if awaited is not None and read_stamp(folder / awaited) != known.tree.temporary[awaited]:
                # rsync makes and renames such a file many times a second: one whole look in `settle_seconds` is enough.
                known.next_look = min(known.next_look, known.looked + self._settling.settle_seconds)
        return self._clock() >= known.next_look

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._settling.forget(name)

    def _report(self, warnings: list[InboxWarning]) -> Scan:
        drops, next_look = [], self._next_full
        for name, known in self._known.items():
            verdict = known.verdict
            if verdict.state is DropState.EMPTY:
                continue
            if verdict.state is DropState.ARRIVING:
                next_look = min(next_look, known.next_look)
            domain = find_domain_name(name)
            assert domain is not None
            drops.append(Drop(self._inbox / name, domain, verdict.state, verdict.why, known.tree))
        return Scan(tuple(drops), tuple(warnings), next_look)


def _why_untaken(entry: "os.DirEntry[str]") -> Untaken:
    if entry.is_symlink():
        return Untaken.LINK
    return Untaken.ARCHIVE if entry.name.lower().endswith(ARCHIVES) else Untaken.LOOSE


def _warn(inbox: Path, kind: Untaken, names: list[str]) -> InboxWarning:
    """One message for all of them."""
    first = tuple(heapq.nsmallest(NAMED, names))
    told = ", ".join(printable(Path(name)) for name in first) + (", …" if len(names) > NAMED else "")
    message = _MESSAGES[kind].format(count=len(names), names=told, inbox=shlex.quote(printable(inbox)))
    return InboxWarning(kind, len(names), first, message)


def _unavailable(inbox: Path, error: OSError) -> InboxUnavailable:
    return InboxUnavailable(
        f"the inbox {inbox} is not available: {error.strerror}; mount it, make it again, or correct paths.inbox"
    )
