"""Very many files that cannot be used: the database stays free for others, and odd names cost one walk."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adaptd.imports.commit import wait_for_more
from adaptd.imports.delivery import Delivery
from adaptd.imports.incoming import Incoming
from adaptd.imports.quarantine import move_to_quarantine
from adaptd.library.folders import Found, Listing
from adaptd.project.layout import Layout
from adaptd.records import DropRecord, Reason
from adaptd.store import NewDrop, Store, Transaction
from adaptd.store.migrate import upgrade

JUNK = int(os.environ.get("ADAPTD_JUNK", "5000"))


class Timed(Store):
    """A store that knows how much work its longest transaction was; processor time, for machines are busy."""

    longest = 0.0

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """As ever."""
        with super().writing() as tx:
            began = time.process_time()
            yield tx
            self.longest = max(self.longest, time.process_time() - began)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A state folder with a database."""
    (tmp_path / "state").mkdir()
    upgrade(f"sqlite:///{tmp_path / 'state' / 'adaptd.db'}", tmp_path)
    return Layout(tmp_path / "state")


@pytest.fixture
def store(layout: Layout) -> Store:
    """That database."""
    with Timed(layout.state / "adaptd.db", 30.0) as store:
        yield store


def add_drop(store: Store, layout: Layout, name: str, files: list[str]) -> DropRecord:
    """A claimed drop of junk."""
    with store.writing() as tx:
        domain = tx.domains.add(name, "settled")
        path = f"domains/{domain.id}/1"
        drop = tx.drops.add(NewDrop(domain.id, 1, path, f"/inbox/{name}", "", len(files), 1))
    for file in files:
        place = layout.state / path / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    return drop


def deliver(store: Store, layout: Layout, name: str, drop: DropRecord, files: list[Found]) -> None:
    """What an import does that finds nothing but junk."""
    refused = tuple((Reason.EMPTY, "0 bytes", file) for file in files)
    incoming = Incoming(name, name, Listing(()), refused, (drop,), {file.path: drop for file in files})
    delivery = Delivery(incoming, 1, (), (), (), (), refused, len(files), 0, 0, {drop.id: (0, 0)}, {}, "too few")
    wait_for_more(store, delivery, "too few")
    move_to_quarantine(store, layout)


def find(layout: Layout, drop: DropRecord, names: list[str]) -> list[Found]:
    """Files of a drop, as an import lists them."""
    root = layout.state / drop.path
    return [Found(root / name, os.fsencode(name).decode("utf-8", "backslashreplace")) for name in names]


def test_the_database_is_free_for_others(store, layout):
    """Files are written down and moved in steps, none of which keeps another writer for long: 20,000 four seconds at most."""
    names = [f"{number}.txt" for number in range(JUNK)]
    drop = add_drop(store, layout, "cam", names)
    deliver(store, layout, "cam", drop, find(layout, drop, names))
    with store.reading() as tx:
        assert (tx.quarantine.list_unmoved(), tx.domains.get(drop.domain_id).quarantined) == ((), JUNK)
    assert len(list((layout.state / "quarantine/cam/1").iterdir())) == JUNK
    assert store.longest < 4 * JUNK / 20_000


def test_odd_names_cost_one_walk(store, layout):
    """2,000 names that are spelled out in the store are found in one walk of the drop."""
    names = [os.fsdecode(b"odd\xff-%d.txt" % number) for number in range(2000)]
    drop = add_drop(store, layout, "cam", names)
    began = time.process_time()
    deliver(store, layout, "cam", drop, find(layout, drop, names))
    assert time.process_time() - began < 3
    moved = {path.name for path in (layout.state / "quarantine/cam/1").iterdir()}
    assert moved == {f"odd\\xff-{number}.txt" for number in range(2000)}


def test_two_odd_names_that_are_spelled_the_same(store, layout):
    """Both are kept: the second under its number."""
    names = [os.fsdecode(b"a\xff"), "a\\xff"]
    drop = add_drop(store, layout, "cam", names)
    with store.writing() as tx:
        for _ in names:
            tx.quarantine.add(drop.domain_id, "a\\xff", "empty", "0 bytes", None, drop.id)
    assert move_to_quarantine(store, layout) == ()
    assert sorted(path.name for path in (layout.state / "quarantine/cam/1").iterdir()) == ["2", "a\\xff"]
