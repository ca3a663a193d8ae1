"""What every repository promises, on SQLite and on PostgreSQL."""

import itertools

import pytest

from adaptd.errors import StoreConflict, StoreError
from adaptd.records import (
    Accuracy,
    AccuracyKind,
    DomainState,
    EpisodeState,
    GateDecision,
    ImageState,
    Int8Model,
    MemoryItem,
    NewImage,
    Progress,
    Purpose,
    Split,
    VersionState,
)
from adaptd.store import NewDrop, NewEpisode, NewVersion, Store, Transaction
from adaptd.store.curves import EPISODES, POINTS


@pytest.fixture
def store(address):
    """An open, empty store."""
    with Store(address) as opened:
        yield opened


def add_domain(tx: Transaction, name: str = "camera-7") -> int:
    """A queued domain."""
    return tx.domains.add(name, DomainState.QUEUED).id


def add_episode(tx: Transaction, name: str = "camera-7") -> int:
    """A queued episode of a domain, which is made where it is missing."""
    domain = tx.domains.find(name)
    domain_id = domain.id if domain else add_domain(tx, name)
    return tx.episodes.add(NewEpisode(domain_id, "grcl", 0, {"training": {"epochs": 2}}, "0" * 64)).id


def add_version(tx: Transaction) -> int:
    """A candidate."""
    return tx.versions.add(NewVersion(None, add_episode(tx), ("a", "b"), "state/weights/1", "0" * 64)).version


def image(letter: str, **more) -> NewImage:
    """An image whose content is a letter."""
    return NewImage(letter * 64, 10, f"{letter}.png", **more)


class TestTransactions:
    def test_a_block_that_raises_changes_nothing(self, store):
        """All of a writing block, or nothing."""
        with pytest.raises(RuntimeError), store.writing() as tx:
            add_domain(tx)
            raise RuntimeError
        with store.reading() as tx:
            assert tx.domains.list_all() == ()

    def test_reading_refuses_to_write(self, store):
        """A view cannot change anything."""
        with pytest.raises(StoreError), store.reading() as tx:
            add_domain(tx)

    def test_a_view_is_consistent(self, store, address):
        """What others commit during a view is not seen in it on SQLite, and after it on both."""
        with store.reading() as view:
            before = view.domains.list_all()
            with Store(address) as other, other.writing() as tx:
                add_domain(tx)
            if address.startswith("sqlite"):
                assert view.domains.list_all() == before
        with store.reading() as view:
            assert len(view.domains.list_all()) == 1


class TestDomains:
    def test_a_name_is_taken_once(self, store):
        """Two domains cannot share a name."""
        with store.writing() as tx:
            add_domain(tx)
        with pytest.raises(StoreConflict), store.writing() as tx:
            add_domain(tx)

    def test_find_get_list(self, store):
        """Find gives None, get raises, list keeps the order of arrival."""
        with store.writing() as tx:
            for name in ("b", "a"):
                add_domain(tx, name)
            assert tx.domains.find("c") is None
            assert [domain.name for domain in tx.domains.list_all()] == ["b", "a"]
            with pytest.raises(StoreConflict, match="domain with id 99"):
                tx.domains.get(99)

    def test_another_source_takes_the_first_place(self, store):
        """With its name; the old one gets the name given, and a place behind all others."""
        with store.writing() as tx:
            old, camera, new = (add_domain(tx, name) for name in ("source", "camera-7", ".source"))
            for key in (old, camera):
                tx.domains.place(key)
            tx.domains.replace_source(old, new, ".source-before-3")
            assert {domain.name: (domain.id, domain.position) for domain in tx.domains.list_all()} == {
                "source": (new, 0),
                "camera-7": (camera, 1),
                ".source-before-3": (old, 2),
            }
            assert tx.domains.place(new) == 0

    def test_positions_are_given_once_and_in_order(self, store):
        """A second placing keeps the column in R."""
        with store.writing() as tx:
            first, second = add_domain(tx, "source"), add_domain(tx, "night")
            assert [tx.domains.place(first), tx.domains.place(second), tx.domains.place(first)] == [0, 1, 0]

    def test_times_are_utc(self, store):
        """A moment comes back with its time zone."""
        with store.writing() as tx:
            domain = tx.domains.get(add_domain(tx))
        assert domain.created_at.utcoffset().total_seconds() == 0

    def test_state_and_reason(self, store):
        """A failed domain says why."""
        with store.writing() as tx:
            key = add_domain(tx)
            tx.domains.set_state(key, DomainState.FAILED, "out of memory")
            assert (tx.domains.get(key).state, tx.domains.get(key).reason) == (DomainState.FAILED, "out of memory")


class TestImages:
    def test_content_is_kept_once(self, store):
        """The same bytes under two names, or added twice, are one image, and the domain counts one."""
        with store.writing() as tx:
            key = add_domain(tx)
            first = tx.images.add_many(key, [image("a"), image("b")])
            again = tx.images.add_many(key, [image("b"), image("c"), image("c")])
            assert again["b" * 64] == first["b" * 64]
            assert [item.sha256[0] for item in tx.images.list_for(key)] == ["a", "b", "c"]
            assert tx.domains.get(key).images == 3

    def test_two_domains_may_hold_the_same_content(self, store):
        """Uniqueness is per domain."""
        with store.writing() as tx:
            ids = [tx.images.add_many(add_domain(tx, name), [image("a")])["a" * 64] for name in ("x", "y")]
            assert ids[0] != ids[1]

    def test_splits_and_labels(self, store):
        """A split is listed alone."""
        with store.writing() as tx:
            key = add_domain(tx)
            tx.images.add_many(key, [image("a"), image("b", split=Split.TEST, label="dog")])
            assert [item.label for item in tx.images.list_for(key)] == [None, "dog"]
            assert [item.label for item in tx.images.list_for(key, Split.TEST)] == ["dog"]

    def test_reserved_ids(self, store):
        """Ids that were reserved are free, and those given afterwards are others."""
        with store.writing() as tx:
            key = add_domain(tx)
            before = tx.images.add_many(key, [image("a")])["a" * 64]
            first, second = tx.images.reserve(2)
            assert tx.images.reserve(0) == []
        with store.writing() as tx:
            ids = tx.images.add_many(key, [image("b", id=second), image("c", id=first)])
            assert (ids["b" * 64], ids["c" * 64]) == (second, first)
            assert len({before, first, second, *tx.images.add_many(key, [image("d")]).values()}) == 4

    def test_many_rows(self, store):
        """More rows than one statement takes."""
        with store.writing() as tx:
            key = add_domain(tx)
            ids = tx.images.add_many(key, [NewImage(f"{n:064x}", n, f"{n}.png") for n in range(2500)])
            assert len(set(ids.values())) == 2500 == len(tx.images.list_for(key))

    def test_a_batch_can_be_taken_back(self, store):
        """Its rows go, the others stay, and the domain counts again."""
        with store.writing() as tx:
            domain = add_domain(tx)
            tx.images.add_many(domain, [image("a"), image("b", split=Split.TEST), image("c", delivery=2), image("d", delivery=2)])
            assert tx.images.list_parts(domain) == ((1, Split.TEST), (1, Split.TRAIN), (2, Split.TRAIN))
            tx.images.remove_delivery(domain, 2)
            assert tx.images.list_parts(domain) == ((1, Split.TEST), (1, Split.TRAIN))
            assert tx.domains.get(domain).images == 2

    def test_an_unknown_domain_is_refused(self, store):
        """References are enforced."""
        with pytest.raises(StoreConflict), store.writing() as tx:
            tx.images.add_many(4711, [image("a")])


def test_pages_read_a_few_of_many(store):
    """A sample stays the same, some are found by id, and what is newest comes first and is limited; other domains stay out."""
    with store.writing() as tx:
        mine, other = add_domain(tx), add_domain(tx, "other")
        ids = tx.images.add_many(mine, [image(letter) for letter in "fedcba"])
        tx.images.add_many(other, [image("0")])
        assert [found.name for found in tx.images.sample(mine, 3)] == ["a.png", "b.png", "c.png"]
        assert {found.id for found in tx.images.list_some([*ids.values(), 10**9])} == set(ids.values())
        assert tx.images.find(ids["a" * 64]).name == "a.png"
        assert tx.images.find(10**9) is None
        for number, reason in enumerate(("empty", "format", "empty")):
            tx.quarantine.add(mine, f"{number}.png", reason, "")
        tx.quarantine.add(other, "x.png", "empty", "")
        assert [item.name for item in tx.quarantine.list_latest(mine, 2)] == ["2.png", "1.png"]
        assert tx.quarantine.counts(mine) == {"empty": 2, "format": 1}
        assert tx.quarantine.counts() == {"empty": 3, "format": 1}


def test_quarantine_keeps_the_reason_and_counts(store):
    """A file set aside is listed with its reason, and the domain counts it."""
    with store.writing() as tx:
        key = add_domain(tx)
        tx.quarantine.add(key, "x.png", "truncated", "ends after 12 bytes")
        (item,) = tx.quarantine.list_all(key)
        assert (item.name, item.reason, tx.domains.get(key).quarantined) == ("x.png", "truncated", 1)
        tx.quarantine.move(item.id, "quarantine/x.png")
        assert tx.quarantine.list_all()[0].path == "quarantine/x.png"
        tx.quarantine.remove(item.id)
        assert (tx.quarantine.list_all(), tx.domains.get(key).quarantined) == ((), 0)


def test_drops_wait_until_they_are_in_a_batch_and_can_be_given_back(store):
    """Numbers count within the domain; a delivery may be of several drops; what nothing was learned from waits again."""
    with store.writing() as tx:
        one, two = add_domain(tx, "one"), add_domain(tx, "two")
        drops = [
            tx.drops.add(NewDrop(d, tx.drops.next_number(d), f"domains/{d}", "/inbox/x", "0" * 64, 2, 9)) for d in (one, two, one)
        ]
        assert [drop.number for drop in drops] == [1, 1, 2]
        assert tx.drops.count_crash(one) == 1
        tx.drops.take_in([drops[0].id, drops[2].id], 1)
        tx.drops.count(drops[0].id, accepted=1, duplicates=1)
        assert [drop.id for drop in tx.drops.list_waiting()] == [drops[1].id]
        assert tx.drops.give_back(one, 1) == 2
        waiting = tx.drops.list_waiting(one)
        assert [(drop.accepted, drop.duplicates, drop.crashes) for drop in waiting] == [(1, 1, 0), (0, 0, 0)]


def test_a_drop_can_join_another_domain(store):
    """It waits there with its quarantined files, both counts are right, and its folder stays its own."""
    with store.writing() as tx:
        camera, other = (tx.domains.add(name, DomainState.QUEUED).id for name in ("camera", "other"))
        tx.drops.add(NewDrop(camera, 1, "domains/1/1", "camera", "f", 9, 100))
        drop = tx.drops.add(NewDrop(other, 1, "domains/2/1", "other", "f", 9, 100))
        tx.drops.take_in([drop.id], 1)
        tx.drops.count(drop.id, 8, 1)
        tx.quarantine.add(other, "a.txt", "format", "no image", None, drop.id)
        tx.quarantine.add(other, "mine.txt", "format", "no image", "/home/mine.txt")
    with store.writing() as tx:
        tx.drops.join(drop.id, camera)
        tx.quarantine.join([drop.id], camera)
    with store.reading() as tx:
        joined = tx.drops.get(drop.id)
        assert (joined.domain_id, joined.number, joined.delivery, joined.accepted) == (camera, 2, None, 0)
        assert (tx.drops.list_all(other), tx.drops.has_path("domains/2/1"), tx.drops.has_path("domains/2/2")) == ((), True, False)
        assert [item.name for item in tx.quarantine.list_all(camera)] == ["a.txt"]
        assert (tx.domains.get(camera).quarantined, tx.domains.get(other).quarantined) == (1, 1)


def test_originals_can_be_forgotten(store):
    """A drop counts the files it keeps; what was accepted stays known, and images say that their bytes are gone."""
    with store.writing() as tx:
        domain = add_domain(tx)
        drop = tx.drops.add(NewDrop(domain, 1, "domains/1/1", "camera-7", "0" * 64, 2, 9)).id
        tx.drops.take_in([drop], 1)
        tx.drops.count(drop, accepted=1, duplicates=0)
        tx.images.add_many(domain, [image("a"), image("b", delivery=2)])
        tx.drops.take_out(drop)
        assert tx.drops.get(drop).files == 1
        tx.drops.forget_originals(drop, 1)
        tx.drops.take_out(drop)
        tx.images.forget_originals(domain, 1)
        kept = tx.drops.get(drop)
        assert (kept.files, kept.size_bytes, kept.accepted, kept.delivery) == (0, 0, 1, 1)
        assert [item.state for item in tx.images.list_for(domain)] == [ImageState.REMOVED, ImageState.ACCEPTED]


def test_pauses_are_by_scope(store):
    """Pausing twice is one pause with the newer reason; resuming says whether there was one."""
    with store.writing() as tx:
        tx.pauses.add("night", "first")
        tx.pauses.add("night", "second")
        assert [(pause.scope, pause.reason) for pause in tx.pauses.list_all()] == [("night", "second")]
        assert (tx.pauses.remove("night"), tx.pauses.remove("night")) == (True, False)


class TestEpisodes:
    def test_a_stale_lease_cannot_write(self, store):
        """While a lease stands no other is granted; after a second one the first one's holder is refused and changes nothing."""
        with store.writing() as tx:
            key = add_episode(tx)
            old = tx.episodes.lease(key, "worker-1", "boot", 10.0)
            with pytest.raises(StoreConflict, match="being worked on by worker-1"):
                tx.episodes.lease(key, "worker-2", "boot", 20.0)
            new = tx.episodes.lease(key, "worker-2", "boot", 20.0, gone=old)
            assert new.fence == old.fence + 1
        with pytest.raises(StoreConflict, match="taken by another worker"), store.writing() as tx:
            tx.episodes.progress(key, old, Progress("training", 5, 10))
        with pytest.raises(StoreConflict, match="taken by another worker"), store.writing() as tx:
            tx.episodes.report(key, old, {"novelty": {}})
        with store.writing() as tx:
            tx.episodes.progress(key, new, Progress("training", 7, 10))
            tx.episodes.report(key, new, {"novelty": {"verdict": "new"}})
            episode = tx.episodes.get(key)
            assert (episode.progress.step, episode.attempts, episode.lease) == (7, 2, new)
            assert episode.report == {"novelty": {"verdict": "new"}}

    def test_numbers_are_given_at_commit(self, store):
        """T counts committed episodes only, whatever the order of queueing."""
        with store.writing() as tx:
            keys = [add_episode(tx, name) for name in ("source", "a", "b")]
            leases = {key: tx.episodes.lease(key, "w", "boot", 1.0) for key in keys}
            assert tx.episodes.commit(keys[0], leases[keys[0]], {"loss": 0.5}) == 0
            tx.episodes.fail(keys[1], leases[keys[1]], "killed three times")
            assert tx.episodes.commit(keys[2], leases[keys[2]], {}) == 1
            states = [tx.episodes.get(key).state for key in keys]
            assert states == [EpisodeState.DONE, EpisodeState.FAILED, EpisodeState.DONE]
            assert tx.episodes.get(keys[0]).report == {"loss": 0.5}

    def test_a_finished_episode_is_not_leased(self, store):
        """There is nothing left to do on it."""
        with store.writing() as tx:
            key = add_episode(tx)
            tx.episodes.commit(key, tx.episodes.lease(key, "w", "boot", 1.0), {})
            with pytest.raises(StoreConflict, match="nothing left to do"):
                tx.episodes.lease(key, "w", "boot", 1.0)

    def test_crashes_count_only_at_the_same_place(self, store):
        """A worker that got to another checkpoint before it died starts the count anew."""
        with store.writing() as tx:
            key = add_episode(tx)
            assert [tx.episodes.count_crash(key) for _ in range(2)] == [1, 2]
            tx.checkpoints.add(key, 5, "checkpoints/5", "0" * 64)
            assert [tx.episodes.count_crash(key) for _ in range(2)] == [1, 2]
            tx.episodes.lease(key, "w", "boot", 1.0)
            assert tx.episodes.get(key).progress.since_step == 5

    def test_cancel_takes_the_lease(self, store):
        """A worker that did not notice the cancel cannot commit."""
        with store.writing() as tx:
            key = add_episode(tx)
            lease = tx.episodes.lease(key, "w", "boot", 1.0)
            tx.episodes.cancel(key, "by the user")
            with pytest.raises(StoreConflict):
                tx.episodes.commit(key, lease, {})

    def test_renew_and_find_unfinished(self, store):
        """A renewed lease keeps its fence; a domain's open episode is found, a finished one is not."""
        with store.writing() as tx:
            key = add_episode(tx)
            lease = tx.episodes.renew(key, tx.episodes.lease(key, "w", "boot", 1.0), 9.0)
            episode = tx.episodes.get(key)
            assert (episode.lease, tx.episodes.find_unfinished(episode.domain_id)) == (lease, episode)
            tx.episodes.commit(key, lease, {})
            assert tx.episodes.find_unfinished(episode.domain_id) is None
            assert [item.id for item in tx.episodes.list_all(EpisodeState.DONE)] == [key]

    def test_a_failed_batch_is_open_again(self, store):
        """The last delivery is that of an episode that is done or still to come; a failed one does not count."""
        with store.writing() as tx:
            first = tx.episodes.get(add_episode(tx))
            lease = tx.episodes.lease(first.id, "worker", "boot", 1.0)
            assert (first.id, tx.domains.get(first.domain_id).name) in tx.episodes.list_unfinished()
            assert tx.episodes.last_delivery(first.domain_id) == 1
            tx.episodes.fail(first.id, lease, "no reason")
            assert first.id not in dict(tx.episodes.list_unfinished())
            assert tx.episodes.last_delivery(first.domain_id) == 0

    def test_checkpoints_of_one_or_of_all_are_forgotten(self, store):
        """A failed episode loses its own, a commit those of all."""
        with store.writing() as tx:
            episodes = [add_episode(tx), add_episode(tx), add_episode(tx)]
            for episode in episodes:
                tx.checkpoints.add(episode, 1, f"checkpoints/{episode}/1", "0" * 64)
            tx.checkpoints.forget_all(episodes[0])
            assert [len(tx.checkpoints.list_for(episode)) for episode in episodes] == [0, 1, 1]
            tx.checkpoints.forget_all()
            assert [len(tx.checkpoints.list_for(episode)) for episode in episodes] == [0, 0, 0]

    def test_checkpoints_newest_first(self, store):
        """The newest checkpoint comes first; a forgotten one is gone; a step is checkpointed once."""
        with store.writing() as tx:
            key = add_episode(tx)
            tx.checkpoints.add(key, 10, "a", "0" * 64)
            newest = tx.checkpoints.add(key, 20, "b", "1" * 64)
            assert [item.step for item in tx.checkpoints.list_for(key)] == [20, 10]
            tx.checkpoints.forget(newest.id)
            assert [item.step for item in tx.checkpoints.list_for(key)] == [10]

    def test_a_curve_begins_at_the_start_and_stays_short(self, store):
        """First and newest points are always there; steps told again after a restart replace those told before."""
        with store.writing() as tx:
            key, other = add_episode(tx), add_episode(tx)
            for step in range(1, 601):
                tx.curves.add(key, step, {"losses": {"source": 1 / step}})
            points = tx.curves.list_for(key)
            assert (points[0], points[-1]) == ((1, {"losses": {"source": 1.0}}), (600, {"losses": {"source": 1 / 600}}))
            assert POINTS / 2 <= len(points) <= POINTS
            assert max(after - before for (before, _), (after, _) in itertools.pairwise(points)) < 600 / (POINTS / 8)
            tx.curves.add(key, 500, {})
            assert tx.curves.list_for(key)[-1] == (500, {})
            tx.curves.add(other, 1, {})
            tx.curves.forget_old()
            assert len(tx.curves.list_for(key)) > 1

    def test_old_curves_are_forgotten(self, store):
        """Only the newest episodes keep theirs."""
        with store.writing() as tx:
            keys = [add_episode(tx) for _ in range(EPISODES + 1)]
            for key in (keys[0], keys[-1]):
                tx.curves.add(key, 1, {})
            tx.curves.forget_old()
            assert [len(tx.curves.list_for(key)) for key in (keys[0], keys[-1])] == [0, 1]


def test_a_memory_is_replaced_as_a_whole(store):
    """The new memory of a domain leaves nothing of the old, most confident first."""
    with store.writing() as tx:
        key = add_domain(tx)
        ids = tx.images.add_many(key, [image("a"), image("b"), image("c")])
        items = [
            MemoryItem(ids[letter * 64], key, "dog", confidence)
            for letter, confidence in zip("abc", (0.1, 0.9, 0.5), strict=True)
        ]
        tx.memories.replace(key, items[:2])
        tx.memories.replace(key, items[1:])
        assert tx.memories.list_for(key) == (items[1], items[2])
        assert tx.memories.counts() == {key: 2}


class TestLabels:
    def test_a_label_is_given_replaced_and_taken_back(self, store):
        """One an image, for one purpose; oldest first; counted by domain and purpose."""
        with store.writing() as tx:
            key = add_domain(tx)
            a, b, c = tx.images.add_many(key, [image("a"), image("b"), image("c")]).values()
            before = tx.labels.stamp()
            tx.labels.give(key, {a: "cat", b: "dog"})
            assert tx.labels.give(key, {c: "cat"}, Purpose.TEACH) == {Purpose.TEACH: 1}
            assert tx.labels.stamp() != before
            assert tx.labels.counts() == {(key, Purpose.MEASURE): 2, (key, Purpose.TEACH): 1}
            tx.labels.give(key, {a: "dog"})
            assert {item.image_id: item.label for item in tx.labels.list_for(key)} == {a: "dog", b: "dog", c: "cat"}
            assert [item.image_id for item in tx.labels.list_for(key, Purpose.TEACH)] == [c]
            assert tx.labels.remove([a, c, c + 100]) == 2
            assert [item.image_id for item in tx.labels.list_for(key)] == [b]
            assert tx.labels.list_for(key + 1) == ()

    def test_labels_go_with_their_delivery(self, store):
        """They stand in the way of nothing, and are told by content before."""
        with store.writing() as tx:
            key = add_domain(tx)
            ids = tx.images.add_many(key, [image("a"), image("b", delivery=2)])
            tx.labels.give(key, dict.fromkeys(ids.values(), "cat"))
            assert [item.label for item in tx.labels.list_by_content(key, 2).values()] == ["cat"]
            assert tx.labels.list_by_content(key, 2).keys() == {"b" * 64}
            tx.images.remove_delivery(key, 2)
            assert [item.image_id for item in tx.labels.list_for(key)] == [ids["a" * 64]]
            assert (tx.images.has_any(key, Split.TRAIN), tx.images.has_any(key, Split.TEST)) == (True, False)

    @pytest.mark.parametrize("wanted", Purpose)
    def test_what_is_measured_on_is_never_taught(self, store, wanted):
        """Where images are held out, these are measured on and all others teach, whatever is wanted."""
        with store.writing() as tx:
            key = add_domain(tx)
            ids = tx.images.add_many(key, [image("a"), image("b", split=Split.HELD_OUT)])
            given = tx.labels.give(key, dict.fromkeys(ids.values(), "cat"), wanted)
            assert given == {Purpose.TEACH: 1, Purpose.MEASURE: 1}
            assert [item.image_id for item in tx.labels.list_for(key, Purpose.MEASURE)] == [ids["b" * 64]]

    def test_a_label_needs_its_image(self, store):
        """The database itself refuses one for an image that is not there."""
        with pytest.raises(StoreError), store.writing() as tx:
            tx.labels.give(add_domain(tx), {7: "cat"})


class TestVersions:
    def test_numbers_have_no_gap(self, store):
        """1, 2, 3; classes keep their order."""
        with store.writing() as tx:
            assert [add_version(tx), add_version(tx)] == [1, 2]
            assert tx.versions.get(2).classes == ("a", "b")

    def test_promotion(self, store):
        """The newest promoted version is found with its time and the gate's reasons."""
        with store.writing() as tx:
            add_version(tx)
            tx.versions.set_gate(1, GateDecision(passed=True, reasons=("It holds.",)), "the customer asked")
            tx.versions.set_int8(1, Int8Model(passed=False, reasons=("It loses too much.",), sha256=None))
            tx.versions.set_state(1, VersionState.PROMOTED)
            add_version(tx)
            promoted = tx.versions.find_latest(VersionState.PROMOTED)
            assert promoted.version == 1
            assert promoted.promoted_at is not None
            assert (promoted.gate, promoted.forced_because) == (GateDecision(True, ("It holds.",), {}), "the customer asked")
            assert promoted.int8 == Int8Model(False, ("It loses too much.",), None)
            candidate = tx.versions.find_latest()
            assert (candidate.gate, candidate.forced_because, candidate.int8) == (None, None, None)

    def test_a_measurement_never_changes(self, store):
        """The same measurement again is fine; another value is refused and the first one stays."""
        with store.writing() as tx:
            first = Accuracy(add_version(tx), tx.domains.find("camera-7").id, AccuracyKind.MEASURED, 0.5, 10, correct=5)
            tx.accuracies.record(first)
            tx.accuracies.record(first)
        with pytest.raises(StoreConflict), store.writing() as tx:
            tx.accuracies.record(Accuracy(first.version, first.domain_id, AccuracyKind.MEASURED, 0.6, 10, correct=6))
        with store.reading() as tx:
            assert tx.accuracies.list_all() == (first,)

    def test_a_measurement_by_given_labels_can_be_forgotten(self, store):
        """The estimate beside it stays; what a test set of the domain's own said cannot be forgotten."""
        with store.writing() as tx:
            version, domain = add_version(tx), tx.domains.get_named("camera-7").id
            tx.accuracies.record(Accuracy(version, domain, AccuracyKind.ESTIMATED, 0.4, 10, estimator="atc"))
            tx.accuracies.record(Accuracy(version, domain, AccuracyKind.MEASURED, 0.5, 10, correct=5))
            tx.accuracies.forget_measured(domain)
            assert [item.kind for item in tx.accuracies.list_all()] == ["estimated"]
            tx.accuracies.record(Accuracy(version, domain, AccuracyKind.MEASURED, 0.6, 10, correct=6))
            tx.images.add_many(domain, [image("a", split=Split.TEST, label="a")])
        with pytest.raises(StoreConflict), store.writing() as tx:
            tx.accuracies.forget_measured(domain)

    def test_estimates_stand_beside_measurements(self, store):
        """An estimate is replaced by a newer one and never by a measurement."""
        with store.writing() as tx:
            version, domain = add_version(tx), tx.domains.find("camera-7").id
            for value in (0.3, 0.4):
                tx.accuracies.record(Accuracy(version, domain, AccuracyKind.ESTIMATED, value, 10, estimator="atc"))
            tx.accuracies.record(Accuracy(version, domain, AccuracyKind.MEASURED, 0.5, 10, correct=5))
            assert [(item.kind, item.value) for item in tx.accuracies.list_all()] == [("estimated", 0.4), ("measured", 0.5)]

    def test_the_stamp_changes_with_every_entry(self, store):
        """A new entry and a replaced estimate change it, saying the same again does not; entries of one version are listed."""
        with store.writing() as tx:
            version, domain = add_version(tx), tx.domains.get_named("camera-7").id
            stamps = [tx.accuracies.stamp()]
            for value in (0.5, 0.5, 0.75):
                tx.accuracies.record(Accuracy(version, domain, AccuracyKind.ESTIMATED, value, 10, estimator="atc"))
                stamps.append(tx.accuracies.stamp())
            assert [a == b for a, b in itertools.pairwise(stamps)] == [False, True, False]
            assert [entry.value for entry in tx.accuracies.list_for(version)] == [0.75]
            assert tx.accuracies.list_for(version + 1) == ()
            assert tx.versions.find(version).version == version
            assert tx.versions.find(version + 1) is None

    def test_a_measurement_without_counts_is_refused(self, store):
        """The database itself knows that measured means counted."""
        with pytest.raises(StoreConflict), store.writing() as tx:
            tx.accuracies.record(Accuracy(add_version(tx), tx.domains.find("camera-7").id, AccuracyKind.MEASURED, 0.5, 10))


def test_events_newest_first(store):
    """The story of one domain, or of all, with details kept as JSON."""
    with store.writing() as tx:
        key = add_domain(tx)
        tx.events.add("domain-settled", "camera-7 settled", domain_id=key, images=7)
        tx.events.add("daemon-started", "started")
        assert [event.kind for event in tx.events.list_latest(5)] == ["daemon-started", "domain-settled"]
        assert [event.details for event in tx.events.list_latest(5, key)] == [{"images": 7}]
        newest, older = tx.events.list_latest(2)
        assert tx.events.list_latest(5, before=newest.id) == (older,)
