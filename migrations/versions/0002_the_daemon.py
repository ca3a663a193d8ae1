"""What the daemon needs: claimed drops, pauses, where a lease began, crashes, versions brought back."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drops",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("domain_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=True),
        sa.Column("accepted", sa.Integer(), server_default="0", nullable=False),
        sa.Column("duplicates", sa.Integer(), server_default="0", nullable=False),
        sa.Column("crashes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_drops_domain_id_domains")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drops")),
        sa.UniqueConstraint("domain_id", "number", name=op.f("uq_drops_domain_id_number")),
    )
    op.create_table(
        "pauses",
        sa.Column("scope", sa.String(length=63), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_pauses")),
    )
    with op.batch_alter_table("quarantine") as table:
        table.add_column(sa.Column("drop_id", sa.Integer(), nullable=True))
        table.create_foreign_key(op.f("fk_quarantine_drop_id_drops"), "drops", ["drop_id"], ["id"])
        table.create_index(op.f("ix_quarantine_drop_id"), ["drop_id"])
        table.drop_column("size_bytes")  # nothing ever filled it
    with op.batch_alter_table("episodes") as table:
        table.add_column(sa.Column("base", sa.Integer(), nullable=True))
        table.add_column(sa.Column("leased_at", sa.DateTime(), nullable=True))
        table.add_column(sa.Column("leased_step", sa.Integer(), server_default="0", nullable=False))
        table.add_column(sa.Column("live", sa.JSON(), server_default="{}", nullable=False))
        table.add_column(sa.Column("crashes", sa.Integer(), server_default="0", nullable=False))
        table.add_column(sa.Column("crash_step", sa.Integer(), nullable=True))
    with op.batch_alter_table("versions") as table:
        table.add_column(sa.Column("restores", sa.Integer(), nullable=True))
        table.create_foreign_key(op.f("fk_versions_restores_versions"), "versions", ["restores"], ["version"])


def downgrade() -> None:
    with op.batch_alter_table("versions") as table:
        table.drop_constraint(op.f("fk_versions_restores_versions"), type_="foreignkey")
        table.drop_column("restores")
    with op.batch_alter_table("episodes") as table:
        for name in ("base", "crash_step", "crashes", "live", "leased_step", "leased_at"):
            table.drop_column(name)
    with op.batch_alter_table("quarantine") as table:
        table.drop_index(op.f("ix_quarantine_drop_id"))
        table.drop_constraint(op.f("fk_quarantine_drop_id_drops"), type_="foreignkey")
        table.drop_column("drop_id")
        table.add_column(sa.Column("size_bytes", sa.BigInteger(), nullable=True))
    op.drop_table("pauses")
    op.drop_table("drops")
