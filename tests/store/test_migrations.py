"""Every revision goes up and down on both engines, keeps rows, and ends as the tables say."""

import importlib.util
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from adaptd.errors import StoreConflict, StoreTooNew
from adaptd.records import GateDecision, Int8Model
from adaptd.store import Store, migrate
from adaptd.store.schema import REVISIONS
from adaptd.store.tables import metadata

GOLDEN = Path(__file__).parent / "golden"


def test_revisions_are_those_of_the_folder():
    """schema.REVISIONS lists migrations/ from the first to the last."""
    scripts = ScriptDirectory.from_config(migrate.alembic_config()).walk_revisions()
    assert [script.revision for script in scripts][::-1] == list(REVISIONS)


def test_every_revision_up_and_down(empty_address, tmp_path):
    """Step by step up, step by step down, and up again; the result fits the tables."""
    for revision in REVISIONS:
        migrate.upgrade(empty_address, tmp_path / "backups", revision)
    assert migrate.check(empty_address) == []
    for revision in [*reversed(REVISIONS[:-1]), "base"]:
        migrate.downgrade(empty_address, revision)
    migrate.upgrade(empty_address, tmp_path / "backups")
    assert migrate.check(empty_address) == []


def test_tables_made_at_once_are_those_of_the_revisions(empty_address, tmp_path):
    """A new database gets its tables at once: columns, keys, checks and indexes are those that all revisions together make."""
    for revision in REVISIONS:
        migrate.upgrade(empty_address, tmp_path / "backups", revision)
    by_revisions = describe_tables(empty_address)
    migrate.downgrade(empty_address, "base")
    with migrate.migrating(empty_address) as connection:
        connection.exec_driver_sql("DROP TABLE alembic_version")
    migrate.upgrade(empty_address, tmp_path / "backups")
    assert describe_tables(empty_address) == by_revisions


def describe_tables(address: str) -> dict[str, object]:
    """Everything that a database says about its tables, whatever the order."""
    with migrate.migrating(address) as connection:
        inspector = inspect(connection)
        found: dict[str, object] = {}
        for table in inspector.get_table_names():
            columns = {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in inspector.get_columns(table)
            }
            constraints = [
                *inspector.get_foreign_keys(table),
                *inspector.get_unique_constraints(table),
                *inspector.get_check_constraints(table),
                *inspector.get_indexes(table),
            ]
            found[table] = columns, inspector.get_pk_constraint(table), sorted(map(str, constraints))
    return found


@pytest.mark.parametrize("revision", REVISIONS)
def test_golden_files_upgrade_and_keep_their_rows(revision, tmp_path):
    """A database written by each released revision opens, with every row it had."""
    file = tmp_path / "adaptd.db"
    shutil.copy(GOLDEN / f"{revision}.db", file)
    address = f"sqlite:///{file}"
    backup = migrate.upgrade(address, tmp_path / "backups")
    assert (backup is None) == (revision == REVISIONS[-1])
    assert migrate.check(address) == []
    with Store(address) as store, store.reading() as tx:
        assert [(d.name, d.images, d.quarantined) for d in tx.domains.list_all()] == [("source", 2, 0), ("night", 1, 1)]
        assert [image.name for image in tx.images.list_for(1)] == ["1.png", "2.png"]
        assert tx.quarantine.list_all()[0].reason == "empty"
        assert tx.episodes.get(1).number == 0
        assert tx.checkpoints.list_for(1)[0].step == 5
        assert tx.memories.list_for(2)[0].confidence == 0.75
        assert tx.versions.get(1).classes == ("cat", "dog")
        assert tx.accuracies.list_all()[0].correct == 1
        assert tx.events.list_latest(1)[0].kind == "made"


def test_what_a_gate_said_moves_into_columns_and_back(empty_address, tmp_path):
    """Revision 0003 loses nothing of it, forwards and backwards, on both engines."""
    told = {"passed": False, "reasons": ["It fell."], "figures": {"source": 0.5}, "forced_because": "asked"}
    told["int8"] = {"passed": True, "reasons": [], "sha256": "1" * 64}
    migrate.upgrade(empty_address, tmp_path / "backups", "0002")
    with migrate.migrating(empty_address) as connection:
        for statement in OLD_VERSION:
            connection.execute(text(statement), {"gate": json.dumps(told)} if ":gate" in statement else {})
    migrate.upgrade(empty_address, tmp_path / "backups")
    with Store(empty_address) as store, store.reading() as tx:
        version = tx.versions.get(1)
        assert version.gate == GateDecision(passed=False, reasons=("It fell.",), figures={"source": 0.5})
        assert (version.forced_because, version.int8) == ("asked", Int8Model(passed=True, reasons=(), sha256="1" * 64))
        assert (tx.episodes.get(1).delivery, tx.episodes.get(1).lease) == (3, None)
    migrate.downgrade(empty_address, "0002")
    with migrate.migrating(empty_address) as connection:
        gate, batch = connection.execute(text("SELECT v.gate, e.batch FROM versions v JOIN episodes e ON e.id = 1")).one()
    assert ((json.loads(gate) if isinstance(gate, str) else gate), batch) == (told, 3)


OLD_VERSION = (
    "INSERT INTO domains (id, name, state, created_at, updated_at) VALUES (1, 'source', 'done', '2026-11-16', '2026-11-16')",
    """INSERT INTO episodes
    (id, domain_id, batch, method, seed, state, config, config_hash, phase, step, steps, report, created_at, lease_owner)
    VALUES (1, 1, 3, 'grcl', 0, 'training', '{}', '', 'training', 0, 9, '{}', '2026-11-16', 'host:7')""",
    """INSERT INTO versions (version, episode_id, state, classes, weights_path, weights_sha256, gate, created_at)
    VALUES (1, 1, 'promoted', '[]', 'w', '', :gate, '2026-11-16')""",
)


def test_golden_rows_fill_every_table():
    """No table is forgotten when a golden file is made."""
    spec = importlib.util.spec_from_file_location("make_golden", Path(__file__).with_name("make_golden.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.ROWS) == set(metadata.tables)


def test_a_migration_may_rebuild_a_table_that_rows_point_to(tmp_path):
    """SQLite changes a column by making the table anew: nothing is lost, and references still hold."""
    file = tmp_path / "adaptd.db"
    shutil.copy(GOLDEN / f"{REVISIONS[-1]}.db", file)
    with migrate.migrating(file) as connection:
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("domains", recreate="always") as batch:
            batch.alter_column("reason", server_default="none")
    with Store(file) as store, store.reading() as tx:
        assert [domain.name for domain in tx.domains.list_all()] == ["source", "night"]
        assert len(tx.images.list_for(1)) == 2
    assert migrate.check(file) == []


def test_a_migration_that_breaks_references_changes_nothing(tmp_path):
    """The check at the end stands in for the one that rebuilding needs off."""
    file = tmp_path / "adaptd.db"
    shutil.copy(GOLDEN / f"{REVISIONS[-1]}.db", file)
    with pytest.raises(StoreConflict, match="nothing was changed"), migrate.migrating(file) as connection:
        connection.exec_driver_sql("DELETE FROM domains")
    assert migrate.check(file) == []
    with Store(file) as store, store.reading() as tx:
        assert len(tx.domains.list_all()) == 2


def test_a_backup_is_whole(tmp_path):
    """A copy has every row, and its name says which revision it has."""
    file = tmp_path / "adaptd.db"
    address = f"sqlite:///{file}"
    migrate.upgrade(address, tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM alembic_version")
        connection.execute("INSERT INTO alembic_version VALUES ('0000')")
        row = "(name, state, created_at, updated_at) VALUES ('kept', 'queued', '2026-01-01', '2026-01-01')"
        connection.execute(f"INSERT INTO domains {row}")
        connection.commit()
    copy = migrate.backup(address, tmp_path / "backups")
    assert copy.name.startswith("adaptd-0000-")
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT name FROM domains").fetchall() == [("kept",)]


def test_a_future_revision_is_not_touched(address, tmp_path):
    """An upgrade refuses what it does not know."""
    from adaptd.store.engine import open_engine, parse_url

    engine = open_engine(parse_url(address), 5, writes=True)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(StoreTooNew, match="9999"):
        migrate.upgrade(address, tmp_path / "backups")
    with pytest.raises(StoreTooNew, match="install the adaptd that wrote it"):
        Store(address)


def test_check_finds_damage(tmp_path):
    """A row that points to nothing and a missing index are both named."""
    address = f"sqlite:///{tmp_path / 'adaptd.db'}"
    migrate.upgrade(address, tmp_path)
    with closing(sqlite3.connect(tmp_path / "adaptd.db")) as connection:
        connection.execute("INSERT INTO events (at, kind, message, domain_id, details) VALUES ('2026-01-01', 'k', 'm', 99, '{}')")
        connection.execute("DROP INDEX ix_episodes_state")
        connection.commit()
    findings = "\n".join(migrate.check(address))
    assert "row 1 of events points to nothing in domains" in findings
    assert "ix_episodes_state" in findings
