"""Which version answers: the largest good one in the folder, swapped by one assignment, and a few older ones on demand.

Everything that reads files or loads a model runs in one thread of its own, so versions are loaded one after the other
and the threads that answer requests never wait for a disk.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from adaptd.errors import NothingPublished, RequestRefused, VersionUnusable
from adaptd.serving.models import Fingerprint, fingerprint, list_versions, read_version
from adaptd.serving.session import Model, load_model

KEPT_OLD = 3
"""Older versions kept in memory."""

MAX_LOADING = 8
"""Older versions that may wait to be loaded at a time."""

log = logging.getLogger("adaptd.serving")

Observer = Callable[[Model], None]


class Catalogue:
    """The versions of one model.

    Args:
        folder: `models/<name>`; it need not exist yet.
        threads: of each session.
        swapped: called with every version that starts to be served.
        refused: called with the reason for every version that cannot be.
        device: of each session, as serving.device names it.
    """

    def __init__(
        self,
        folder: Path,
        threads: int,
        swapped: Observer = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
        device: str = "cpu",
    ) -> None:
        self.folder = folder
        self.current: Model | None = None
        self.versions: tuple[int, ...] = ()
        self.refusals: dict[int, tuple[Fingerprint, str]] = {}
        self._threads, self._device = threads, device
        self._swapped = swapped
        self._refused = refused
        self._old: OrderedDict[int, Model] = OrderedDict()
        self._loading: dict[int, asyncio.Future[Model]] = {}
        self._loader = ThreadPoolExecutor(1, "adaptd-loader")

    @property
    def name(self) -> str:
        """The model's name, for clients and on disk."""
        return self.folder.name

    def get_current(self) -> Model:
        """The version that is served."""
        if self.current is None:
            raise NothingPublished(f"there is no usable version of {self.name} in {self.folder} yet: publish one first")
        return self.current

    def refresh(self) -> None:
        """Look at the folder, and serve its largest good version. What is served stays where nothing better is found."""
        try:
            self.versions = list_versions(self.folder)
        except OSError:
            return  # not there yet, or gone for the moment: the version in memory goes on
        for version in reversed(self.versions):
            if self.current is not None and version == self.current.version:
                return
            model = self._old.get(version) or self._try_to_load(version)
            if model is not None:
                self.current = model
                log.info("serving version %d of %s", version, self.name)
                self._swapped(model)
                return

    async def watch(self, seconds: float) -> None:
        """Refresh again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(seconds)
            try:
                await loop.run_in_executor(self._loader, self.refresh)
            # Whatever goes wrong here, the version in memory goes on, and the next look may do better.
            except Exception:
                log.exception("looking for versions in %s failed", self.folder)

    async def get(self, version: int) -> Model:
        """A version by number, loaded if need be; RequestRefused where it is not available."""
        if self.current is not None and self.current.version == version:
            return self.current
        if version in self._old:
            self._old.move_to_end(version)
            return self._old[version]
        loading = self._loading.get(version)
        if loading is None:
            if len(self._loading) >= MAX_LOADING:
                raise RequestRefused(503, "too many versions are being loaded; try again later")
            loading = asyncio.ensure_future(self._load_old(version))
            self._loading[version] = loading
            loading.add_done_callback(lambda done: (self._loading.pop(version), done.cancelled() or done.exception()))
        # One client that leaves must not take the version from the others that wait for it.
        return await asyncio.shield(loading)

    async def _load_old(self, version: int) -> Model:
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._loader, (self.folder / str(version)).is_dir):
            raise RequestRefused(404, f"{self.name} has no version {version}: {self._describe_range()}")
        model = await loop.run_in_executor(self._loader, self._try_to_load, version)
        if model is None:
            raise RequestRefused(503, f"version {version} of {self.name} is unusable: {self.refusals[version][1]}")
        self._old[version] = model
        while len(self._old) > KEPT_OLD:
            self._old.popitem(last=False)
        return model

    def _describe_range(self) -> str:
        if not self.versions:
            return "it has none yet"
        count, first, last = len(self.versions), self.versions[0], self.versions[-1]
        return f"it has {first}" if first == last else f"it has {count} from {first} to {last}"

    def _try_to_load(self, version: int) -> Model | None:
        """The version, warm; None where it is bad, which is remembered until its files change."""
        seen = fingerprint(self.folder, version)
        if version in self.refusals and self.refusals[version][0] == seen:
            return None
        try:
            model = load_model(read_version(self.folder, version), self._threads, self._device)
        except VersionUnusable as problem:
            # Replaced, never changed: another thread may be reading it.
            self.refusals = {**self.refusals, version: (seen, str(problem))}
            log.error("version %d of %s is refused: %s", version, self.name, problem)  # noqa: TRY400 (the fact is enough)
            self._refused(str(problem))
            return None
        self.refusals = {number: refusal for number, refusal in self.refusals.items() if number != version}
        return model

    def close(self) -> None:
        """Load nothing more."""
        self._loader.shutdown(cancel_futures=True)
