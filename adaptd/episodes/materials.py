"""What an episode learns from, gathered from the store. The images that its model is judged on are `releases.images`'."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from adaptd.learning.batches import EpisodeData
from adaptd.library.cache import Cache
from adaptd.project.layout import Layout
from adaptd.records import SUPERVISED, Domain, Episode, EpisodeState, Label, Purpose, Split, Version
from adaptd.releases.given import Given, index_labels
from adaptd.releases.images import ImageSets, read_image_sets
from adaptd.releases.succession import find_source_version
from adaptd.store import Transaction


@dataclass(frozen=True, slots=True)
class Materials:
    """Everything one episode reads.

    Args:
        episode: the episode.
        domain: its domain.
        images: the image sets of all domains.
        delivery: where the images lie that the episode learns from.
        parent: the version that it begins with; None for the first episode.
        earlier_versions: the source model and the one to begin with, where the episode's domain is new to R, or to a new lineage.
        confidences: of the images in the own domain's memory so far, by image id.
        taught: labels that people gave to teach, of the own domain's images.
    """

    episode: Episode
    domain: Domain
    images: ImageSets
    delivery: Path
    parent: Version | None
    earlier_versions: tuple[Version, ...]
    confidences: Mapping[int, float]
    taught: Given = field(default_factory=dict)

    @property
    def target(self) -> Cache:
        """What the episode learns from."""
        return self.images.open(self.delivery)

    def open_data(self) -> EpisodeData:
        """What a method sees."""
        source = self.images.open_train(self.images.source)
        if self.domain.id == self.images.source.id:
            return EpisodeData(source, held_out_source=self.images.open_test(self.images.source))
        memories = tuple(self.images.open(folder).images for folder in self.images.memories.values())
        taught = self.images.open_labelled(self.domain, self.taught)
        known = memories if taught is None else (*memories, taught)
        held_out = self.images.open_unlabelled(self.domain) if self.images.has_held_out(self.domain) else None
        return EpisodeData(source, known, self.target.images, self.images.open_test(self.images.source), held_out)


def read_materials(tx: Transaction, layout: Layout, episode: Episode, *, teach: bool = False) -> Materials:
    """Look up what an episode needs; with the labels that people gave to teach, if it may `teach`."""
    domain, base = tx.domains.get(episode.domain_id), tx.versions.find_base()
    images = read_image_sets(tx, layout, episode)
    done = tx.episodes.list_all(EpisodeState.DONE)
    first = find_source_version(tx.versions.list_all(), done)
    since = 0 if first is None else first.episode_id
    is_new = episode.method != SUPERVISED and not any(e.domain_id == domain.id and e.id > since for e in done)
    earlier = {version.version: version for version in (first, base) if version is not None} if is_new else {}
    confidences = {item.image_id: item.confidence for item in tx.memories.list_for(domain.id)}
    delivery = layout.cache(domain.id, episode.delivery, Split.TRAIN)
    parent = _find_parent(tx, episode)
    taught = index_labels(_list_taught(tx, episode), base.classes) if teach and base is not None else {}
    return Materials(episode, domain, images, delivery, parent, tuple(earlier.values()), confidences, taught)


def _list_taught(tx: Transaction, episode: Episode) -> list[Label]:
    """One that has begun goes on with the labels it began with."""
    given = tx.labels.list_for(episode.domain_id, Purpose.TEACH)
    return [label for label in given if episode.started_at is None or label.labelled_at <= episode.started_at]


def _find_parent(tx: Transaction, episode: Episode) -> Version | None:
    """What the episode begins with, a source's with nothing. One that has begun stays with it, whatever was promoted since."""
    if episode.method == SUPERVISED:
        return None
    if episode.base is not None and tx.checkpoints.list_for(episode.id):
        return tx.versions.get(episode.base)
    return tx.versions.find_base()
