"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "domains",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("images", sa.Integer(), server_default="0", nullable=False),
        sa.Column("quarantined", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.CheckConstraint(
            "state IN ('arriving', 'settled', 'queued', 'training', 'done', 'failed', 'skipped')",
            name=op.f("ck_domains_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_domains")),
        sa.UniqueConstraint("name", name=op.f("uq_domains_name")),
        sa.UniqueConstraint("position", name=op.f("uq_domains_position")),
    )
    op.create_table(
        "episodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("domain_id", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("method", sa.String(length=63), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_hash", sa.String(length=64), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_fence", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lease_boot_id", sa.Text(), nullable=True),
        sa.Column("lease_expires_monotonic", sa.Float(), nullable=True),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("progressed_at", sa.DateTime(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint("(state = 'done') = (number IS NOT NULL)", name=op.f("ck_episodes_number_when_done")),
        sa.CheckConstraint("state IN ('queued', 'training', 'done', 'failed', 'cancelled')", name=op.f("ck_episodes_state")),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_episodes_domain_id_domains")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_episodes")),
        sa.UniqueConstraint("number", name=op.f("uq_episodes_number")),
    )
    op.create_index(op.f("ix_episodes_domain_id"), "episodes", ["domain_id"], unique=False)
    op.create_index(op.f("ix_episodes_state"), "episodes", ["state"], unique=False)
    op.create_table(
        "images",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("domain_id", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("split", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=True),
        sa.Column("height", sa.Integer(), nullable=True),
        sa.CheckConstraint("split IN ('train', 'test')", name=op.f("ck_images_split")),
        sa.CheckConstraint("state IN ('accepted', 'removed')", name=op.f("ck_images_state")),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_images_domain_id_domains")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("domain_id", "sha256", name=op.f("uq_images_domain_id_sha256")),
    )
    op.create_table(
        "quarantine",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("domain_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_quarantine_domain_id_domains")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    op.create_index(op.f("ix_quarantine_domain_id"), "quarantine", ["domain_id"], unique=False)
    op.create_table(
        "checkpoints",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("episode_id", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["episode_id"], ["episodes.id"], name=op.f("fk_checkpoints_episode_id_episodes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sa.UniqueConstraint("episode_id", "step", name=op.f("uq_checkpoints_episode_id_step")),
        sa.UniqueConstraint("path", name=op.f("uq_checkpoints_path")),
    )
    op.create_table(
        "memories",
        sa.Column("image_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("domain_id", sa.Integer(), nullable=False),
        sa.Column("pseudo_label", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_memories_domain_id_domains")),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], name=op.f("fk_memories_image_id_images")),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_memories")),
    )
    op.create_index(op.f("ix_memories_domain_id"), "memories", ["domain_id"], unique=False)
    op.create_table(
        "versions",
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("episode_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("weights_path", sa.Text(), nullable=False),
        sa.Column("weights_sha256", sa.String(length=64), nullable=False),
        sa.Column("model_path", sa.Text(), nullable=True),
        sa.Column("model_sha256", sa.String(length=64), nullable=True),
        sa.Column("gate", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("promoted_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint("state IN ('candidate', 'promoted', 'rejected', 'retired')", name=op.f("ck_versions_state")),
        sa.ForeignKeyConstraint(["episode_id"], ["episodes.id"], name=op.f("fk_versions_episode_id_episodes")),
        sa.ForeignKeyConstraint(["parent"], ["versions.version"], name=op.f("fk_versions_parent_versions")),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_versions")),
    )
    op.create_index(op.f("ix_versions_episode_id"), "versions", ["episode_id"], unique=False)
    op.create_table(
        "accuracies",
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("domain_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("correct", sa.Integer(), nullable=True),
        sa.Column("estimator", sa.String(length=32), nullable=True),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.CheckConstraint("kind = 'estimated' OR correct IS NOT NULL", name=op.f("ck_accuracies_measured_counts")),
        sa.CheckConstraint("kind = 'measured' OR estimator IS NOT NULL", name=op.f("ck_accuracies_estimated_by")),
        sa.CheckConstraint("kind IN ('measured', 'estimated')", name=op.f("ck_accuracies_kind")),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_accuracies_domain_id_domains")),
        sa.ForeignKeyConstraint(["version"], ["versions.version"], name=op.f("fk_accuracies_version_versions")),
        sa.PrimaryKeyConstraint("version", "domain_id", "kind", name=op.f("pk_accuracies")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("kind", sa.String(length=48), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("domain_id", sa.Integer(), nullable=True),
        sa.Column("episode_id", sa.Integer(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_events_domain_id_domains")),
        sa.ForeignKeyConstraint(["episode_id"], ["episodes.id"], name=op.f("fk_events_episode_id_episodes")),
        sa.ForeignKeyConstraint(["version"], ["versions.version"], name=op.f("fk_events_version_versions")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_domain_id_id", "events", ["domain_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_events_domain_id_id", table_name="events")
    op.drop_table("events")
    op.drop_table("accuracies")
    op.drop_index(op.f("ix_versions_episode_id"), table_name="versions")
    op.drop_table("versions")
    op.drop_index(op.f("ix_memories_domain_id"), table_name="memories")
    op.drop_table("memories")
    op.drop_table("checkpoints")
    op.drop_index(op.f("ix_quarantine_domain_id"), table_name="quarantine")
    op.drop_table("quarantine")
    op.drop_table("images")
    op.drop_index(op.f("ix_episodes_state"), table_name="episodes")
    op.drop_index(op.f("ix_episodes_domain_id"), table_name="episodes")
    op.drop_table("episodes")
    op.drop_table("domains")
