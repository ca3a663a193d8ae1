"""Deliveries instead of batches; what the gate decided, forced promotions and int8 models in columns of their own."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

WITH_DELIVERIES = ("images", "drops", "episodes")

versions = sa.table(
    "versions",
    sa.column("version", sa.Integer),
    sa.column("gate", sa.JSON(none_as_null=True)),
    sa.column("gate_passed", sa.Boolean),
    sa.column("gate_reasons", sa.JSON(none_as_null=True)),
    sa.column("gate_figures", sa.JSON(none_as_null=True)),
    sa.column("forced_because", sa.Text),
    sa.column("int8_passed", sa.Boolean),
    sa.column("int8_reasons", sa.JSON(none_as_null=True)),
    sa.column("int8_sha256", sa.String),
)


def upgrade() -> None:
    for name in WITH_DELIVERIES:
        with op.batch_alter_table(name) as table:
            table.alter_column("batch", new_column_name="delivery")
    # Owners were written another way; nobody is at work during an upgrade.
    op.execute("UPDATE episodes SET lease_owner = NULL")
    op.execute("UPDATE events SET kind = 'given-up' WHERE kind = 'set-aside'")
    with op.batch_alter_table("versions") as table:
        table.add_column(sa.Column("gate_passed", sa.Boolean(), nullable=True))
        table.add_column(sa.Column("gate_reasons", sa.JSON(none_as_null=True), nullable=True))
        table.add_column(sa.Column("gate_figures", sa.JSON(none_as_null=True), nullable=True))
        table.add_column(sa.Column("forced_because", sa.Text(), nullable=True))
        table.add_column(sa.Column("int8_passed", sa.Boolean(), nullable=True))
        table.add_column(sa.Column("int8_reasons", sa.JSON(none_as_null=True), nullable=True))
        table.add_column(sa.Column("int8_sha256", sa.String(length=64), nullable=True))
    connection = op.get_bind()
    for number, gate in connection.execute(sa.select(versions.c.version, versions.c.gate)).all():
        if gate is not None:
            connection.execute(sa.update(versions).where(versions.c.version == number).values(_to_columns(gate)))
    with op.batch_alter_table("versions") as table:
        table.drop_column("gate")


def downgrade() -> None:
    op.execute("UPDATE events SET kind = 'set-aside' WHERE kind = 'given-up'")
    with op.batch_alter_table("versions") as table:
        table.add_column(sa.Column("gate", sa.JSON(none_as_null=True), nullable=True))
    connection = op.get_bind()
    for row in connection.execute(sa.select(versions)).mappings().all():
        if row["gate_passed"] is not None:
            gate = _to_document(dict(row))
            connection.execute(sa.update(versions).where(versions.c.version == row["version"]).values(gate=gate))
    with op.batch_alter_table("versions") as table:
        for column in ("int8_sha256", "int8_reasons", "int8_passed", "forced_because", "gate_figures", "gate_reasons"):
            table.drop_column(column)
        table.drop_column("gate_passed")
    for name in reversed(WITH_DELIVERIES):
        with op.batch_alter_table(name) as table:
            table.alter_column("delivery", new_column_name="batch")


def _to_columns(gate: dict[str, Any]) -> dict[str, Any]:
    int8 = gate.get("int8") or {}
    return {
        "gate_passed": gate["passed"],
        "gate_reasons": gate["reasons"],
        "gate_figures": gate.get("figures", {}),
        "forced_because": gate.get("forced_because"),
        "int8_passed": int8.get("passed"),
        "int8_reasons": int8.get("reasons"),
        "int8_sha256": int8.get("sha256"),
    }


def _to_document(row: dict[str, Any]) -> dict[str, Any]:
    gate = {"passed": row["gate_passed"], "reasons": row["gate_reasons"], "figures": row["gate_figures"]}
    if row["forced_because"] is not None:
        gate["forced_because"] = row["forced_because"]
    if row["int8_passed"] is not None:
        gate["int8"] = {"passed": row["int8_passed"], "reasons": row["int8_reasons"], "sha256": row["int8_sha256"]}
    return gate
