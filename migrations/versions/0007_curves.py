"""What running episodes told, step by step."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "curves",
        sa.Column("episode_id", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("live", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["episode_id"], ["episodes.id"], name=op.f("fk_curves_episode_id_episodes")),
        sa.PrimaryKeyConstraint("episode_id", "step", name=op.f("pk_curves")),
    )


def downgrade() -> None:
    op.drop_table("curves")
