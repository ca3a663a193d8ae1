"""Connections: how SQLite and PostgreSQL are opened, and how their errors become ours. Knows no table."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnection

from adaptd.errors import (
    ConfigError,
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreMissing,
    StoreNotADatabase,
    StoreUnreachable,
)
from adaptd.files import sync
from adaptd.project.settings import hide_password

CONNECT_SECONDS = 10
"""A PostgreSQL server that does not answer is given up after this; the system's own limit is minutes."""

READER_SECONDS = 5.0
"""Who finds all connections in use waits this long for one."""

Address = Path | str
"""A SQLite file, or a URL. A path is taken as it is: in a URL, %, ? and # would mean something."""


def parse_url(address: Address) -> URL:
    """The database address, with psycopg as PostgreSQL's driver."""
    if isinstance(address, Path):
        return URL.create("sqlite", database=str(address))
    shown = hide_password(address)
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        fact = f"database.url {shown!r} is not an address"
        raise ConfigError(f"{fact}: use sqlite:///FILE or postgresql://user@host/name") from None
    if url.drivername in {"postgresql", "postgresql+psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername != "sqlite":
        raise ConfigError(f"database.url {shown!r}: use sqlite:///FILE or postgresql://user@host/name")
    if not url.database or url.database == ":memory:":
        raise ConfigError(f"database.url {shown!r}: an in-memory database forgets everything; name a file")
    return url


def describe(url: URL) -> str:
    """The database for people: its file, or its address without the password."""
    return str(sqlite_file(url) or hide_password(url.render_as_string(hide_password=True)))


def sqlite_file(url: URL) -> Path | None:
    """The database file, or None for PostgreSQL."""
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def open_engine(url: URL, busy_timeout_seconds: float, *, writes: bool) -> Engine:
    """An engine for reading only, or for writing with one connection. Never creates a database."""
    file = sqlite_file(url)
    if file is None:
        return _open_postgres(url, writes=writes)
    if file.exists() and not file.is_file():
        raise StoreNotADatabase(f"{file} is not a file: move it aside, then run `adaptd db upgrade`")
    if not file.exists():
        raise StoreMissing(f"there is no database at {file}: run `adaptd db upgrade`")
    mode = URL.create("sqlite", database=f"file:{_quote(file)}", query={"mode": "rw", "uri": "true"})
    engine = create_engine(
        mode,
        pool_size=1,
        max_overflow=0 if writes else 4,
        pool_timeout=busy_timeout_seconds if writes else READER_SECONDS,
        connect_args={"timeout": busy_timeout_seconds, "isolation_level": None, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        answer = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if answer != "wal":
            raise StoreUnreachable(f"{file}: SQLite cannot use WAL here ({answer}): put state on a local disk")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")
        if writes:
            _keep_log(file)
        else:
            connection.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A deferred transaction that reads and then writes fails at once, whatever the timeout.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _keep_log(file: Path) -> None:
    """See to it that the name of SQLite's log lasts before anything is committed into it: SQLite ignores it if that fails."""
    try:
        sync(file.parent)
    except OSError as problem:
        raise StoreUnreachable(f"{file.parent} cannot be synced ({problem.strerror}): look at the disk") from problem


def _open_postgres(url: URL, *, writes: bool) -> Engine:
    try:
        return create_engine(
            url,
            pool_pre_ping=True,
            pool_timeout=READER_SECONDS,
            connect_args={"connect_timeout": CONNECT_SECONDS},
            execution_options={} if writes else {"postgresql_readonly": True},
        )
    except ModuleNotFoundError as problem:
        raise ConfigError("PostgreSQL needs psycopg: pip install 'adaptd[postgres]'") from problem


def _quote(file: Path) -> str:
    """SQLite reads %, ? and # in a file: address as syntax."""
    return str(file.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise the driver's errors as ours."""
    try:
        yield
    except DBAPIError as problem:
        raise _translate(problem, where) from problem
    except NoConnection as problem:
        raise StoreBusy(f"{where}: every connection is in use; try again later") from problem


def is_busy(problem: DBAPIError) -> bool:
    """Whether another writer kept us out."""
    said = str(problem.orig)
    return "database is locked" in said or "database is busy" in said


def _translate(problem: DBAPIError, where: str) -> StoreError:
    """The table of what a driver says and what it means."""
    said = " ".join(str(problem.orig).split())
    if isinstance(problem, IntegrityError):
        return StoreConflict(f"{where}: {said}")
    if is_busy(problem):
        return StoreBusy(f"{where}: another process kept the database locked; stop it or raise database.busy_timeout_seconds")
    if "not a database" in said or "malformed" in said:
        return StoreNotADatabase(f"{where}: {said}; move the file aside and restore a backup (state/backups)")
    return StoreUnreachable(f"{where}: {said}; check that it exists, is writable, has room and is reachable")
