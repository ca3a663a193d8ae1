"""What decoded files bring to a domain, computed from the files and what the domain has: no file and no database is needed."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adaptd.errors import ConfigError, FolderUnusable
from adaptd.imports.delivery import Known, build_delivery
from adaptd.imports.incoming import Incoming
from adaptd.library.draft import Decoded, Draft, Duplicate, Rejected
from adaptd.library.folders import Found, Listing
from adaptd.library.preprocessing import Preprocessing
from adaptd.project.settings import Settings
from adaptd.records import DropRecord, Quarantined, Reason, Split

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
CLASSES = ("cat", "dog")
SETTINGS = Settings.model_validate({"intake": {"minimum_images": 2}})


def drop(key: int, path: str = "") -> DropRecord:
    """A folder that came through the inbox."""
    return DropRecord(key, 7, key, path or f"domains/7/{key}", "night", "", 9, 9, None, 0, 0, 0, MOMENT)


def found(name: str, label: str | None = None) -> Found:
    """A file."""
    return Found(Path("/drops", name), name, label)


def decoded(file: Found, row: int = 0) -> Decoded:
    """A usable image, whose hash is its name."""
    return Decoded(row, file, file.name, 10, 4, 4, 0)


def draft(files: list[Found], rejected: tuple[Rejected, ...] = (), duplicates: tuple[Duplicate, ...] = ()) -> Draft:
    """What decoding gave."""
    return Draft(Preprocessing(8), tuple(map(decoded, files)), rejected, duplicates, Path("/none"))


def from_drops(train: list[Found], origins: dict[Found, DropRecord], test: tuple[Found, ...] = ()) -> Incoming:
    """Files that came through the inbox."""
    drops = tuple({record.id: record for record in origins.values()}.values())
    by_path = {file.path: record for file, record in origins.items()}
    return Incoming("night", "the inbox's night", Listing(tuple(train), test), (), drops, by_path)


def test_new_known_twice_and_unusable():
    """Each file is counted once, with the drop it came with; what an earlier import quarantined is not told again."""
    new, old, twice, bad, told = (found(name) for name in ("new", "old", "twice", "bad", "told"))
    test = found("_test/cat/t", "cat")
    first, second = drop(1), drop(2)
    origins = {new: first, old: first, twice: second, bad: first, told: first, test: second}
    rejected = tuple(Rejected(file, Reason.EMPTY, "0 bytes") for file in (bad, told))
    known = Known(3, frozenset({"old"}), (Quarantined(1, 7, 1, "told", "empty", "0 bytes", "quarantine/told", MOMENT),))
    incoming = from_drops([new, old, twice, bad, told], origins, (test,))
    images = draft([test, new, old], rejected, (Duplicate(twice, new),))
    delivery = build_delivery(incoming, images, known, CLASSES, Settings.model_validate({"intake": {"minimum_images": 1}}))
    assert [image.file for image in delivery.train] == [new]
    assert [image.file for image in delivery.test] == [test]
    assert [file for *_, file in delivery.quarantined] == [bad]
    assert (delivery.number, delivery.known, delivery.unusable, delivery.duplicates) == (3, 1, 2, 1)
    assert delivery.counts == {1: (1, 1), 2: (1, 1)}
    assert (delivery.shortage, delivery.is_known) == (None, False)
    rows = delivery.to_store({"new": 40, "_test/cat/t": 41})
    assert [(row.id, row.split, row.label, row.delivery) for row in rows] == [
        (40, Split.TRAIN, None, 3),
        (41, Split.TEST, "cat", 3),
    ]
    assert (delivery.labels_of(delivery.train), delivery.labels_of(delivery.test)) == (None, [0])


def test_too_few():
    """The sentence counts what there is, and what there was before."""
    new, old = found("new"), found("old")
    incoming = from_drops([new, old], {new: drop(1), old: drop(1)})
    delivery = build_delivery(incoming, draft([new, old]), Known(2, frozenset({"old"})), CLASSES, SETTINGS)
    assert delivery.shortage is not None
    assert "intake.minimum_images is 2: 1 training images, 0 duplicates, 1 were in domain night before" in delivery.shortage
    assert not delivery.is_known


def test_nothing_new():
    """Where every image is known it says so; new test images alone are nothing to learn from, but they are not known."""
    old, test = found("old"), found("_test/cat/t", "cat")
    known = Known(2, frozenset({"old"}))
    for tests, is_known in (((), True), ((test,), False)):
        incoming = from_drops([old], {old: drop(1), test: drop(1)}, tests)
        delivery = build_delivery(incoming, draft([*tests, old]), known, CLASSES, SETTINGS)
        assert "every image of the inbox's night was in domain night before" in (delivery.shortage or "")
        assert delivery.is_known == is_known


def test_files_of_a_drop_that_is_read_in_place_stay_there():
    """Only what lies in the state folder is moved into quarantine."""
    ours, theirs = found("ours"), found("theirs")
    incoming = from_drops([ours, theirs], {ours: drop(1), theirs: drop(2, "/mnt/camera")})
    assert [incoming.find_drop_to_leave(file) for file in (ours, theirs, found("other"))] == [1, None, None]


class TestSource:
    FILES = tuple(found(f"{label}/{n}", label) for label in CLASSES for n in range(5))

    def build(self, files=FILES, **model):
        """The delivery of a labelled folder."""
        incoming = Incoming("source", "/photos", Listing(tuple(files)), ())
        settings = Settings.model_validate({"model": model, "source": {"test_fraction": 0.2}})
        return build_delivery(incoming, draft(list(files)), Known(), (), settings)

    def test_a_test_set_is_split_off(self):
        """Class by class; the classes are the folder's in their order, and no minimum counts."""
        delivery = self.build()
        assert (len(delivery.train), len(delivery.test), delivery.classes, delivery.shortage) == (8, 2, CLASSES, None)
        assert delivery.labels_of(delivery.test) == [0, 1]

    def test_classes_of_the_settings(self):
        """They decide the order, and a class that they do not have is an error."""
        assert self.build(classes=("dog", "cat")).classes == ("dog", "cat")
        with pytest.raises(ConfigError, match=r"class 'cat' that model\.classes does not list"):
            self.build(classes=("dog", "bird"))

    def test_one_image_of_each_class_is_too_little(self):
        """Nothing would be left to measure on."""
        with pytest.raises(FolderUnusable, match="and a test image, not 2 training images"):
            self.build([found("cat/1", "cat"), found("dog/1", "dog")])


def test_a_delivery_is_a_value():
    """Building it twice from the same gives the same."""
    new = found("new")
    incoming = from_drops([new], {new: drop(1)})
    first, second = (build_delivery(incoming, draft([new]), Known(), CLASSES, SETTINGS) for _ in range(2))
    assert first == second
    assert dataclasses.is_dataclass(first)


def test_a_share_is_held_out():
    """Of a drop without a test set the same share is held out whatever the order of its files; with a test set nothing is."""
    files = [found(f"{number}.png") for number in range(40)]
    first = drop(1)
    settings = Settings.model_validate({"evaluation": {"held_out": 0.15}})

    def hold_out(train: list[Found], test: tuple[Found, ...] = ()) -> set[str]:
        incoming = from_drops(train, dict.fromkeys((*train, *test), first), test)
        delivery = build_delivery(incoming, draft([*test, *train]), Known(), CLASSES, settings)
        assert not set(delivery.train) & set(delivery.held_out)
        assert len(delivery.images) == len(train) + len(test)
        assert delivery.counts == {1: (len(train) + len(test), 0)}
        return {image.sha256 for image in delivery.held_out}

    held = hold_out(files)
    assert len(held) == 6
    assert hold_out(files[::-1]) == held
    assert hold_out(files, (found("_test/cat/t", "cat"),)) == set()
