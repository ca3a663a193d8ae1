"""The pages of a project served by the real server, without a daemon."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adaptd.config import load_project
from adaptd.daemon.lock import Holder
from adaptd.daemon.pictures import StoredPictures
from adaptd.observe.dashboard.site import Site
from adaptd.observe.http import HttpThread, make_app
from adaptd.store import Store


@contextlib.contextmanager
def serve_pages(root: Path, store: Store, **settings: Any) -> Iterator[str]:
    """Their address on this machine; `settings` are those of [metrics]."""
    project = load_project(root, {}, {f"metrics.{name}": value for name, value in settings.items()})
    health = {"state": "idle", "warnings": [], "scanned_at": time.time()}
    site = Site(project, store, lambda: Holder(1, "run", health), StoredPictures(project.state))
    thread = HttpThread(make_app(site, lambda: health), "127.0.0.1", 0)
    try:
        yield thread.address
    finally:
        thread.stop()
