"""What labels tell of a domain: how many there are, how sure that makes a measurement, and how far estimates were off."""

from collections import Counter
from typing import Any

from adaptd.evaluation.intervals import wilson
from adaptd.records import Accuracy, AccuracyKind, Purpose, Split
from adaptd.releases.given import LEAST_LABELS
from adaptd.releases.matrix import best_known
from adaptd.store import Transaction


def half_width(n: int, confidence: float) -> float | None:
    """To how much, at worst, an accuracy is known from so many labels; None without any."""
    if n == 0:
        return None
    low, high = wilson(n // 2, n, confidence)
    return (high - low) / 2


def describe_labels(tx: Transaction, name: str, confidence: float) -> dict[str, Any]:
    """Counts, interval, and for each version what was measured against what was estimated."""
    domain = tx.domains.get_named(name)
    labels, has_test = tx.labels.list_for(domain.id), tx.images.has_any(domain.id, Split.TEST)
    purposes = Counter(label.purpose for label in labels)
    measured = purposes[Purpose.MEASURE]
    versions = _compare(tx, domain.id)
    errors = [item["error"] for item in versions if item["error"] is not None]
    return {
        "domain": name,
        "to_measure": measured,
        "to_teach": purposes[Purpose.TEACH],
        "has_test": has_test,
        "missing": 0 if has_test else max(0, LEAST_LABELS - measured),
        "held_out": len(tx.images.list_for(domain.id, Split.HELD_OUT)),
        "half_width": half_width(measured, confidence),
        "classes": dict(Counter(label.label for label in labels).most_common()),
        "versions": versions,
        "mean_absolute_error": sum(map(abs, errors)) / len(errors) if errors else None,
    }


def tell_shortage(held_out: int) -> str:
    """Why labels cannot be enough for a measurement, and what helps; nothing where they can, or where nothing is held out."""
    if not 0 < held_out < LEAST_LABELS:
        return ""
    return f"{held_out} images are held out to be measured on, and {LEAST_LABELS} are needed: drop more images of this domain"


def tell_errors(about: dict[str, Any]) -> str:
    """How far the estimates had been off, as the end of a sentence; nothing where there were none."""
    errors = [item["error"] for item in about["versions"] if item["error"] is not None]
    if not errors:
        return ""
    mean = sum(errors) / len(errors)
    return (
        f"; estimates had been off by {100 * about['mean_absolute_error']:.1f} points on average, "
        f"{'too high' if mean < 0 else 'too low'} by {abs(100 * mean):.1f} on the whole"
    )


def _compare(tx: Transaction, domain_id: int) -> list[dict[str, Any]]:
    """Each version that was measured; its error is what was measured less what was estimated."""
    mine = [accuracy for accuracy in tx.accuracies.list_all() if accuracy.domain_id == domain_id]
    estimates = best_known((a for a in mine if a.kind is AccuracyKind.ESTIMATED), lambda a: a.version)
    states = {version.version: version.state for version in tx.versions.list_all()}
    found = [accuracy for accuracy in mine if accuracy.kind is AccuracyKind.MEASURED]
    return [_entry(accuracy, estimates.get(accuracy.version)) | {"state": states[accuracy.version]} for accuracy in found]


def _entry(measured: Accuracy, estimate: Accuracy | None) -> dict[str, Any]:
    return {
        "version": measured.version,
        "value": measured.value,
        "low": measured.low,
        "high": measured.high,
        "n": measured.n,
        "estimate": None if estimate is None else estimate.value,
        "estimator": None if estimate is None else estimate.estimator,
        "error": None if estimate is None else measured.value - estimate.value,
    }
