"""Domains that are forgotten, refused, or tried again with settings of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

STATES = "'arriving', 'settled', 'queued', 'training', 'done', 'failed', 'skipped'"
MORE_STATES = "'arriving', 'settled', 'queued', 'training', 'done', 'refused', 'rejected', 'failed', 'skipped'"


def upgrade() -> None:
    with op.batch_alter_table("domains") as table:
        table.drop_constraint(op.f("ck_domains_state"), type_="check")
        table.add_column(sa.Column("forgotten", sa.Integer(), nullable=True))
        table.add_column(sa.Column("retry", sa.JSON(), nullable=True))
        table.create_check_constraint(op.f("ck_domains_state"), f"state IN ({MORE_STATES})")


def downgrade() -> None:
    op.execute("UPDATE domains SET state = 'failed' WHERE state = 'refused'")
    with op.batch_alter_table("domains") as table:
        table.drop_constraint(op.f("ck_domains_state"), type_="check")
        table.drop_column("retry")
        table.drop_column("forgotten")
        table.create_check_constraint(op.f("ck_domains_state"), f"state IN ({STATES})")
