"""Which images a person should label. At random for a measurement, so that nothing flatters it. Runs no model."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adaptd.errors import LabelsRefused
from adaptd.records import SOURCES, Domain, Image, Label, Purpose, Split
from adaptd.releases.given import read_taught
from adaptd.store import Transaction


@dataclass(frozen=True, slots=True)
class Gallery:
    """The images of a domain that may be labelled, and the labels they have.

    Args:
        domain: the domain.
        held_out: images that no episode learns from.
        learned: the others, all of which came without labels.
        labels: given so far, by image id.
        has_test: it brought a labelled test set, and is measured on that.
        classes: their names, in the model's order.
        taught: ids of images whose labels a version learned from, also if they were taken back.
    """

    domain: Domain
    held_out: tuple[Image, ...]
    learned: tuple[Image, ...]
    labels: dict[int, Label]
    has_test: bool
    classes: tuple[str, ...]
    taught: frozenset[int] = frozenset()

    @property
    def images(self) -> tuple[Image, ...]:
        """All of them."""
        return (*self.held_out, *self.learned)

    def measurable(self) -> tuple[Image, ...]:
        """Those that a measurement is made on: held-out ones where there are any; none where there is a test set."""
        if self.has_test:
            return ()
        free = (image for image in self.learned if image.id not in self.taught)
        return self.held_out or tuple(image for image in free if not self._is_for(image, Purpose.TEACH))

    def teachable(self) -> tuple[Image, ...]:
        """Those that may teach: no image that is measured on, and none that is held out."""
        return tuple(image for image in self.learned if not self._is_for(image, Purpose.MEASURE))

    def _is_for(self, image: Image, purpose: Purpose) -> bool:
        return image.id in self.labels and self.labels[image.id].purpose is purpose


def read_gallery(tx: Transaction, name: str) -> Gallery:
    """A domain's; DomainUnknown where there is none, LabelsRefused where there is nothing to label."""
    domain, base = tx.domains.get_named(name), tx.versions.find_base()
    if name in SOURCES:
        raise LabelsRefused("the source has labels: name a domain that came without")
    if base is None:
        raise LabelsRefused("there is no model yet, and so no classes to choose from: adaptd source import DIR")
    images = tx.images.list_for(domain.id)
    if not images:
        raise LabelsRefused(f"{name} has no images yet: wait until its drop is imported")
    return Gallery(
        domain,
        tuple(image for image in images if image.split is Split.HELD_OUT),
        tuple(image for image in images if image.split is Split.TRAIN),
        {label.image_id: label for label in tx.labels.list_for(domain.id)},
        any(image.split is Split.TEST for image in images),
        base.classes,
        read_taught(tx, domain.id),
    )


def draw(images: Iterable[Image], count: int) -> tuple[Image, ...]:
    """Some images at random: by content, so that the same ones are drawn every time, and more of them begin with the same."""

    def place(image: Image) -> bytes:
        return hashlib.sha256(f"label {image.sha256}".encode()).digest()

    return tuple(sorted(images, key=place)[:count])


def choose_to_measure(gallery: Gallery, count: int) -> tuple[Image, ...]:
    """What to label for a measurement, the same for everybody who asks."""
    return draw(gallery.measurable(), count)


def choose_to_teach(gallery: Gallery, count: int, doubts: Sequence[float] | None = None) -> tuple[Image, ...]:
    """What to label to teach: the most doubtful first where doubts of `teachable` images are known, else at random.

    Where no images are held out, those that a measurement would be made on stay out.
    """
    images = gallery.teachable()
    if doubts is not None:
        order = sorted(range(len(images)), key=lambda row: -doubts[row])
        images = tuple(images[row] for row in order)
    if not gallery.held_out and not gallery.has_test:
        kept = {image.id for image in choose_to_measure(gallery, max(count, len(gallery.learned) // 2))}
        images = tuple(image for image in images if image.id not in kept)
    return images[:count] if doubts is not None else draw(images, count)
