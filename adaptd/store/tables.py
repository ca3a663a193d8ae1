"""The tables. Columns only: reading and writing them lives in the repository modules."""

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
)

from adaptd.records import AccuracyKind, DomainState, EpisodeState, ImageState, Purpose, Split, VersionState

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment, always in UTC. SQLite forgets time zones, so they are taken off going in and put on coming out."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """To the database: naive UTC."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """From the database: aware UTC."""
        return None if value is None else value.replace(tzinfo=UTC)


def _one_of(column: str, kind: type) -> CheckConstraint:
    allowed = ", ".join(f"'{value}'" for value in kind)  # type: ignore[attr-defined]
    return CheckConstraint(f"{column} IN ({allowed})", name=column)


# Only SQLite's INTEGER PRIMARY KEY numbers itself; PostgreSQL wants 64 bits for images.
BigId = BigInteger().with_variant(Integer, "sqlite")

domains = Table(
    "domains",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("position", Integer, unique=True),
    Column("state", String(16), nullable=False),
    Column("reason", Text),
    # Counted here, in the transaction that adds the rows: status must not count a million images.
    Column("images", Integer, nullable=False, server_default="0"),
    Column("quarantined", Integer, nullable=False, server_default="0"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    # Its name was made before revision 0004, in another way than names are made now.
    Column("old_spelling", Boolean, nullable=False, server_default=false()),
    # The newest of its episodes that is forgotten; no foreign key, since episodes point to domains.
    Column("forgotten", Integer),
    # What a person wants for its next episode.
    Column("retry", JSON(none_as_null=True)),
    _one_of("state", DomainState),
)

images = Table(
    "images",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("domain_id", ForeignKey("domains.id"), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("split", String(8), nullable=False),
    Column("state", String(16), nullable=False),
    Column("label", Text),
    Column("delivery", Integer, nullable=False),
    Column("width", Integer),
    Column("height", Integer),
    UniqueConstraint("domain_id", "sha256"),
    _one_of("split", Split),
    _one_of("state", ImageState),
)

drops = Table(
    "drops",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("domain_id", ForeignKey("domains.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("path", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("files", Integer, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    # The delivery that its images are in; 0 where it brought nothing new, NULL while it waits.
    Column("delivery", Integer),
    Column("accepted", Integer, nullable=False, server_default="0"),
    Column("duplicates", Integer, nullable=False, server_default="0"),
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("claimed_at", UtcDateTime, nullable=False),
    # What the newest import saw of it, and when: whatever else lies in it came late.
    Column("taken", String(64)),
    Column("taken_at", UtcDateTime),
    # Its files were about to be brought to the disk, and nobody said that they are there.
    Column("unsynced", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("domain_id", "number"),
)

pauses = Table(
    "pauses",
    metadata,
    # A domain's name, or * for everything.
    Column("scope", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("domain_id", ForeignKey("domains.id"), nullable=False, index=True),
    Column("drop_id", ForeignKey("drops.id"), index=True),
    Column("name", Text, nullable=False),
    Column("reason", String(32), nullable=False),
    Column("detail", Text, nullable=False),
    Column("path", Text),
    Column("created_at", UtcDateTime, nullable=False),
    # What it was when it was refused: another size or time says that somebody went on writing.
    Column("size_bytes", BigInteger),
    Column("mtime_ns", BigInteger),
)

episodes = Table(
    "episodes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", Integer, unique=True),
    Column("domain_id", ForeignKey("domains.id"), nullable=False, index=True),
    Column("delivery", Integer, nullable=False),
    Column("method", String(63), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("config", JSON, nullable=False),
    Column("config_hash", String(64), nullable=False),
    # The version it began with; no foreign key, since versions point to episodes.
    Column("base", Integer),
    Column("lease_owner", Text),
    Column("lease_fence", Integer, nullable=False, server_default="0"),
    Column("lease_boot_id", Text),
    Column("lease_expires_monotonic", Float),
    # When and where this lease began: the time left is told from there, whatever happened before.
    Column("leased_at", UtcDateTime),
    Column("leased_step", Integer, nullable=False, server_default="0"),
    Column("phase", String(32), nullable=False),
    Column("step", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("progressed_at", UtcDateTime),
    # Losses and multipliers of the newest step, for people.
    Column("live", JSON, nullable=False, server_default="{}"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    # How often its worker died without getting past crash_step.
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("crash_step", Integer),
    Column("reason", Text),
    Column("report", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    _one_of("state", EpisodeState),
    CheckConstraint("(state = 'done') = (number IS NOT NULL)", name="number_when_done"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("episode_id", ForeignKey("episodes.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("path", Text, nullable=False, unique=True),
    Column("sha256", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    UniqueConstraint("episode_id", "step"),
)

curves = Table(
    "curves",
    metadata,
    Column("episode_id", ForeignKey("episodes.id"), primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    # Losses, multipliers and health at that step, for people.
    Column("live", JSON, nullable=False),
)

memories = Table(
    "memories",
    metadata,
    Column("image_id", ForeignKey("images.id"), primary_key=True),
    Column("domain_id", ForeignKey("domains.id"), nullable=False, index=True),
    Column("pseudo_label", Text, nullable=False),
    Column("confidence", Float, nullable=False),
)

labels = Table(
    "labels",
    metadata,
    # Given by people, for images that came without.
    Column("image_id", ForeignKey("images.id"), primary_key=True),
    Column("label", Text, nullable=False),
    Column("purpose", String(8), nullable=False),
    Column("labelled_at", UtcDateTime, nullable=False),
    _one_of("purpose", Purpose),
)

versions = Table(
    "versions",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("parent", ForeignKey("versions.version")),
    # The version whose weights this one brings back.
    Column("restores", ForeignKey("versions.version")),
    Column("episode_id", ForeignKey("episodes.id"), nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("classes", JSON, nullable=False),
    Column("weights_path", Text, nullable=False),
    Column("weights_sha256", String(64), nullable=False),
    Column("model_path", Text),
    Column("model_sha256", String(64)),
    # What the gate decided; NULL while a version is a candidate.
    Column("gate_passed", Boolean),
    Column("gate_reasons", JSON(none_as_null=True)),
    Column("gate_figures", JSON(none_as_null=True)),
    Column("forced_because", Text),
    # What came of the int8 model, where one was wanted.
    Column("int8_passed", Boolean),
    Column("int8_reasons", JSON(none_as_null=True)),
    Column("int8_sha256", String(64)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("promoted_at", UtcDateTime),
    _one_of("state", VersionState),
)

accuracies = Table(
    "accuracies",
    metadata,
    Column("version", ForeignKey("versions.version"), primary_key=True),
    Column("domain_id", ForeignKey("domains.id"), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("value", Float, nullable=False),
    Column("n", Integer, nullable=False),
    Column("correct", Integer),
    # Several estimates may stand beside each other; empty for what is measured.
    Column("estimator", String(32), primary_key=True, server_default=""),
    Column("low", Float),
    Column("high", Float),
    # It was estimated on images that no episode learned from.
    Column("held_out", Boolean, nullable=False, server_default=false()),
    _one_of("kind", AccuracyKind),
    CheckConstraint("kind = 'estimated' OR correct IS NOT NULL", name="measured_counts"),
    CheckConstraint("(kind = 'estimated') = (estimator <> '')", name="estimated_by"),
)

events = Table(
    "events",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("kind", String(48), nullable=False),
    Column("message", Text, nullable=False),
    Column("domain_id", ForeignKey("domains.id")),
    Column("episode_id", ForeignKey("episodes.id")),
    Column("version", ForeignKey("versions.version")),
    Column("details", JSON, nullable=False),
)
Index("ix_events_domain_id_id", events.c.domain_id, events.c.id)
