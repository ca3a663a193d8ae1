"""The daemon's metrics: read from the store when Prometheus asks, so that they outlive restarts. The server has its own."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from adaptd import __version__
from adaptd.evaluation.metrics import summarize
from adaptd.observe.status import read_matrix
from adaptd.records import DomainState, EpisodeState, Reason, VersionState
from adaptd.store import Store, Transaction

STATES = ("idle", "training", "paused", "degraded")
DOMAINS_SHOWN = 8
"""Accuracies are told for the source and this many of the newest domains."""

Health = Callable[[], Mapping[str, Any]]
"""What the daemon says about itself."""


class DaemonCollector(Collector):
    """One consistent view of the store as metrics."""

    def __init__(self, store: Store, state: Path, model: str, health: Health) -> None:
        self._store, self._state, self._model, self._health = store, state, model, health

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        yield InfoMetricFamily("adaptd_build", "The adaptd that runs.", {"version": __version__})
        health = self._health()
        yield _by(
            "adaptd_daemon_state", "1 for the state the daemon is in.", "state", {s: s == health.get("state") for s in STATES}
        )
        yield _gauge("adaptd_last_scan_timestamp_seconds", "When the inbox was last looked at.", health.get("scanned_at") or 0)
        yield _gauge("adaptd_disk_free_bytes", "Room on the disk of the state folder.", shutil.disk_usage(self._state).free)
        with self._store.reading() as tx:
            yield from _intake(tx)
            yield from _episodes(tx)
            yield from _accuracies(tx, self._model)

    def describe(self) -> list[Metric]:
        """Nothing is read when the collector is registered."""
        return []


def make_registry(collector: Collector) -> CollectorRegistry:
    """A registry with one collector."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _count_by(name: str, text: str, label: str, values: Mapping[str, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _intake(tx: Transaction) -> Iterator[Metric]:
    domains = tx.domains.list_all()
    images = sum(domain.images for domain in domains)
    yield CounterMetricFamily("adaptd_images_ingested", "Images accepted into domains.", value=images)
    refused = tx.quarantine.counts()
    reasons = {str(reason): refused.get(reason, 0) for reason in Reason}
    yield _count_by("adaptd_images_quarantined", "Files set aside, by reason.", "reason", reasons)
    states = Counter(domain.state for domain in domains)
    yield _by("adaptd_domains", "Domains by state.", "state", {state: states[state] for state in DomainState})


def _episodes(tx: Transaction) -> Iterator[Metric]:
    episodes = tx.episodes.list_all()
    states = Counter(episode.state for episode in episodes)
    ended = (EpisodeState.DONE, EpisodeState.FAILED, EpisodeState.CANCELLED)
    yield _count_by("adaptd_episodes", "Episodes that ended, by outcome.", "outcome", {state: states[state] for state in ended})
    running = [episode.progress for episode in episodes if episode.state is EpisodeState.TRAINING]
    progress = running[-1].step / running[-1].steps if running and running[-1].steps else 0.0
    yield _gauge("adaptd_episode_progress_ratio", "How far the running episode is; 0 where none runs.", progress)
    done = [e.finished_at.timestamp() for e in episodes if e.state is EpisodeState.DONE and e.finished_at]
    name = "adaptd_last_episode_success_timestamp_seconds"
    yield _gauge(name, "When an episode was last committed; 0 where none was.", max(done, default=0))
    yield _gauge("adaptd_memory_images", "Images in the memories of all domains.", sum(tx.memories.counts().values()))


def _accuracies(tx: Transaction, model: str) -> Iterator[Metric]:
    promoted = tx.versions.find_latest(VersionState.PROMOTED)
    served = str(promoted.version) if promoted else "0"
    yield InfoMetricFamily("adaptd_model", "What is promoted; version 0 where nothing is.", {"model": model, "version": served})
    matrix = read_matrix(tx)
    family = GaugeMetricFamily("adaptd_accuracy_ratio", "The newest row of R.", labels=["domain", "kind"])
    row = list(zip(matrix.domains, matrix.rows[-1], strict=True)) if matrix.rows else []
    for name, entry in row[:1] + row[1:][-DOMAINS_SHOWN:]:
        if entry is not None:
            family.add_metric([name, entry.kind], entry.value)
    yield family
    transfer = summarize(matrix).bwt
    yield _gauge("adaptd_backward_transfer_ratio", "BWT of R; 0 until a second domain is there.", transfer or 0.0)
