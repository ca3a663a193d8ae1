"""Folders are listed completely, in a fixed order, and split fairly."""

import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptd.errors import FolderUnusable
from adaptd.intake.names import find_domain_name, find_folder_name
from adaptd.library.folders import list_domain, list_source, list_test_set, split_by_class
from adaptd.text import is_hidden


def plant(folder, *names):
    """Make files."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def names(found):
    """Their paths inside the drop."""
    return [file.name for file in found]


def test_source_takes_labels_from_class_folders(tmp_path):
    """The first folder is the class, however deep the file lies; files beside the class folders are strays."""
    plant(tmp_path, "dog/2.png", "dog/10.png", "cat/deep/er/1.png", "README.txt", "_test/cat/t.png", "_test/list.txt")
    listing = list_source(tmp_path)
    assert [(file.name, file.label) for file in listing.train] == [
        ("cat/deep/er/1.png", "cat"),
        ("dog/10.png", "dog"),
        ("dog/2.png", "dog"),
    ]
    assert [(file.name, file.label) for file in listing.test] == [("_test/cat/t.png", "cat")]
    assert names(listing.strays) == ["README.txt", "_test/list.txt"]


def test_domain_lists_every_file_but_the_passed_over(tmp_path):
    """All depths and suffixes are listed; dot files, temporary names, `_READY` and `_test` are not."""
    plant(tmp_path, "b.jpg", "a/c.jpg", "a/notes.txt", "_READY", ".DS_Store", ".hidden/x.jpg", "x.jpg.part", "y.TMP")
    plant(tmp_path, "z.crdownload", "_test/cat/t.png", "a/_test/u.png")
    listing = list_domain(tmp_path)
    assert names(listing.train) == ["a/_test/u.png", "a/c.jpg", "a/notes.txt", "b.jpg"]
    assert {file.label for file in listing.train} == {None}
    assert names(listing.test) == ["_test/cat/t.png"]


def test_links_are_listed_and_not_followed(tmp_path):
    """A link to a folder, even to its own parent, is one entry for the decoder to refuse."""
    plant(tmp_path, "drop/a.jpg", "elsewhere/secret.jpg")
    (tmp_path / "drop/loop").symlink_to("..")
    (tmp_path / "drop/_test").symlink_to(tmp_path / "elsewhere")
    listing = list_domain(tmp_path / "drop")
    assert names(listing.train) == ["a.jpg", "loop"]
    assert listing.test == ()


def test_names_of_any_bytes_are_listed(tmp_path):
    """Paths of any bytes are kept; names have escapes for bytes that are no text, so that they can be stored and shown."""
    odd = [b"new\nline.jpg", b"\xff\xfe.jpg", "снег.jpg".encode()]
    plant(tmp_path, *(os.fsdecode(name) for name in odd))
    found = list_domain(tmp_path).train
    assert [os.fsencode(file.path.name) for file in found] == sorted(odd)
    assert names(found) == ["new\nline.jpg", "снег.jpg", r"\xff\xfe.jpg"]


@pytest.mark.parametrize(
    ("planted", "read", "message"),
    [
        ([], list_source, "does not exist"),
        ([], list_domain, "does not exist"),
        (["file"], list_source, "no class folders"),
        (["only/1.png"], list_source, "only one class, 'only'"),
        (["only/.hidden"], list_source, "no class folders"),
        ([".hidden"], list_domain, "no files"),
        (["_test/cat/1.png"], list_domain, "no files"),
        (["1.png"], list_test_set, "no class folders"),
    ],
)
def test_useless_folders_are_named(planted, read, message, tmp_path):
    """What is wrong with a folder is said with its path."""
    folder = tmp_path / "drop"
    plant(folder, *planted)
    with pytest.raises(FolderUnusable, match=message) as error:
        read(folder)
    assert str(folder) in str(error.value)


labels = st.lists(st.sampled_from("abcde"), min_size=1, max_size=60)


@given(labels, st.floats(0.01, 0.99), st.integers(0, 3))
def test_split_is_a_stratified_partition(drawn, fraction, seed):
    """Every item is in exactly one part, in order; a class trains on one image or more and tests on one if it can."""
    items = list(enumerate(drawn))
    train, test = split_by_class(items, lambda item: item[1], fraction, seed)
    assert sorted(train + test) == items
    assert list(train) == sorted(train)
    assert list(test) == sorted(test)
    totals, tested = Counter(drawn), Counter(label for _, label in test)
    for label, total in totals.items():
        assert tested[label] == min(max(1, round(total * fraction)), total - 1)
    assert (train, test) == split_by_class(items, lambda item: item[1], fraction, seed)


def test_split_depends_on_the_seed_and_not_on_other_classes():
    """Another seed draws others; a class more does not disturb the old ones."""
    items = [(number, "a") for number in range(50)]
    more = [*items, *((number, "b") for number in range(50, 90))]
    first, other, grown = (
        split_by_class(given, lambda item: item[1], 0.2, seed)[1] for given, seed in ((items, 0), (items, 1), (more, 0))
    )
    assert first != other
    assert first == tuple(item for item in grown if item[1] == "a")


def test_golden_split():
    """The draw is the same on every machine and in every release."""
    test = split_by_class(range(10), lambda number: "even" if number % 2 == 0 else "odd", 0.4, 0)[1]
    assert test == (2, 5, 8, 9)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("Camera 7", "Camera 7"),
        ("北京1", "北京1"),
        ("_Nacht.2024_", "_Nacht.2024_"),
        ("Source", None),
        (" ", None),
        ("a\x1b[1m", "a\\x1b[1m"),
        ("a\\x1b[1m", "a\\\\x1b[1m"),
        ("na\udcefve", "na\\xefve"),
        ("\xad", "\\u00ad"),
        ("*", "\\x2a"),
    ],
)
def test_domains_are_named_after_folders(folder, name):
    """By the very name, with what is not seen spelled out; the source's name, or nothing to see, names no domain."""
    assert find_domain_name(folder) == name


@given(st.text(min_size=1).map(lambda text: text.replace("/", "").replace("\0", "")), st.booleans())
def test_every_folder_is_another_domain(folder, bytes_too):
    """From a domain's name its folder is found, so no two folders share one; and nothing in it is hidden."""
    folder += "\udcff" if bytes_too else ""
    name = find_domain_name(folder)
    if name is not None:
        assert find_folder_name(name) == folder
        assert not any(map(is_hidden, name))
