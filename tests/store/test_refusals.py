"""What is no usable database is refused with one clear message, and left as it was."""

import sqlite3
import threading
from contextlib import closing

import pytest

from adaptd.errors import ConfigError, StoreBusy, StoreMissing, StoreNotADatabase, StoreTooOld
from adaptd.records import DomainState
from adaptd.store import Store, migrate


def test_a_missing_database_is_not_made(tmp_path):
    """Opening never creates a file: an empty store where there should be a full one is a lost one."""
    with pytest.raises(StoreMissing, match="adaptd db upgrade"):
        Store(f"sqlite:///{tmp_path / 'adaptd.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"this is a letter, not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database(tmp_path, content):
    """Another file, or a damaged one, is refused and not changed."""
    file = tmp_path / "adaptd.db"
    file.write_bytes(content)
    with pytest.raises(StoreNotADatabase, match="move the file aside"):
        Store(f"sqlite:///{file}")
    with pytest.raises(StoreNotADatabase):
        migrate.upgrade(f"sqlite:///{file}", tmp_path)
    assert file.read_bytes() == content


def test_an_empty_database_is_too_old(tmp_path):
    """A database without tables names the command."""
    with closing(sqlite3.connect(tmp_path / "adaptd.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("DROP TABLE t")
    with pytest.raises(StoreTooOld, match="run `adaptd db upgrade`"):
        Store(f"sqlite:///{tmp_path / 'adaptd.db'}")


def test_another_programs_database_is_not_migrated(tmp_path):
    """Tables of another program are left alone."""
    file = tmp_path / "adaptd.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE customers (name)")
    with pytest.raises(StoreNotADatabase, match="customers"):
        migrate.upgrade(f"sqlite:///{file}", tmp_path)


@pytest.mark.parametrize("address", ["sqlite://", "mysql://x/y", "no address"])
def test_addresses_that_cannot_work(address):
    """An address that would forget everything, or that we don't speak, is a configuration error."""
    with pytest.raises(ConfigError, match=r"database\.url"):
        Store(address)


def test_a_locked_database_is_busy_not_broken(tmp_path):
    """A lock held too long is its own error, with the setting to raise."""
    address = f"sqlite:///{tmp_path / 'adaptd.db'}"
    migrate.upgrade(address, tmp_path)
    with Store(address, busy_timeout_seconds=0.2) as store, closing(sqlite3.connect(tmp_path / "adaptd.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy, match="busy_timeout_seconds"), store.writing():
            pass


def test_patience_outlasts_a_lock(tmp_path):
    """A patient writer waits beyond the busy timeout, and writes once the lock is gone; its patience ends too."""
    address = f"sqlite:///{tmp_path / 'adaptd.db'}"
    migrate.upgrade(address, tmp_path)
    other = sqlite3.connect(tmp_path / "adaptd.db", isolation_level=None, check_same_thread=False)
    with Store(address, busy_timeout_seconds=0.05) as store, closing(other):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy), store.writing(patience_seconds=0.2):
            pass
        threading.Timer(0.5, other.execute, ("ROLLBACK",)).start()
        with store.writing(patience_seconds=30) as tx:
            tx.domains.add("night", DomainState.QUEUED)
        with store.reading() as tx:
            assert [domain.name for domain in tx.domains.list_all()] == ["night"]
