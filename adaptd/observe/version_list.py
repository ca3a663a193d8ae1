"""The list of versions as `adaptd versions --json` prints it. Decides nothing about them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from adaptd.records import VersionState
from adaptd.store import Transaction
from adaptd.text import to_iso

SCHEMA = "adaptd.versions/2"


def describe_versions(tx: Transaction, models: Path) -> list[dict[str, Any]]:
    """Every version, oldest first."""
    episodes = {episode.id: episode for episode in tx.episodes.list_all()}
    names = {d.id: d.name for d in tx.domains.list_some({episode.domain_id for episode in episodes.values()})}
    served = tx.versions.find_latest(VersionState.PROMOTED)
    return [
        {
            "version": version.version,
            "parent": version.parent,
            "restores": version.restores,
            "episode": episodes[version.episode_id].number,
            "domain": names[episodes[version.episode_id].domain_id],
            "state": version.state,
            "served": served is not None and served.version == version.version,
            "path": str(models / version.model_path) if version.model_path and version.state is VersionState.PROMOTED else None,
            "sha256": version.model_sha256,
            "weights_sha256": version.weights_sha256,
            # The figures are in its card.
            "gate": version.gate and {"passed": version.gate.passed, "reasons": version.gate.reasons},
            "forced_because": version.forced_because,
            "int8": version.int8 and asdict(version.int8),
            "created_at": to_iso(version.created_at),
            "promoted_at": to_iso(version.promoted_at),
        }
        for version in tx.versions.list_all()
    ]
