"""I4 and I5: rows of R are complete exactly when their episodes are committed, and the database itself is sound."""

from collections.abc import Iterator
from pathlib import Path

from adaptd.care.view import Finding, View
from adaptd.errors import StoreNotADatabase
from adaptd.records import SUPERVISED, AccuracyKind
from adaptd.store.migrate import check

BACKUP = "restore a backup from state/backups"


def check_row_entries(view: View) -> Iterator[Finding]:
    """I4: after each committed episode every domain placed by then has an accuracy.

    One that was forgotten, maybe more than once, has them for its own episodes.
    """
    first = {version.episode_id: version.version for version in reversed(view.versions)}
    known = {(accuracy.version, accuracy.domain_id) for accuracy in view.accuracies}
    placed: list[int] = []
    for row, episode in enumerate(view.done):
        if episode.number != row:
            yield Finding("I4", f"R has no row {row}: the episode after it is {episode.number}", BACKUP)
            return
        if episode.method == SUPERVISED and placed:
            # A new source takes the old one's column, which goes to the end.
            placed = [episode.domain_id, *placed[1:], placed[0]]
        elif episode.domain_id not in placed:
            placed.append(episode.domain_id)
        if episode.id not in first:
            yield Finding("I4", f"episode {row} is committed but gave no version", BACKUP)
            continue
        for key in placed:
            may_lack = view.domains[key].forgotten is not None and key != episode.domain_id
            if not may_lack and (first[episode.id], key) not in known:
                yield Finding("I4", f"R[{row}] lacks its entry for {view.domains[key].name}", BACKUP)
    columns = {domain.id: domain.position for domain in view.domains.values() if domain.position is not None}
    if columns != {key: position for position, key in enumerate(placed)}:
        yield Finding("I4", "the columns of R are not the domains of committed episodes in their order", BACKUP)


def check_measurements(view: View) -> Iterator[Finding]:
    """I4: a measured entry is its counts and nothing else, an estimate is a share."""
    for entry in view.accuracies:
        if entry.kind is AccuracyKind.MEASURED:
            right = entry.correct is not None and 0 <= entry.correct <= entry.n > 0
            holds = right and abs(entry.value - (entry.correct or 0) / entry.n) < 1e-9
        else:
            holds = 0 <= entry.value <= 1
        if not holds:
            counts = f", but {entry.correct} of {entry.n} are right" if entry.kind is AccuracyKind.MEASURED else ""
            fact = f"version {entry.version} on {view.domains[entry.domain_id].name}: {entry.kind} {entry.value}{counts}"
            yield Finding("I4", fact, BACKUP)


def check_database(address: Path | str) -> Iterator[Finding]:
    """I5: schema, integrity and references."""
    try:
        for fact in check(address):
            yield Finding("I5", fact, BACKUP)
    except StoreNotADatabase as problem:
        yield Finding("I5", str(problem), BACKUP)
