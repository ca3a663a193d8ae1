"""Bring a database to this adaptd's revision, back it up, check it. Imports Alembic, so only `adaptd db` and `init` use it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, Connection, event

from adaptd.errors import StoreConflict, StoreError, StoreTooNew
from adaptd.store.engine import Address, describe, open_engine, parse_url, sqlite_file, translated
from adaptd.store.schema import HEAD, REVISIONS, check_schema, find_revision
from adaptd.store.tables import metadata

UPGRADE_LOCK = 0xADA97D
"""Two upgrades of one PostgreSQL database take turns by this number."""


def migrations_folder() -> Path:
    """Inside the installed package, else at the top of the repository."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "migrations"
    return shipped if shipped.is_dir() else package.parent / "migrations"


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without a file."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    return config


def upgrade(address: Address, backups: Path, revision: str = "head") -> Path | None:
    """Migrate to `revision`, creating a SQLite file where there is none.

    Returns:
        the backup made first, None where nothing had to change or nothing was there.
    """
    url = parse_url(address)
    file = sqlite_file(url)
    if file is not None and not file.exists():
        _create(file)
    current = _known_revision(url)
    if current == (HEAD if revision == "head" else revision):
        return None
    backup_file = backup(address, backups) if file and current else None
    with migrating(address) as connection:
        # Another upgrade may have been first.
        if revision == "head" and find_revision(connection) is None:
            # The same tables as by all revisions, in a tenth of the time.
            metadata.create_all(connection)
            command.stamp(alembic_config(connection), HEAD)
        else:
            command.upgrade(alembic_config(connection), revision)
    return backup_file


def downgrade(address: Address, revision: str) -> None:
    """Go back to an older revision; for tests and for people who know why."""
    with migrating(address) as connection:
        command.downgrade(alembic_config(connection), revision)


@contextmanager
def migrating(address: Address) -> Iterator[Connection]:
    """A transaction that may rebuild tables: all of it or nothing, one process at a time."""
    url = parse_url(address)
    sqlite = sqlite_file(url) is not None
    engine = open_engine(url, 30, writes=True)
    if sqlite:
        # A table is rebuilt by dropping the old one, which rows that point to it would forbid; they are checked at the end.
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys=OFF"))
    try:
        with translated(describe(url)), engine.begin() as connection:
            if not sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
            yield connection
            if broken := _check_references(connection, url):
                raise StoreConflict(f"{describe(url)}: the migration would break references, so nothing was changed: {broken[0]}")
    finally:
        engine.dispose()


def backup(address: Address, folder: Path) -> Path:
    """Copy a SQLite database into `folder`, consistently, while others use it; the copy is whole or not there."""
    url = parse_url(address)
    file = sqlite_file(url)
    if file is None:
        raise StoreError("this database is PostgreSQL: back it up with pg_dump")
    engine = open_engine(url, 30, writes=False)
    with translated(str(file)), engine.connect() as connection:
        revision = find_revision(connection)
    engine.dispose()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"adaptd-{revision}-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.db"
    draft = target.with_suffix(".part")
    try:
        _copy(file, draft)
        draft.replace(target)
    except sqlite3.Error as problem:
        raise StoreError(
            f"{file} cannot be backed up to {folder}: {problem}; see `adaptd db check` and whether there is room"
        ) from problem
    finally:
        draft.unlink(missing_ok=True)
    return target


def _copy(file: Path, target: Path) -> None:
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        if (damage := copy.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(f"it is damaged ({damage})")


def check(address: Address) -> list[str]:
    """What is wrong with the database: schema, integrity, references. Empty where nothing is."""
    url = parse_url(address)
    engine = open_engine(url, 30, writes=False)
    try:
        check_schema(engine, describe(url))
        with translated(describe(url)), engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            findings = [f"schema differs: {difference}" for difference in compare_metadata(context, metadata)]
            return findings + _check_integrity(connection, url) + _check_references(connection, url)
    finally:
        engine.dispose()


def _check_integrity(connection: Connection, url: URL) -> list[str]:
    if sqlite_file(url) is None:
        return []
    return [f"integrity: {line}" for line in connection.exec_driver_sql("PRAGMA integrity_check").scalars() if line != "ok"]


def _check_references(connection: Connection, url: URL) -> list[str]:
    if sqlite_file(url) is None:
        return []
    rows = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return [f"reference: row {row[1]} of {row[0]} points to nothing in {row[2]}" for row in rows]


def _create(file: Path) -> None:
    """An empty database in WAL mode."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    except (OSError, sqlite3.Error) as problem:
        raise StoreError(f"{file} cannot be created: {problem}") from problem


def _known_revision(url: URL) -> str | None:
    engine = open_engine(url, 30, writes=True)
    with translated(describe(url)), engine.connect() as connection:
        revision = find_revision(connection)
    engine.dispose()
    if revision is not None and revision not in REVISIONS:
        raise StoreTooNew(
            f"{describe(url)} has revision {revision}, which this adaptd (up to {HEAD}) does not know: update adaptd"
        )
    return revision
