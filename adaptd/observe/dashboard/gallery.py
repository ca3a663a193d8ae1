"""Images of a domain as the models before and after an episode see them: who changed its mind, filtered and counted."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from adaptd.evaluation.insight import Insight
from adaptd.observe.dashboard.wording import make_visible

PAGE = 48
FLOWS = 30
"""Pairs of classes shown."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One image: what it is, where that is known, and what it was taken for. Names of classes; None before the first model."""

    image_id: int
    truth: str | None
    before: str | None
    after: str
    before_confidence: float | None
    after_confidence: float | None

    @property
    def changed(self) -> bool:
        """Whether the models disagree."""
        return self.before is not None and self.before != self.after

    @property
    def newly_right(self) -> bool:
        """Wrong before, right after."""
        return self.changed and self.after == self.truth

    @property
    def newly_wrong(self) -> bool:
        """Right before, wrong after."""
        return self.changed and self.before == self.truth

    @property
    def wrong(self) -> bool:
        """Whether the truth is known, and another."""
        return self.truth is not None and self.after != self.truth


CHANGES: dict[str, tuple[str, Callable[[Seen], bool]]] = {
    "changed": ("changed their mind", lambda seen: seen.changed),
    "kept": ("kept their mind", lambda seen: not seen.changed),
    "right": ("newly right", lambda seen: seen.newly_right),
    "wrong": ("newly wrong", lambda seen: seen.newly_wrong),
    "mistakes": ("wrong now", lambda seen: seen.wrong),
}
SURE: dict[str, tuple[str, float, float]] = {
    "low": ("below 50 %", 0, 0.5),
    "middle": ("50 to 80 %", 0.5, 0.8),
    "high": ("80 to 95 %", 0.8, 0.95),
    "highest": ("95 % and more", 0.95, 1.01),
}


def read_seen(insight: Insight, domain_id: int | None = None, given: Mapping[int, str] | None = None) -> list[Seen]:
    """Of one domain, or of all; labels that people gave count where the image came without one."""
    names, given = insight.classes, given or {}
    return [
        Seen(
            image_id,
            names[label] if (label := insight.labels[i]) is not None else given.get(image_id),
            names[insight.before[i]] if insight.before else None,
            names[insight.after[i]],
            insight.before_confidence[i] if insight.before_confidence else None,
            insight.after_confidence[i] if insight.after_confidence else None,
        )
        for i, image_id in enumerate(insight.ids)
        if domain_id in {None, insight.domains[i]}
    ]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter, as the address has it; what it does not know is as good as none."""

    predicted: str = ""
    change: str = ""
    sure: str = ""
    page: int = 0

    def apply(self, seen: Iterable[Seen]) -> list[Seen]:
        """Those that are meant, the least sure first."""
        found = [each for each in seen if not self.predicted or self.predicted in {_shown(each.after), _shown(each.before)}]
        if self.change in CHANGES:
            found = [each for each in found if CHANGES[self.change][1](each)]
        if self.sure in SURE:
            _, low, high = SURE[self.sure]
            found = [each for each in found if each.after_confidence is not None and low <= each.after_confidence < high]
        return sorted(found, key=lambda each: (not each.changed, each.after_confidence or 0.0))

    def at(self, page: int) -> str:
        """The address of a page of what is meant."""
        return "?" + urlencode({"class": self.predicted, "change": self.change, "sure": self.sure, "page": page}) + "#gallery"


def _shown(name: str | None) -> str:
    """As it stands in the address: what a browser sends back is what it was shown."""
    return "" if name is None else str(make_visible(name))


def view_gallery(seen: Sequence[Seen], wanted: Wanted, images: Callable[[list[int]], Mapping[int, Any]]) -> dict[str, Any]:
    """A page of the images that are meant, and what can be asked for; `images` finds them by id."""
    meant = wanted.apply(seen)
    last = max(0, -(-len(meant) // PAGE) - 1)
    page = min(wanted.page, last)
    shown = meant[page * PAGE : (page + 1) * PAGE]
    found = images([each.image_id for each in shown])
    return {
        "wanted": wanted,
        "items": [(each, found[each.image_id]) for each in shown if each.image_id in found],
        "count": len(meant),
        "all": len(seen),
        "changed": sum(each.changed for each in seen),
        "has_before": any(each.before is not None for each in seen),
        "classes": sorted({_shown(name) for each in seen for name in (each.before, each.after) if name is not None}),
        "changes": [(key, CHANGES[key][0]) for key in CHANGES if _can_ask(key, seen)],
        "sures": [(key, SURE[key][0]) for key in SURE] if any(each.after_confidence is not None for each in seen) else [],
        "newer": wanted.at(page - 1) if page > 0 else None,
        "older": wanted.at(page + 1) if page < last else None,
    }


def _can_ask(key: str, seen: Sequence[Seen]) -> bool:
    """Whether anything is known that the question is about."""
    if key in {"changed", "kept"}:
        return any(each.before is not None for each in seen)
    return any(each.truth is not None for each in seen)


def count_flows(seen: Iterable[Seen]) -> list[tuple[str, str, int]]:
    """Who changed its mind from what to what, the most frequent first."""
    counts = Counter((each.before or "", each.after) for each in seen if each.changed)
    return [(before, after, count) for (before, after), count in counts.most_common(FLOWS)]


def count_classes(seen: Sequence[Seen], source: Mapping[str, int], classes: Sequence[str]) -> list[dict[str, Any]]:
    """How often each class is predicted, before and after, and how often the source has it; as shares of the most frequent."""
    after, before = Counter(each.after for each in seen), Counter(each.before for each in seen if each.before is not None)
    total, known, shown = max(1, sum(source.values())), max(1, before.total()), max(1, len(seen))
    rows: list[dict[str, Any]] = [
        {"name": name, "source": source.get(name, 0) / total, "before": before[name] / known, "after": after[name] / shown}
        | {"count": after[name]}
        for name in classes
    ]
    most = max((max(row["source"], row["after"]) for row in rows), default=0) or 1
    return [row | {"source_bar": row["source"] / most, "after_bar": row["after"] / most} for row in rows]
