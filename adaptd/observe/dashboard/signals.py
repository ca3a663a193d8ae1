"""Every figure of an episode that needs no labels, beside what would have counted against it. Found while it ran, not here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adaptd.learning.methods.registry import section_name


@dataclass(frozen=True, slots=True)
class Signal:
    """One figure, in words.

    Args:
        name: of the figure.
        value: before the first step, or at all.
        now: at the last look; empty where it was looked at once.
        limit: what counts against the domain; empty where nothing does.
        is_bad: whether it did.
        means: what it tells.
    """

    name: str
    value: str
    now: str
    limit: str
    is_bad: bool
    means: str


def list_signals(method: str, report: Mapping[str, Any], config: Mapping[str, Any]) -> list[Signal]:
    """From an episode's report and settings; empty where it told nothing."""
    trust, health, limits = report.get("trust"), report.get("health") or [], report.get("limits") or {}
    found = [] if not trust else list(_trust(trust, limits, _least(method, config)))
    return found + (list(_health(health, limits)) if health else []) + list(_novelty(report.get("novelty") or {}))


def _least(method: str, config: Mapping[str, Any]) -> float | None:
    options = config.get("method", {}).get(section_name(method)) or {}
    least: float | None = options.get("min_agreement")
    return least or None


def _trust(trust: Mapping[str, Any], limits: Mapping[str, float], least: float | None) -> Iterator[Signal]:
    """The domain beside the source, before the first step."""
    recognition, spread, largest = trust["recognition"], trust["spread"], trust["largest"]
    below = least is not None and recognition < least
    limit = "" if least is None else f"refused below {least:g}"
    yield Signal("recognition", f"{recognition:.2f}", "", limit, below, "0: like one class of the source; 1: like the source")
    yield Signal("agreement (κ)", _share(trust["agreement"]), "", "", False, "classifier with clusters, beside the source's κ")
    yield Signal("balance", _share(trust["balance"]), "", "", False, "how evenly classes are predicted, beside the source")
    told = f"counts below {limits['spread']:.0%}" if "spread" in limits else ""
    yield Signal("spread", _share(spread), "", told, bool(told) and spread < limits["spread"], "how far features lie apart")
    yield Signal("confidence", _share(trust["confidence"]), "", "", False, "how sure it is, beside the source")
    told = f"warned from {limits['largest']:.0%} on" if "largest" in limits else ""
    means = f"of the images are taken for {trust['largest_class']}"
    yield Signal("largest class", _share(largest), "", told, bool(told) and largest >= limits["largest"], means)


def _health(looks: list[Mapping[str, Any]], limits: Mapping[str, float]) -> Iterator[Signal]:
    """The first look and the last."""
    first, last = looks[0], looks[-1]

    def pair(name: str) -> tuple[str, str]:
        return f"{first[name]:.2f}", f"{last[name]:.2f}"

    yield Signal("κ", *pair("agreement"), "", False, "classifier with clusters of the features, beyond chance")
    least = limits["balance"] * first["balance"] if "balance" in limits else 0.0
    told = f"collapse below {least:.2f}, with classes lost" if least else ""
    yield Signal("evenness of classes", *pair("balance"), told, last["balance"] < least, "entropy of the predicted classes")
    told = f"at most {limits['lost_classes']:.0%} may be lost" if "lost_classes" in limits else ""
    yield Signal("classes predicted", str(first["classes"]), str(last["classes"]), told, False, "at all often")
    yield Signal("nuclear norm", *pair("nuclear_norm"), "", False, "high where predictions are sure and varied")
    yield Signal("mean confidence", *pair("confidence"), "", False, "of its own predictions; flatters after self-training")


def _novelty(novelty: Mapping[str, Any]) -> Iterator[Signal]:
    """The nearest known domain."""
    if not novelty.get("distances"):
        return
    nearest, level = novelty["distances"][0], novelty["level"]
    p = min(nearest["features_p"], nearest["outputs_p"])
    apart = "told apart from it" if nearest["told_apart"] else "not told apart from it"
    told = f"AUC {nearest['auc']:.2f}, p {p:.1g}"
    yield Signal(f"distance to {nearest['domain']}", told, "", f"new below {level:.1g}", False, apart)


def _share(value: float) -> str:
    return f"{value:.0%}"
