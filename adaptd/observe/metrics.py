"""The daemon's metrics: read from the store when Prometheus asks, so that they outlive restarts. The server has its own."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from adaptd import __version__
from adaptd.errors import StoreError
from adaptd.evaluation.metrics import summarize
from adaptd.observe.status import DAEMON, find_outcome, find_running, list_warnings
from adaptd.project.lock import Holder
from adaptd.records import REFUSED, DomainState, Episode, EpisodeState, Purpose, Reason, VersionState
from adaptd.releases.matrix import MatrixKeeper
from adaptd.releases.served import read_accuracies
from adaptd.store import Store, Transaction

STATES = ("idle", "training", "paused", "degraded")
DURATIONS = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600)
"""Buckets of an episode's seconds, up to six hours."""
DOMAINS_SHOWN = 8
"""Accuracies are told for the source and this many of the newest domains."""

Health = Callable[[], Mapping[str, Any]]
"""What the daemon says about itself."""


class DaemonCollector(Collector):
    """One consistent view of the store as metrics."""

    def __init__(self, store: Store, state: Path, model: str, health: Health, matrices: MatrixKeeper | None = None) -> None:
        self._store, self._state, self._model, self._health = store, state, model, health
        self._matrices = matrices or MatrixKeeper()

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        yield InfoMetricFamily("adaptd_build", "The adaptd that runs.", {"version": __version__})
        health = self._health()
        yield _by(
            "adaptd_daemon_state", "1 for the state the daemon is in.", "state", {s: s == health.get("state") for s in STATES}
        )
        yield _gauge("adaptd_last_scan_timestamp_seconds", "When the inbox was last looked at.", health.get("scanned_at"))
        yield _gauge("adaptd_disk_free_bytes", "Room on the disk of the state folder.", shutil.disk_usage(self._state).free)
        try:
            with self._store.reading() as tx:
                known = [*_intake(tx), *_episodes(tx), *_versions(tx, self._model), *_accuracies(tx)]
                domains = {domain.id: domain for domain in tx.domains.list_all()}
                warnings = list_warnings(tx, domains, find_running(tx), Holder(os.getpid(), DAEMON, dict(health)))
                known.append(_gauge("adaptd_warnings", "What a person should look at: `adaptd status` tells.", len(warnings)))
                known.append(_gauge("adaptd_backward_transfer_ratio", "BWT of R.", summarize(self._matrices.read(tx)).bwt))
        except StoreError:
            # The daemon's own state still tells that something is wrong, and of what is not known there are no figures.
            return
        yield from known

    def describe(self) -> list[Metric]:
        """Nothing is read when the collector is registered."""
        return []


def make_registry(collector: Collector) -> CollectorRegistry:
    """A registry with one collector."""
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    """One value; what is not known has none, since 0 would be a claim."""
    return GaugeMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _intake(tx: Transaction) -> Iterator[Metric]:
    """Gauges: what is restored from quarantine, tried again or deleted is counted no more."""
    domains = tx.domains.list_all()
    yield _gauge("adaptd_images_ingested", "Images in all domains.", sum(domain.images for domain in domains))
    quarantined = tx.quarantine.counts()
    reasons = {str(reason): quarantined.get(reason, 0) for reason in Reason}
    yield _by("adaptd_images_quarantined", "Files in quarantine, by reason.", "reason", reasons)
    labels: Counter[str] = Counter()
    for (_, purpose), count in tx.labels.counts().items():
        labels[purpose] += count
    yield _by(
        "adaptd_labels", "Labels that people gave, by purpose.", "purpose", {purpose: labels[purpose] for purpose in Purpose}
    )
    states = Counter(domain.state for domain in domains)
    yield _by("adaptd_domains", "Domains by state.", "state", {state: states[state] for state in DomainState})


def _episodes(tx: Transaction) -> Iterator[Metric]:
    episodes = tx.episodes.list_all()
    # Whether a version is rejected may change: that is told of versions and domains.
    outcomes = Counter(find_outcome(episode, ()) for episode in episodes)
    ended = CounterMetricFamily("adaptd_episodes", "Episodes that ended, by outcome.", labels=["outcome"])
    for outcome in (EpisodeState.DONE, REFUSED, EpisodeState.FAILED, EpisodeState.CANCELLED):
        ended.add_metric([outcome], outcomes[outcome])
    yield ended
    yield from _running(find_running(tx))
    done = [episode for episode in episodes if episode.state is EpisodeState.DONE]
    moments = [episode.finished_at.timestamp() for episode in done if episode.finished_at]
    name = "adaptd_last_episode_success_timestamp_seconds"
    yield _gauge(name, "When an episode was last committed.", max(moments, default=None))
    yield _durations(done)
    yield _by(
        "adaptd_constraint_active_ratio",
        "Share of the newest episode's steps in which a constraint bent the gradient.",
        "constraint",
        _active(done),
    )
    yield _gauge("adaptd_memory_images", "Images in the memories of all domains.", sum(tx.memories.counts().values()))


def _running(episode: Episode | None) -> Iterator[Metric]:
    """How far the episode at work is, and when it last said so: one that is stuck says nothing."""
    progress = episode.progress if episode else None
    share = progress.step / progress.steps if progress and progress.steps else None
    yield _gauge("adaptd_episode_progress_ratio", "How far the running episode is.", share)
    said = (progress.updated_at or progress.since) if progress else None
    name = "adaptd_episode_progress_timestamp_seconds"
    yield _gauge(name, "When the running episode last told how far it is.", said.timestamp() if said else None)


def _durations(done: list[Episode]) -> HistogramMetricFamily:
    """From the first worker's start to the commit, waiting after interruptions included."""
    seconds = [max(0.0, (e.finished_at - e.started_at).total_seconds()) for e in done if e.finished_at and e.started_at]
    buckets = [(str(float(limit)), float(sum(each <= limit for each in seconds))) for limit in DURATIONS]
    family = HistogramMetricFamily("adaptd_episode_duration_seconds", "How long committed episodes took.")
    family.add_metric([], [*buckets, ("+Inf", float(len(seconds)))], sum(seconds))
    return family


def _active(done: list[Episode]) -> dict[str, float]:
    """Of each kind of constraint that the newest episode had."""
    newest = max(done, key=lambda episode: episode.number or 0, default=None)
    ratios: dict[str, float] = newest.report.get("constraint_active_ratio", {}) if newest else {}
    of_kind = {"source": [ratio for name, ratio in ratios.items() if name == "source"]}
    of_kind["memory"] = [ratio for name, ratio in ratios.items() if name != "source"]
    return {kind: max(values) for kind, values in of_kind.items() if values}


def _versions(tx: Transaction, model: str) -> Iterator[Metric]:
    versions = tx.versions.list_all()
    states = Counter(version.state for version in versions)
    yield _by("adaptd_versions", "Versions by state.", "state", {state: states[state] for state in VersionState})
    served = next((version for version in reversed(versions) if version.state is VersionState.PROMOTED), None)
    info = {"model": model, "version": str(served.version)} if served else None
    yield InfoMetricFamily("adaptd_model", "What is promoted.", info)
    since = served.promoted_at.timestamp() if served and served.promoted_at else None
    yield _gauge("adaptd_served_version_timestamp_seconds", "When the promoted version was promoted.", since)


def _accuracies(tx: Transaction) -> Iterator[Metric]:
    served = tx.versions.find_latest(VersionState.PROMOTED)
    row = list(read_accuracies(tx, served).items()) if served is not None else []
    told = {
        "value": ("adaptd_accuracy_ratio", "How good the promoted version is on each domain."),
        "low": ("adaptd_accuracy_low_ratio", "The lower ends of the intervals and ranges."),
        "high": ("adaptd_accuracy_high_ratio", "The upper ends."),
    }
    for key, (title, text) in told.items():
        family = GaugeMetricFamily(title, text, labels=["domain", "kind"])
        for name, found in row[:1] + row[1:][-DOMAINS_SHOWN:]:
            if getattr(found, key) is not None:
                family.add_metric([name, found.kind], getattr(found, key))
        yield family
