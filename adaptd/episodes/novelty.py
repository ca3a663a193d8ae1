"""Asking, before the first episode on a domain, whether it is new: the model looks at its images and at those of known ones."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from shlex import quote
from typing import Any

import numpy as np

from adaptd.episodes.leases import PATIENCE_SECONDS
from adaptd.episodes.materials import Materials
from adaptd.episodes.merging import merge_delivery
from adaptd.errors import DomainKnown
from adaptd.evaluation.evaluator import viewing
from adaptd.evaluation.novelty import (
    MOST_IMAGES,
    Distance,
    Novelty,
    Verdict,
    correct_level,
    decide,
    decide_copied,
    find_nearest,
    measure_distance,
)
from adaptd.evaluation.shift import View
from adaptd.files import try_to_remove
from adaptd.learning.backbones import Classifier
from adaptd.learning.below import Below
from adaptd.library.imageset import Gathered, ImageSet
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.project.settings import ENOUGH_TO_TELL
from adaptd.records import (
    MERGED_INTO,
    NOVELTY,
    SUPERVISED,
    Domain,
    DomainState,
    EpisodeState,
    EventKind,
    Image,
    Lease,
    Progress,
    Split,
)
from adaptd.releases.images import ImageSets, join_sets
from adaptd.store import Store, Transaction

FindBelow = Callable[[], Below | None]

FEW_MORE = 2
"""Where a drop has up to so many times the images that are compared, its activations are made before that, and not after."""

CONTENT = "content"
"""Under this name the report's novelty tells of which images it is."""


class Assessment:
    """Whether an episode's drop is new: asked once, recorded, and followed by what the settings say."""

    def __init__(
        self, project: Project, store: Store, materials: Materials, lease: Lease, check_stop: Callable[[], None]
    ) -> None:
        self._settings, self._store, self._materials, self._lease = project.settings, store, materials, lease
        self._episode, self._domain, self._check_stop = materials.episode, materials.domain, check_stop
        self._layout = Layout(project.state)

    def run(self, model: Classifier, find_below: FindBelow = lambda: None) -> dict[str, Any]:
        """What the report tells of it; nothing for a domain that has a column in R.

        Args:
            model: as the episode begins with it.
            find_below: makes activations that the episode needs anyway; asked where most of the drop is looked at.

        Raises:
            DomainKnown: it is no new domain, and is skipped, or joined the one it is known as.
        """
        if self._episode.method == SUPERVISED or self._domain.position is not None:
            return {}
        if NOVELTY in self._episode.report:
            return {NOVELTY: self._episode.report[NOVELTY]}
        with self._store.writing(PATIENCE_SECONDS) as tx:
            tx.episodes.progress(self._episode.id, self._lease, Progress("comparing", 0, 1))
            came = len(tx.domains.list_all()) - 1
            content = digest_images(tx.images.list_for(self._domain.id))
        found = self._find_copied(came) or assess_novelty(
            self._materials, model, came, self._settings.evaluation.batch_size, self._check_stop, find_below
        )
        report = {NOVELTY: found.to_json() | {CONTENT: content}}
        with self._store.writing(PATIENCE_SECONDS) as tx:
            tx.episodes.report(self._episode.id, self._lease, report)
            about = {"domain_id": self._domain.id, "episode_id": self._episode.id}
            tx.events.add(EventKind.DROP_COMPARED, found.message, **about)
            is_over = self._is_unwanted(tx, found, content)
            if is_over:
                self._end(tx, found, report)
        if is_over:
            self._sweep()
            raise DomainKnown(found.message)
        return report

    def _find_copied(self, came: int) -> Novelty | None:
        """Whether known domains have every image of it, byte for byte: then there is nothing to compare."""
        own, known = self._domain, list_known(self._materials)
        with self._store.reading() as tx:
            images = sum(image.split is not Split.TEST for image in tx.images.list_for(own.id))
            shared = {d.name: tx.images.list_shared(own.id, d.id, tx.episodes.last_delivery(d.id)) for d in known}
        return decide_copied(own.name, images, shared, correct_level(came, len(known)))

    def _is_unwanted(self, tx: Transaction, found: Novelty, content: str) -> bool:
        """Only drops are: who runs `adaptd adapt` wants an episode. And who tries the same images again, too."""
        if found.verdict is not Verdict.KNOWN or (self._settings.intake.known_drops == "adapt" and not found.copied):
            return False
        return bool(tx.drops.list_all(self._domain.id)) and not was_skipped(tx, self._domain, content)

    def _end(self, tx: Transaction, found: Novelty, report: dict[str, Any]) -> None:
        """No episode on it: it joins the domain that it is known as, or is skipped."""
        host = self._find_host(tx, found)
        if host is not None:
            tx.episodes.report(self._episode.id, self._lease, {NOVELTY: report[NOVELTY] | {MERGED_INTO: host.name}})
            merge_delivery(tx, self._domain, self._episode.delivery, host, found.message)
        else:
            name = quote(self._domain.name)
            why = f"{found.message}; nothing is learned from it, `adaptd retry {name}` adapts to it nevertheless"
            tx.domains.set_state(self._domain.id, DomainState.SKIPPED, why)
        tx.episodes.cancel(self._episode.id, found.message)
        tx.checkpoints.forget_all(self._episode.id)

    def _find_host(self, tx: Transaction, found: Novelty) -> Domain | None:
        """The domain to merge it into; none where that is not set, people labelled it, it is a copy, or like the source."""
        if self._settings.intake.known_drops != "merge" or found.copied or tx.labels.list_for(self._domain.id):
            return None
        assert found.known_as is not None
        host = tx.domains.get_named(found.known_as)
        return host if host.position else None

    def _sweep(self) -> None:
        """Remove activations, and what was decoded of a drop that joined another domain: it is decoded there again."""
        try_to_remove(self._layout.activations(self._episode.id))
        with self._store.reading() as tx:
            domain = tx.domains.get(self._domain.id)
        if domain.state is DomainState.SKIPPED and not domain.images:
            for split in Split:
                try_to_remove(self._layout.cache(domain.id, self._episode.delivery, split))


def assess_novelty(
    materials: Materials,
    model: Classifier,
    came: int,
    batch_size: int,
    check_stop: Callable[[], None] = lambda: None,
    find_below: FindBelow = lambda: None,
) -> Novelty:
    """Compare an episode's drop with the source and every known domain.

    Args:
        materials: of the episode.
        model: as it begins.
        came: how many domains have come, this one included: the more, the more one of them looks new by chance.
        batch_size: of forward passes.
        check_stop: called before each known domain; may raise.
        find_below: makes activations of the images that the episode learns from.
    """
    own, known = materials.domain, list_known(materials)
    count, level = sum(map(len, _own_parts(materials))), correct_level(came, len(known))
    if count < ENOUGH_TO_TELL:
        return decide(own.name, count, (), level)
    seed, classes, size = materials.episode.seed, model.settings.classes, model.settings.image_size
    below = find_below() if count <= FEW_MORE * MOST_IMAGES else None
    with viewing(model, len(classes), (3, size, size), count, batch_size, below) as view:

        def look(parts: list[ImageSet]) -> View:
            return view(sample(parts, MOST_IMAGES, seed))

        drop = look(_own_parts(materials))

        def measure(domain: Domain) -> Distance | None:
            check_stop()
            references = (look(parts) for parts in _reference_parts(materials.images, domain))
            return find_nearest(references, lambda images: measure_distance(domain.name, drop, images, classes, level, seed))

        found = [measure(domain) for domain in known]
    return decide(own.name, count, [each for each in found if each is not None], level)


def list_known(materials: Materials) -> list[Domain]:
    """The source and every domain that was learned from."""
    return [domain for domain in materials.images.domains if domain.id != materials.domain.id]


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
        and MERGED_INTO not in episode.report[NOVELTY]
        for episode in tx.episodes.list_all(EpisodeState.CANCELLED)
    )


def sample(parts: list[ImageSet], most: int, seed: int) -> ImageSet:
    """At most so many images of several sets, at random; no more of a memory map is read."""
    total = sum(map(len, parts))
    rows = np.sort(np.random.default_rng(seed).permutation(total)[:most])
    taken, start = [], 0
    for part in parts:
        mine = rows[(rows >= start) & (rows < start + len(part))] - start
        taken.append(ImageSet(part.ids[mine], Gathered([part.pixels], mine)))
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
