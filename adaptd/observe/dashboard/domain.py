"""One domain: who changed its mind, class counts, confidences, label-free signals, memory, quarantine, episodes, confusion."""

from typing import Any

from adaptd.evaluation.insight import Insight, Points
from adaptd.observe.dashboard.charts import COLOURS, SHAPES, Chart, chart_confidence, chart_curves, chart_evolution, heat
from adaptd.observe.dashboard.doings import list_doings
from adaptd.observe.dashboard.gallery import Seen, Wanted, count_classes, count_flows, read_seen, view_gallery
from adaptd.observe.dashboard.overview import CURVES
from adaptd.observe.dashboard.signals import list_signals
from adaptd.observe.dashboard.site import Site
from adaptd.observe.explain import build_explanation
from adaptd.records import SOURCE, Domain, Episode, EpisodeState, Image, VersionState
from adaptd.store import Transaction

SAMPLES, MEMORY, QUARANTINE, EVENTS, ROWS, POINTS, STEPS = 24, 24, 30, 30, 40, 600, 60
"""How many of each are shown."""
CLASSES_SHOWN = 30


def view_domain(tx: Transaction, site: Site, name: str, wanted: Wanted | None = None) -> dict[str, Any]:
    """Everything about one domain; DomainUnknown where there is none."""
    matrix = site.matrices.read(tx)
    domain = tx.domains.get_named(name)
    story = build_explanation(tx, name, matrix)
    rows = range(max(0, len(matrix.rows) - ROWS), len(matrix.rows))
    column = [matrix.domains.index(name)] if name in matrix.domains else []
    paused = any(pause.scope == name for pause in tx.pauses.list_all())
    return {
        "domain": domain,
        "story": story,
        "doings": list_doings(domain, is_paused=paused),
        "events": story["events"][::-1][:EVENTS],
        "chart": chart_evolution(matrix, column, rows) if column else None,
        "samples": tx.images.sample(domain.id, SAMPLES),
        "memory": _memory(tx, domain),
        "memory_count": story["memory"],
        "quarantine": tx.quarantine.list_latest(domain.id, QUARANTINE),
        "reasons": sorted(tx.quarantine.counts(domain.id).items(), key=lambda item: -item[1]),
        "confusion": _find_confusion(tx, site, domain),
        **_view_newest(tx, site, domain, wanted or Wanted()),
    }


def _view_newest(tx: Transaction, site: Site, domain: Domain, wanted: Wanted) -> dict[str, Any]:
    """What the domain's newest episodes told: the last one its signals and curves, the last committed one what it changed."""
    last, newest = tx.episodes.find_newest(domain.id), _find_newest(tx, domain)
    insight = None if newest is None else site.pictures.find_insight(newest.id)
    given = {label.image_id: label.label for label in tx.labels.list_for(domain.id)} if insight else {}
    seen = [] if insight is None else read_seen(insight, domain.id, given)
    return {
        "signals": [] if last is None else list_signals(last.method, last.report, last.config),
        "curves": _curves(tx, last),
        "gallery": view_gallery(seen, wanted, lambda ids: _find_images(tx, ids)) if seen else None,
        "flows": count_flows(seen),
        "counts": [] if insight is None else _counts(tx, site, insight, seen),
        "confidence": _confidence(seen),
        "maps": []
        if insight is None
        else _maps(insight, {each.id: each.name for each in tx.domains.list_some(set(insight.domains))}),
    }


def _find_images(tx: Transaction, ids: list[int]) -> dict[int, Image]:
    return {image.id: image for image in tx.images.list_some(ids)}


def _curves(tx: Transaction, last: Episode | None) -> list[tuple[str, Chart]]:
    """How its newest episode went, step by step."""
    points = () if last is None else tx.curves.list_for(last.id)
    drawn = [(title, chart_curves(points, key, STEPS)) for key, title in CURVES]
    return [(title, chart) for title, chart in drawn if len(chart.rows) > 1]


def _counts(tx: Transaction, site: Site, insight: Insight, seen: list[Seen]) -> list[dict[str, Any]]:
    source = tx.domains.find(SOURCE)
    known = {} if source is None else site.class_counts.read(tx, source)
    return count_classes(seen, known, insight.classes) if len(insight.classes) <= CLASSES_SHOWN else []


def _confidence(seen: list[Seen]) -> Chart | None:
    before = [each.before_confidence for each in seen if each.before_confidence is not None]
    return chart_confidence(before, [each.after_confidence for each in seen if each.after_confidence is not None])


def _memory(tx: Transaction, domain: Domain) -> list[dict[str, Any]]:
    """From the most to the least confident, evenly: a memory is as good as its worst items."""
    items = tx.memories.list_for(domain.id)
    stride = max(1, -(-len(items) // MEMORY))
    shown = items[::stride]
    images = _find_images(tx, [item.image_id for item in shown])
    return [{"item": item, "image": images[item.image_id]} for item in shown if item.image_id in images]


def _find_newest(tx: Transaction, domain: Domain) -> Episode | None:
    """The domain's newest committed episode."""
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
    """Each a title, a legend, and points as (x, y, colour, shape)."""
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
            "points": [(x, y, *_look(number)) for (x, y), number in list(zip(points, styles, strict=True))[::stride]],
            "legend": [(*_look(number), text) for number, text in enumerate(texts)][:CLASSES_SHOWN],
        }
        for title, points, styles, texts in drawn
        if points
    ]


def _look(number: int) -> tuple[int, int]:
    """Colour and shape of the points of a class."""
    return number % COLOURS, number // COLOURS % SHAPES
