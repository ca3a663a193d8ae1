"""A drop that is no new domain joins the one it is known as, all at once or not at all."""

import pytest

from adaptd.daemon.deliveries import find_place
from adaptd.episodes.merging import merge_delivery
from adaptd.project.layout import Layout
from adaptd.records import DomainState, NewImage
from adaptd.store import NewDrop, NewEpisode, Store

WHY = "copy is no new domain"


@pytest.fixture
def store(address):
    """A domain that was learned from, and another with a delivery that is about to be."""
    with Store(address) as opened:
        with opened.writing() as tx:
            for key, name in ((1, "night"), (2, "copy")):
                domain = tx.domains.add(name, DomainState.QUEUED)
                tx.drops.add(NewDrop(domain.id, 1, f"domains/{key}/1", name, "f", 2, 2))
                tx.drops.take_in([key], 1)
                tx.images.add_many(domain.id, [NewImage(f"{name}{n}", 1, f"{n}.png") for n in range(2)])
                episode = tx.episodes.add(NewEpisode(domain.id, "grcl", 0, {}, "0" * 64))
            tx.quarantine.add(2, "notes.txt", "not-an-image", "no picture", "quarantine/copy/1/notes.txt", 2)
            lease = tx.episodes.lease(episode.id - 1, "worker", "boot", 1.0)
            tx.domains.place(1)
            tx.episodes.commit(episode.id - 1, lease, {})
            tx.domains.set_state(1, DomainState.DONE)
            tx.episodes.cancel(episode.id, WHY)
        yield opened


def merge(tx) -> None:
    """As an episode does it that found its drop to be known."""
    merge_delivery(tx, tx.domains.get_named("copy"), 1, tx.domains.get_named("night"), WHY)


def read(store):
    """What is where: drops with their domains, quarantined files, states, and how many images."""
    with store.reading() as tx:
        drops = [(drop.path, drop.domain_id, drop.delivery) for drop in tx.drops.list_all()]
        domains = {domain.name: (domain.state, domain.images, domain.quarantined) for domain in tx.domains.list_all()}
    return drops, domains


def test_its_folder_waits_as_the_next_delivery(store, tmp_path):
    """With the quarantined file; both domains tell of it, and the next drop of the old name takes nobody's place."""
    with store.writing() as tx:
        merge(tx)
    assert read(store) == (
        [("domains/1/1", 1, 1), ("domains/2/1", 1, None)],
        {"night": (DomainState.SETTLED, 2, 1), "copy": (DomainState.SKIPPED, 0, 0)},
    )
    with store.reading() as tx:
        told = [event for event in tx.events.list_latest(9) if event.kind == "drop-merged"]
        assert {event.domain_id for event in told} == {1, 2}
        assert tx.domains.get(2).reason == f"{WHY}; its images joined night as a further delivery"
        assert find_place(tx, Layout(tmp_path), 2) == (2, tmp_path / "domains" / "2" / "2")


def test_killed_before_the_commit_it_changed_nothing(store):
    """Not even a part of it."""
    before = read(store)

    class Killed(BaseException):
        pass

    with pytest.raises(Killed), store.writing() as tx:
        merge(tx)
        raise Killed
    assert read(store) == before


def test_what_is_at_work_goes_on(store):
    """A queued episode of the domain that is joined, and a drop that came later under the other name."""
    with store.writing() as tx:
        tx.episodes.add(NewEpisode(1, "grcl", 0, {}, "0" * 64, 2))
        tx.domains.set_state(1, DomainState.QUEUED)
        tx.drops.add(NewDrop(2, 2, "domains/2/2", "copy", "f", 2, 2))
        merge(tx)
    drops, domains = read(store)
    assert drops[1:] == [("domains/2/1", 1, None), ("domains/2/2", 2, None)]
    assert (domains["night"][0], domains["copy"][0]) == (DomainState.QUEUED, DomainState.SETTLED)
