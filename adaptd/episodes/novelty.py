"""Asking, before the first episode on a domain, whether it is new: the model looks at its images and at those of known ones."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from shlex import quote
from typing import Any

import numpy as np

from adaptd.episodes.leases import PATIENCE_SECONDS
from adaptd.episodes.materials import Materials
from adaptd.errors import DomainKnown
from adaptd.evaluation.evaluator import viewing
from adaptd.evaluation.novelty import (
    MOST_IMAGES,
    Distance,
    Novelty,
    Verdict,
    correct_level,
    decide,
    find_nearest,
    measure_distance,
)
from adaptd.evaluation.shift import View
from adaptd.learning.backbones import Classifier
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import Project
from adaptd.project.settings import ENOUGH_TO_TELL
from adaptd.records import SUPERVISED, Domain, DomainState, EpisodeState, EventKind, Image, Lease, Progress
from adaptd.releases.images import ImageSets, join_sets
from adaptd.store import Store, Transaction

NOVELTY = "novelty"
"""Under this name an episode's report tells what was found."""
CONTENT = "content"
"""Under this name in it, of which images."""


class Assessment:
    """Whether an episode's drop is new: asked once, recorded, and followed by what the settings say."""

    def __init__(
        self, project: Project, store: Store, materials: Materials, lease: Lease, check_stop: Callable[[], None]
    ) -> None:
        self._settings, self._store, self._materials, self._lease = project.settings, store, materials, lease
        self._episode, self._domain, self._check_stop = materials.episode, materials.domain, check_stop

    def run(self, model: Classifier) -> dict[str, Any]:
        """What the report tells of it; nothing for a domain that has a column in R.

        Args:
            model: as the episode begins with it.

        Raises:
            DomainKnown: it is no new domain, and is skipped.
        """
        if self._episode.method == SUPERVISED or self._domain.position is not None:
            return {}
        if NOVELTY in self._episode.report:
            return {NOVELTY: self._episode.report[NOVELTY]}
        with self._store.writing(PATIENCE_SECONDS) as tx:
            tx.episodes.progress(self._episode.id, self._lease, Progress("comparing", 0, 1))
            came = len(tx.domains.list_all()) - 1
            content = digest_images(tx.images.list_for(self._domain.id))
        found = assess_novelty(self._materials, model, came, self._settings.evaluation.batch_size, self._check_stop)
        report = {NOVELTY: found.to_json() | {CONTENT: content}}
        with self._store.writing(PATIENCE_SECONDS) as tx:
            tx.episodes.report(self._episode.id, self._lease, report)
            about = {"domain_id": self._domain.id, "episode_id": self._episode.id}
            tx.events.add(EventKind.DROP_COMPARED, found.message, **about)
            is_skipped = self._must_skip(tx, found, content)
            if is_skipped:
                self._skip(tx, found)
        if is_skipped:
            raise DomainKnown(found.message)
        return report

    def _must_skip(self, tx: Transaction, found: Novelty, content: str) -> bool:
        """Only drops are: who runs `adaptd adapt` wants an episode. And who tries the same images again, too."""
        if found.verdict is not Verdict.KNOWN or self._settings.intake.known_drops != "skip":
            return False
        return bool(tx.drops.list_all(self._domain.id)) and not was_skipped(tx, self._domain, content)

    def _skip(self, tx: Transaction, found: Novelty) -> None:
        name = quote(self._domain.name)
        why = f"{found.message}; `adaptd retry {name}` adapts to it nevertheless"
        tx.episodes.cancel(self._episode.id, found.message)
        tx.checkpoints.forget_all(self._episode.id)
        tx.domains.set_state(self._domain.id, DomainState.SKIPPED, why)


def assess_novelty(
    materials: Materials, model: Classifier, came: int, batch_size: int, check_stop: Callable[[], None] = lambda: None
) -> Novelty:
    """Compare an episode's drop with the source and every known domain.

    Args:
        materials: of the episode.
        model: as it begins.
        came: how many domains have come, this one included: the more, the more one of them looks new by chance.
        batch_size: of forward passes.
        check_stop: called before each known domain; may raise.
    """
    own, known = materials.domain, [d for d in materials.images.domains if d.id != materials.domain.id]
    count, level = sum(map(len, _own_parts(materials))), correct_level(came, len(known))
    if count < ENOUGH_TO_TELL:
        return decide(own.name, count, (), level)
    seed, classes, size = materials.episode.seed, model.settings.classes, model.settings.image_size
    with viewing(model, len(classes), (3, size, size), count, batch_size) as view:

        def look(parts: list[ImageSet]) -> View:
            return view(sample(parts, MOST_IMAGES, seed))

        drop = look(_own_parts(materials))

        def measure(domain: Domain) -> Distance | None:
            check_stop()
            references = (look(parts) for parts in _reference_parts(materials.images, domain))
            return find_nearest(references, lambda images: measure_distance(domain.name, drop, images, classes, level, seed))

        found = [measure(domain) for domain in known]
    return decide(own.name, count, [each for each in found if each is not None], level)


def find_known(report: Mapping[str, Any]) -> str | None:
    """What to say of a domain that is not new; None of any other."""
    found = report.get(NOVELTY, {})
    return found["message"] if found.get("verdict") == Verdict.KNOWN else None


def digest_images(images: Iterable[Image]) -> str:
    """Of what is in them, whatever their ids and names are."""
    return hashlib.sha256("\n".join(sorted(image.sha256 for image in images)).encode()).hexdigest()


def was_skipped(tx: Transaction, domain: Domain, content: str) -> bool:
    """Whether the same images were skipped before: who brings them again means it."""
    return any(
        episode.domain_id == domain.id
        and episode.report.get(NOVELTY, {}).get("verdict") == Verdict.KNOWN
        and episode.report[NOVELTY].get(CONTENT) == content
        for episode in tx.episodes.list_all(EpisodeState.CANCELLED)
    )


def sample(parts: list[ImageSet], most: int, seed: int) -> ImageSet:
    """At most so many images of several sets, at random; no more of a memory map is read."""
    total = sum(map(len, parts))
    rows = np.sort(np.random.default_rng(seed).permutation(total)[:most])
    taken, start = [], 0
    for part in parts:
        mine = rows[(rows >= start) & (rows < start + len(part))] - start
        taken.append(ImageSet(part.ids[mine], np.asarray(part.pixels[mine])))
        start += len(part)
    return join_sets(taken)


def _own_parts(materials: Materials) -> list[ImageSet]:
    """The episode's own images, labelled test images aside."""
    images, own = materials.images, materials.domain
    held_out = [images.open_unlabelled(own)] if images.has_held_out(own) else []
    return [images.open_train(own), *held_out]


def _reference_parts(images: ImageSets, domain: Domain) -> Iterator[list[ImageSet]]:
    """Images of a known domain that no model learned from; then all of it, as a copy would bring them."""
    held_out = images.open_test(domain)
    if held_out is None and images.has_held_out(domain):
        held_out = images.open_unlabelled(domain)
    unseen = [] if held_out is None else [held_out]
    if unseen:
        yield unseen
    yield [*unseen, images.open_train(domain)]
