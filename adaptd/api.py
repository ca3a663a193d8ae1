"""What Python programs and notebooks use: a project, opened. The commands of the command line stand on the same functions.

Everything is read anew at each call, so an open project sees what a daemon does meanwhile. Loads torch never, and ONNX Runtime
only where a version is loaded.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaptd.errors import DrainIncomplete
from adaptd.records import DomainState

if TYPE_CHECKING:
    from adaptd.project.layers import Project
    from adaptd.serving.offline import Predictor
    from adaptd.store import Store

LOOK_SECONDS, SURE_SECONDS = 0.5, 0.3
ENDED = frozenset({DomainState.DONE, DomainState.REJECTED, DomainState.REFUSED, DomainState.FAILED, DomainState.SKIPPED})


def open(folder: str | os.PathLike[str] | None = None) -> "OpenProject":  # noqa: A001 (as in gzip.open)
    """Open a project by its folder, or the nearest one at or above the working directory.

    Raises:
        ProjectNotFound: there is no adaptd.toml.
        ConfigError: a setting is wrong.
    """
    from adaptd.project.layers import load_project

    return OpenProject(load_project(None if folder is None else Path(folder)))


class OpenProject:
    """A project: what is dropped into it, what it knows, and its models."""

    def __init__(self, project: "Project") -> None:
        self.project = project

    def __repr__(self) -> str:
        return f"adaptd.open({str(self.project.root)!r})"

    @contextmanager
    def _store(self) -> Iterator["Store"]:
        from adaptd.store import Store

        with Store(self.project.database, self.project.settings.database.busy_timeout_seconds) as store:
            yield store

    def drop(self, folder: str | os.PathLike[str], name: str | None = None) -> str:
        """Copy a folder of images into the inbox, whole or not at all; the name of its domain, for `wait`.

        Args:
            folder: images in any depth, optionally with labelled ones in `_test/<class>/`. It is left as it is.
            name: of the domain; default: the folder's. A known one gets another delivery.

        Raises:
            FolderUnusable: there is nothing to copy, not all of it can be, or the name is taken or none for a domain.
        """
        from adaptd.imports.naming import name_domain
        from adaptd.intake.dropping import drop_folder

        origin = Path(folder).resolve(strict=True)
        dropped = drop_folder(origin, self.project.inbox, origin.name if name is None else name)
        with self._store() as store, store.reading() as tx:
            return name_domain(tx, dropped.name) or dropped.name

    def wait(self, domain: str, timeout: float | None = None) -> dict[str, Any]:
        """Wait until nothing more is to be done for a domain; its line of `status()["queue"]`, with its `state` and `reason`.

        A running daemon does the work, and this watches it. Where none runs, `adaptd run --drain` does it as a child of this
        process, with everything else that lies in the inbox. That a domain was refused or failed is told by `state`, not raised.

        Raises:
            DomainUnknown: there is no such domain, and no such folder in the inbox.
            DrainIncomplete: everything that can be done was done, and the domain still waits; the message says for what.
            TimeoutError: it took longer than `timeout` seconds; what was begun goes on from its checkpoint next time.
        """
        from adaptd.project.lock import find_holder

        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._has_ended(domain):
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{domain} was not done within {timeout:g} seconds")
            if find_holder(self.project.state) is not None:
                time.sleep(LOOK_SECONDS)
                continue
            said = self._drain(deadline)
            if said is not None and not self._has_ended(domain) and find_holder(self.project.state) is None:
                raise DrainIncomplete(f"{domain} waits: {said}")
        return next(line for line in self.status()["queue"] if line["domain"] == domain)

    def _has_ended(self, domain: str) -> bool:
        """Looked at twice: a drop that was taken this instant is still on its way from the inbox to the queue."""
        if not self._seems_ended(domain):
            return False
        time.sleep(SURE_SECONDS)
        return self._seems_ended(domain)

    def _seems_ended(self, domain: str) -> bool:
        """Whether all that came for it was taken, and nothing is left to be done with it."""
        from adaptd.intake.names import find_folder_name

        folder, claims = self.project.inbox / find_folder_name(domain), self.project.settings.intake.mode == "claim"
        lies_there = folder.is_dir()
        with self._store() as store, store.reading() as tx:
            found = tx.domains.find(domain) if lies_there else tx.domains.get_named(domain)
            if found is None or (lies_there and claims):
                return False
            more_came = found.state is DomainState.DONE and bool(tx.drops.list_waiting(found.id))
        if more_came or found.state is DomainState.SETTLED:
            return found.reason is not None  # which says that it is too little, and waits for more
        return found.state in ENDED

    def _drain(self, deadline: float | None) -> str | None:
        """Let a process of its own do what is there; the last line that it wrote, None where the time was over before."""
        command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(self.project.root), "run", "--drain"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as child:
            try:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                _, said = child.communicate(timeout=left)
            except subprocess.TimeoutExpired:
                return None
            finally:
                child.terminate()  # it leaves a checkpoint; nothing happens where it has ended
        return (said.strip().splitlines() or ["it said nothing"])[-1]

    def status(self) -> dict[str, Any]:
        """What the daemon does, the queue, what is served and how good it is: the document of `adaptd status --json`."""
        from adaptd.observe.status import read_status

        with self._store() as store:
            return read_status(self.project, store)

    def matrix(self) -> list[dict[str, Any]]:
        """R, a row for each known accuracy: `pandas.DataFrame(project.matrix())`."""
        from adaptd.releases.matrix import read_matrix

        with self._store() as store, store.reading() as tx:
            return read_matrix(tx).to_rows()

    def versions(self) -> list[dict[str, Any]]:
        """Every version, oldest first, as `adaptd versions --json` has them."""
        from adaptd.observe.version_list import describe_versions

        with self._store() as store, store.reading() as tx:
            return describe_versions(tx, self.project.models)

    def load(self, version: int | None = None) -> "Predictor":
        """A published version, ready to predict; default: the newest.

        Raises:
            ServingError: there is no such version, or it is damaged.
        """
        from adaptd.library.preprocessing import Limits
        from adaptd.serving.offline import Predictor, open_version

        settings = self.project.settings
        model = open_version(self.project.models / settings.model.name, version, settings.serving.device)
        limits = Limits(settings.intake.max_file_bytes, settings.intake.max_pixels)
        return Predictor(model, limits, settings.serving.max_batch_size)


def __getattr__(name: str) -> Any:
    """`Predictor`, which needs ONNX Runtime, when somebody asks for it."""
    if name == "Predictor":
        from adaptd.serving.offline import Predictor

        return Predictor
    raise AttributeError(f"module 'adaptd.api' has no attribute {name!r}")
