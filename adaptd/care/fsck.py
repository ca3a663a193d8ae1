"""`adaptd fsck`: all invariants of a project in turn. Reads only, also while the daemon works; mends nothing."""

import time
from collections.abc import Callable, Iterator
from itertools import chain

from adaptd.care.images import check_drops, check_duplicates, check_quarantine, check_strays
from adaptd.care.leftovers import check_leftovers
from adaptd.care.rows import check_database, check_measurements, check_row_entries
from adaptd.care.versions import check_chain, check_models, check_weights
from adaptd.care.view import Finding, ShowProgress, View
from adaptd.errors import StoreError
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.lock import find_holder
from adaptd.store import Store

MOTION_SECONDS = 1.0
"""Between a row and its file there is a moment; what is still wrong after this one is wrong."""

Pause = Callable[[float], None]


def check_project(project: Project, show: ShowProgress | None = None, pause: Pause = time.sleep) -> tuple[Finding, ...]:
    """What does not hold, by invariant. `show` makes it a deep check: every original and every decoded image is read.

    Args:
        project: the project.
        show: told how far the reading is.
        pause: waits until things in motion have arrived, where a process is at work on the project.
    """
    findings = sorted(_check(project, show), key=lambda finding: finding.invariant)
    if findings and find_holder(project.state) is not None:
        pause(MOTION_SECONDS)
        again = set(_check(project, show))
        findings = [finding for finding in findings if finding in again]
    return tuple(findings)


def _check(project: Project, show: ShowProgress | None) -> Iterator[Finding]:
    damage = tuple(check_database(project.database))
    yield from damage
    try:
        view = _read(project)
    except StoreError:
        if not damage:
            raise
        return
    layout = Layout(project.state)
    yield from chain(
        check_drops(view, layout, project.inbox),
        check_strays(view, layout),
        check_quarantine(view, layout),
        check_duplicates(view),
        check_chain(view),
        check_models(view, project, every=show is not None),
        check_row_entries(view),
        check_measurements(view),
        check_weights(view, layout),
    )
    if any(view.images.values()):
        # numpy is loaded only where there are caches to look at.
        from adaptd.care.caches import check_caches, check_originals, check_pixels  # noqa: PLC0415

        yield from check_caches(view, layout)
        if show is not None:
            yield from check_originals(view, layout, show)
            yield from check_pixels(view, layout, show)
    if find_holder(project.state) is None:
        yield from check_leftovers(view, layout)


def _read(project: Project) -> View:
    with Store(project.database, project.settings.database.busy_timeout_seconds) as store, store.reading() as tx:
        return View.read(tx)
