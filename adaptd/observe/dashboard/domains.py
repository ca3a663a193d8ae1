"""The list of domains, and one domain: images, memory, quarantine, episodes, confusion, and what the newest changed."""

from typing import Any

from adaptd.evaluation.insight import Insight, Points
from adaptd.observe.dashboard.charts import STYLES, draw_evolution, heat
from adaptd.observe.dashboard.site import Site
from adaptd.observe.explain import build_explanation
from adaptd.records import Domain, Episode, EpisodeState, VersionState
from adaptd.store import Transaction

SAMPLES, MEMORY, QUARANTINE, EVENTS, ROWS, POINTS = 24, 24, 30, 30, 40, 600
"""How many of each are shown."""
CLASSES_SHOWN = 30


def view_domains(tx: Transaction) -> dict[str, Any]:
    """All domains, newest first."""
    memories = tx.memories.counts()
    return {"domains": [(domain, memories.get(domain.id, 0)) for domain in reversed(tx.domains.list_all())]}


def view_domain(tx: Transaction, site: Site, name: str) -> dict[str, Any]:
    """Everything about one domain; DomainUnknown where there is none."""
    matrix = site.matrices.read(tx)
    domain = tx.domains.get_named(name)
    story = build_explanation(tx, name, matrix)
    rows = range(max(0, len(matrix.rows) - ROWS), len(matrix.rows))
    column = [matrix.domains.index(name)] if name in matrix.domains else []
    return {
        "domain": domain,
        "story": story,
        "events": story["events"][::-1][:EVENTS],
        "chart": draw_evolution(matrix, column, rows, whole=True) if column else None,
        "samples": tx.images.sample(domain.id, SAMPLES),
        "memory": _memory(tx, domain),
        "memory_count": story["memory"],
        "quarantine": tx.quarantine.list_latest(domain.id, QUARANTINE),
        "reasons": sorted(tx.quarantine.counts(domain.id).items(), key=lambda item: -item[1]),
        "confusion": _find_confusion(tx, site, domain),
        "maps": _find_maps(tx, site, domain),
    }


def _memory(tx: Transaction, domain: Domain) -> list[dict[str, Any]]:
    """From the most to the least confident, evenly: a memory is as good as its worst items."""
    items = tx.memories.list_for(domain.id)
    stride = max(1, -(-len(items) // MEMORY))
    shown = items[::stride]
    images = {image.id: image for image in tx.images.list_some([item.image_id for item in shown])}
    return [{"item": item, "image": images[item.image_id]} for item in shown if item.image_id in images]


def _find_newest(tx: Transaction, domain: Domain) -> Episode | None:
    """The domain's newest episode."""
    return next((e for e in reversed(tx.episodes.list_all(EpisodeState.DONE)) if e.domain_id == domain.id), None)


def _find_confusion(tx: Transaction, site: Site, domain: Domain) -> dict[str, Any] | None:
    """That of the served version; where its episode wrote none down, as for a domain that came later, of the domain's newest."""
    promoted = tx.versions.find_latest(VersionState.PROMOTED)
    served = None if promoted is None else tx.episodes.get(promoted.episode_id)
    for episode in (served, _find_newest(tx, domain)):
        insight = None if episode is None else site.pictures.find_insight(episode.id)
        found = None if insight is None else _confusion(insight, domain.id)
        if found is not None and episode is not None:
            return found | {"episode": episode.number, "is_served": episode == served}
    return None


def _find_maps(tx: Transaction, site: Site, domain: Domain) -> list[dict[str, Any]]:
    """What the domain's newest episode changed, where that was written down."""
    newest = _find_newest(tx, domain)
    found = None if newest is None else site.pictures.find_insight(newest.id)
    return [] if found is None else _maps(found, {each.id: each.name for each in tx.domains.list_all()})


def _confusion(insight: Insight, domain_id: int) -> dict[str, Any] | None:
    """True class by predicted class, as counts and shares of the row; None without labels or with very many classes."""
    pairs = [
        (label, after)
        for owner, label, after in zip(insight.domains, insight.labels, insight.after, strict=True)
        if owner == domain_id and label is not None
    ]
    if not pairs or len(insight.classes) > CLASSES_SHOWN:
        return None
    size = len(insight.classes)
    counts = [[0] * size for _ in range(size)]
    for label, after in pairs:
        counts[label][after] += 1
    rows = [
        (name, [(number, heat(number / max(1, sum(row)))) for number in row])
        for name, row in zip(insight.classes, counts, strict=True)
    ]
    return {"classes": insight.classes, "rows": rows, "n": len(pairs)}


def _maps(insight: Insight, names: dict[int, str]) -> list[dict[str, Any]]:
    """Each a title, a legend, and points as (x, y, style)."""
    stride = max(1, -(-len(insight.ids) // POINTS))
    order = list(dict.fromkeys(insight.domains))
    domains = [order.index(each) for each in insight.domains]
    legend = [names.get(each, "?") for each in order]
    drawn: list[tuple[str, Points, list[int], list[str]]] = [("by domain", insight.after_points, domains, legend)]
    if insight.before_points:
        drawn.append(("by prediction before", insight.before_points, list(insight.before), list(insight.classes)))
    drawn.append(("by prediction after", insight.after_points, list(insight.after), list(insight.classes)))
    return [
        {
            "title": title,
            "points": [(x, y, style % STYLES) for (x, y), style in list(zip(points, styles, strict=True))[::stride]],
            "legend": [(number % STYLES, text) for number, text in enumerate(texts)][:CLASSES_SHOWN],
        }
        for title, points, styles, texts in drawn
        if points
    ]
