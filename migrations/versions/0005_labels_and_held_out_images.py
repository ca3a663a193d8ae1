"""Held-out images, labels that people give, several estimates of one accuracy beside each other."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

WITHOUT_ESTIMATOR = "kind = 'measured' OR estimator IS NOT NULL"
WITH_ESTIMATOR = "(kind = 'estimated') = (estimator <> '')"


def upgrade() -> None:
    _change_splits("'train', 'test', 'held-out'")
    op.create_table(
        "labels",
        sa.Column("image_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("purpose", sa.String(length=8), nullable=False),
        sa.Column("labelled_at", sa.DateTime(), nullable=False),
        sa.CheckConstraint("purpose IN ('measure', 'teach')", name=op.f("ck_labels_purpose")),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], name=op.f("fk_labels_image_id_images")),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_labels")),
    )
    op.execute("UPDATE accuracies SET estimator = '' WHERE estimator IS NULL")
    with op.batch_alter_table("accuracies") as table:
        table.drop_constraint(op.f("ck_accuracies_estimated_by"), type_="check")
        table.drop_constraint(op.f("pk_accuracies"), type_="primary")
        table.alter_column("estimator", existing_type=sa.String(length=32), nullable=False, server_default="")
        table.add_column(sa.Column("held_out", sa.Boolean(), server_default=sa.false(), nullable=False))
        table.create_primary_key(op.f("pk_accuracies"), ["version", "domain_id", "kind", "estimator"])
        table.create_check_constraint(op.f("ck_accuracies_estimated_by"), WITH_ESTIMATOR)


def downgrade() -> None:
    # What the older tables have no place for: further estimates, and what was only held out becomes an image like others.
    op.execute("DELETE FROM accuracies WHERE kind = 'estimated' AND estimator <> 'atc'")
    with op.batch_alter_table("accuracies") as table:
        table.drop_constraint(op.f("ck_accuracies_estimated_by"), type_="check")
        table.drop_constraint(op.f("pk_accuracies"), type_="primary")
        table.drop_column("held_out")
        table.alter_column("estimator", existing_type=sa.String(length=32), nullable=True, server_default=None)
        table.create_primary_key(op.f("pk_accuracies"), ["version", "domain_id", "kind"])
        table.create_check_constraint(op.f("ck_accuracies_estimated_by"), WITHOUT_ESTIMATOR)
    op.execute("UPDATE accuracies SET estimator = NULL WHERE estimator = ''")
    op.drop_table("labels")
    op.execute("UPDATE images SET split = 'train' WHERE split = 'held-out'")
    _change_splits("'train', 'test'")


def _change_splits(allowed: str) -> None:
    with op.batch_alter_table("images") as table:
        table.drop_constraint(op.f("ck_images_split"), type_="check")
        table.create_check_constraint(op.f("ck_images_split"), f"split IN ({allowed})")
