"""What pages are made from: a project, its store, the process at work, pictures. And how pages point to each other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from adaptd.evaluation.insight import Insight
from adaptd.project.layers import Project
from adaptd.project.lock import Holder
from adaptd.records import Image
from adaptd.releases.matrix import MatrixKeeper
from adaptd.store import Store


class Pictures(Protocol):
    """Where pixels, and what was said about them, are found."""

    def find_png(self, image: Image) -> bytes | None:
        """A small picture of the image; None where its pixels are gone."""

    def find_insight(self, episode_id: int) -> Insight | None:
        """What an episode changed, image by image; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Site:
    """Everything a page may ask."""

    project: Project
    store: Store
    find_holder: Callable[[], Holder | None]
    pictures: Pictures
    matrices: MatrixKeeper = field(default_factory=MatrixKeeper)

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
