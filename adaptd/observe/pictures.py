"""Pictures and insights of a project, from where the state folder keeps them. How they are shown is `observe`'s business."""

from pathlib import Path

from adaptd.evaluation.insight import Insight, parse_insight
from adaptd.library.thumbnails import Thumbnails
from adaptd.project.layout import Layout
from adaptd.records import Image

SIDE, LARGE = 96, 512
"""Pixels of a picture, at most: small, and enlarged."""


class StoredPictures:
    """What the pages may show of a project's images."""

    def __init__(self, state: Path) -> None:
        self._layout, self._thumbnails = Layout(state), Thumbnails()

    def find_png(self, image: Image, *, large: bool = False) -> bytes | None:
        """The image from its delivery's cache, else from its domain's memory, which is kept for longer; else None."""
        folders = [self._layout.cache(image.domain_id, image.delivery, image.split)]
        folders += sorted(self._layout.memories.glob(f"{image.domain_id}-*"), reverse=True)
        found = (self._thumbnails.find_png(folder, image.id, LARGE if large else SIDE) for folder in folders)
        return next((png for png in found if png is not None), None)

    def find_insight(self, episode_id: int) -> Insight | None:
        """What an episode changed, image by image; None where it is not known, or cannot be read."""
        try:
            return parse_insight(self._layout.insight(episode_id).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
