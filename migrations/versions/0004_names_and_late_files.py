"""Domains named as their folders are; what an import took of a drop, and what quarantined files were when they came."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("domains") as table:
        table.alter_column("name", type_=sa.Text(), existing_type=sa.String(length=63), existing_nullable=False)
        table.add_column(sa.Column("old_spelling", sa.Boolean(), server_default=sa.false(), nullable=False))
    domains = sa.table("domains", sa.column("old_spelling", sa.Boolean))
    op.get_bind().execute(sa.update(domains).values(old_spelling=True))
    with op.batch_alter_table("pauses") as table:
        table.alter_column("scope", type_=sa.Text(), existing_type=sa.String(length=63), existing_nullable=False)
    with op.batch_alter_table("drops") as table:
        table.add_column(sa.Column("taken", sa.String(length=64), nullable=True))
        table.add_column(sa.Column("taken_at", sa.DateTime(), nullable=True))
        table.add_column(sa.Column("unsynced", sa.Boolean(), server_default=sa.false(), nullable=False))
    with op.batch_alter_table("quarantine") as table:
        table.add_column(sa.Column("size_bytes", sa.BigInteger(), nullable=True))
        table.add_column(sa.Column("mtime_ns", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("quarantine") as table:
        table.drop_column("mtime_ns")
        table.drop_column("size_bytes")
    with op.batch_alter_table("drops") as table:
        for name in ("unsynced", "taken_at", "taken"):
            table.drop_column(name)
    with op.batch_alter_table("pauses") as table:
        table.alter_column("scope", type_=sa.String(length=63), existing_type=sa.Text(), existing_nullable=False)
    with op.batch_alter_table("domains") as table:
        table.drop_column("old_spelling")
        table.alter_column("name", type_=sa.String(length=63), existing_type=sa.Text(), existing_nullable=False)
