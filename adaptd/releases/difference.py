"""What changed between two versions: accuracies, flips, and images that they see differently. Changes nothing itself."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaptd.evaluation.evaluator import predict
from adaptd.library.imageset import ImageSet
from adaptd.project.layers import Project
from adaptd.project.layout import Layout
from adaptd.records import AccuracyKind, Domain
from adaptd.releases.images import read_image_sets
from adaptd.releases.lineage import origin_of
from adaptd.releases.matrix import best_known
from adaptd.releases.promotion import get_version
from adaptd.releases.weights import load_version
from adaptd.store import Store

EXAMPLES = 4
"""Images shown of each domain: those that became wrong first."""


@dataclass(frozen=True, slots=True)
class Row:
    """One domain. Without labels nobody knows what is better: every change is `other`."""

    domain: str
    kind: AccuracyKind | None
    before: float | None
    after: float | None
    better: int | None
    worse: int | None
    other: int
    n: int


@dataclass(frozen=True, slots=True)
class Example:
    """An image that got another class."""

    domain: str
    name: str
    before: str
    after: str
    label: str | None
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two versions."""

    before: int
    after: int
    rows: tuple[Row, ...]
    examples: tuple[Example, ...]

    def to_json(self) -> dict[str, Any]:
        """Without pixels."""
        examples = [{name: value for name, value in asdict(e).items() if name != "pixels"} for e in self.examples]
        return {"before": self.before, "after": self.after, "domains": [asdict(r) for r in self.rows], "examples": examples}


def find_difference(project: Project, store: Store, before: int, after: int) -> Difference:
    """Run both on every domain."""
    layout = Layout(project.state)
    with store.reading() as tx:
        versions = [get_version(tx, number) for number in (before, after)]
        images = read_image_sets(tx, layout)
        known = best_known(tx.accuracies.list_all(), lambda found: (found.version, found.domain_id, found.kind))
        names = {d.id: {i.id: i.name for i in tx.images.list_for(d.id)} for d in images.domains}
    models = [load_version(layout, version) for version in versions]
    batch_size = project.settings.evaluation.batch_size
    rows, examples = [], []
    for domain in images.domains:
        sample = images.open_sample(domain)
        was, now = (predict(model, sample, batch_size).argmax(axis=1) for model in models)
        kind = AccuracyKind.MEASURED if sample.labels is not None else AccuracyKind.ESTIMATED
        found = [known.get((origin_of(version), domain.id, kind)) for version in versions]
        accuracies = [None if accuracy is None else accuracy.value for accuracy in found]
        rows.append(_row(domain, kind, (accuracies[0], accuracies[1]), sample, was, now))
        examples += _examples(domain, sample, was, now, versions[0].classes, names[domain.id])
    return Difference(before, after, tuple(rows), tuple(examples))


def _row(
    domain: Domain,
    kind: AccuracyKind,
    accuracies: tuple[float | None, float | None],
    images: ImageSet,
    was: NDArray[np.int64],
    now: NDArray[np.int64],
) -> Row:
    changed = was != now
    if images.labels is None:
        return Row(domain.name, kind, *accuracies, None, None, int(changed.sum()), len(images))
    better, worse = changed & (now == images.labels), changed & (was == images.labels)
    before, after = (float((predicted == images.labels).mean()) for predicted in (was, now))
    other = int((changed & ~better & ~worse).sum())
    return Row(domain.name, kind, before, after, int(better.sum()), int(worse.sum()), other, len(images))


def _examples(
    domain: Domain,
    images: ImageSet,
    was: NDArray[np.int64],
    now: NDArray[np.int64],
    classes: tuple[str, ...],
    names: dict[int, str],
) -> list[Example]:
    """A few images that got another class; where labels tell, those first that became wrong."""
    worse = np.zeros(len(was), bool) if images.labels is None else was == images.labels
    rows = sorted(np.flatnonzero(was != now), key=lambda row: not worse[row])[:EXAMPLES]
    labels = images.labels
    return [
        Example(
            domain.name,
            names.get(int(images.ids[row]), "?"),
            classes[was[row]],
            classes[now[row]],
            None if labels is None else classes[labels[row]],
            np.array(images.pixels[row]),
        )
        for row in rows
    ]
