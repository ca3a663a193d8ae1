"""A delivery in the store: ids are reserved, then images are accepted and their episode is queued at once. Touches no file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from adaptd.errors import StoreConflict
from adaptd.imports.delivery import Delivery
from adaptd.project.settings import Settings
from adaptd.records import SOURCES, SUPERVISED, Domain, DomainState, Episode, EventKind, Label, NewQuarantined, Purpose
from adaptd.store import NewEpisode, Store, Transaction
from adaptd.text import printable, tell_count

NOTHING_NEW = 0
"""The delivery of drops that brought none."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of a folder, or of a domain's drops."""

    episode: Episode
    train: int
    test: int
    held_out: int
    quarantined: int
    duplicates: int
    remark: str = ""


def withdraw_source(tx: Transaction) -> None:
    """Forget the first version, which was rejected: its source is imported and trained again, as after a failed episode."""
    first = tx.versions.find(1)
    if first is not None:
        tx.versions.withdraw(first.version)
        tx.episodes.withdraw(first.episode_id, "its version was rejected, and the source is trained again")


def reserve(store: Store, delivery: Delivery) -> tuple[Domain, dict[str, int]]:
    """The domain, which may be new, and an id for each image by its hash. Accepts nothing."""
    with store.writing() as tx:
        name = delivery.incoming.name
        domain = tx.domains.find(name) or tx.domains.add(name, DomainState.ARRIVING)
        ids = tx.images.reserve(len(delivery.images))
    return domain, dict(zip((image.sha256 for image in delivery.images), ids, strict=True))


def commit(store: Store, delivery: Delivery, domain: Domain, ids: dict[str, int], settings: Settings) -> Imported:
    """Accept the images, whose caches are on disk, and queue their episode."""
    with store.writing() as tx:
        _require_wanted(tx, delivery)
        # What is there of this delivery no model has learned from: its episode failed.
        labels = tx.labels.list_by_content(domain.id, delivery.number)
        tx.images.remove_delivery(domain.id, delivery.number)
        keys = tx.images.add_many(domain.id, delivery.to_store(ids))
        _give_labels_again(tx, domain, {keys[digest]: label for digest, label in labels.items() if digest in keys})
        _quarantine(tx, domain, delivery)
        _take_in_drops(tx, delivery, delivery.number)
        if delivery.incoming.drops and settings.intake.trigger == "manual":
            tx.pauses.add(domain.name, f"intake.trigger is manual: `adaptd resume {quote(domain.name)}` starts it")
        tx.domains.set_state(domain.id, DomainState.QUEUED)
        episode = tx.episodes.add(new_episode(domain, delivery.number, delivery.classes, settings))
        accepted, unusable = tell_count(len(delivery.images), "image"), tell_count(delivery.unusable, "file")
        message = f"{domain.name}: {accepted} accepted, {unusable} quarantined"
        duplicates = delivery.duplicates
        tx.events.add(EventKind.DOMAIN_QUEUED, message, domain_id=domain.id, episode_id=episode.id, duplicates=duplicates)
        remark = _tell_class_folders(delivery, settings)
        if remark:
            tx.events.add(EventKind.CLASS_FOLDERS, remark, domain_id=domain.id, episode_id=episode.id)
    train, test, held_out = (len(images) for _, images in delivery.parts)
    return Imported(episode, train, test, held_out, delivery.unusable, delivery.duplicates, remark)


def _tell_class_folders(delivery: Delivery, settings: Settings) -> str:
    """That a drop seems to be labelled, and how its owner may have that used; empty where it is not."""
    incoming = delivery.incoming
    folders = incoming.find_class_folders(delivery.classes)
    if incoming.name in SOURCES or not folders:
        return ""
    where = Path(settings.paths.state) / incoming.drops[0].path if incoming.drops else Path(incoming.where)
    return (
        f"the folders of {incoming.name} are named like classes ({', '.join(folders[:3])}{', …' if len(folders) > 3 else ''}), "
        f"which is never taken for labels. If they are right, `adaptd labels import {quote(incoming.name)} {quote(str(where))}` "
        "measures by them, and in the next drop put them into _test/"
    )


def _give_labels_again(tx: Transaction, domain: Domain, labels: dict[int, Label]) -> None:
    """What people labelled of a delivery that is imported once more keeps its labels."""
    for purpose in Purpose:
        tx.labels.give(domain.id, {key: label.label for key, label in labels.items() if label.purpose is purpose}, purpose)


def wait_for_more(store: Store, delivery: Delivery, shortage: str) -> None:
    """Its drops are too little: they wait for more, or are over if all of it was known. A finished domain stays finished."""
    with store.writing() as tx:
        _require_wanted(tx, delivery)
        domain = tx.domains.get_named(delivery.incoming.name)
        tx.images.remove_delivery(domain.id, delivery.number)
        _quarantine(tx, domain, delivery)
        over = delivery.is_known
        if over:
            _take_in_drops(tx, delivery, NOTHING_NEW)
        else:
            _note_taken(tx, delivery)
        state = DomainState.SETTLED if domain.position is None else DomainState.DONE
        # What came meanwhile may be enough.
        more = {drop.id for drop in tx.drops.list_waiting(domain.id)} - set(delivery.incoming.drop_ids)
        tx.domains.set_state(domain.id, state, None if more else shortage)
        tx.events.add(EventKind.DROP_NOTHING_NEW if over else EventKind.DROP_WAITS, shortage, domain_id=domain.id)


def mark_unsynced(store: Store, delivery: Delivery) -> None:
    """Whoever finds this mark knows that a sync of the drops may have failed; the commit takes it away."""
    if delivery.incoming.drops:
        with store.writing() as tx:
            tx.drops.mark_unsynced(delivery.incoming.drop_ids)


def new_episode(domain: Domain, delivery: int, classes: Sequence[str], settings: Settings) -> NewEpisode:
    """An episode on a delivery, with the settings that it will run with."""
    config = settings.model_dump(mode="json")
    config["model"]["classes"] = list(classes)
    settings = Settings.model_validate_json(json.dumps(config))
    method = SUPERVISED if domain.name in SOURCES else settings.method.name
    return NewEpisode(domain.id, method, settings.training.seed, config, settings.hash, delivery)


def _require_wanted(tx: Transaction, delivery: Delivery) -> None:
    """A person may have cancelled a domain while its drops were decoded."""
    name = delivery.incoming.name
    if delivery.incoming.drops and tx.domains.get_named(name).state is DomainState.SKIPPED:
        raise StoreConflict(f"{name} was cancelled")


def _quarantine(tx: Transaction, domain: Domain, delivery: Delivery) -> None:
    new = []
    for reason, detail, file in delivery.quarantined:
        drop_id = delivery.incoming.find_drop_to_leave(file)
        path, stamp = None if drop_id else printable(file.path), delivery.incoming.find_stamp(file)
        size, mtime_ns = (stamp.size, stamp.mtime_ns) if stamp else (None, None)
        new.append(NewQuarantined(file.name, reason, detail, path, drop_id, size, mtime_ns))
    tx.quarantine.add_many(domain.id, new)


def _take_in_drops(tx: Transaction, delivery: Delivery, number: int) -> None:
    tx.drops.take_in(delivery.incoming.drop_ids, number)
    _note_taken(tx, delivery)
    for drop_id, (accepted, duplicates) in delivery.counts.items():
        tx.drops.count(drop_id, accepted, duplicates)


def _note_taken(tx: Transaction, delivery: Delivery) -> None:
    assert delivery.incoming.listed_at is not None or not delivery.taken
    for drop_id, fingerprint in delivery.taken.items():
        tx.drops.set_taken(drop_id, fingerprint, delivery.incoming.listed_at)
