"""What the store knows of a version before it is exported: for its card, and for the gate. Judges and exports nothing."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from adaptd.learning.backbones import Classifier
from adaptd.library.preprocessing import Preprocessing
from adaptd.project.renamed import rename_settings
from adaptd.project.settings import Settings
from adaptd.publishing.card import Ancestor, Facts, RowEntry
from adaptd.publishing.gate import Best
from adaptd.records import NEW_SOURCE, SOURCE, SUPERVISED, Accuracy, Episode, Version
from adaptd.releases.lineage import find_best, find_chain
from adaptd.releases.matrix import best_known
from adaptd.store import Transaction

PUBLISHING_SECTIONS = ("evaluation", "gate", "export")
"""Settings that say how a version is judged and exported."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may become a version.

    Args:
        number: of the version it would be.
        model: the classifier.
        weights_sha256: of its file.
        episode: that made it.
        episode_number: t, which the episode may not have yet.
        config_hash: of the settings that it is judged and exported with.
        parent: the promoted version it follows.
        row: its accuracies.
        restores: the version whose weights these are, where an old one is brought back.
        forced_because: why a person overruled the gate.
    """

    number: int
    model: Classifier
    weights_sha256: str
    episode: Episode
    episode_number: int
    config_hash: str
    parent: Version | None
    row: Sequence[Accuracy]
    restores: int | None = None
    forced_because: str | None = None


def hash_settings(settings: Settings, episode: Episode) -> str:
    """The hash of an episode's settings where its version is judged and exported with these: its own if they are the same."""
    document = settings.model_dump(mode="json")
    stored = rename_settings(episode.config)
    used = stored | {name: document[name] for name in PUBLISHING_SECTIONS}
    if used == stored:
        return episode.config_hash
    return hashlib.sha256(json.dumps(used, sort_keys=True).encode()).hexdigest()


def read_facts(tx: Transaction, candidate: Candidate, name: str, preprocessing: Preprocessing) -> Facts:
    """What goes into the card and the ONNX file of a model of this name."""
    names = {domain.id: SOURCE if domain.name == NEW_SOURCE else domain.name for domain in tx.domains.list_all()}
    model = candidate.model.settings
    return Facts(
        model=name,
        version=candidate.number,
        parent=candidate.parent.version if candidate.parent else None,
        restores=candidate.restores,
        episode=candidate.episode_number,
        domain=names[candidate.episode.domain_id],
        created_at=datetime.now(UTC),
        backbone=model.backbone,
        classes=model.classes,
        preprocessing=preprocessing,
        lineage=() if candidate.episode.method == SUPERVISED else _lineage(tx, candidate.parent, names),
        row=tuple(_entry(accuracy, names) for accuracy in best_known(candidate.row, lambda found: found.domain_id).values()),
        weights_sha256=candidate.weights_sha256,
        config_hash=candidate.config_hash,
    )


def read_best(tx: Transaction) -> dict[str, Best]:
    """By domain name, the best that was measured on the way to the promoted version."""
    names = {domain.id: domain.name for domain in tx.domains.list_all()}
    found = find_best(find_chain(tx.versions.list_all()), tx.accuracies.list_all())
    return {names[key]: Best(accuracy.version, accuracy.value, accuracy.n) for key, accuracy in found.items()}


def _lineage(tx: Transaction, parent: Version | None, names: dict[int, str]) -> tuple[Ancestor, ...]:
    """From the source to the parent."""
    ancestors: list[Ancestor] = []
    while parent is not None:
        episode = tx.episodes.get(parent.episode_id)
        ancestors.append(Ancestor(version=parent.version, episode=episode.number or 0, domain=names[episode.domain_id]))
        is_first = parent.parent is None or (episode.method == SUPERVISED and parent.restores is None)
        parent = None if is_first else tx.versions.get(parent.parent or 0)
    return tuple(reversed(ancestors))


def _entry(accuracy: Accuracy, names: dict[int, str]) -> RowEntry:
    return RowEntry(
        domain=names[accuracy.domain_id],
        value=accuracy.value,
        kind=accuracy.kind,
        n=accuracy.n,
        low=accuracy.low,
        high=accuracy.high,
        estimator=accuracy.estimator or None,
        held_out=accuracy.held_out,
    )
