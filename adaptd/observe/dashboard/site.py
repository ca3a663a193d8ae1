"""What pages are made from: a project, its store, the process at work, pictures. And how pages point to each other."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from adaptd.evaluation.insight import Insight
from adaptd.project.layers import Project
from adaptd.project.lock import Holder
from adaptd.records import Domain, Image
from adaptd.releases.matrix import MatrixKeeper
from adaptd.store import Store, Transaction


class Pictures(Protocol):
    """Where pixels, and what was said about them, are found."""

    def find_png(self, image: Image, *, large: bool = False) -> bytes | None:
        """A picture of the image, small or as the model sees it; None where its pixels are gone."""

    def find_insight(self, episode_id: int) -> Insight | None:
        """What an episode changed, image by image; None where it is not known."""


class ClassCounts:
    """How many images of each class the source has, counted again only when it has more: there may be a million."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._counts: dict[str, int] = {}

    def read(self, tx: Transaction, source: Domain) -> dict[str, int]:
        """By name."""
        with self._lock:
            if self._stamp != (source.id, source.images):
                self._counts, self._stamp = tx.images.count_labels(source.id), (source.id, source.images)
            return self._counts


@dataclass(frozen=True, slots=True)
class Site:
    """Everything a page may ask."""

    project: Project
    store: Store
    find_holder: Callable[[], Holder | None]
    pictures: Pictures
    matrices: MatrixKeeper = field(default_factory=MatrixKeeper)
    class_counts: ClassCounts = field(default_factory=ClassCounts)

    @property
    def model(self) -> str:
        """The model's name."""
        return self.project.settings.model.name


class Links(Protocol):
    """Where something is shown; None where it is not."""

    def domain(self, name: str) -> str | None:
        """A domain."""

    def version(self, number: int) -> str | None:
        """A version."""

    def image(self, domain: str, image: Image) -> str | None:
        """A picture."""

    def act(self, action: str, domain: str | None = None, version: int | None = None) -> str | None:
        """Where a person does something about it."""


class PageLinks:
    """Links between the pages of the site."""

    def domain(self, name: str) -> str:
        """Its page."""
        return f"/domains/{quote(name, safe='')}"

    def version(self, number: int) -> str:
        """Its page."""
        return f"/versions/{number}"

    def image(self, domain: str, image: Image) -> str:
        """Its picture."""
        return f"{self.domain(domain)}/images/{image.id}.png"

    def act(self, action: str, domain: str | None = None, version: int | None = None) -> str:
        """The page that asks for the token."""
        if action == "promote":
            return f"/versions/{version}#act"
        of = "" if domain is None else self.domain(domain)
        return f"{of}/labels" if action == "label" else f"{of}/do/{action}"
