"""The daemon's metrics as text: what is not known is absent, and what is called a total never falls."""

from pathlib import Path

import pytest
from prometheus_client import generate_latest

from adaptd.observe.metrics import DaemonCollector, make_registry
from adaptd.observe.status import build_status
from adaptd.project.lock import Holder
from adaptd.records import VersionState
from adaptd.store import NewVersion, Store
from adaptd.store.migrate import upgrade

from .pages import make_project

UNDEFINED_AT_FIRST = (
    "adaptd_backward_transfer_ratio",
    "adaptd_constraint_active_ratio",
    "adaptd_episode_progress_ratio",
    "adaptd_episode_progress_timestamp_seconds",
    "adaptd_last_episode_success_timestamp_seconds",
    "adaptd_last_scan_timestamp_seconds",
    "adaptd_model_info",
    "adaptd_served_version_timestamp_seconds",
)


def scrape(store: Store, state: Path) -> dict[str, float]:
    """Every sample, by its name with labels."""
    registry = make_registry(DaemonCollector(store, state, "shop", lambda: {"state": "idle"}))
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def test_what_is_not_known_is_absent(tmp_path):
    """A new project has counts of zero, and no value for what has none; 0 would be a claim."""
    upgrade(tmp_path / "adaptd.db", tmp_path)
    with Store(tmp_path / "adaptd.db") as store:
        samples = scrape(store, tmp_path)
    assert [name for name in samples if name.startswith(UNDEFINED_AT_FIRST)] == []
    assert samples['adaptd_episodes_total{outcome="failed"}'] == 0
    assert samples['adaptd_images_quarantined{reason="empty"}'] == 0


def test_one_domain_has_no_backward_transfer(tmp_path):
    """BWT is absent as long as no domain was learnt before the newest row, though there are rows of R."""
    root = make_project(tmp_path)
    with Store(root / "state" / "adaptd.db") as store:
        samples = scrape(store, root)
    assert samples['adaptd_accuracy_ratio{domain="night",kind="estimated"}'] == pytest.approx(0.75)
    assert "adaptd_backward_transfer_ratio" not in samples
    assert samples['adaptd_model_info{model="shop",version="2"}'] == 1


def test_figures_are_those_of_what_is_served(tmp_path):
    """After a rollback R's last row is another model's: metrics and status tell the promoted version's accuracies."""
    root = make_project(tmp_path)
    with Store(root / "state" / "adaptd.db") as store:
        with store.writing() as tx:
            first = tx.versions.get(1)
            back = tx.versions.add(NewVersion(2, first.episode_id, first.classes, "w", "0" * 64, restores=1)).version
            tx.versions.set_state(2, VersionState.RETIRED)
            tx.versions.set_state(back, VersionState.PROMOTED)
            known = {accuracy.domain_id: accuracy.value for accuracy in tx.accuracies.list_for(1)}
            told = build_status(tx, None, root, "shop")["served"]["accuracies"]
            source = tx.domains.get_named("source")
        samples = scrape(store, root)
    assert told["source"]["value"] == known[source.id]
    assert samples['adaptd_accuracy_ratio{domain="source",kind="measured"}'] == pytest.approx(known[source.id])
    assert len([name for name in samples if name.startswith("adaptd_accuracy_ratio")]) == len(known) == len(told)


def test_warnings_are_counted_as_status_tells_them(tmp_path):
    """What the daemon says of itself, and what the store tells: the same list everywhere."""
    root = make_project(tmp_path)
    health = {"state": "degraded", "warnings": ["there is no room"]}
    with Store(root / "state" / "adaptd.db") as store:
        registry = make_registry(DaemonCollector(store, root, "shop", lambda: health))
        with store.reading() as tx:
            told = build_status(tx, Holder(1, "run", health), root, "shop")["daemon"]["warnings"]
    assert told[0] == "there is no room"
    assert f"adaptd_warnings {float(len(told))}" in generate_latest(registry).decode()


def test_no_total_falls(tmp_path):
    """Files leave the quarantine and images are tried again: gauges follow, totals stay."""
    root = make_project(tmp_path)
    with Store(root / "state" / "adaptd.db") as store:
        before = scrape(store, root)
        with store.writing() as tx:
            night = tx.domains.get_named("night")
            tx.quarantine.remove(tx.quarantine.list_all(night.id)[0].id)
            tx.memories.replace(night.id, [])
            tx.images.remove_delivery(night.id, 1)
        after = scrape(store, root)
    gauges = ('adaptd_images_quarantined{reason="truncated"}', "adaptd_images_ingested")
    assert [(before[name], after[name]) for name in gauges] == [(1, 0), (6, 0)]
    fell = [name for name in before if after.get(name, 0) < before[name]]
    assert [name for name in fell if name.partition("{")[0].endswith(("_total", "_count", "_sum", "_bucket"))] == []
