"""Which revision a database has, and whether this adaptd can work with it. Changing revisions lives in `migrate`."""

from sqlalchemy import Connection, Engine, inspect, text

from adaptd.errors import StoreNotADatabase, StoreTooNew, StoreTooOld
from adaptd.store.engine import translated

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")
"""All revisions, oldest first; a test keeps this equal to migrations/."""

HEAD = REVISIONS[-1]


def find_revision(connection: Connection) -> str | None:
    """The revision of the database, None where it has no tables at all."""
    names = inspect(connection).get_table_names()
    if "alembic_version" in names:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if names:
        raise StoreNotADatabase(f"the database holds tables of another program ({names[0]}, …): give adaptd its own")
    return None


def check_schema(engine: Engine, where: str) -> None:
    """Refuse a database that is too old or too new, naming the command that helps."""
    with translated(where), engine.connect() as connection:
        revision = find_revision(connection)
    if revision == HEAD:
        return
    if revision is None or revision in REVISIONS:
        found = "no tables" if revision is None else f"revision {revision}"
        raise StoreTooOld(f"{where} has {found}, this adaptd needs revision {HEAD}: run `adaptd db upgrade`")
    raise StoreTooNew(
        f"{where} has revision {revision}, which this adaptd (up to {HEAD}) does not know: "
        "install the adaptd that wrote it, or restore a backup from state/backups"
    )
